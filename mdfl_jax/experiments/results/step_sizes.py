"""Chooses step sizes fairly: of the points that differ in one field only, the best one by the validation loss."""

import math
from collections.abc import Sequence
from typing import Any


def select(entries: Sequence[dict[str, Any]], path: str) -> list[dict[str, Any]]:
    """Returns the best point of each group of points that differ in one field only.

    Args:
      entries: The entries of the points in summary.json, with ``id``, ``overrides``, ``diverged`` and
        ``validation_loss``.
      path: The field, which is an axis of the sweep.

    Returns:
      One entry for each group: ``of``, the overrides that its points share; ``id`` and ``value`` of the point with the
      smallest mean ``validation_loss`` over the seeds, and that loss; ``at_edge``, whether this value is the smallest
      or the largest tried, so that a wider grid might hold a better one. If all points of a group diverged, ``id`` is
      None.
    """
    groups: dict[tuple[tuple[str, Any], ...], list[dict[str, Any]]] = {}
    for entry in entries:
        shared = tuple((k, v) for k, v in entry["overrides"].items() if k != path)
        groups.setdefault(shared, []).append(entry)
    found = []
    for shared, members in groups.items():
        usable = [m for m in members if not m["diverged"] and math.isfinite(m["validation_loss"]["mean"])]
        best = min(usable, key=lambda m: m["validation_loss"]["mean"], default=None)
        tried = [m["overrides"][path] for m in members]
        value = best["overrides"][path] if best else None
        found.append(
            {
                "of": dict(shared),
                "id": best["id"] if best else None,
                "value": value,
                "validation_loss": best["validation_loss"]["mean"] if best else None,
                "at_edge": len(tried) > 1 and value in (min(tried), max(tried)),
            }
        )
    return found
