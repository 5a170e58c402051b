"""What each sweep point of a comparison of studies is compared with, and by how much it differs from it."""

from collections.abc import Mapping, Sequence
from typing import Any

from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.report.pairing import why_unpaired
from mdfl_jax.report.read import Run
from mdfl_jax.report.settings import show
from mdfl_jax.report.statistics import difference

STUDY = "study"  # the path of the setting that names a point's study


def references(
    runs: Sequence[Run],
    points: Sequence[Mapping[str, Any]],
    parts: Sequence[tuple[int, int]],
    baseline: str,
) -> list[int | None]:
    """Return for each sweep point the index of the one that it is compared with, or None (`compare`)."""
    first = [p for p, (i, _) in enumerate(parts) if i == 0]
    if baseline:
        known = {point["id"]: p for p, point in enumerate(points)}
        known = {runs[0].points[p]["id"]: p for p in first} | known
        if baseline not in known:
            raise UserError(unknown_name("baseline", baseline, known))
        return [known[baseline]] * len(points)
    ids = {runs[0].points[p]["id"]: p for p in first}
    usual = runs[0].summary.get("baseline")
    own = {p: ids.get(str(runs[0].points[p].get("baseline", usual))) for p in first}
    only = {ref for ref in own.values() if ref is not None} or set(first)
    found: list[int | None] = []
    for p, q in enumerate(counterparts(points, parts)):
        if p in own:
            found.append(own[p])
        elif q is None:
            found.append(next(iter(only)) if len(only) == 1 else None)
        else:
            found.append(q if own[q] is None else own[q])
    return found


def counterparts(points: Sequence[Mapping[str, Any]], parts: Sequence[tuple[int, int]]) -> list[int | None]:
    """Return for each sweep point the index of the first study's point with the same settings, or None."""

    def settings(p: int) -> tuple[str, ...]:
        return tuple(show(value) for path, value in points[p]["overrides"].items() if path != STUDY)

    index = {settings(p): p for p, (i, _) in enumerate(parts) if i == 0}
    return [index.get(settings(p)) for p in range(len(points))]


def accuracy_gap(runs: Sequence[Run], part: tuple[int, int], other: tuple[int, int], at: int | None) -> dict[str, Any]:
    """Return the accuracy of a sweep point minus that of another one: `difference`, and 'why' it is not paired.

    Args:
      runs: the studies.
      part, other: the index of the study and of its sweep point, for both points.
      at: the round; None: the last one of each.
    """
    (i, p), (j, q) = part, other
    why = "" if i == j else why_unpaired(runs[i], p, runs[j], q)
    curves = [runs[k].curves[runs[k].points[r]["id"]] for k, r in (part, other)]
    values = [curve.at(int(curve.rounds[-1]) if at is None else at) for curve in curves]
    return {**difference(values[0], values[1], paired=not why), "why": why}
