"""Chooses step sizes fairly: of the points that differ in the chosen fields only, the best one by what is judged."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from mdfl_jax.core.outcomes import VALIDATION_LOSS, selected_fields


def select(entries: Sequence[dict[str, Any]], path: str, by: str = VALIDATION_LOSS) -> list[dict[str, Any]]:
    """Return the best point of each group of points that differ in the chosen fields only.

    Args:
      entries: The entries of the points in summary.json, with ``id``, ``overrides``, ``diverged`` and
        ``validation_loss``, and the key ``by``.
      path: The field, which is swept; or several, separated by commas.
      by: What the best point has the least of: ``validation_loss``, ``rounds_to_target`` or ``bits_to_target``. A point
        that does not reach the target is behind all that do. Equal points are ordered by their validation loss.

    Returns:
      One entry for each group: ``of``, the overrides that its points share; ``id`` and ``value`` of the best point, and
      its mean ``validation_loss`` over the seeds; ``at_edge``, whether this value is the smallest or the largest tried,
      so that a wider grid might hold a better one. If all points of a group diverged, ``id`` is None. With several
      fields, ``value`` is that of the first one, ``values`` has all of them, and ``at_edge`` is true if one of them is
      at an edge. If ``by`` is not the validation loss, the entry also has ``by`` and, under this name, the value of the
      best point, which is None if no point of the group reached the target.
    """
    paths = selected_fields(path)
    groups: dict[tuple[tuple[str, Any], ...], list[dict[str, Any]]] = {}
    for entry in entries:
        shared = tuple((k, v) for k, v in entry["overrides"].items() if k not in paths)
        groups.setdefault(shared, []).append(entry)
    return [_chosen(dict(shared), members, paths, by) for shared, members in groups.items()]


def _order(by: str) -> Callable[[dict[str, Any]], tuple[float, float]]:
    """Return the key by which the points of a group are ordered, the best one first."""

    def key(entry: dict[str, Any]) -> tuple[float, float]:
        loss = entry["validation_loss"]["mean"]
        judged = loss if by == VALIDATION_LOSS else entry[by]
        return (math.inf if judged is None else judged, loss)

    return key


def _chosen(shared: dict[str, Any], members: list[dict[str, Any]], paths: Sequence[str], by: str) -> dict[str, Any]:
    usable = [m for m in members if not m["diverged"] and math.isfinite(m["validation_loss"]["mean"])]
    best = min(usable, key=_order(by), default=None)
    values = {path: best["overrides"][path] if best else None for path in paths}
    tried = {path: {m["overrides"][path] for m in members} for path in paths}
    found = {
        "of": shared,
        "id": best["id"] if best else None,
        "value": values[paths[0]],
        "validation_loss": best["validation_loss"]["mean"] if best else None,
        "at_edge": any(len(tried[p]) > 1 and values[p] in (min(tried[p]), max(tried[p])) for p in paths),
    }
    found |= {"values": values} if len(paths) > 1 else {}
    return found | ({} if by == VALIDATION_LOSS else {"by": by, by: best[by] if best else None})
