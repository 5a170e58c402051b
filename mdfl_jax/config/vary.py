"""The fields `vary` and `held_seed`: which random streams the seeds of a study change.

By default a seed decides all draws of a run. A study of where the variance over seeds comes from lets only some streams
follow the seed (`vary`), and all others draw as under one seed (`held_seed`). The key of such a run is an array with a
key for each stream (`mdfl_jax.core.rng`), so sweep points with different streams share one program. A study that
varies all streams has one key for each run, and its program knows nothing of this module.
"""

from collections.abc import Sequence

import jax
import numpy as np

from mdfl_jax.config.sections import Experiment
from mdfl_jax.core import rng
from mdfl_jax.core.errors import UserError, unknown_name

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
