"""The data of the curves that the reader of the page explores, for assets/curves.js."""

from typing import Any

import numpy as np

from mdfl_jax.core.outcomes import t_quantile
from mdfl_jax.report.pack import LEVELS, MISSING
from mdfl_jax.report.partial import judged_key
from mdfl_jax.report.read import ROUNDS, Run, axes_of, declared
from mdfl_jax.report.recorded import Quantity, Recorded, of_clients, recorded
from mdfl_jax.report.style import looks

CLIENT_NUMBERS = 4_000_000  # at most so many numbers of single clients are in a page, 8 MB before they are packed


def explorer(run: Run) -> dict[str, Any]:
    """Return all that the page needs to draw any recorded metric against any axis.

    Returns:
      A tree for `Chart.data`. "values" has [P, S, E] float32 by key, with NaN for what is missing; "clients" has the
      numbers of the single clients in the first seed, by metric (`_clients`).
    """
    found = recorded(run)
    extremes = _extremes(run, found)
    target = run.config.get("target")
    quantile = [None, None, *(t_quantile(n - 1) for n in range(2, len(found.seeds) + 1))]
    own = axes_of(run.summary)
    return {
        "metrics": [_described(quantity, found, extremes) for quantity in found.quantities],
        "start": judged_key(run.config),
        "axis": "" if run.x_axis == ROUNDS else own[run.x_axis].key,
        "target": None if target is None else {"key": judged_key(run.config), "value": float(target)},
        "rounds": found.rounds,
        "seeds": [int(seed) for seed in found.seeds],
        "quantile": quantile,  # of Student's t, by the number of seeds
        "points": [
            {
                "dash": look.plotly_dash,
                "seeds": np.flatnonzero(known),
                "diverged": [int(s) for s in np.flatnonzero(lost)],
            }
            for look, known, lost in zip(looks(run), _ran(found), found.diverged)
        ],
        "values": {key: short(array) for key, array in (found.values | extremes).items()},
        "clients": _clients(run, found),
    }


def _described(quantity: Quantity, found: Recorded, extremes: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return what the page knows of a metric; "lowest" and "highest" are the keys of the extremes over the clients."""
    key = quantity.key
    ends = {}
    for name, recorded_as in (("lowest", f"{key}_min"), ("highest", f"{key}_max")):
        among = [of for of in (recorded_as, f"{key}:{name}") if of in found.values or of in extremes]
        ends[name] = among[0] if among and quantity.per_client else None
    return {
        "key": key,
        "title": quantity.title,
        "scale": quantity.scale,
        "share": quantity.share,
        "further": quantity.of != key,
        "axis": quantity.grows,
        "positive": bool(np.nanmin(found.values[key]) >= 0),
        **ends,
    }


def _ran(found: Recorded) -> np.ndarray:
    """Return whether a seed of a sweep point has any number, [P, S]."""
    return np.any([np.isfinite(array).any(axis=2) for array in found.values.values()], axis=0)


def _extremes(run: Run, found: Recorded) -> dict[str, np.ndarray]:
    """Return the lowest and highest client's number [P, S, E] of the metrics for which no line has them."""
    metrics = {metric.key: metric for metric in declared(run.summary)}
    made: dict[str, np.ndarray] = {}
    for key in (quantity.key for quantity in found.quantities if quantity.per_client):
        if f"{key}_min" in found.values:
            continue
        for name, extreme in (("lowest", np.fmin), ("highest", np.fmax)):
            made[f"{key}:{name}"] = np.full_like(found.values[key], np.nan)
            for p in range(len(run.points)):
                array = of_clients(run, p, key, metrics)
                at = _seeds(run, found, p)
                if array is not None and len(array) == len(at):
                    where = np.ix_(at, _evaluations(run, found, p))
                    made[f"{key}:{name}"][p][where] = extreme.reduce(array.astype(float), axis=2)
    return {key: array for key, array in made.items() if np.isfinite(array).any()}


def _seeds(run: Run, found: Recorded, point: int) -> np.ndarray:
    """Return the indices in ``found.seeds`` of the seeds of a sweep point, in the order of history.npz."""
    return np.searchsorted(found.seeds, run.seeds(point))


def _evaluations(run: Run, found: Recorded, point: int) -> np.ndarray:
    """Return the indices in ``found.rounds`` of the evaluations of a sweep point."""
    return np.searchsorted(found.rounds, run.curves[run.points[point]["id"]].rounds)


def _clients(run: Run, found: Recorded) -> dict[str, Any]:
    """Return the numbers of the single clients in the first seed of each sweep point, by metric.

    Each metric has "values", the stored numbers of all sweep points one after the other, [N, evaluations] of each, and
    "points": for each sweep point None, or the number of "clients", the indices "at" of the evaluations and the rest of
    `stored`. If there would be more than `CLIENT_NUMBERS`, evaluations are left out evenly.
    """
    metrics = {metric.key: metric for metric in declared(run.summary)}
    taken: dict[str, dict[int, np.ndarray]] = {}
    for key in (quantity.key for quantity in found.quantities if quantity.per_client):
        arrays = {p: of_clients(run, p, key, metrics) for p in range(len(run.points))}
        first = {p: array[0] for p, array in arrays.items() if array is not None and np.isfinite(array[0]).any()}
        taken |= {key: first} if first else {}
    total = sum(array.size for first in taken.values() for array in first.values())
    every = max(-(-total // CLIENT_NUMBERS), 1)
    packs: dict[str, Any] = {}
    for key, first in taken.items():
        points: list[Any] = [None] * len(run.points)
        parts = []
        for p, array in first.items():
            kept = np.arange(len(array))[::-every][::-1]
            if not np.isfinite(array[kept]).any():
                continue  # a run that diverges may have numbers only at evaluations that are left out
            values, how = stored(array[kept].T)
            parts.append(values.ravel())
            points[p] = {"clients": array.shape[1], "at": _evaluations(run, found, p)[kept], **how}
        packs |= {key: {"values": np.concatenate(parts), "points": points}} if parts else {}
    return {"every": every, "of": packs}


def stored(values: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
    """Store numbers in two bytes each, in equal steps between the lowest and the highest of them.

    The steps are those of the logarithm if all numbers are positive and the highest is over 100 times the lowest. Whole
    numbers that differ by less than `LEVELS` are stored exactly.

    Returns:
      (uint16 numbers of the same shape, {"low": lowest, "step": step, "log": whether they are logarithms}). A number is
      low + step * stored, or e to this power; `MISSING` stands for NaN and infinity.
    """
    known = values[np.isfinite(values)].astype(float)
    low, high = float(known.min()), float(known.max())
    logarithmic = low > 0 and high > 100 * low
    numbers = np.where(np.isfinite(values), values, low).astype(float)
    if logarithmic:
        numbers, low, high = np.log(numbers), np.log(low), np.log(high)
    whole = not logarithmic and high - low <= LEVELS and bool((known == np.round(known)).all())
    step = 1.0 if whole else (high - low) / LEVELS or 1.0
    levels = np.where(np.isfinite(values), np.round((numbers - low) / step), MISSING)
    return levels.astype(np.uint16), {"low": float(low), "step": float(step), "log": logarithmic}


def short(values: np.ndarray) -> np.ndarray:
    """Return numbers as float32 rounded to 16 bits of mantissa, five digits, so that they pack well."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x40) & np.uint32(0xFFFFFF80)).view(np.float32)
