"""What a client sees on a piece of the grid is what it sees on the whole grid, and what all pairs give."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mdfl_jax.mobility.clustering import centres_of
from mdfl_jax.mobility.grid import GridClient, GridWorld, grid_points
from mdfl_jax.mobility.label_histograms import counts_of, distances, histograms
from mdfl_jax.mobility.met_draw import look, piece_around

SIZE, SIDE, NUM_CLIENTS, CASES = 12, 6, 40, 60
TIES = jax.random.key(3)


def world(radius):
    rng = np.random.default_rng(0)
    return GridWorld(
        grid=grid_points(SIZE),
        start=jnp.asarray(rng.integers(0, SIZE * SIZE, NUM_CLIENTS), jnp.int32),
        is_mobile=jnp.zeros(NUM_CLIENTS, bool),
        label_counts=jnp.asarray(rng.integers(0, 9, (NUM_CLIENTS, 3)), jnp.int32),
        radius=jnp.float32(radius),
        max_step=jnp.float32(2),
    )


@jax.jit
def seen(w, client, known):
    """The piece, what is seen on it, on the whole grid, and by all pairs; each over all cases."""

    def of_one(client, known):
        old = (TIES, jnp.ones(SIZE * SIZE, bool), True)
        piece = piece_around(w, known, SIDE)
        part = look(w, client, known, old, piece.corner, SIDE)
        whole = look(w, client, known, old, jnp.zeros(2, jnp.int32), SIZE)
        histogram = histograms(counts_of(w, known), client.label_counts)
        pairs = distances(histogram, histogram[client.location]), centres_of(w, TIES, known)
        return piece, part, whole, pairs

    return jax.vmap(of_one)(client, known)


@pytest.mark.parametrize("radius", [0.0, 1.0, 2.5, 20.0])
def test_on_a_piece_as_on_the_whole_grid(radius):
    """Known clients in small and large parts of the grid, at its sides, and the client anywhere."""
    w, rng = world(radius), np.random.default_rng(1)
    place = np.stack([np.asarray(w.start) // SIZE, np.asarray(w.start) % SIZE], axis=1)
    middle, spread = rng.integers(0, SIZE, (CASES, 1, 2)), rng.integers(0, 9, (CASES, 1))
    known = np.abs(place - middle).max(axis=2) <= spread
    location = rng.integers(0, SIZE * SIZE, CASES).astype(np.int32)
    clients = GridClient(location, location, rng.integers(0, 5, (CASES, 3)).astype(np.int32))
    piece, part, whole, pairs = jax.device_get(seen(w, clients, jnp.asarray(known)))
    assert piece.fits.any() == (radius < SIDE)
    assert not piece.fits.all()
    reach = int(min(radius, SIZE - 1))
    for case in np.flatnonzero(known.any(axis=1)):
        low = np.maximum(place[known[case]].min(axis=0) - reach, 0)
        high = np.minimum(place[known[case]].max(axis=0) + reach, SIZE - 1)
        assert piece.fits[case] == (high - low < SIDE).all()
    np.testing.assert_array_equal(part.distance[piece.fits], whole.distance[piece.fits])
    np.testing.assert_array_equal(part.centres[piece.fits], whole.centres[piece.fits])
    np.testing.assert_allclose(whole.distance, pairs[0], rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(whole.centres, pairs[1])


def test_known_centres_are_kept():
    """They are not searched again where nobody new was met."""
    w, known = world(1.0), jnp.arange(NUM_CLIENTS) < 5
    client = GridClient(jnp.int32(3), jnp.int32(3), jnp.array([1, 0, 2], jnp.int32))
    old = jnp.arange(SIZE * SIZE) == 7
    whole = jax.jit(lambda due: look(w, client, known, (TIES, old, due), jnp.zeros(2, jnp.int32), SIZE))
    kept, found = whole(False), whole(True)
    np.testing.assert_array_equal(kept.centres, old)
    np.testing.assert_array_equal(found.centres, centres_of(w, TIES, known))
