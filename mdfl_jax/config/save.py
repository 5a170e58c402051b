"""The field `save` of a configuration: which models of a study are kept in files."""

import re
from typing import NamedTuple

from mdfl_jax.core.errors import UserError

ALLOWED = "empty, final, best, or every:K with a whole number K of rounds"


class Save(NamedTuple):
    """Which models of each run are kept.

    Attributes:
      when: "" (no models), "final" (those after the last round), "best" (those at the evaluation with the best
        accuracy of the run) or "every" (those after every K-th round).
      every: K, the rounds between two kept models; 0 unless ``when`` is "every".
    """

    when: str = ""
    every: int = 0

    def files_of_a_run(self, rounds: int) -> int:
        """Return the number of files that a run of this many rounds writes."""
        return rounds // self.every if self.every else int(bool(self.when))


def parse_save(text: str, rounds: int, eval_every: int) -> Save:
    """Parse the field `save`.

    Args:
      text: the field.
      rounds: the rounds of the study.
      eval_every: its rounds between evaluations. Models leave the devices at evaluations only.

    Raises:
      UserError: if the text is of no known form, or if K is no multiple of ``eval_every`` or larger than ``rounds``.

    >>> parse_save("every:20", rounds=40, eval_every=10)
    Save(when='every', every=20)
    """
    if text in ("", "final", "best"):
        return Save(text)
    found = re.fullmatch(r"every:(\d{1,9})", text)
    if not found:
        raise UserError(f"save is {text!r}; it must be {ALLOWED}")
    every = int(found[1])
    if not every or every % eval_every:
        raise UserError(f"save is {text!r}; K must be a multiple of eval_every, which is {eval_every}")
    if every > rounds:
        raise UserError(f"save is {text!r}; K must be at most rounds, which is {rounds}, or nothing would be saved")
    return Save("every", every)
