"""Tells whether runs of two studies with the same seed can be compared in pairs: whether they share data and places."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from mdfl_jax.report.read import Run, kept
from mdfl_jax.report.settings import show

WORLD = ("network.grid_size", "network.graph", "motion.width", "motion.height")  # these decide the first places
NO_MATTER = ("data.dir",)  # a folder; what is in it has a digest
RECORDED = {
    "label_counts": "under the same seed the clients hold other data",
    "position": "under the same seed the clients start elsewhere",
}


@kept
def why_unpaired(a: Run, p: int, b: Run, q: int) -> str:
    """Return why the runs of two sweep points cannot be paired by seed, in words; '' if they can.

    They can be paired if they have seeds in common, if the settings and the digests of the data agree, and if under the
    common seeds every client holds the same number of samples of each label and starts at the same place. Where places
    are not recorded, the settings and files that decide them must agree.

    Args:
      a, p: a study and the index of its sweep point.
      b, q: another study and the index of its sweep point.
    """
    common = [seed for seed in a.seeds(p) if seed in b.seeds(q)]
    if not common:
        return "they have no seed in common"
    data = sorted({f"data.{name}" for run in (a, b) for name in run.config.get("data") or {}} - {*NO_MATTER})
    unknown = not (a.has(p, "position") and b.has(q, "position"))
    for path in ("network.num_clients", *data, *(WORLD if unknown else ())):
        texts = [show(_used(run, at, path)) for run, at in ((a, p), (b, q))]
        if texts[0] != texts[1]:
            return f"{path} is {texts[0]} and {texts[1]}"
    digests = [_inputs(run, ("data.", *(("trace.", "network.") if unknown else ()))) for run in (a, b)]
    for name in sorted(digests[0].keys() | digests[1].keys()):
        if digests[0].get(name) != digests[1].get(name):
            return f"the input {name} is not the same"
    for key, meaning in RECORDED.items():  # last, since these arrays are read from files
        one, two = (_of_seeds(run, at, key, common) for run, at in ((a, p), (b, q)))
        if one is not None and two is not None and not np.array_equal(one, two, equal_nan=True):
            return meaning
    return ""


def pairs_of(run: Run) -> Callable[[str, str], bool]:
    """Return a function that tells of two sweep points, by their ids, whether their runs are paired by seed.

    Those of one study always are. Those of two studies are compared with each other when the function asks.
    """
    parts = {point["id"]: part for point, part in zip(run.points, run.parts)}

    def paired(one: str, other: str) -> bool:
        if one not in parts:
            return True
        (i, p), (j, q) = parts[one], parts[other]
        return i == j or not why_unpaired(run.studies[i], p, run.studies[j], q)

    return paired


def common_seeds(a: Run, p: int, b: Run, q: int) -> int:
    """Return the number of seeds that two sweep points have in common."""
    return len(set(a.seeds(p)) & set(b.seeds(q)))


def _used(run: Run, p: int, path: str) -> Any:
    """Return the value that a sweep point uses: the member's number where the config leaves it to the member."""
    mine = run.numbers(p)
    return mine[path] if path in mine else run.value(p, path)


def _inputs(run: Run, prefixes: tuple[str, ...]) -> dict[str, str]:
    """Return the digests of the inputs whose names have one of the prefixes."""
    found = run.config.get("inputs") or {}
    return {name: digest for name, digest in found.items() if name.startswith(prefixes)}


def _of_seeds(run: Run, p: int, key: str, seeds: list[int]) -> np.ndarray | None:
    """Return a recorded array of the given seeds, of places only the first ones; None if it is not recorded."""
    array = _recorded(run, p, key)
    return None if array is None else array[[run.seeds(p).index(seed) for seed in seeds]]


@kept
def _recorded(run: Run, p: int, key: str) -> np.ndarray | None:
    array = run.history(p, key)
    return array[:, 0].copy() if array is not None and key == "position" else array


def differing(configs: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, list[str]]]:
    """Return the settings that differ between configurations: (path, the printed value of each).

    The name and the title of a study are no settings of its runs.

    >>> differing({"a": {"rounds": 9, "network": {"radius": 2.0}}, "b": {"rounds": 9, "network": {"radius": 3.0}}})
    [('network.radius', ['2', '3'])]
    """
    flat = [dict(_leaves(config)) for config in configs.values()]
    paths = dict.fromkeys(path for of in flat for path in of)
    rows = [(path, [show(of.get(path)) for of in flat]) for path in paths if path not in ("name", "title")]
    return [(path, texts) for path, texts in rows if len(set(texts)) > 1]


def shared(configs: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the part of configurations that is the same in all of them.

    >>> shared([{"a": 1, "b": {"c": 2, "d": 3}}, {"a": 0, "b": {"c": 2, "d": 4}}])
    {'b': {'c': 2}}
    """
    first, *others = configs
    found: dict[str, Any] = {}
    for key, value in first.items():
        parts = [part for other in others if isinstance(part := other.get(key), Mapping)]
        if isinstance(value, Mapping) and len(parts) == len(others):
            found[key] = shared([value, *parts])
        elif all(key in other and other[key] == value for other in others):
            found[key] = value
    return found


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
