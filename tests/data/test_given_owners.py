"""Partitions that follow something given: natural owners, or the places of the clients."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from dealing import counts_of, deal


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
