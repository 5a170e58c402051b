"""Messages that carry the coordinates that changed most: how many fit. The reference has what becomes of them."""

import math

import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mdfl_jax.core.message_bits import count_within, sparse_bits, total_bits, words
from mdfl_jax.networks.costs import CostParams, budgets


def message_bits(size, count, width):
    """The bits of ``count`` values and of their indices, as a list or a bitmap, whichever is shorter."""
    indices = 0 if count in (0, size) else min(count * max(math.ceil(math.log2(size)), 1), size)
    return count * width + indices


@given(st.integers(1, 400), st.integers(0, 400 * 34), st.sampled_from([32, 64]))
@settings(deadline=None, max_examples=200, derandomize=True)
def test_a_message_fills_its_budget_and_no_more(size, budget, width):
    count = int(count_within(size, jnp.float32(budget), width))
    assert count == max(c for c in range(size + 1) if message_bits(size, c, width) <= budget)
    assert total_bits(words(sparse_bits(size, count, width))) == message_bits(size, count, width) <= budget


def test_messages_of_more_bits_than_an_int32_counts():
    assert count_within(70_000_000, jnp.array([jnp.inf, 0.0]), 32).tolist() == [70_000_000, 0]


def test_a_contact_carries_the_bits_of_its_seconds():
    cost = CostParams(bandwidth=100.0, latency=0.5, link_bits=1000.0)
    found = budgets(cost, jnp.array([0.2, 0.5, 2.5, 10.4, 10.5]))
    np.testing.assert_allclose(found, [0, 0, 200, 990, np.inf], rtol=1e-6)
    found = budgets(cost, jnp.array([2.5, 2.5]), jnp.array([10.0, 1000.0]))
    np.testing.assert_allclose(found, [20, np.inf], rtol=1e-6)
