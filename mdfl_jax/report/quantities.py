"""What the numbers of metrics.jsonl mean: titles, scales and kinds, for the panels of curves and of traffic."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from mdfl_jax.core.metric import AXIS, CLIENTS, Shown
from mdfl_jax.metrics.built_in.every_study import DIVERGENCE
from mdfl_jax.results.results import Results, kept

_ACCURACIES = {"accuracy", "mean_model_accuracy"}  # in [0, 1], shown in per cent
_UNDECLARED = {"double_bits": ("megabits sent by a client, counted in double precision", 1e6)}  # key -> (title, scale)
_PREFIXES = {1e3: "kilo", 1e6: "mega", 1e9: "giga"}
# Numbers that metrics.jsonl has besides a metric: the last part of the key -> (in words, whether in the metric's unit).
_FURTHER = {
    "min": ("lowest client", True),
    "max": ("highest client", True),
    "std": ("standard deviation over the clients", True),
    "variance": ("variance over the clients", False),
    "worst_decile": ("worst tenth of the clients", True),
    "jain": ("Jain's fairness index", False),
    "mobile": ("mobile clients", True),
    "other": ("other clients", True),
}


class Quantity(NamedTuple):
    """One recorded number of a run at an evaluation.

    Attributes:
      key: its key in metrics.jsonl.
      title: the text on an axis.
      scale: the values are divided by this number before they are shown.
      share: whether it is shown in per cent and always in [0, 100].
      of: the key of the metric that it belongs to; the key itself for the metric.
      per_client: whether it is the mean of one number for each client.
      grows: whether it starts at 0 and never falls, as a count since the start does, so that it can be an x axis.
    """

    key: str
    title: str
    scale: float
    share: bool
    of: str
    per_client: bool
    grows: bool


class Recorded(NamedTuple):
    """The numbers of all runs of a study at its evaluations. What a run has not recorded is NaN.

    Attributes:
      rounds: [E] the evaluated rounds of all sweep points.
      seeds: [S] the seeds of all sweep points.
      values: [P, S, E] by key.
      diverged: [P, S] bool, the runs that have diverged, which are in no mean.
      quantities: what the keys mean. Numbers that are nowhere known, always 0, or the same as others are left out.
    """

    rounds: np.ndarray
    seeds: np.ndarray
    values: dict[str, np.ndarray]
    diverged: np.ndarray
    quantities: list[Quantity]


@kept
def recorded(study: Results) -> Recorded:
    """Return all numbers in metrics.jsonl of the shown sweep points."""
    table = study.evaluations
    finite = {key: np.where(np.isfinite(of := table[key]), of, np.nan) for key in table.keys if key not in DIVERGENCE}
    diverged = np.isfinite(table[DIVERGENCE[0]]).any(axis=2)
    telling = _telling(finite, table.rounds, study.declared)
    quantities = [_quantity(key, array, study.declared) for key, array in telling.items()]
    if study.config.get("judged") == "global":
        quantities = [of._replace(title=of.title.replace("the mean model", "the global model")) for of in quantities]
    return Recorded(table.rounds, table.seeds, telling, diverged, quantities)


def _telling(
    values: Mapping[str, np.ndarray], rounds: np.ndarray, metrics: Mapping[str, Shown]
) -> dict[str, np.ndarray]:
    """Return the numbers that say something to a reader.

    Left out are numbers that are unknown or 0 everywhere, those that are the rounds again, and those that no metric
    declares and that are the same as a declared one.
    """
    kept: dict[str, np.ndarray] = {}
    for key, array in values.items():
        known = np.isfinite(array)
        if not array[known].any() or np.array_equal(array[known], np.broadcast_to(rounds, array.shape)[known]):
            continue
        if key in _UNDECLARED and any(np.allclose(array, kept[of], equal_nan=True) for of in metrics if of in kept):
            continue
        kept[key] = array
    return kept


def _quantity(key: str, array: np.ndarray, metrics: Mapping[str, Shown]) -> Quantity:
    """Describe one number: a declared metric, a further number of one, or a number that no declaration explains."""
    of = max((name for name in metrics if key == name or key.startswith(name + "_")), key=len, default=key)
    metric = metrics.get(of)
    title, scale = _UNDECLARED.get(key, (key.replace("_", " "), 1.0))
    if metric is not None:
        title, scale = metric.title, 0.01 if of in _ACCURACIES else metric.scale
        title = title.replace(f"({metric.unit})", f"({_PREFIXES.get(scale, '')}{metric.unit})")
    share = scale == 0.01 and bool(np.nanmin(array) >= 0 and np.nanmax(array) <= 1)
    per_client = metric is not None and tuple(metric.shape[:1]) == (CLIENTS,)
    if metric is not None and key != of:
        rest = key[len(of) + 1 :]
        words, same_unit = _FURTHER.get(rest, (rest.replace("_", " "), True))
        title, per_client = f"{title.removesuffix(' (%)')}, {words}", False
        scale, share = (scale, share) if same_unit else (1.0, False)
    if scale == 0.01 and "%" not in title:
        title += " (%)"
    axis = metric is not None and key == of and AXIS in metric.where
    return Quantity(key, title, scale, share, of, per_client, axis or (per_client and not share and _grows(array)))


def _grows(array: np.ndarray) -> bool:
    """Whether all runs [P, S, E] start at 0 and never fall, and at least one of them rises."""
    runs = (run[np.isfinite(run)] for run in array.reshape(-1, array.shape[-1]))
    known = [run for run in runs if len(run)]
    return all(run[0] == 0 and (np.diff(run) >= 0).all() for run in known) and any(run[-1] > 0 for run in known)
