"""Crops and flips against NumPy, and what a client draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mdfl_jax.data import augment
from mdfl_jax.data.augment import Augmentation, draw_views, show

IMAGES = np.random.default_rng(0).integers(0, 256, (3, 5, 6, 2), dtype=np.uint8)
KEY = jax.random.key(0)


def every_view(image, crop, flip):
    """All crops of the image in a black frame, each also mirrored."""
    height, width = image.shape[:2]
    padded = np.pad(image, [(crop, crop), (crop, crop), (0, 0)])
    moves = range(2 * crop + 1)
    crops = [padded[a : a + height, b : b + width] for b in moves for a in moves]
    return crops + [c[:, ::-1] for c in crops] if flip else crops


@pytest.mark.few(2)
@pytest.mark.parametrize("backend", ["cpu", "tpu"])  # a gather of pixels, and products
@pytest.mark.parametrize(("crop", "flip"), [(0, False), (0, True), (1, False), (2, True)])
def test_views_are_the_crops_and_their_mirror_images(crop, flip, backend, monkeypatch):
    monkeypatch.setattr(augment, "backend", lambda: backend)
    augmentation = Augmentation(crop, flip)
    for i, image in enumerate(IMAGES):
        wanted = every_view(image, crop, flip)
        assert len(wanted) == augmentation.num_views
        views = jnp.arange(augmentation.num_views)
        shown = show(augmentation, jnp.asarray(IMAGES), jnp.full(len(wanted), i), views)
        assert shown.dtype == jnp.uint8
        np.testing.assert_array_equal(shown, wanted)


def test_all_views_are_equally_likely():
    augmentation = Augmentation(1, True)
    views = np.asarray(draw_views(augmentation, KEY, jnp.zeros(200, jnp.int32), jnp.arange(18_000).reshape(200, 90)))
    counts = np.bincount(views.reshape(-1), minlength=18)
    assert len(counts) == 18
    assert np.all(np.abs(counts - 1000) < 150)  # five standard deviations


def test_what_a_client_draws_depends_on_the_step_and_on_nobody_else():
    augmentation = Augmentation(4, True)
    client, place = jnp.array([0, 0, 1, 2]), jnp.arange(8) + 8 * jnp.array([0, 1, 0, 0])[:, None]
    drawn = draw_views(augmentation, KEY, client, place)
    alone = draw_views(augmentation, KEY, client[2:3], place[2:3])
    np.testing.assert_array_equal(drawn[2:3], alone)
    rows = [tuple(row) for row in np.asarray(drawn)]
    assert len(set(rows)) == 4
    again = draw_views(augmentation, jax.random.key(1), client, place)
    halves = draw_views(augmentation, KEY, jnp.repeat(client, 2), place.reshape(8, 4))
    np.testing.assert_array_equal(halves.reshape(4, 8), drawn)
    assert not np.array_equal(drawn, again)
