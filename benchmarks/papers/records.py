"""The results files of the papers' items, benchmarks/results/papers/PAPER-ITEM-SCALE.json."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import measure
from benchmarks.papers.items import Item, Outcome

FOLDER = Path(__file__).parents[1] / "results" / "papers"
BEST_FIRST = ("paper", "small")  # which scale a page shows, if an item was run at both; smoke shows nothing


def path_of(name: str, scale: str) -> Path:
    """Return the results file of an item at a scale."""
    return FOLDER / f"{name.replace(':', '-')}-{scale}.json"


def content(item: Item, scale: str, outcome: Outcome, used: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return what the results file of an item holds."""
    return {
        "item": item.name,
        "title": item.title,
        "scale": scale,
        **measure.machine(),
        "studies": used,
        "claims": [claim.as_json() for claim in outcome.claims],
        "tables": [{"title": t, "header": h, "rows": r} for t, h, r in outcome.tables],
    }


def scale_of(name: str) -> str:
    """Return the largest scale at which an item was run; '' if it was run at none."""
    return next((scale for scale in BEST_FIRST if path_of(name, scale).exists()), "")


def kept(name: str) -> dict[str, Any] | None:
    """Return the results of an item at the largest scale at which it was run, or None."""
    return json.loads(path_of(name, scale).read_text()) if (scale := scale_of(name)) else None


def device_of(found: Mapping[str, Any]) -> tuple[str, str]:
    """Return the platform that results come from, cpu, gpu or tpu, and the name of its devices."""
    platform, _, kind = found["device"].partition(" ")
    return platform, kind
