"""Messages that carry the coordinates that changed most: against NumPy, over matrices and lists; whole ones as ever."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import largest as oracle

from mdfl_jax.algorithms import ALGORITHMS, numbers_of
from mdfl_jax.algorithms.local import Settings
from mdfl_jax.core.links import ALL_PAIRS, as_senders
from mdfl_jax.core.message_bits import count_within, sparse_bits, total_bits, words
from mdfl_jax.core.types import Links
from mdfl_jax.exchange.largest import in_parts
from mdfl_jax.networks.costs import CostParams, airtime, budgets, received_bits
from tests.reference import mixing

N, SIZE, ROUNDS, LR = 6, 33, 4, 0.1
SETTINGS = Settings()
ALGORITHM = in_parts(ALGORITHMS["dpsgd"](SETTINGS), SETTINGS.part)
NUMBERS = numbers_of("dpsgd", lr=LR)


@jax.jit
def rounds_of(mixes, adjacencies, budgets, first, gradients, ids=None, back=None):
    """The models after each round, what was last sent, the bits of senders and links, and who received how many."""
    senders = ALL_PAIRS if ids is None else ALL_PAIRS._replace(ids=ids, back=back, most=jnp.int32(0))

    def step(state, given):
        mix, adjacency, budget, found = given
        links = Links(adjacency, mix, senders=senders, budget=budget)
        gradient = lambda params, key: (jnp.zeros(N), {"w": found})  # noqa: E731
        state, stats = ALGORITHM.round(NUMBERS.typed(), jax.random.key(0), state, links, gradient)
        heard = stats.heard._replace(rate=jnp.full(adjacency.shape, 4.0))
        sent = words(stats.bits)[:, 0] * 2.0**16 + words(stats.bits)[:, 1]
        seconds = airtime(CostParams(), stats.messages, sent, heard)
        return state, (state.inner.params["w"], state.last, words(stats.bits), received_bits(sent, heard), seconds)

    return jax.lax.scan(step, ALGORITHM.init(NUMBERS, {"w": first}), (mixes, adjacencies, budgets, gradients))[1]


def drawn(seed, whole=False):
    rng = np.random.default_rng(seed)
    pairs = np.triu(rng.random((ROUNDS, N, N)) < 0.6, 1)
    budget = np.triu(rng.integers(38, SIZE * 32 + 80, (ROUNDS, N, N)), 1).astype(np.float32)
    adjacency, budget = (x | x.swapaxes(1, 2) if x.dtype == bool else x + x.swapaxes(1, 2) for x in (pairs, budget))
    budget = np.where(whole | (budget >= SIZE * 32), np.inf, budget).astype(np.float32)
    mix = np.array([mixing.metropolis_hastings(a) for a in adjacency], np.float32)
    first = np.broadcast_to(rng.normal(size=SIZE), (N, SIZE)).astype(np.float32)
    return mix, adjacency, budget, first, rng.normal(size=(ROUNDS, N, SIZE)).astype(np.float32)


@pytest.mark.parametrize("listed", [False, True], ids=["matrices", "lists"])
def test_rounds_of_parts_are_those_of_numpy(listed):
    mix, adjacency, budget, first, gradients = drawn(1)
    if listed:
        everybody = as_senders(np.tile(np.arange(N), (N, 1)), ~np.eye(N, dtype=bool), np.full(N, N - 1))
        ids, back = np.asarray(everybody.ids), np.asarray(everybody.back)
        to = lambda x: np.stack([np.take_along_axis(one, ids, axis=1) for one in x])  # noqa: E731
        found = rounds_of(to(mix), to(adjacency), to(budget), first, gradients, ids, back)
    else:
        found = rounds_of(mix, adjacency, budget, first, gradients)
    x, last = first.astype(float), first.astype(float)
    parts = 0
    for r, (models, sent, counted, received, seconds) in enumerate(zip(*map(np.asarray, found))):
        x, last, bits = oracle.mixed(mix[r], budget[r], adjacency[r], x - LR * gradients[r], last)
        np.testing.assert_allclose(models, x, rtol=2e-5, atol=2e-6)
        np.testing.assert_allclose(sent, last, rtol=2e-5, atol=2e-6)
        np.testing.assert_array_equal(total_bits(counted), bits.sum(axis=0))
        np.testing.assert_array_equal(received, bits.sum(axis=1))
        np.testing.assert_allclose(seconds, bits.sum(axis=0) / 4, rtol=1e-6)
        parts += ((bits > 0) & (bits < SIZE * 32)).sum()
    assert parts > 20


def test_whole_models_are_mixed_as_without_parts():
    mix, adjacency, budget, first, gradients = drawn(2, whole=True)
    models, last, *_ = rounds_of(mix, adjacency, budget, first, gradients)
    plain, state = ALGORITHMS["dpsgd"](SETTINGS), {"w": jnp.asarray(first)}
    state = plain.init(NUMBERS, state)
    step = jax.jit(plain.round, static_argnums=4)
    for r in range(ROUNDS):
        gradient = lambda params, key, r=r: (jnp.zeros(N), {"w": jnp.asarray(gradients[r])})  # noqa: E731
        state, _ = step(NUMBERS.typed(), jax.random.key(0), state, Links(adjacency[r], jnp.asarray(mix[r])), gradient)
        np.testing.assert_array_equal(models[r], state.params["w"])
    assert (np.asarray(last[-1]) != first).all()


@given(st.integers(1, 400), st.integers(0, 400 * 34), st.sampled_from([32, 64]))
@settings(deadline=None, max_examples=200, derandomize=True)
def test_a_message_fills_its_budget_and_no_more(size, budget, width):
    count = int(count_within(size, jnp.float32(budget), width))
    assert count == oracle.fitting(size, budget, width)
    assert total_bits(words(sparse_bits(size, count, width))) == oracle.message_bits(size, count, width) <= budget


def test_messages_of_more_bits_than_an_int32_counts():
    assert count_within(70_000_000, jnp.array([jnp.inf, 0.0]), 32).tolist() == [70_000_000, 0]


def test_a_contact_carries_the_bits_of_its_seconds():
    cost = CostParams(bandwidth=100.0, latency=0.5, link_bits=1000.0)
    found = budgets(cost, jnp.array([0.2, 0.5, 2.5, 10.4, 10.5]))
    np.testing.assert_allclose(found, [0, 0, 200, 990, np.inf], rtol=1e-6)
    found = budgets(cost, jnp.array([2.5, 2.5]), jnp.array([10.0, 1000.0]))
    np.testing.assert_allclose(found, [20, np.inf], rtol=1e-6)
