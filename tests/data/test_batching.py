"""Blocks and minibatches: every sample once, of its owner, whatever the partition."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mdfl_jax.data.batching import cut_blocks, draw_minibatch, index_clients

N, SAMPLES, CLASSES = 5, 40, 3
INDEX = jax.jit(lambda owner, labels: index_clients(owner, labels, N, CLASSES))
CUT = {size: jax.jit(lambda index, size=size: cut_blocks(index, size)) for size in (1, 4, 7, 64)}


@given(st.lists(st.integers(-1, N - 1), min_size=SAMPLES, max_size=SAMPLES), st.sampled_from([1, 4, 7, 64]))
@settings(max_examples=60, deadline=None)
def test_blocks_hold_every_owned_sample_once(owner, size):
    labels = np.arange(SAMPLES) % CLASSES
    index = INDEX(jnp.array(owner), jnp.array(labels))
    blocks = CUT[size](index)
    owner = np.array(owner)
    client, sample, mask = np.asarray(blocks.client), np.asarray(blocks.sample), np.asarray(blocks.mask)
    assert len(client) == SAMPLES // size + N
    assert sorted(sample[mask].tolist()) == np.flatnonzero(owner >= 0).tolist()
    assert (owner[sample] == client[:, None])[mask].all()
    held = np.bincount(owner[owner >= 0], minlength=N)
    assert np.asarray(index.num_samples).tolist() == held.tolist()
    assert mask.any(axis=1).sum() == sum(-(-h // size) for h in held)
    for i in range(N):
        assert np.asarray(index.label_counts)[i].tolist() == np.bincount(labels[owner == i], minlength=CLASSES).tolist()
        assert (mask[client == i].any(axis=1) & ~mask[client == i].all(axis=1)).sum() <= 1  # only the last is padded


def test_minibatch_comes_from_what_the_client_holds():
    owner = jnp.array([0, 2, 2, 0, 2, -1, 0, 2])
    index = index_clients(owner, jnp.zeros(8, int), 3, 1)
    for client, held in ((0, {0, 3, 6}), (2, {1, 2, 4, 7})):
        drawn = jax.vmap(lambda k, c=client: draw_minibatch(k, index, c, 16))(jax.random.split(jax.random.key(0), 200))
        values, counts = np.unique(drawn, return_counts=True)
        assert set(values.tolist()) == held
        assert counts.min() > 0.8 * counts.mean()
    assert draw_minibatch(jax.random.key(0), index, 1, 4).shape == (4,)  # holds nothing: any valid index
