"""Which runs are paired by seed: those of one study, and those of two studies that share data and places."""

from collections.abc import Callable
from typing import Any

import numpy as np

from mdfl_jax.core.sweep_text import show
from mdfl_jax.results.results import Results, kept

WORLD = ("network.grid_size", "network.graph", "motion.width", "motion.height")  # these decide the first places
NO_MATTER = ("data.dir",)  # a folder; what is in it has a digest
RECORDED = {
    "label_counts": "under the same seed the clients hold other data",
    "position": "under the same seed the clients start elsewhere",
}


@kept
def why_unpaired(a: Results, p: int, b: Results, q: int) -> str:
    """Return why the runs of point p of study a and point q of study b cannot be paired by seed; '' if they can.

    They can be paired if they have seeds in common, if the settings and the digests of the data agree, and if under the
    common seeds every client holds the same number of samples of each label and starts at the same place. Where places
    are not recorded, the settings and files that decide them must agree.
    """
    common = [seed for seed in a.seeds_of(p) if seed in b.seeds_of(q)]
    if not common:
        return "they have no seed in common"
    data = sorted({f"data.{name}" for study in (a, b) for name in study.config.get("data") or {}} - {*NO_MATTER})
    unknown = not (a.has(p, "position") and b.has(q, "position"))
    for path in ("network.num_clients", *data, *(WORLD if unknown else ())):
        texts = [show(_used(study, at, path)) for study, at in ((a, p), (b, q))]
        if texts[0] != texts[1]:
            return f"{path} is {texts[0]} and {texts[1]}"
    digests = [_inputs(study, ("data.", *(("trace.", "network.") if unknown else ()))) for study in (a, b)]
    for name in sorted(digests[0].keys() | digests[1].keys()):
        if digests[0].get(name) != digests[1].get(name):
            return f"the input {name} is not the same"
    for key, meaning in RECORDED.items():  # last, since these arrays are read from files
        one, two = (_of_seeds(study, at, key, common) for study, at in ((a, p), (b, q)))
        if one is not None and two is not None and not np.array_equal(one, two, equal_nan=True):
            return meaning
    return ""


def pairs_of(study: Results) -> Callable[[str, str], bool]:
    """Return `Results.pairing` of a comparison. Runs of one study are paired; others are compared when it is asked."""
    parts = {name: study.study_of(p) for p, name in enumerate(study.points)}

    def paired(one: str, other: str) -> bool:
        (a, p), (b, q) = parts[one], parts[other]
        return a is b or not why_unpaired(a, p, b, q)

    return paired


def _used(study: Results, p: int, path: str) -> Any:
    """Return the value that a sweep point uses; where the configuration names none, it is the number of the member."""
    mine = study.numbers(p)
    return mine[path] if path in mine else study.value(p, path)


def _inputs(study: Results, prefixes: tuple[str, ...]) -> dict[str, str]:
    """Return the digests of the inputs whose names have one of the prefixes."""
    found = study.config.get("inputs") or {}
    return {name: digest for name, digest in found.items() if name.startswith(prefixes)}


def _of_seeds(study: Results, p: int, key: str, seeds: list[int]) -> np.ndarray | None:
    """Return a recorded array for the given seeds, of positions only the first row; None if it was not recorded."""
    array = _recorded(study, p, key)
    return None if array is None else array[[study.seeds_of(p).index(seed) for seed in seeds]]


@kept
def _recorded(study: Results, p: int, key: str) -> np.ndarray | None:
    array = study.history(p, key)
    return array[:, 0].copy() if array is not None and key == "position" else array
