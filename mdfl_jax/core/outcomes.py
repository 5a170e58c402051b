"""Computes what both summary.json and the report show of a study: intervals over seeds, baselines, targets."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.sweep_text import split_tied, tied_with

Line = Mapping[str, Any]  # a line of metrics.jsonl
Runs = dict[int, dict[int, Line]]  # the lines of a sweep point by seed and round
VALIDATION_LOSS = "validation_loss"
SELECT_BY = {
    VALIDATION_LOSS: "the least validation loss",
    "rounds_to_target": "the fewest rounds to the target",
    "bits_to_target": "the fewest bits to the target",
}
"""The rules by which `select` chooses: a key of summary.json, and the words that follow "the step size with"."""


def enumerated(words: Sequence[str], last: str = "and") -> str:
    """Return words as a sentence lists them, with "and" or another word before the last one.

    >>> enumerated(["a"]), enumerated(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return f" {last} ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def seeds_of(manifest: Mapping[str, Any], point: int) -> list[int]:
    """Return the seeds of a sweep point: its own entry 'seeds', or else those of the study.

    Args:
      manifest: The content of config.json.
      point: The index of the sweep point.
    """
    points = manifest.get("points")
    return list((points[point] if points else {}).get("seeds", manifest["seeds"]))


def by_run(lines: Iterable[Line]) -> dict[str, Runs]:
    """Return lines by sweep point, seed and round. Of two lines with the same three, the later one is used."""
    found: dict[str, Runs] = {}
    for line in lines:
        found.setdefault(line["point"], {}).setdefault(line["seed"], {})[line["round"]] = line
    return found


def judged_key(config: Mapping[str, Any]) -> str:
    """Return the key of the accuracy by which sweep points are compared, in a line of metrics.jsonl."""
    return "mean_model_accuracy" if config.get("judged") == "global" else "accuracy"


def selected_fields(select: str | None) -> tuple[str, ...]:
    """Return the fields whose values `select` chooses: none if it is empty.

    >>> selected_fields("algorithm.lr, algorithm.consensus_lr")
    ('algorithm.lr', 'algorithm.consensus_lr')
    """
    return tuple(filter(None, (path.strip() for path in (select or "").split(","))))


def chosen_words(config: Mapping[str, Any]) -> str:
    """Return the fields that `select` has chosen, and the rule of the choice, in words; empty without `select`.

    >>> chosen_words({"select": "algorithm.lr,algorithm.rho,algorithm.eta", "select_by": "bits_to_target"})
    'lr, rho and eta with the fewest bits to the target'
    """
    names = [path.rsplit(".", 1)[-1].replace("_", " ") for path in selected_fields(config.get("select"))]
    if not names:
        return ""
    listed = enumerated(names)
    return f"{listed} with {SELECT_BY[config.get('select_by') or VALIDATION_LOSS]}"


def t_quantile(degrees: float) -> float:
    """Return the factor of a 95 % interval: the 0.975 quantile of Student's t with ``degrees`` degrees of freedom."""
    from scipy.special import stdtrit  # importing it takes a sixth of a second, which no study needs before it runs

    return float(stdtrit(degrees, 0.975))


FEWEST = 3  # seeds of an interval: of two, Student's t is 12.7


def interval(values: Sequence[float] | np.ndarray) -> dict[str, Any]:
    """Return the mean, the standard deviation and the half-width of the 95 % interval (Student t) over the seeds.

    Fewer than `FEWEST` seeds have no interval (None).

    Args:
      values: [S].

    >>> interval([0.5])
    {'mean': 0.5, 'std': None, 'ci95': None}
    """
    values = np.asarray(values, np.float64)
    with np.errstate(invalid="ignore"):  # values of diverged runs are not finite
        mean = float(values.mean())
        if len(values) < 2:
            return {"mean": mean, "std": None, "ci95": None}
        std = float(values.std(ddof=1))
    if len(values) < FEWEST:
        return {"mean": mean, "std": std, "ci95": None}
    half = t_quantile(len(values) - 1) * std / math.sqrt(len(values))
    return {"mean": mean, "std": std, "ci95": half}


def interval_of_known(values: Sequence[float] | np.ndarray) -> dict[str, Any]:
    """Return the `interval` over the known values of [S] seeds; the value of a diverged run is NaN and left out.

    If seeds are left out, 'seeds' is the number of the others. Statistics of no values are None.

    >>> interval_of_known([0.5, math.nan, 0.7])["seeds"], interval_of_known([math.nan])
    (2, {'mean': None, 'std': None, 'ci95': None})
    """
    values = np.asarray(values, np.float64)
    known = values[~np.isnan(values)]
    if not len(known):
        return dict.fromkeys(("mean", "std", "ci95"))
    found = {key: None if value is None or math.isnan(value) else value for key, value in interval(known).items()}
    return found | ({"seeds": len(known)} if len(known) < len(values) else {})


def with_seeds(values: Sequence[float] | np.ndarray) -> dict[str, Any]:
    """Return the `interval_of_known` of values [S] over the seeds, and the values themselves as 'per_seed'."""
    return interval_of_known(values) | {"per_seed": [float(v) for v in values]}


def known_seeds(statistic: Mapping[str, Any]) -> int:
    """Return the number of seeds that have a value and count in the mean."""
    values = statistic.get("per_seed") or ()
    return int(sum(value is not None and not math.isnan(float(value)) for value in values))


def parsed_number(value: Any) -> float:
    """Return a number of metrics.jsonl, where null stands for NaN and a text for an infinity.

    >>> [parsed_number(0.5), parsed_number(None), parsed_number("-inf")]
    [0.5, nan, -inf]
    """
    return math.nan if value is None else float(value)


def at_first(values: np.ndarray, accuracy: np.ndarray, target: float) -> float | None:
    """Return the value at the first evaluation whose accuracy reaches the target.

    The result is None if no evaluation reaches the target, or if the value there is not known.

    Args:
      values: [E] the value at each evaluation.
      accuracy: [E] the accuracy at each evaluation.
      target: the accuracy to reach.

    >>> at_first(np.array([0, 20, 40]), np.array([0.1, 0.6, 0.9]), target=0.5)
    20.0
    """
    reached = np.flatnonzero(accuracy >= target)
    return float(values[reached[0]]) if len(reached) and not np.isnan(values[reached[0]]) else None


def text_of(value: Any) -> str:
    """Return a value as it is written in a sweep and in the name of a point."""
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


def name_of(overrides: dict[str, Any]) -> str:
    """Name a point: 'dcm' for the value of a field that takes names, 'alpha=0.1' for one that takes numbers.

    The only point of a study without a sweep is called 'base'.
    """
    parts = [
        text_of(value) if isinstance(value, str) and value else f"{path.split('.')[-1]}={text_of(value)}"
        for path, value in overrides.items()
    ]
    return ", ".join(parts) or "base"


def is_text_of(value: Any, text: str) -> bool:
    """Tell whether a value of config.json is the one that a text on the command line means."""
    if isinstance(value, bool):
        return str(value).lower() == text.lower()
    if isinstance(value, list | tuple):
        return "x".join(map(str, value)) == text.replace(" ", "")
    try:
        return value == text or (value is not None and float(value) == float(text))
    except ValueError:
        return False


def baseline_values(baseline: str) -> dict[str, str]:
    """Return the texts of the values of a baseline by path: of one field, or of several that '+' ties.

    Raises:
      UserError: If the text is not of the form field=value, or if fields and values are not equally many.

    >>> baseline_values("network.mobility+motion.knowledge=dcm+met")
    {'network.mobility': 'dcm', 'motion.knowledge': 'met'}
    """
    path, equals, text = baseline.partition("=")
    if not equals:
        raise UserError(f"baseline is {baseline!r}; it must be of the form field=value")
    paths = tuple(map(str.strip, path.split("+")))
    return dict(zip(paths, split_tied(paths, text, "baseline"), strict=True))


def baselines(manifest: Mapping[str, Any]) -> list[int | None]:
    """Return for each point the index of its baseline, which differs in the baseline's axis only; None without one.

    Of several values of the axis that have the baseline's value in its field, the first one is the baseline.

    Args:
      manifest: The content of config.json.
    """
    points = [point["overrides"] for point in manifest["points"]]
    baseline = str(manifest["config"].get("baseline") or "")
    if "=" not in baseline:  # none, or a comparison of studies, whose baseline is one of their points
        return [None] * len(points)
    wanted = baseline_values(baseline)
    sweep = str(manifest["config"].get("sweep") or "")
    tied = set().union(*(tied_with(sweep, own) for own in wanted))
    others = [{name: value for name, value in point.items() if name not in tied} for point in points]
    found: list[int | None] = []
    for point, rest in zip(points, others):
        same = [
            q
            for q, there in enumerate(points)
            if others[q] == rest and all(is_text_of(there.get(own), value) for own, value in wanted.items())
        ]
        found.append(same[0] if same and wanted.keys() <= point.keys() else None)
    return found
