"""The mixing rules against loops and their defining properties, on random graphs whose links fail in one direction."""

import hypothesis.extra.numpy as hnp
import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdfl_jax.networks.mixing import MIXINGS, SYMMETRIC_MIXINGS, MixingInputs, SpeedAwareNumbers, automatic_ratio
from tests.reference import mixing as oracle

RULES, RATIO = {name: jax.jit(MIXINGS[name]) for name in MIXINGS}, jax.jit(automatic_ratio)
SIZES = st.sampled_from([1, 2, 5, 20])  # few, so that few programs are compiled
CASES = settings(deadline=None, max_examples=25, derandomize=True)
TOLERANCE = {"rtol": 1e-6, "atol": 1e-6}
SPEEDS = st.one_of(st.just(0.0), st.floats(0.125, 8, width=32), st.floats(1, 200, width=32))
SAMPLES = st.one_of(st.just(0), st.integers(0, 3), st.integers(0, 60_000))


@st.composite
def graphs(draw):
    """A graph, with the links of it that hold, and what clients have."""
    n = draw(SIZES)
    upper, holds = (draw(hnp.arrays(bool, (n, n))) for _ in range(2))
    contact = np.triu(upper, 1) | np.triu(upper, 1).T
    samples, speeds = draw(hnp.arrays(np.int32, n, elements=SAMPLES)), draw(hnp.arrays(np.float32, n, elements=SPEEDS))
    return contact, contact & holds, samples, speeds, draw(st.sampled_from([0.0, 0.1, 0.4, 1.0]))


def expected(name, heard, samples, speed, ratio):
    """What a rule makes of the links; of those that keep the weights of links that failed, without these."""
    own = {"fedavg": (samples,), "speed_aware": (speed, [ratio] * len(speed))}
    return getattr(oracle, name)(heard, *own.get(name, ()))


@pytest.mark.few(3)
@pytest.mark.parametrize("name", list(MIXINGS))
@given(graphs())
@CASES
def test_every_rule_is_that_of_the_loops_with_links_lost_in_one_direction(name, case):
    contact, heard, samples, speed, ratio = case
    given_by = (samples, speed, np.float32(3), SpeedAwareNumbers(np.float32(ratio)))
    lost, whole = (np.asarray(RULES[name](MixingInputs(links, contact, *given_by))) for links in (heard, contact))
    for mix, links in ((lost, heard), (whole, contact)):
        np.testing.assert_allclose(mix.sum(1), 1.0, **TOLERANCE)
        assert (mix >= 0).all()
        assert (mix[~(links | np.eye(len(links), dtype=bool))] == 0).all()
    if name in SYMMETRIC_MIXINGS:  # what is lost goes to the receiver; the other direction is as it was
        np.testing.assert_allclose(whole, expected(name, contact, samples, speed, ratio), **TOLERANCE)
        np.testing.assert_allclose(lost[heard], whole[heard], **TOLERANCE)
        np.testing.assert_allclose(whole.sum(0), 1, **TOLERANCE)
    elif name != "speed_aware_auto":  # row i is mixed from those that i hears
        np.testing.assert_allclose(lost, expected(name, heard, samples, speed, ratio), **TOLERANCE)


def test_automatic_ratio_by_hand_and_at_its_ends():
    """A receiver at rest and one fast neighbour; c = pi R / 2, q = 50, v = (sqrt 50, sqrt 150)."""
    pair = np.array([[0, 1], [1, 0]], bool)
    slope = (np.sqrt(150) - np.sqrt(50)) / 10
    expected = slope * 5 / (np.pi * 4 / 2 + (np.sqrt(150) + np.sqrt(50)) / 2)
    np.testing.assert_allclose(RATIO(pair, np.array([0.0, 10.0]), 4.0), expected, rtol=1e-5)
    for speed, radius in (([0.0, 10.0], np.inf), ([7.0, 7.0], 4.0), ([0.0, 0.0], 0.0)):
        np.testing.assert_array_equal(RATIO(pair, np.array(speed), radius), 0)
    few, full = np.array([1, 1, 1, 30.0]), ~np.eye(4, dtype=bool)
    alike = float(RATIO(full, few, 10.0)[0])
    own = np.asarray(RATIO(full, few, np.array([10.0, 20.0, 5.0, 10.0])))  # a radius a receiver
    np.testing.assert_allclose(own[[0, 3]], alike, rtol=1e-5)
    assert own[1] < alike < own[2]
