"""What a deliberate fault is."""

from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Mutant(NamedTuple):
    """A fault: a text of a file that stands there once, what is put in its place, and the tests that find it."""

    file: str
    right: str
    wrong: str
    tests: str

    @property
    def places(self) -> list[str]:
        """The tests, as pytest takes them."""
        return [f"tests/{name}" for name in self.tests.split()]


def wrong_in(mutant: Mutant) -> list[str]:
    """Says why a fault cannot be tried, as where its text was changed since; [] if it can be."""
    text = (ROOT / "mdfl_jax" / mutant.file).read_text()
    times = text.count(mutant.right)
    said = [] if times == 1 else [f"{mutant.file}: {mutant.right!r} stands there {times} times, not once"]
    absent = [place for place in mutant.places if not (ROOT / place.partition("::")[0]).exists()]
    return said + [f"{mutant.file}: there is no {place}" for place in absent]
