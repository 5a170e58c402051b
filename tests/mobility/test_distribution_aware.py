"""`destination_probabilities` (MADFL eq. 9-11 and 13) against the loop oracle and worked examples."""

import hypothesis.extra.numpy as hnp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracles import grid_world

from mdfl_jax.mobility.label_distances import destination_probabilities

JIT_PROBABILITIES = jax.jit(destination_probabilities)
GRID = grid_world.square_grid(5)
LINE = np.array([(1, 1), (1, 2), (1, 3)])
NUM_STATIC, NUM_CLASSES = 4, 3
RADII = [0.0, 1.0, float(np.sqrt(2)), 2.0, 3.0, np.inf]
CASES = settings(deadline=None, max_examples=150, derandomize=True)
TOLERANCE = {"rtol": 1e-4, "atol": 1e-6}


def probabilities(location, own_counts, static_position, static_counts, grid, radius, candidates):
    """The function under test with the types that the simulator gives it."""
    got = JIT_PROBABILITIES(
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


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("radius", [1.0, 3.0, 5.0])
def test_world_of_the_paper(seed, radius):
    """18 x 18 places, 15 static clients, 10 classes, MNIST-sized counts; over all places and over a few candidates."""
    rng = np.random.default_rng(seed)
    grid = grid_world.square_grid(18)
    static_counts = np.stack([rng.multinomial(3_000, rng.dirichlet(np.full(10, 0.1))) for _ in range(15)])
    static_position = grid[rng.integers(0, len(grid), 15)]
    own_counts = rng.multinomial(3_001, rng.dirichlet(np.full(10, 0.1)))
    few = np.zeros(len(grid), bool)
    few[rng.choice(len(grid), 8, replace=False)] = True
    for candidates in (np.ones(len(grid), bool), few):
        world = (int(rng.integers(0, len(grid))), own_counts, static_position, static_counts, grid, radius, candidates)
        np.testing.assert_allclose(probabilities(*world), grid_world.destination_probabilities(*world), **TOLERANCE)


def test_line_by_hand():
    """Histograms (1, 0), (0, 1), (1/2, 1/2): distances from the first are 0, sqrt(2) and sqrt(1/2)."""
    world = ([0, 0], LINE, [[4, 0], [0, 4], [2, 2]], LINE, 0.0)
    np.testing.assert_allclose(probabilities(0, *world, [True, True, True]), [0, 2 / 3, 1 / 3], **TOLERANCE)
    np.testing.assert_allclose(probabilities(2, *world, [True, True, True]), [1 / 2, 1 / 2, 0], **TOLERANCE)


def test_own_samples_count_everywhere():
    """Own counts (2, 0): histograms (1, 0), (1/2, 1/2), (1, 0), so that only the middle differs from the first."""
    world = ([2, 0], LINE, [[3, 0], [0, 2], [7, 0]], LINE, 0.0)
    np.testing.assert_allclose(probabilities(0, *world, [True, True, True]), [0, 1, 0], **TOLERANCE)
    np.testing.assert_allclose(probabilities(1, *world, [True, True, True]), [1 / 2, 0, 1 / 2], **TOLERANCE)


def test_present_place_is_the_reference_even_if_no_candidate():
    world = ([0, 0], LINE, [[4, 0], [0, 4], [2, 2]], LINE, 0.0)
    np.testing.assert_allclose(probabilities(1, *world, [True, False, True]), [2 / 3, 0, 1 / 3], **TOLERANCE)


def test_only_candidates_decide_whether_all_distances_are_zero():
    """From the first place, the other two candidates have its histogram; the non-candidate does not matter."""
    line = np.array([(1, 1), (1, 2), (1, 3), (1, 4)])
    world = ([0, 0], line, [[1, 0], [0, 1], [1, 0], [1, 0]], line, 0.0)
    np.testing.assert_allclose(probabilities(0, *world, [0, 0, 1, 1]), [0, 0, 1 / 2, 1 / 2], **TOLERANCE)
    np.testing.assert_allclose(probabilities(0, *world, [1, 0, 1, 0]), [1 / 2, 0, 1 / 2, 0], **TOLERANCE)
    np.testing.assert_allclose(probabilities(0, *world, [1, 1, 1, 1]), [0, 1, 0, 0], **TOLERANCE)


def test_present_place_as_the_only_candidate():
    world = ([1, 0], LINE, [[4, 0], [0, 4], [2, 2]], LINE, 0.0)
    np.testing.assert_allclose(probabilities(1, *world, [False, True, False]), [0, 1, 0], **TOLERANCE)


def test_place_without_any_sample_has_a_histogram_of_zeros():
    world = ([0, 0], LINE[:1], [[3, 0]], LINE, 0.0)
    np.testing.assert_allclose(probabilities(1, *world, [True, True, True]), [1, 0, 0], **TOLERANCE)
    np.testing.assert_allclose(probabilities(0, *world, [True, True, True]), [0, 1 / 2, 1 / 2], **TOLERANCE)


def test_no_sample_anywhere_is_uniform():
    world = (3, np.zeros(3, int), GRID[:4], np.zeros((4, 3), int), GRID, 2.0)
    np.testing.assert_allclose(probabilities(*world, np.ones(25, bool)), np.full(25, 1 / 25), **TOLERANCE)
    np.testing.assert_allclose(probabilities(*world, np.arange(25) < 2), (np.arange(25) < 2) / 2, **TOLERANCE)


def test_infinite_radius_is_uniform():
    rng = np.random.default_rng(0)
    world = (7, rng.integers(0, 9_999, 3), GRID[:4], rng.integers(0, 9_999, (4, 3)), GRID, np.inf)
    np.testing.assert_allclose(probabilities(*world, np.ones(25, bool)), np.full(25, 1 / 25), **TOLERANCE)


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


@pytest.mark.parametrize("other", [41, 47, 55, 6_131])
def test_clients_of_one_class_are_alike_however_many_samples(other):
    """Small shares of label-Dirichlet data: everyone in sight holds one and the same class, so all places are alike."""
    world = ([2, 0], LINE, [[3, 0], [1, 0], [other - 2, 0]], LINE, 0.0)
    for location in range(3):
        np.testing.assert_allclose(probabilities(location, *world, [True] * 3), np.full(3, 1 / 3), **TOLERANCE)
        np.testing.assert_allclose(probabilities(location, *world, [0, 1, 1]), [0, 1 / 2, 1 / 2], **TOLERANCE)


def test_one_sample_among_many_is_a_distance():
    """A histogram that differs by one sample in 60,001 draws all the probability when the others are equal."""
    world = ([30_000, 30_000], LINE[:1], [[1, 0]], LINE, 0.0)
    np.testing.assert_allclose(probabilities(1, *world, [True, True, True]), [1, 0, 0], **TOLERANCE)


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


def test_maps_over_mobile_clients_and_compiles_once():
    traces = 0

    def counted(*arguments):
        nonlocal traces
        traces += 1
        return destination_probabilities(*arguments)

    rng = np.random.default_rng(1)
    location, own_counts = jnp.arange(6), jnp.asarray(rng.integers(0, 5, (6, 3)))
    static_position, static_counts = (
        jnp.asarray(GRID[[0, 7, 7, 24]], jnp.float32),
        jnp.asarray(rng.integers(0, 5, (4, 3))),
    )
    candidates, grid = jnp.ones(25, bool), jnp.asarray(GRID, jnp.float32)
    mapped = jax.jit(jax.vmap(counted, in_axes=(0, 0, None, None, None, None, None)))
    for radius in (1.0, 2.0, jnp.inf):
        got = mapped(location, own_counts, static_position, static_counts, grid, radius, candidates)
        for i in range(6):
            world = (i, own_counts[i], GRID[[0, 7, 7, 24]], static_counts, GRID, radius, candidates)
            np.testing.assert_allclose(got[i], grid_world.destination_probabilities(*world), **TOLERANCE)
    assert traces == 1
