"""Partitions that skew the numbers of samples and not the labels."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mdfl_jax.data.partition import deal_by_cuts, sizes_of_shares
from mdfl_jax.data.partition.power_law import power_law
from mdfl_jax.data.partition.quantity_skew import quantity_skew

RULES = {"quantity_skew": quantity_skew, "power_law": power_law}


def sizes(rule, seed, n, num_clients, number):
    owner = np.asarray(rule(jax.random.key(seed), np.zeros(n, np.int32), num_clients, number))
    assert owner.shape == (n,)
    return np.bincount(owner, minlength=num_clients)


@settings(max_examples=50, deadline=None)
@given(weights=st.lists(st.floats(0.001, 1.0), min_size=5, max_size=5), n=st.sampled_from([3, 5, 6, 100, 10_007]))
def test_sizes_are_the_shares_in_whole_samples(weights, n):
    """Oracle: one each, and the rest cut at the rounded cumulative shares."""
    shares = np.array(weights, np.float32) / np.float32(sum(weights))
    found = np.asarray(sizes_of_shares(shares, n))
    least = 1 if n >= 5 else 0
    cuts = np.cumsum(shares.astype(np.float64)) * (n - 5 * least)
    assert found.sum() == n
    assert (np.abs(np.cumsum(found - least) - cuts) <= 0.5 + 1e-5 * n).all()


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0])
def test_power_law_is_that_of_the_ranks(exponent):
    """Sorted, the sizes are 1 + (n - N) r^-a / sum, up to rounding; a client's rank is anyone's."""
    n, num_clients = 1000, 8
    share = np.arange(1, num_clients + 1.0) ** -exponent
    expected = 1 + (n - num_clients) * share / share.sum()
    found = [sizes(power_law, seed, n, num_clients, exponent) for seed in range(40)]
    for of_seed in found:
        assert (np.abs(np.sort(of_seed)[::-1] - expected) <= 1).all()
    if exponent:
        assert len({int(np.argmax(of_seed)) for of_seed in found}) > num_clients / 2


def test_dirichlet_sizes_follow_the_law():
    """A client's share of the samples is Beta(beta, (N - 1) beta)."""
    n, num_clients, beta = 2000, 5, 0.5
    shares = np.stack([(sizes(quantity_skew, seed, n, num_clients, beta) - 1) / (n - 5) for seed in range(120)])
    law = stats.beta(beta, (num_clients - 1) * beta)
    error = shares.std() / np.sqrt(shares.size)
    assert abs((shares**2).mean() - (law.var() + law.mean() ** 2)) < 5 * (shares**2).std() / np.sqrt(shares.size)
    assert stats.kstest(shares[:, 0], law.cdf).pvalue > 1e-4
    assert abs(shares.mean() - 1 / num_clients) < 5 * error


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_labels_do_not_matter(rule):
    """The counts by client and label are those of independence, although the labels come sorted."""
    labels = np.repeat(np.arange(4, dtype=np.int32), 500)
    owner = np.asarray(rule(jax.random.key(0), labels, 3, 1.0))
    table = np.zeros((3, 4), int)
    np.add.at(table, (owner, labels), 1)
    assert stats.chi2_contingency(table[table.sum(axis=1) > 40]).pvalue > 1e-4
    assert len(np.unique(table)) > 3


def test_samples_behind_the_last_cut_belong_to_nobody():
    labels = np.array([0, 1, 0, 1, 2, 0, 2, 2], np.int32)
    cuts = np.array([[1, 2], [0, 0], [2, 3]], np.int32)
    owner = np.asarray(deal_by_cuts(jax.random.key(0), labels, cuts))
    assert np.bincount(owner[labels == 0] + 1, minlength=3).tolist() == [1, 1, 1]
    assert (owner[labels == 1] == -1).all()
    assert np.bincount(owner[labels == 2] + 1, minlength=3).tolist() == [0, 2, 1]
