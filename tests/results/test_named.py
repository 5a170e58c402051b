"""Arrays with named axes, made of arrays by number: a slow loop gives the same."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mdfl_jax import Results
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


def test_attackers_are_in_no_mean_of_accuracies_but_among_all_values():
    results, rng = make([4], [()]), np.random.default_rng(1)
    accuracy, stands_for = rng.random((2, 3, 4)).astype(np.float32), np.ones((2, 3, 4), np.float32)
    stands_for[1, 1:, 2] = 0  # client 2 attacks in one run, from the second evaluation on
    results.summary["metrics"].append(Metric("evaluated", lambda at: None, None).described._asdict())
    results.arrays.update({"0/accuracy": accuracy, "0/evaluated": stands_for, "0/messages": accuracy})
    honest = np.nanmean(np.where(stands_for > 0, accuracy, np.nan), axis=2)
    np.testing.assert_allclose(results.accuracy.mean("client")[0], honest)
    of_clients = results.to_dataframe(per_client=True).groupby(["seed", "round"])
    np.testing.assert_allclose(of_clients.accuracy.mean(), honest.ravel(), rtol=1e-6)
    np.testing.assert_array_equal(results.array("accuracy"), accuracy)
    np.testing.assert_array_equal(results["messages"][0], accuracy)  # what attackers have sent counts
