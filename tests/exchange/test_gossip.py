"""Mixing over neighbour lists against the dense product: values and gradients, and never a sender cut off."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdfl_jax.exchange.gossip import (
    listed_sums,
    mix,
    mix_dense,
    mix_listed,
    neighbour_list,
)
from mdfl_jax.networks.mixing import fedavg, metropolis_hastings

CASES = settings(deadline=None, max_examples=25, derandomize=True)
TOLERANCE = {"rtol": 1e-5, "atol": 1e-6}
BOUNDS = {5: (2,), 12: (3, 11)}  # few, so that few programs are compiled
MIX = jax.jit(mix, static_argnums=2)
DENSE = jax.jit(mix_dense)
RULES = {"metropolis_hastings": jax.jit(lambda a, n: metropolis_hastings(a)), "fedavg": jax.jit(fedavg)}


@partial(jax.jit, static_argnums=2)
def listed(weights, params, bound):
    """The lists, and what they make of the models."""
    neighbours = neighbour_list(weights, bound)
    return neighbours, mix_listed(neighbours, params)


def circulant(n, degree):
    """Adjacency in which everybody hears the ``degree`` / 2 next on either side."""
    apart = np.abs(np.arange(n)[:, None] - np.arange(n))
    near = np.minimum(apart, n - apart)
    return (near > 0) & (near <= degree // 2)


def models(n, seed=0, dtype=np.float32):
    """A tree of leaves with no, one and two axes besides the clients'."""
    rng = np.random.default_rng(seed)
    return {name: jnp.asarray(rng.normal(size=(n, *s)), dtype) for name, s in {"a": (3, 2), "b": (4,), "c": ()}.items()}


def assert_equal(ours, theirs, **tolerance):
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, **(tolerance or TOLERANCE))


@st.composite
def mixes(draw):
    """Weights [N, N] of a random graph: thinned circulants of any degree, relabelled; some clients without samples."""
    n = draw(st.sampled_from(sorted(BOUNDS)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    keep = np.triu(rng.random((n, n)) < draw(st.sampled_from([0.3, 0.8, 1.0])), 1)
    order = rng.permutation(n)
    adjacency = (circulant(n, draw(st.integers(0, n))) & (keep | keep.T))[order][:, order]
    num_samples = rng.integers(0, 4, n).astype(np.int32)
    return RULES[draw(st.sampled_from(sorted(RULES)))](adjacency, num_samples)


@given(mixes(), st.integers(0, 99))
@CASES
def test_lists_and_choice_equal_the_dense_product(weights, seed):
    """`mix` at bounds below, at and above the degree; the lists by themselves wherever they hold every sender."""
    n, heard = len(weights), np.count_nonzero(weights, axis=1)
    params = models(n, seed)
    exact = jax.tree.map(lambda x: np.einsum("ij,j...->i...", np.asarray(weights, float), np.asarray(x, float)), params)
    assert_equal(DENSE(weights, params), exact)
    for bound in BOUNDS[n]:
        neighbours, mixed = listed(weights, params, bound)
        assert int(neighbours.most) == heard.max()
        assert neighbours.sender.shape == neighbours.weight.shape == (n, bound)
        np.testing.assert_array_equal(np.count_nonzero(neighbours.weight, axis=1), np.minimum(heard, bound))
        assert_equal(MIX(weights, params, bound), exact)
        if heard.max() <= bound:
            np.testing.assert_allclose(neighbours.weight.sum(axis=1), 1.0, **TOLERANCE)
            assert_equal(mixed, exact)
    assert_equal(listed(weights, params, n + 2)[1], exact)


@pytest.mark.parametrize("places", [1, 9, 17])
def test_sums_over_lists_are_those_of_a_matrix(places):
    """Of receivers that use all places, some and none, in passes that are full, begun and empty."""
    clients, rng = 20, np.random.default_rng(places)
    ids = rng.integers(0, clients, (clients, places)).astype(np.int32)
    used = np.arange(places) < (np.arange(clients) * 3 % (places + 1))[:, None]
    weights = np.where(used, rng.random((clients, places)), 0).astype(np.float32)
    whole = np.zeros((clients, clients))
    np.add.at(whole, (np.arange(clients)[:, None], ids), weights)
    params = models(clients)
    found = jax.jit(listed_sums)(weights, ids, params)
    assert_equal(found, jax.tree.map(lambda x: np.tensordot(whole, np.asarray(x, float), 1), params))


@pytest.mark.parametrize("bound", [0, 3, 9])
def test_bfloat16_models_keep_their_type_and_are_summed_in_float32(bound):
    """Nine senders, off by the rounding of the result alone: 2^-8 of it (half a unit in the last of eight bits)."""
    weights, params = metropolis_hastings(circulant(12, 8)), models(12, dtype=jnp.bfloat16)
    mixed = MIX(weights, params, bound)
    for name, leaf in mixed.items():
        assert leaf.dtype == jnp.bfloat16
        wide = np.asarray(params[name].astype(jnp.float32), float)
        exact = np.einsum("ij,j...->i...", np.asarray(weights, float), wide)
        np.testing.assert_allclose(leaf.astype(jnp.float32), exact, rtol=2**-8 * 1.01, atol=1e-6)
