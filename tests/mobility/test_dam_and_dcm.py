"""The probabilities of the next destination (MADFL eq. 9-11 and 13) against the loop oracle and worked examples."""

import hypothesis.extra.numpy as hnp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracles import grid_world

from mdfl_jax.mobility.label_distances import counts_in_range, probabilities_from_counts

GRID = grid_world.square_grid(5)
NUM_STATIC, NUM_CLASSES = 4, 3
RADII = [0.0, 1.0, float(np.sqrt(2)), 2.0, 3.0, np.inf]
CASES = settings(deadline=None, max_examples=150, derandomize=True)
TOLERANCE = {"rtol": 1e-4, "atol": 1e-6}


@jax.jit
def compiled(location, own_counts, static_position, static_counts, grid, radius, candidates):
    near = counts_in_range(static_position, static_counts, grid, radius)
    return probabilities_from_counts(location, own_counts, near, candidates)


def probabilities(location, own_counts, static_position, static_counts, grid, radius, candidates):
    """The function under test with the types that the simulator gives it."""
    got = compiled(
        jnp.int32(location),
        jnp.asarray(own_counts, jnp.int32),
        jnp.asarray(static_position, jnp.float32),
        jnp.asarray(static_counts, jnp.int32),
        jnp.asarray(grid, jnp.float32),
        radius,
        jnp.asarray(candidates, bool),
    )
    return np.asarray(got)


def histograms(places):
    """Counts [places, NUM_CLASSES], many of them zero; now and then thousands, as of MNIST."""
    element = st.one_of(st.just(0), st.integers(0, 4), st.integers(0, 7_000))
    return hnp.arrays(np.int64, (places, NUM_CLASSES), elements=element, fill=st.nothing())


@st.composite
def worlds(draw):
    static_position = GRID[draw(hnp.arrays(np.int64, NUM_STATIC, elements=st.integers(0, len(GRID) - 1)))]
    candidates = draw(st.one_of(st.just(np.ones(len(GRID), bool)), hnp.arrays(bool, len(GRID)).filter(np.any)))
    return {
        "location": draw(st.integers(0, len(GRID) - 1)),
        "own_counts": draw(histograms(1))[0],
        "static_position": static_position,
        "static_counts": draw(histograms(NUM_STATIC)),
        "grid": GRID,
        "radius": draw(st.sampled_from(RADII)),
        "candidates": candidates,
    }


@given(worlds())
@CASES
def test_equals_the_oracle(world):
    """Distances below 1e-5, a matter of one sample in tens of thousands, are left out: single precision blurs them."""
    distances = grid_world.distribution_distances(**{k: v for k, v in world.items() if k != "candidates"})
    assume(distances.max() == 0 or distances[distances > 0].min() > 1e-5)
    got = probabilities(**world)
    assert got.shape == (len(GRID),)
    assert np.isfinite(got).all()
    assert (got >= 0).all()
    assert (got[~world["candidates"]] == 0).all()
    np.testing.assert_allclose(got.sum(), 1.0, rtol=1e-5)
    total = distances[world["candidates"]].sum()
    blur = 3e-7 / total if total else 0.0  # that of the distances, in single precision, as one of the probabilities
    np.testing.assert_allclose(got, grid_world.destination_probabilities(**world), rtol=1e-4, atol=1e-6 + blur)


LONG_LINE = np.array([(1, q) for q in range(1, 5)])
BY_HAND = {  # own counts; counts at each point of a line, in the disc of radius 0; here; candidates; probabilities
    "histograms (1, 0), (0, 1), (1/2, 1/2)": ([0, 0], [[4, 0], [0, 4], [2, 2]], 0, [1, 1, 1], [0, 2 / 3, 1 / 3]),
    "from the last": ([0, 0], [[4, 0], [0, 4], [2, 2]], 2, [1, 1, 1], [1 / 2, 1 / 2, 0]),
    "own samples count everywhere": ([2, 0], [[3, 0], [0, 2], [7, 0]], 1, [1, 1, 1], [1 / 2, 0, 1 / 2]),
    "here is the reference, though no candidate": ([0, 0], [[4, 0], [0, 4], [2, 2]], 1, [1, 0, 1], [2 / 3, 0, 1 / 3]),
    "candidates alike": ([0, 0], [[1, 0], [0, 1], [1, 0], [1, 0]], 0, [0, 0, 1, 1], [0, 0, 1 / 2, 1 / 2]),
    "here as the only candidate": ([1, 0], [[4, 0], [0, 4], [2, 2]], 1, [0, 1, 0], [0, 1, 0]),
    "points without samples": ([0, 0], [[3, 0], [0, 0], [0, 0]], 0, [1, 1, 1], [0, 1 / 2, 1 / 2]),
    "no sample anywhere": ([0, 0], [[0, 0], [0, 0], [0, 0]], 0, [1, 1, 0], [1 / 2, 1 / 2, 0]),
    "one class, many samples": ([2, 0], [[3, 0], [1, 0], [6_129, 0]], 0, [1, 1, 1], [1 / 3, 1 / 3, 1 / 3]),
    "one sample among many": ([30_000, 30_000], [[1, 0], [0, 0], [0, 0]], 1, [1, 1, 1], [1, 0, 0]),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_by_hand(name):
    own, counts, here, candidates, expected = BY_HAND[name]
    line = LONG_LINE[: len(counts)]
    np.testing.assert_allclose(probabilities(here, own, line, counts, line, 0.0, candidates), expected, **TOLERANCE)


@pytest.mark.parametrize("seed", range(5))
def test_equal_proportions_are_exactly_no_distance(seed):
    """Counts (a, b, c) times 1, 2, ... are one histogram: rounding must not make a preference out of them."""
    rng = np.random.default_rng(seed)
    size = 60
    line = np.array([(1, q) for q in range(1, size + 1)])
    base = rng.integers(1, 120, 3)
    factors = rng.integers(1, 60, size)
    world = (0, [0, 0, 0], line, factors[:, None] * base, line, 0.0, np.ones(size, bool))
    np.testing.assert_allclose(probabilities(*world), np.full(size, 1 / size), **TOLERANCE)


@pytest.mark.parametrize(("radius", "reached"), [(5.0, True), (4.999, False)])
def test_contact_range_is_exact(radius, reached):
    """From (2, 2) a static client on (5, 6), a 3-4-5 triangle away, counts at radius 5, as it does for contact."""
    grid = grid_world.square_grid(6)
    here = next(index for index, place in enumerate(grid) if tuple(place) == (2, 2))
    world = (here, [1, 1], [(5, 6)], [[5, 0]], grid, radius, np.ones(36, bool))
    got = probabilities(*world)
    np.testing.assert_allclose(got, grid_world.destination_probabilities(*world), **TOLERANCE)
    assert (got[0] > 1e-3) == reached  # (1, 1) is out of reach either way: another histogram only if (2, 2) is within
    assert (got[-1] > 1e-3) != reached  # (6, 6) is within either way
