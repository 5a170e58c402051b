"""The mixing rules against the loop oracles and their defining properties, on random graphs."""

import hypothesis.extra.numpy as hnp
import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdfl_jax.networks.mixing import (
    MIXINGS,
    SYMMETRIC_MIXINGS,
    MixingInputs,
    SpeedAwareNumbers,
    automatic_ratio,
    fedavg,
    metropolis_hastings,
    speed_aware,
    uniform,
)
from tests.reference import mixing as oracle

JIT_METROPOLIS_HASTINGS = jax.jit(metropolis_hastings)
JIT_FEDAVG = jax.jit(fedavg)
JIT_UNIFORM, JIT_SPEED_AWARE, JIT_RATIO = jax.jit(uniform), jax.jit(speed_aware), jax.jit(automatic_ratio)
JIT_RULES = {name: jax.jit(MIXINGS[name]) for name in MIXINGS}
SIZES = st.sampled_from([1, 2, 5, 20])  # few, so that few programs are compiled
CASES = settings(deadline=None, max_examples=60, derandomize=True)
TOLERANCE = {"rtol": 1e-6, "atol": 1e-6}


@st.composite
def directed_graphs(draw):
    n = draw(SIZES)
    return draw(hnp.arrays(bool, (n, n))) & ~np.eye(n, dtype=bool)


@st.composite
def graphs(draw):
    upper = np.triu(draw(directed_graphs()), 1)
    return upper | upper.T


@st.composite
def graphs_and_sizes(draw, graph):
    adjacency = draw(graph)
    samples = st.one_of(st.just(0), st.integers(0, 3), st.integers(0, 60_000))
    return adjacency, draw(hnp.arrays(np.int32, len(adjacency), elements=samples, fill=st.nothing()))


def assert_stochastic(mix, adjacency):
    linked = adjacency | np.eye(len(adjacency), dtype=bool)
    np.testing.assert_allclose(mix.sum(1), 1.0, **TOLERANCE)
    assert (mix >= 0).all()
    assert (mix[~linked] == 0).all()


@given(graphs())
@CASES
def test_metropolis_hastings_equals_the_oracle(adjacency):
    got = JIT_METROPOLIS_HASTINGS(adjacency)
    np.testing.assert_allclose(got, oracle.metropolis_hastings(adjacency), **TOLERANCE)


@given(graphs_and_sizes(directed_graphs()))
@CASES
def test_fedavg_row_is_the_receiver(case):
    """With links of one direction, row i is mixed from those that i hears: adjacency[i, j] lets i hear j."""
    adjacency, num_samples = case
    mix = np.asarray(JIT_FEDAVG(adjacency, num_samples))
    assert_stochastic(mix, adjacency)
    np.testing.assert_allclose(mix, oracle.fedavg(adjacency, num_samples), **TOLERANCE)


@st.composite
def graphs_and_speeds(draw, graph):
    adjacency = draw(graph)
    speeds = st.one_of(st.just(0.0), st.floats(0.125, 8, width=32), st.floats(1, 200, width=32))
    return adjacency, draw(hnp.arrays(np.float32, len(adjacency), elements=speeds, fill=st.nothing()))


@given(graphs_and_speeds(directed_graphs()), st.sampled_from([0.0, 0.1, 0.4, 1.0]))
@CASES
def test_speed_aware_equals_the_oracle(case, ratio):
    adjacency, speed = case
    mix = np.asarray(JIT_SPEED_AWARE(adjacency, speed, ratio))
    assert_stochastic(mix, adjacency)
    np.testing.assert_allclose(mix, oracle.speed_aware(adjacency, speed, [ratio] * len(speed)), **TOLERANCE)
    np.testing.assert_allclose(JIT_UNIFORM(adjacency), oracle.uniform(adjacency), **TOLERANCE)
    if ratio == 0 or not speed.any():
        np.testing.assert_allclose(mix, oracle.uniform(adjacency), **TOLERANCE)


@given(graphs_and_speeds(directed_graphs()), st.sampled_from([0.0, 1.0, 45.0]))
@CASES
def test_automatic_ratio_is_the_least_squares_one(case, radius):
    adjacency, speed = case
    ratio = np.asarray(JIT_RATIO(adjacency, speed, radius))
    assert ((ratio >= 0) & (ratio <= 1)).all()
    expected = oracle.automatic_ratio(adjacency, speed, radius)
    closed = adjacency | np.eye(len(speed), dtype=bool)
    spread = np.array([np.ptp(speed[row]) / max(speed[row].max(), 1e-9) for row in closed])
    clear = spread > 0.05  # a regression on nearly equal speeds is rounding, and weighs nothing
    np.testing.assert_allclose(ratio[clear], expected[clear], rtol=2e-3, atol=2e-3)


def test_automatic_ratio_by_hand_and_at_its_ends():
    """A receiver at rest and one fast neighbour; c = pi R / 2, q = 50, v = (sqrt 50, sqrt 150)."""
    pair = np.array([[0, 1], [1, 0]], bool)
    slope = (np.sqrt(150) - np.sqrt(50)) / 10
    expected = slope * 5 / (np.pi * 4 / 2 + (np.sqrt(150) + np.sqrt(50)) / 2)
    np.testing.assert_allclose(JIT_RATIO(pair, np.array([0.0, 10.0]), 4.0), expected, rtol=1e-5)
    np.testing.assert_array_equal(JIT_RATIO(pair, np.array([0.0, 10.0]), np.inf), 0)
    np.testing.assert_array_equal(JIT_RATIO(pair, np.array([7.0, 7.0]), 4.0), 0)
    np.testing.assert_array_equal(JIT_RATIO(pair, np.zeros(2), 0.0), 0)
    few, many = np.array([1, 1, 1, 30.0]), np.array([1, 30.0, 30.0, 30.0])
    full = ~np.eye(4, dtype=bool)
    ratios = [float(JIT_RATIO(full, speed, 10.0)[0]) for speed in (few, many)]
    assert 0 < ratios[1] < 1
    own = np.asarray(JIT_RATIO(full, few, np.array([10.0, 20.0, 5.0, 10.0])))  # a radius a receiver
    np.testing.assert_allclose(own[[0, 3]], ratios[0], rtol=1e-5)
    assert own[1] < ratios[0] < own[2]


def heard(adjacency, contact, seed=0):
    rng = np.random.default_rng(seed)
    samples, speed = rng.integers(0, 9, len(adjacency)), rng.uniform(0, 9, len(adjacency)).astype(np.float32)
    return MixingInputs(adjacency, contact, samples, speed, np.float32(3), SpeedAwareNumbers(np.float32(0.4)))


@pytest.mark.few(3)
@pytest.mark.parametrize("name", list(MIXINGS))
@given(graphs(), st.integers(0, 1000))
@settings(deadline=None, max_examples=15, derandomize=True)
def test_every_rule_is_row_stochastic_with_links_lost_in_one_direction(name, contact, seed):
    holds = np.random.default_rng(seed).random(contact.shape) < 0.6
    mix = np.asarray(JIT_RULES[name](heard(contact & holds, contact)))
    assert_stochastic(mix, contact & holds)
    whole = np.asarray(JIT_RULES[name](heard(contact, contact)))
    assert_stochastic(whole, contact)
    if name in SYMMETRIC_MIXINGS:  # what is lost goes to the receiver; the other direction is as it was
        np.testing.assert_allclose(mix[contact & holds], whole[contact & holds], **TOLERANCE)
        np.testing.assert_allclose(whole.sum(0), 1, **TOLERANCE)
