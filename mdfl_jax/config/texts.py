"""The fields whose text has a form of its own: `save` (kept models), `loggers`, and `vary` (random streams).

By default a seed decides all draws of a run. A study of where the variance over seeds comes from lets only some streams
follow the seed (`vary`), and all others draw as under one seed (`held_seed`). The key of such a run is an array with a
key for each stream (`mdfl_jax.core.rng`), so sweep points with different streams share one program. A study that
varies all streams has one key for each run, and its program knows nothing of this module.
"""

import importlib.util
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from mdfl_jax.config.sections import Experiment
from mdfl_jax.core import rng
from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.core.registry import Registry

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


LOGGERS: Registry[Any] = Registry("logger", home="mdfl_jax.study.loggers")
"""Loggers: name -> a subclass of `mdfl_jax.study.loggers.line_logger.LineLogger`."""


def parse_loggers(text: str) -> list[str]:
    """Parse the field `loggers`, and check that the packages of these loggers are installed.

    Args:
      text: Names separated by commas; empty: none.

    Returns:
      The names, each once.

    Raises:
      UserError: If a name is unknown, or if the package of a logger is missing. The message says what pip must
        install.

    >>> parse_loggers("")
    []
    """
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names:
        if name not in LOGGERS:
            raise UserError(f"loggers: {unknown_name(LOGGERS.kind, name, LOGGERS)}")
        package, install = LOGGERS[name].package, LOGGERS[name].install or LOGGERS[name].package
        if package and not importlib.util.find_spec(package):
            raise UserError(f"loggers is {text!r}; {name} needs the package {package}: pip install {install!r}")
    return names


ALL = "all"
BUT = "all but"


def varies_all(experiment: Experiment) -> bool:
    """Tell whether a seed decides all draws of a run, as in every study that does not set `vary`."""
    return experiment.vary.strip() == ALL


def varied(text: str) -> tuple[str, ...]:
    """Parse the field `vary`: 'all', streams separated by spaces or commas, or 'all but' and streams.

    Returns:
      The streams that follow the seed, in the order of `mdfl_jax.core.rng.SOURCES`.

    Raises:
      UserError: If a stream is unknown or given twice, or if none is named. The message has the known ones.

    >>> varied("placement mobility")
    ('placement', 'mobility')
    >>> varied("all but batch")
    ('partition', 'placement', 'init', 'mobility', 'link', 'cost', 'evaluation')
    """
    if text.strip() == ALL:
        return rng.SOURCES
    words = text.replace(",", " ").split()
    but = words[:2] == BUT.split()
    names = words[2:] if but else words
    for name in names:
        if name not in rng.SOURCES:
            raise UserError(f"vary is {text!r}: {unknown_name('stream', name, rng.SOURCES)}; or all, or all but STREAM")
    if not names or len(set(names)) < len(names):
        what = "names a stream twice" if names else "names no stream"
        raise UserError(f"vary is {text!r}, which {what}; known: all, all but STREAM, {', '.join(rng.SOURCES)}")
    return tuple(name for name in rng.SOURCES if (name in names) != but)


def check_vary(experiment: Experiment) -> None:
    """Check the fields `vary` and `held_seed`.

    Raises:
      UserError: If `vary` is of no known form, if it leaves no stream, or if `held_seed` is set although no stream is
        held.
    """
    if not varied(experiment.vary):
        raise UserError(f"vary is {experiment.vary!r}, which leaves no stream; all seeds would be the same run")
    if varies_all(experiment) and experiment.held_seed:
        raise UserError(f"held_seed is {experiment.held_seed}; it must be 0 where vary is all, since no stream is held")


def words_of(experiment: Experiment, seeds: Sequence[int]) -> np.ndarray:
    """Return the whole numbers from which the keys of runs of a sweep point are made.

    Args:
      experiment: The configuration of the point.
      seeds: The seeds of its runs.

    Returns:
      [S] uint32, the seeds, where a seed decides all draws; else [S, `len(mdfl_jax.core.rng.STREAMS)`] uint32, the
      seed of each stream.
    """
    of_runs = np.array(seeds, np.uint32)
    if varies_all(experiment):
        return of_runs
    names = varied(experiment.vary)
    follows = np.array([rng.source_of(stream) in names for stream in rng.STREAMS])
    return np.where(follows, of_runs[:, None], np.uint32(experiment.held_seed))


def keys_of(experiment: Experiment, seeds: Sequence[int]) -> jax.Array:
    """Return the typed keys of runs of a sweep point, of the shape of `words_of`."""
    return rng.keys(words_of(experiment, seeds))
