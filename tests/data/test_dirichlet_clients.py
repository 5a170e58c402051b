"""Dirichlet laws of the clients' own labels: equal sizes, and draws without replacement."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dealing import counts_of, deal
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from small import told, toy_dataset

from mdfl_jax.data.partition.dirichlet_per_client import PerClientNumbers, draw_labels

RULES = ("dirichlet_per_client", "dirichlet_balanced")
LABELS = np.random.default_rng(0).choice(4, 61, p=[0.5, 0.3, 0.2, 0]).astype(np.int32)  # label 3 is absent


@cache
def compiled(name, num_clients, **size):
    return jax.jit(lambda key, labels, alpha: deal(name, key, labels, num_clients, 4, alpha=alpha, **size))


@pytest.mark.long
@pytest.mark.parametrize("name", RULES)
@settings(max_examples=20, deadline=None)
@given(
    num_clients=st.sampled_from([1, 7, 100]),
    seed=st.integers(0, 2**30),
    alpha=st.sampled_from([1e-3, 0.05, 1.0, 1e3]),
    shuffle=st.integers(0, 2**30),
)
def test_every_sample_has_one_owner_and_sizes_differ_by_at_most_one(name, num_clients, seed, alpha, shuffle):
    """Also for an alpha whose shares underflow, and for more clients than samples."""
    labels = np.random.default_rng(shuffle).permutation(LABELS)
    owner = np.asarray(compiled(name, num_clients)(jax.random.key(seed), labels, alpha))
    assert owner.min() >= 0
    assert owner.max() < num_clients
    sizes = np.bincount(owner, minlength=num_clients)
    assert sizes.max() - sizes.min() <= 1


def streams(seed, num_clients, alpha):
    """What both rules draw first: turns [N], the logarithms of the shares [N, C], the key of the draws."""
    key_turns, key_shares, key_draws, _ = jax.random.split(jax.random.key(seed), 4)
    turns = np.asarray(jax.random.permutation(key_turns, num_clients))
    return turns, np.asarray(jax.random.loggamma(key_shares, alpha, (num_clients, 4)), np.float64), key_draws


@pytest.mark.few(3)
@pytest.mark.parametrize(("seed", "size"), [(0, 0), (1, 0), (2, 0), (3, 0), (0, 5), (1, 5)])
def test_per_client_against_the_events_one_by_one(seed, size):
    """Oracle: each client takes the earliest arrival of the classes that have samples left, one after another."""
    num_clients, alpha = 7, 0.3
    turns, log_shares, key_draws = streams(seed, num_clients, alpha)
    left, expected = np.bincount(LABELS, minlength=4), np.zeros((num_clients, 4), int)
    for turn, client in enumerate(turns):
        gaps = jax.random.exponential(jax.random.fold_in(key_draws, client), (4, size or 9))
        arrivals, at = np.asarray(gaps, np.float64).cumsum(axis=1), np.zeros(4, int)
        for _ in range(size or 61 // 7 + (turn < 61 % 7)):
            times = [np.log(arrivals[c, at[c]]) - log_shares[client, c] if left[c] else np.inf for c in range(4)]
            label = int(np.argmin(times))
            at[label] += 1
            left[label] -= 1
            expected[client, label] += 1
    owner = np.asarray(
        compiled("dirichlet_per_client", num_clients, samples_per_client=size)(jax.random.key(seed), LABELS, alpha)
    )
    np.testing.assert_array_equal(counts_of(owner, LABELS, num_clients, 4), expected)
    assert left.sum() == (owner < 0).sum() == (61 - 7 * size if size else 0)


def test_from_a_large_data_set_a_clients_labels_have_its_own_dirichlet_law():
    """FedMobile's 400 samples of Dirichlet 0.3: the shares of a label have the mean and variance of the law."""
    size, num_clients, alpha, repeats = 40, 10, 0.3, 60
    labels = np.repeat(np.arange(4, dtype=np.int32), size * num_clients)  # no class can be used up
    numbers = {"alpha": alpha, "samples_per_client": size}
    rule = jax.jit(jax.vmap(lambda key: deal("dirichlet_per_client", key, labels, num_clients, 4, **numbers)))
    owners = np.asarray(rule(jax.random.split(jax.random.key(0), repeats)))
    held = np.concatenate([counts_of(owner, labels, num_clients, 4) for owner in owners]) / size
    variance = 0.25 * 0.75 / (4 * alpha + 1)  # of a share; drawing adds the mean of s (1 - s) / size
    drawn = variance + (0.25 - variance - 0.0625) / size
    assert abs(held.mean(axis=0) - 0.25).max() < 5 * np.sqrt(drawn / len(held))
    np.testing.assert_allclose(held.var(axis=0), drawn, rtol=0.15)


def test_more_samples_than_there_are_is_one_line():
    dataset = toy_dataset(20)
    PerClientNumbers(samples_per_client=4).check_dataset(dataset, 5)
    line = told(PerClientNumbers(samples_per_client=5).check_dataset, dataset, 5)
    assert line.startswith("data.samples_per_client is 5; ")
    assert "has 20 training samples" in line


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(4))
def test_balanced_against_the_turns_one_by_one(seed):
    """Oracle: in each turn one client draws one label among the classes that have samples left."""
    num_clients, alpha = 7, 0.3
    turns, log_shares, key_draws = streams(seed, num_clients, alpha)
    left, expected = np.bincount(LABELS, minlength=4), np.zeros((num_clients, 4), int)
    for turn in range(61):
        client = turns[turn % num_clients]
        noise = np.asarray(jax.random.gumbel(jax.random.fold_in(key_draws, turn), (4,)))
        label = int(np.argmax(np.where(left > 0, log_shares[client] + noise, -np.inf)))
        left[label] -= 1
        expected[client, label] += 1
    owner = compiled("dirichlet_balanced", num_clients)(jax.random.key(seed), LABELS, alpha)
    np.testing.assert_array_equal(counts_of(np.asarray(owner), LABELS, num_clients, 4), expected)


def law_of_draws(share, left, count):
    """The exact law of the counts of sequential draws: {counts: probability}."""
    law = {(0,) * len(left): 1.0}
    for _ in range(count):
        after = {}
        for taken, probability in law.items():
            open_classes = [c for c in range(len(left)) if taken[c] < left[c]]
            total = sum(share[c] for c in open_classes)
            for c in open_classes:
                key = tuple(k + (j == c) for j, k in enumerate(taken))
                after[key] = after.get(key, 0.0) + probability * share[c] / total
        law = after
    return law


def test_draws_have_the_law_of_sequential_draws_without_replacement():
    """The Poisson race is a fast form of: draw a label, leave out classes that are used up, draw again."""
    share, left, count, draws = np.array([0.6, 0.3, 0.1]), np.array([2, 3, 3]), 5, 8000
    keys = jax.random.split(jax.random.key(0), draws)
    found = jax.vmap(lambda key: draw_labels(key, jnp.log(share), jnp.array(left), jnp.int32(count), 6))(keys)
    law = law_of_draws(share, left, count)
    seen = dict.fromkeys(law, 0)
    for taken in np.asarray(found).tolist():
        seen[tuple(taken)] += 1  # any other key would be impossible under the law
    observed, expected = np.array([(seen[taken], draws * law[taken]) for taken in law]).T
    assert expected.min() > 5
    assert stats.chisquare(observed, expected).pvalue > 1e-4
