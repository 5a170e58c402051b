"""The Python examples of docs/theory.md, run as printed."""

import re
from pathlib import Path

import numpy as np

from mdfl_jax.theory.quantities import QUANTITIES, Rounds

TEXT = (Path(__file__).parents[2] / "docs" / "theory.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", TEXT, re.S)


def test_the_functions_print_what_the_comments_say(capsys):
    (example,) = (text for text in EXAMPLES if "print(" in text)
    exec(example, {})
    told = [line.rsplit(": ", 1)[1] for line in example.splitlines() if line.startswith("print(")]
    assert capsys.readouterr().out.splitlines() == told


def test_a_quantity_of_ones_own():
    (example,) = (text for text in EXAMPLES if "@quantity" in text)
    try:
        exec(example, {"__name__": "own"})
        links = np.zeros((1, 2, 4, 4), bool)
        links[0, 0, 0, 1] = links[0, 0, 1, 0] = True
        rounds = Rounds(
            links, np.tile(np.eye(4), (1, 2, 1, 1)), np.ones((1, 4, 2)), links[0, :1, 0], np.ones((1, 4, 2))
        )
        assert QUANTITIES["isolated"].of(rounds, None).tolist() == [3.0]  # two in round 0, four in round 1
    finally:
        QUANTITIES.remove("isolated")


def test_every_quantity_is_explained():
    for name in QUANTITIES.as_registered():
        words = QUANTITIES[name].label.split(",")[0].split(" (")[0]
        assert words in TEXT, words
