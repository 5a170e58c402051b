"""Partitions that follow something given: natural owners, or the places of the clients."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from dealing import counts_of, deal
from small import told

from mdfl_jax.data.dataset import hold_out
from mdfl_jax.data.sources import load


def test_natural_owners_stay_whole_and_are_dealt_evenly():
    natural = np.random.default_rng(1).integers(0, 9, 200)
    natural[:9] = np.arange(9)  # each owner has a sample
    for seed, num_clients in itertools.product(range(3), (1, 4, 9)):
        owner = np.asarray(deal("by_owner", jax.random.key(seed), natural, num_clients, owners=natural))
        of_owner = [set(owner[natural == k].tolist()) for k in range(9)]
        assert all(len(clients) == 1 for clients in of_owner)
        dealt = np.bincount([clients.pop() for clients in of_owner], minlength=num_clients)
        assert dealt.max() - dealt.min() <= 1
        assert len(dealt) == num_clients


def test_natural_owners_stay_with_their_samples(tmp_path):
    """They are numbered in the order of their values; also in a subset, and without the samples that are held out."""

    def owned(client, **limits):
        images = np.arange(12 * 9, dtype=np.uint8).reshape(12, 3, 3)
        arrays = {"x_train": images, "y_train": np.arange(12) % 3, "x_test": images[:3], "y_test": np.arange(3)}
        np.savez(tmp_path / "owned.npz", **arrays, client=client)
        return load("owned", str(tmp_path), **limits)

    assert owned(np.array([70, 70, -5, 900] * 3)).client.tolist() == [1, 1, 0, 2] * 3
    rest = hold_out(owned(np.arange(12), limit_train=9), 4)
    assert rest.client.tolist() == (rest.x_train[:, 0, 0, 0].astype(int) // 9).tolist()
    assert len(rest.client) == 5
    for wrong in (np.arange(11), np.arange(12.0), np.zeros((12, 1), int)):
        assert "; allowed: whole numbers [12]" in told(owned, wrong)


def test_shares_by_place_fall_with_the_distance_from_the_centre():
    """Oracle: Gaussian shares around centres in the clients' rectangle, cut at rounded cumulative shares."""
    places = np.random.default_rng(2).uniform(0, 10, (6, 2)).astype(np.float32)
    labels, (low, high) = np.repeat(np.arange(3, dtype=np.int32), [50, 30, 0]), (places.min(axis=0), places.max(axis=0))
    drawn = np.asarray(jax.random.uniform(jax.random.split(jax.random.key(0))[0], (3, 2)))
    for spread in (0.05, 0.3):
        owner = deal("by_place", jax.random.key(0), labels, 6, 3, places=jnp.asarray(places), place_spread=spread)
        found = counts_of(np.asarray(owner), labels, 6, 3)
        for label, size in enumerate([50, 30, 0]):
            apart = np.square(places.astype(float) - low - drawn[label] * (high - low)).sum(axis=1)
            weight = np.exp(-apart / (2 * (spread * (high - low).max()) ** 2))
            cuts = np.cumsum(weight) / np.sum(weight) * size
            assert (np.abs(np.cumsum(found[:, label]) - cuts) <= 0.5 + 1e-3).all()
