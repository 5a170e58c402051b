"""Blocks and minibatches: every sample once, of its owner; crops and flips against NumPy, and what a client draws."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdfl_jax.data import augment
from mdfl_jax.data.augment import Augmentation, draw_views, show
from mdfl_jax.data.batching import cut_blocks, draw_epochs, draw_minibatch, index_clients

N, SAMPLES, CLASSES = 5, 40, 3
INDEX = jax.jit(lambda owner, labels: index_clients(owner, labels, N, CLASSES))
CUT = {size: jax.jit(lambda index, size=size: cut_blocks(index, size)) for size in (1, 4, 7, 64)}


@given(st.lists(st.integers(-1, N - 1), min_size=SAMPLES, max_size=SAMPLES), st.sampled_from([1, 4, 7, 64]))
@settings(max_examples=40, deadline=None)
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


def test_an_epoch_takes_every_sample_once():
    """In the batches of PyTorch's DataLoader(shuffle=True); or in as many for each client, of NumPy's sizes."""
    rng = np.random.default_rng(0)
    for size, equal in itertools.product((1, 7, 64), (False, True)):

        def drawn(index, size=size, equal=equal):
            epochs = draw_epochs(jax.random.key(1), 3, *index[:3], size, equal)
            return epochs.steps, jax.vmap(epochs.batch)(jnp.arange(3 * SAMPLES))

        for owner in (rng.integers(-1, N, SAMPLES), rng.choice([-1, 2, 3], SAMPLES, p=[0.1, 0.2, 0.7])):
            of_each, (sample, mask) = jax.device_get(jax.jit(drawn)(INDEX(jnp.array(owner), jnp.zeros(SAMPLES, int))))
            held = np.bincount(owner + 1, minlength=N + 1)[1:]
            steps = np.where(held > 0, -(-held.max() // size), 0) if equal else -(-held // size)
            assert of_each.tolist() == (3 * steps).tolist()
            for i, e in itertools.product(np.flatnonzero(held), range(3)):
                taken = [sample[k, i][mask[k, i]].tolist() for k in range(e * steps[i], (e + 1) * steps[i])]
                order = np.concatenate(taken)
                assert sorted(order.tolist()) == np.flatnonzero(owner == i).tolist()
                even = np.array_split(order, steps[i]) if equal else np.split(order, range(size, len(order), size))
                assert taken == [part.tolist() for part in even]


def test_all_orders_are_equally_likely_and_independent():
    """Of two clients with three and two samples, and of two epochs: 6 x 2 x 6 x 2 outcomes."""
    held, first = jnp.array([3, 2]), jnp.array([0, 3])
    draw = lambda key: draw_epochs(key, 2, jnp.arange(5), first, held, 5).order  # noqa: E731
    orders = np.asarray(jax.jit(jax.vmap(draw))(jax.random.split(jax.random.key(0), 14_400)))
    _, counts = np.unique(orders.reshape(len(orders), -1), axis=0, return_counts=True)
    assert len(counts) == 144
    assert counts.min() > 55  # 100 expected, with a deviation of 10
    assert counts.max() < 145


IMAGES = np.random.default_rng(0).integers(0, 256, (3, 5, 6, 2), dtype=np.uint8)
KEY = jax.random.key(0)


def every_view(image, crop, flip):
    """All crops of the image in a black frame, each also mirrored."""
    height, width = image.shape[:2]
    padded = np.pad(image, [(crop, crop), (crop, crop), (0, 0)])
    moves = range(2 * crop + 1)
    crops = [padded[a : a + height, b : b + width] for b in moves for a in moves]
    return crops + [c[:, ::-1] for c in crops] if flip else crops


@pytest.mark.parametrize("backend", ["cpu", "tpu"])  # a gather of pixels, and products
def test_views_are_the_crops_and_their_mirror_images(backend, monkeypatch):
    monkeypatch.setattr(augment, "backend", lambda: backend)
    for i, (crop, flip) in enumerate([(0, True), (1, False), (2, True)]):
        image, augmentation = IMAGES[i], Augmentation(crop, flip)
        wanted = every_view(image, crop, flip)
        assert len(wanted) == augmentation.num_views
        views = jnp.arange(augmentation.num_views)
        shown = show(augmentation, jnp.asarray(IMAGES), jnp.full(len(wanted), i), views)
        assert shown.dtype == jnp.uint8
        np.testing.assert_array_equal(shown, wanted)


def test_views_are_equally_likely_and_depend_on_the_step_and_on_nobody_else():
    views = draw_views(Augmentation(1, True), KEY, jnp.zeros(200, jnp.int32), jnp.arange(18_000).reshape(200, 90))
    counts = np.bincount(np.asarray(views).reshape(-1), minlength=18)
    assert len(counts) == 18
    assert np.all(np.abs(counts - 1000) < 150)  # five standard deviations
    augmentation = Augmentation(4, True)
    client, place = jnp.array([0, 0, 1, 2]), jnp.arange(8) + 8 * jnp.array([0, 1, 0, 0])[:, None]
    drawn = draw_views(augmentation, KEY, client, place)
    np.testing.assert_array_equal(drawn[2:3], draw_views(augmentation, KEY, client[2:3], place[2:3]))
    assert len({tuple(row) for row in np.asarray(drawn)}) == 4
    assert not np.array_equal(drawn, draw_views(augmentation, jax.random.key(1), client, place))
