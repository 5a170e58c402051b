"""Results as arrays with named axes (xarray). The axes of a metric come from its declaration."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mdfl_jax.core.metric import CLASSES, CLIENT_BYTES, CLIENTS, ROUNDS

if TYPE_CHECKING:
    import xarray as xr

    from mdfl_jax.results.results import Results

FACTS: Mapping[str, tuple[str, ...]] = {
    "label_counts": ("client", "label"),
    "is_mobile": ("client",),
    "reached": ("client",),
}
"""The axes of the arrays that are no metrics, after the seed (`mdfl_jax.engine.simulation.RunFacts`)."""
FACT_LABELS = {
    "label_counts": "samples of each label",
    "is_mobile": "whether a client is mobile",
    "reached": "whether a client ever meets the server",
}
NAMES: Mapping[Any, str] = {CLIENTS: "client", CLIENT_BYTES: "client_byte", CLASSES: "label"}
STATES, EVENTS = "each_round", "in_round"
"""The axes of values of every round: of R + 1 states, the first before the first round, and of what R rounds do."""


class MetricInfo(NamedTuple):
    """The description of a recorded metric.

    Attributes:
      label: the metric in words.
      unit: the unit of the values; '' if they have none.
      dims: the names of the axes of ``results[name]``.
      shape: the sizes of these axes.
    """

    label: str
    unit: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]


def describe(results: "Results", key: str) -> MetricInfo:
    """Returns the label, the unit and the axes of an array of history.npz."""
    values = _by_point(results, key)
    shapes = [of_point.shape[1:] for of_point in values.values()]
    sizes = (len(results.points), len(results.seeds), *np.max(shapes, axis=0).tolist())
    return MetricInfo(*_label_and_unit(results, key), dims_of(results, key), sizes)


def dims_of(results: "Results", key: str) -> tuple[str, ...]:
    """Returns the names of the axes of an array of history.npz, over all sweep points."""
    if key in FACTS:
        return ("point", "seed", *FACTS[key])
    p, values = next(iter(_by_point(results, key).items()))
    clients = results.arrays[f"{p}/is_mobile"].shape[1]
    shown = results.declared.get(key)
    shape = shown.shape if shown else None
    if shape is None:  # an older version did not store it
        shape = () if values.shape[1] == len(results.arrays["rounds"]) else (ROUNDS,)
        shape += (CLIENTS,) if values.shape[2:3] == (clients,) else ()
    by_round = tuple(shape[:1]) == (ROUNDS,)
    axis = "round" if not by_round else EVENTS if values.shape[1] == results.arrays["rounds"][-1] else STATES
    return ("point", "seed", axis, *_own_axes(key, shape[by_round:], values.ndim - 2))


def _own_axes(key: str, shape: Sequence[str | int], count: int) -> list[str]:
    """Names the axes of one evaluation. An axis without a name gets that of the metric, 'position_axis'.

    If two axes have the same name, as in a matrix of clients, the second one is 'client_2'.

    Args:
      key: the key of the metric.
      shape: the declared axes. Those of the files may be fewer: two words of bits become one number.
      count: the number of axes in the files.
    """
    names = [NAMES.get(shape[k] if k < len(shape) else 0, f"{key}_axis") for k in range(count)]
    before = [names[:k].count(name) for k, name in enumerate(names)]
    return [f"{name}_{same + 1}" if same else name for name, same in zip(names, before)]


def data_array(results: "Results", key: str) -> "xr.DataArray":
    """Returns an array of history.npz over all sweep points, with named axes and their coordinates.

    What a sweep point does not have is NaN; of the arrays in `FACTS` it is False or 0.
    """
    import xarray as xr

    values, dims = _by_point(results, key), dims_of(results, key)
    label, unit = _label_and_unit(results, key)
    data = _stacked(results, values, key in FACTS)
    coords: dict[str, Any] = {
        "point": results.points,
        "seed": results.seeds,
        "round": results.arrays["rounds"],
        **{n: np.arange(size) + (n == EVENTS) for n, size in zip(dims[2:], data.shape[2:]) if n != "round"},
    }
    attrs = {"long_name": label} | ({"units": unit} if unit else {})
    return xr.DataArray(data, {name: coords[name] for name in dims}, dims, key, attrs)


def dataset(results: "Results") -> "xr.Dataset":
    """Returns all arrays of history.npz as one xarray.Dataset. Shorter axes of clients are filled up with NaN."""
    import xarray as xr

    attrs = {name: str(results.manifest.get(name) or "") for name in ("name", "title")}
    return xr.Dataset({key: data_array(results, key) for key in results.keys()}, attrs=attrs)  # noqa: SIM118


def _by_point(results: "Results", key: str) -> dict[int, np.ndarray]:
    """Returns the arrays of a key by the index of the sweep point, for the points that have it."""
    found = {p: results.arrays.get(f"{p}/{key}") for p in range(len(results.points))}
    return {p: values for p, values in found.items() if values is not None}


def _stacked(results: "Results", values: Mapping[int, np.ndarray], is_fact: bool) -> np.ndarray:
    """Stacks the arrays of the sweep points, [point, seed, ...], filled up to the largest size of each axis.

    A row stands at the place of its seed in ``results.seeds``.
    """
    arrays, count, seeds = list(values.values()), len(results.points), results.seeds
    same_seeds = all(results.seeds_of(p) == seeds for p in values)
    if same_seeds and len(arrays) == count and len({of_point.shape for of_point in arrays}) == 1:
        return np.stack(arrays)
    kind = np.result_type(*arrays)
    kind = kind if is_fact else np.result_type(kind, np.float32)  # NaN needs a float: float64 holds any int32
    sizes = np.max([of_point.shape[1:] for of_point in arrays], axis=0).astype(int)  # of one without axes as well
    data = np.full((count, len(seeds), *sizes), 0 if is_fact else np.nan, kind)
    for p, of_point in values.items():
        rows = [seeds.index(seed) for seed in results.seeds_of(p)]
        data[p][np.ix_(rows, *map(range, of_point.shape[1:]))] = of_point
    return data


def _label_and_unit(results: "Results", key: str) -> tuple[str, str]:
    """Returns the words and the unit of an array. A scaled metric's title names the scaled unit, so it is not used."""
    shown, spaced = results.declared.get(key), key.replace("_", " ")
    if shown is None:
        return FACT_LABELS.get(key, spaced), ""
    label = shown.title.removesuffix(f" ({shown.unit})") if shown.scale == 1 else spaced
    return label, shown.unit
