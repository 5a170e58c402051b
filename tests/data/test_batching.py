"""Blocks: every sample once, of its owner; crops and flips against NumPy. Minibatches are those of tests/reference."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdfl_jax.data import augment
from mdfl_jax.data.augment import Augmentation, draw_views, show_views
from mdfl_jax.data.batching import cut_blocks, index_clients

N, SAMPLES, CLASSES = 5, 40, 3
INDEX = jax.jit(lambda owner, labels: index_clients(owner, labels, N, CLASSES))
CUT = {size: jax.jit(lambda index, size=size: cut_blocks(index, size)) for size in (1, 7, 64)}


@given(st.lists(st.integers(-1, N - 1), min_size=SAMPLES, max_size=SAMPLES), st.sampled_from([*CUT]))
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
        shown = jax.jit(partial(show_views, augmentation))(IMAGES, jnp.full(len(wanted), i), views)
        assert shown.dtype == jnp.uint8
        np.testing.assert_array_equal(shown, wanted)


def test_views_are_equally_likely_and_depend_on_the_step_and_on_nobody_else():
    draw = jax.jit(draw_views, static_argnums=0)
    views = draw(Augmentation(1, True), KEY, jnp.zeros(200, jnp.int32), jnp.arange(18_000).reshape(200, 90))
    counts = np.bincount(np.asarray(views).reshape(-1), minlength=18)
    assert len(counts) == 18
    assert np.all(np.abs(counts - 1000) < 150)  # five standard deviations
    augmentation = Augmentation(4, True)
    client, place = jnp.array([0, 0, 1, 2]), jnp.arange(8) + 8 * jnp.array([0, 1, 0, 0])[:, None]
    drawn = draw(augmentation, KEY, client, place)
    np.testing.assert_array_equal(drawn[2:3], draw(augmentation, KEY, client[2:3], place[2:3]))
    assert len({tuple(row) for row in np.asarray(drawn)}) == 4
    assert not np.array_equal(drawn, draw(augmentation, jax.random.key(1), client, place))
