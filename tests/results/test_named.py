"""Arrays with named axes, made of arrays by number: a slow loop gives the same."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdfl_jax import Results
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.metric import CLASSES, CLIENT_BYTES, CLIENTS, ROUNDS, Metric

# The axes of a metric of each kind after the seed (E evaluations, R + 1 rounds, T = R rounds, N clients, B bytes of N
# bits), the shape with which it is declared, and the names of its axes.
METRICS = {
    "scalar": ("E", (), ("round",)),
    "of_clients": ("EN", (CLIENTS,), ("round", "client")),
    "of_five": ("EN5", (CLIENTS, 5), ("round", "client", "of_five_axis")),
    "matrix": ("E34", (3, 4), ("round", "matrix_axis", "matrix_axis_2")),
    "places": ("RN2", (ROUNDS, CLIENTS, 2), ("each_round", "client", "places_axis")),
    "by_label": ("ENCC", (CLIENTS, CLASSES, CLASSES), ("round", "client", "label", "label_2")),
    "heard": ("TNB", (ROUNDS, CLIENTS, CLIENT_BYTES), ("in_round", "client", "client_byte")),
}


def make(clients, kinds, seeds=2, evaluations=3, every=2):
    """Results with one sweep point for each number of clients; ``kinds`` are the metrics that each of them has."""
    rng = np.random.default_rng(0)
    rounds = np.arange(evaluations, dtype=np.int32) * every
    arrays = {"rounds": rounds}
    for p, (n, names) in enumerate(zip(clients, kinds)):
        sizes = {"E": evaluations, "R": rounds[-1] + 1, "T": rounds[-1], "N": n, "C": 2 + p, "B": -(-n // 8)}
        for name in names:
            size = tuple(sizes[axis] if axis in sizes else int(axis) for axis in METRICS[name][0])
            values = rng.normal(size=(seeds, *size))
            arrays[f"{p}/{name}"] = (100 * values).astype(np.int32) if name == "scalar" else values.astype(np.float32)
        arrays[f"{p}/label_counts"] = rng.integers(1, 9, (seeds, n, 2 + p)).astype(np.int32)
        arrays[f"{p}/is_mobile"] = np.ones((seeds, n), bool)
    own = [Metric(name, lambda at: None, None, shape=shape, unit="m") for name, (_, shape, _) in METRICS.items()]
    points = [{"id": f"point {p}", "overrides": {}} for p in range(len(clients))]
    summary = {"points": points, "metrics": [metric.described._asdict() for metric in own]}
    return Results({"config": {}, "seeds": [3 + s for s in range(seeds)], "name": "made"}, summary, [], arrays, None)


@settings(deadline=None, max_examples=30)  # the first one imports xarray
@given(
    points=st.lists(
        st.tuples(st.integers(1, 6), st.sets(st.sampled_from(sorted(METRICS))).map(sorted)), min_size=1, max_size=4
    ),
    seeds=st.integers(1, 3),
    evaluations=st.integers(2, 4),
)
def test_every_array_is_found_by_its_coordinates_and_the_rest_is_missing(points, seeds, evaluations):
    results = make(*zip(*points), seeds=seeds, evaluations=evaluations)
    found = results.to_xarray()
    assert set(found) == {name.partition("/")[2] for name in results.arrays} - {""}
    assert list(found.seed) == results.seeds
    for name, array in found.items():
        missing, fact = 0, name in ("label_counts", "is_mobile")
        for p, point in enumerate(results.points):
            of_point = array.sel(point=point)
            own = results.arrays.get(f"{p}/{name}")
            if own is None:
                assert np.isnan(of_point).all()
                missing += of_point.size
                continue
            part = of_point.isel({dim: slice(size) for dim, size in zip(of_point.dims, own.shape)})
            np.testing.assert_array_equal(part, own)
            missing += of_point.size - own.size
        assert int((array == 0).sum() if fact else array.isnull().sum()) == missing
        if not missing:
            assert array.dtype == own.dtype  # nothing is converted without need


def test_axes_and_coordinates_have_names():
    results = make([4, 6], [list(METRICS)] * 2)
    for name, (_, _, dims) in METRICS.items():
        array = results[name]
        assert array.dims == ("point", "seed", *dims) == results.metrics[name].dims
        assert array.shape == results.metrics[name].shape
        assert array.attrs == {"long_name": name.replace("_", " "), "units": "m"}
    assert results["label_counts"].dims == ("point", "seed", "client", "label")
    assert results["places"].sizes["client"] == 6
    assert list(results["scalar"]["round"]) == [0, 2, 4]
    assert list(results["places"]["each_round"]) == [0, 1, 2, 3, 4]
    assert list(results["heard"]["in_round"]) == [1, 2, 3, 4]
    one = results["of_clients"].sel(point="point 1", seed=4, round=2, client=5)
    assert one == results.array("of_clients", 1)[1, 1, 5]
    assert set(results.metrics) == set(METRICS)


def test_rows_of_a_part_of_a_study_stand_at_their_seeds():
    """The first point has the seeds 3 to 5, the second one only 5 and 4, in this order."""
    whole = make([4, 4], [["of_clients", "scalar"]] * 2, seeds=3)
    arrays = {name: of[[2, 1]] if name.startswith("1/") else of for name, of in whole.arrays.items()}
    points = [whole.summary["points"][0], whole.summary["points"][1] | {"seeds": [5, 4]}]
    part = Results(whole.manifest, whole.summary | {"points": points}, [], arrays, None)
    assert (part.seeds_of(0), part.seeds_of("point 1")) == ([3, 4, 5], [5, 4])
    assert part.metrics == whole.metrics
    for name in ("of_clients", "scalar", "is_mobile"):
        expected = whole[name].astype(part[name].dtype)
        expected[1, 0] = np.nan if part[name].dtype.kind == "f" else 0
        np.testing.assert_array_equal(part[name], expected)
    frames = [of.to_dataframe(per_client=True).set_index(["point", "seed", "round", "client"]) for of in (whole, part)]
    assert sorted(set(frames[1].index.droplevel(["round", "client"]))) == [
        *(("point 0", seed) for seed in (3, 4, 5)),
        *(("point 1", seed) for seed in (4, 5)),
    ]
    np.testing.assert_array_equal(frames[0].loc[frames[1].index].of_clients, frames[1].of_clients)


def test_a_mistake_is_one_line():
    results = make([4], [["scalar"]])
    with pytest.raises(UserError, match=r"unknown metric 'scalr' \(did you mean 'scalar'\?\); known: is_mobile"):
        results["scalr"]
    assert "scalar" in results
    assert "scalr" not in results
