"""Files of at most 250 lines and functions of at most 60; what is longer is listed here, with the reason."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted(path for folder in ("mdfl_jax", "launch") for path in (ROOT / folder).rglob("*.py"))
LINES, OF_A_FUNCTION = 250, 60
FACTORY = "a factory: its parts share what it has made ready, and each of them is short"
LONGER = {
    "mdfl_jax/algorithms/fedmobile.py": "one algorithm and its variants, which share the round",
    "mdfl_jax/exchange/compressors.py": "a compressor is a few lines, and they are compared with one another",
    "mdfl_jax/networks/mixing.py": "a rule is a few lines, and they are compared with one another",
    "mdfl_jax/mobility/plane.py": "one loop over the events of a round, and what it needs",
    "mdfl_jax/algorithms/fedmobile.py:_make": FACTORY,
    "mdfl_jax/algorithms/pame.py:pame": FACTORY,
    "mdfl_jax/mobility/plane.py:travel": "one loop over the events of a round",
    "mdfl_jax/mobility/plane_strategy.py:plane_strategy": FACTORY,
    "mdfl_jax/mobility/strategy.py:strategy_mobility": FACTORY,
    "mdfl_jax/engine/simulation.py": "one class, read from top to bottom",
    "mdfl_jax/networks/wrappers/roadside.py:roadside": FACTORY,
    "mdfl_jax/networks/spatial.py:spatial": FACTORY,
    "mdfl_jax/tasks/regression.py:regression": FACTORY,
}


def too_long(path):
    """What of a file is longer than it should be."""
    text, name = path.read_text(), str(path.relative_to(ROOT))
    found = {name} if len(text.splitlines()) > LINES else set()
    functions = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef))
    return found | {f"{name}:{f.name}" for f in functions if f.end_lineno - f.lineno + 1 > OF_A_FUNCTION}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_is_too_long_without_a_reason(path):
    assert too_long(path) <= set(LONGER)


def test_every_reason_is_still_needed():
    assert set().union(*map(too_long, FILES)) == set(LONGER)
