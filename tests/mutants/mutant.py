"""What a deliberate fault is."""

from typing import NamedTuple


class Mutant(NamedTuple):
    """A fault: a text of a file that stands there once, what is put in its place, and the tests nearest to it."""

    file: str
    right: str
    wrong: str
    tests: str
