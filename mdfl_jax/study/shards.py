"""The parts of a study that commands on several machines run, each for itself: `launch.sweep --shard=3/16`.

A shard is a stretch of the study's runs in their order: group after group, and point after point. So a shard has few
programs to compile: all shards together compile at most (groups + shards - 1) programs. The division depends on the
study and on the number of shards only, not on devices or on what has been done.
"""

import re
from typing import NamedTuple

from mdfl_jax.config.points import MOST_RUNS
from mdfl_jax.core.errors import UserError
from mdfl_jax.study.study import Run, Study


class Shard(NamedTuple):
    """One of several parts of a study: ``number`` from 1 to ``of``."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    @property
    def folder(self) -> str:
        """The name of the shard's folder, such as shard-03-of-16. The names sort in the order of the numbers."""
        return self.all_folders.replace("*", f"{self.number:0{self._width}}")

    @property
    def all_folders(self) -> str:
        """The pattern of the names of all shards' folders, such as shard-*-of-16."""
        return f"shard-*-of-{self.of:0{self._width}}"

    @property
    def _width(self) -> int:
        return max(2, len(str(self.of)))


def parse(text: str) -> Shard:
    """Read K/N.

    Raises:
      UserError: If the text has another form, or if K is not from 1 to N.

    >>> parse("3/16")
    Shard(number=3, of=16)
    """
    found = re.fullmatch(r"(\d{1,20})/(\d{1,20})", text, re.ASCII)
    if not found:
        raise UserError(f"--shard={text}: it must be K/N, such as 3/16 for the third of sixteen shards, or auto")
    shard = Shard(int(found[1]), int(found[2]))
    if not 1 <= shard.number <= shard.of <= MOST_RUNS:
        raise UserError(f"--shard={text}: K in K/N must be from 1 to N, and N from 1 to {MOST_RUNS:,}")
    return shard


def runs_of(study: Study, shard: Shard) -> list[Run]:
    """Return the runs of a shard in the order of the study; [] if there are more shards than runs and none is left.

    The numbers of runs of any two shards differ by at most one.
    """
    runs = study.all_runs
    return runs[len(runs) * (shard.number - 1) // shard.of : len(runs) * shard.number // shard.of]


def part_of(study: Study, shard: Shard) -> Study:
    """Return the study of which only a shard is to be done, which may have no runs."""
    return study.part(runs_of(study, shard))._replace(shard=str(shard))
