"""What is judged in single precision: contacts as long as a message, works as long as a deadline; speeds as drawn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mdfl_jax import UserError
from mdfl_jax.core.links import ALL_PAIRS
from mdfl_jax.core.types import FIXED
from mdfl_jax.networks import fixed_graph, spatial
from mdfl_jax.networks import given as given_matrices
from mdfl_jax.networks.costs import SHORT_CONTACTS, CostParams, Work, client_speeds, in_time, link_filter


def test_a_message_as_long_as_the_contact_is_carried():
    """Ten rounds of 0.1 s are one second, also in single precision."""
    rule = SHORT_CONTACTS["resume"]
    state, one = rule.init(2, 0), np.full((2, 2), 0.1, np.float32)
    found = []
    for _ in range(20):
        carries, state = rule.step(jnp.float32(1.0), state, jnp.ones((2, 2), bool), one, ALL_PAIRS)
        found.append(bool(carries[0, 1]))
    assert np.flatnonzero(found).tolist() == [9, 19]
    assert SHORT_CONTACTS["drop"].step(jnp.float32(0.1), None, jnp.ones((2, 2), bool), one, ALL_PAIRS)[0].all()


@pytest.mark.parametrize(("each", "count"), [(0.6, 7), (0.1, 3), (0.01, 20)])
def test_who_ends_at_the_deadline_is_in_time(each, count):
    """0.6 s times 7 is more than 4.2 s in single precision."""
    cost, held = CostParams(np.float32(each), deadline=np.float32(each * count)), jnp.array([count, count + 1])
    assert in_time(cost, Work(), jax.random.key(0), held).tolist() == [True, False]


def test_promises_and_refusals():
    assert link_filter(Work()) is None
    assert FIXED in spatial(4, 3, ("static",), link_filter=link_filter(Work(), deadline=True)).gives
    assert FIXED not in spatial(4, 3, ("static",), link_filter=link_filter(Work(), "drop")).gives
    with pytest.raises(UserError, match="unknown rule for short contacts 'dorp'"):
        link_filter(Work(), "dorp")
    with pytest.raises(UserError, match="no contact durations"):
        fixed_graph(5, "ring", link_filter=link_filter(Work(), "resume"))
    with pytest.raises(UserError, match=r"cost\.deadline needs links"):
        given_matrices(np.eye(3), link_filter=link_filter(Work(), deadline=True))


def test_speeds_have_mean_one_and_are_the_seeds():
    params = CostParams(speed_spread=np.float32(0.5))
    draw = lambda seed: np.asarray(client_speeds(params, jax.random.key(seed), 20_000))  # noqa: E731
    speeds = draw(3)
    np.testing.assert_array_equal(speeds, draw(3))
    assert (speeds != draw(4)).all()
    assert abs(speeds.mean() - 1) < 4.5 * speeds.std() / np.sqrt(20_000)
    assert abs(np.log(speeds).std() - 0.5) < 0.02
    assert (client_speeds(CostParams(), jax.random.key(0), 5) == 1).all()
    dealt = [sorted(np.asarray(client_speeds(CostParams(speed_ratio=4.0), jax.random.key(k), 7))) for k in (0, 1)]
    assert dealt == [[1 / 16, 1 / 16, 1 / 4, 1 / 4, 1, 1, 1]] * 2
    np.testing.assert_array_equal(client_speeds(CostParams(speeds=[2, 0.5]), jax.random.key(0), 2), [2, 0.5])
