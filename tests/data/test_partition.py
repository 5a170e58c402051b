"""The ways to deal samples to clients: who owns what, and with which law."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dealing import counts_of, deal
from scipy import stats
from small import told, toy_dataset

from mdfl_jax.data.partition.dirichlet_per_client import PerClientNumbers, draw_labels

NUM_CLASSES = 10
MANY, FEW = 20, 5  # the numbers of clients, with 500 samples of ten classes where possible: a new shape compiles
SIGMAS = 5.0  # two-sided tail 6e-7; the keys are fixed, so a pass stays a pass


def balanced(per_class, num_classes=NUM_CLASSES, seed=0):
    """Labels [per_class * num_classes] in random order, as many of each class."""
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(num_classes), per_class)).astype(np.int32)


def unbalanced(seed=0):
    """Labels [500] with classes of very different sizes, class 7 absent."""
    p = np.array([30, 20, 15, 10, 8, 6, 5, 0, 4, 2]) / 100
    return np.random.default_rng(seed).choice(NUM_CLASSES, 500, p=p).astype(np.int32)


def counts(owner, labels, num_clients):
    return counts_of(owner, labels, num_clients, NUM_CLASSES)


RULES = {
    "dirichlet 0.01": ("dirichlet", {"alpha": 0.01}),
    "dirichlet 1e4": ("dirichlet", {"alpha": 1e4}),
    "iid": ("iid", {}),
    "all classes": ("classes_per_client", {"classes_per_client": NUM_CLASSES}),
    "shards 3": ("shards", {"shards_per_client": 3}),
    "per client 0.1": ("dirichlet_per_client", {"alpha": 0.1}),
    "balanced 0.1": ("dirichlet_balanced", {"alpha": 0.1}),
    "quantity 0.5": ("quantity_skew", {"beta": 0.5}),
    "power law 1": ("power_law", {"exponent": 1.0}),
}


@cache
def program(name, num_clients, num_classes, traced, fixed):
    def one(key, labels, values):
        return deal(name, key, labels, num_clients, num_classes, **dict(fixed), **dict(zip(traced, values)))

    return jax.jit(one)


def owners(rule, seeds, labels, num_clients, num_classes=NUM_CLASSES):
    """[seeds, n] the owner of each sample, by several seeds; one program for all numbers that are no counts."""
    name, numbers = rule
    traced = {key: value for key, value in numbers.items() if isinstance(value, float)}
    fixed = tuple((key, value) for key, value in numbers.items() if key not in traced)
    values = [jnp.float32(value) for value in traced.values()]
    run = program(name, num_clients, num_classes, tuple(traced), fixed)
    return np.stack([run(jax.random.key(seed), labels, values) for seed in seeds])


def dirichlet(seeds, labels, num_clients, alpha):
    return owners(("dirichlet", {"alpha": alpha}), seeds, labels, num_clients)


@pytest.mark.few(4)
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_every_sample_has_one_owner_and_the_key_decides(rule):
    """Also of unequal classes, and for fewer samples than clients."""
    for labels in (balanced(50), unbalanced(), np.array([9, 0, 9], np.int32)):
        owner = owners(rule, [0, 0, 1], labels, MANY)
        assert owner.shape == (3, *labels.shape)
        assert owner.min() >= 0
        assert owner.max() < MANY
        np.testing.assert_array_equal(owner[0], owner[1])
        assert (owner[0] != owner[2]).any() or len(labels) == 3


def test_dirichlet_shares_follow_the_law():
    """Shares of a class over N clients ~ Dir(alpha): each is Beta(alpha, (N - 1) alpha); classes are drawn apart."""
    per_class, num_keys, n = 400, 80, FEW
    labels, rounding = balanced(per_class), 2 / per_class

    def assert_mean(values, expected, slack):
        error = np.abs(values.mean(0) - expected)
        assert (error < SIGMAS * values.std(0) / np.sqrt(len(values)) + slack).all()

    for alpha in (0.01, 0.05, 1.0):
        drawn = dirichlet(range(num_keys), labels, n, alpha)
        shares = np.concatenate([counts(owner, labels, n).T / per_class for owner in drawn])
        law = stats.beta(alpha, (n - 1) * alpha)
        np.testing.assert_allclose(law.var(), (1 / n) * (1 - 1 / n) / (n * alpha + 1))
        assert_mean(shares, 1 / n, rounding / 2)
        assert_mean((shares - 1 / n) ** 2, law.var(), rounding)
        assert_mean((shares > 0.5).astype(float), law.sf(0.5), rounding)
        cross = -law.var() / (n - 1)
        assert_mean((shares - 1 / n) * (np.roll(shares, 1, axis=1) - 1 / n), cross, rounding)
        of_key = shares.reshape(num_keys, NUM_CLASSES, n) - 1 / n
        apart = np.stack([of_key[:, c] * of_key[:, c + 1] for c in range(0, NUM_CLASSES, 2)], 1)
        assert_mean(apart.reshape(-1, n) / law.var(), 0, 0)


def test_a_class_is_shuffled_before_it_is_cut():
    """Along a class's samples the owner changes as often as when throwing a die; anyone may own the first."""
    labels = balanced(400)
    (owner,) = dirichlet([0], labels, FEW, 1e4)
    for label in range(NUM_CLASSES):
        mine = owner[labels == label]
        assert abs((mine[1:] != mine[:-1]).mean() - (1 - 1 / FEW)) < 0.1
    drawn = dirichlet(range(80), np.full(4000, NUM_CLASSES - 1, np.int32), FEW, 1e4)
    first_and_last = np.stack([np.bincount(drawn[:, place], minlength=FEW) for place in (0, -1)])
    assert stats.chisquare(first_and_last, axis=1).pvalue.min() > 1e-4
    # Of ten classes of 60 samples for 100 clients each has 40 clients without a sample, and not the same ones.
    assert np.bincount(dirichlet([0], balanced(60), 100, 1e6)[0], minlength=100).min() > 0


@pytest.mark.parametrize("rule", ["iid", "quantity 0.5", "power law 1"])
def test_labels_do_not_matter(rule):
    """The counts by client and label are those of independence, although the labels come sorted."""
    labels = np.repeat(np.arange(4, dtype=np.int32), 500)
    owner = owners(RULES[rule], [0], labels, 3)[0]
    table = counts_of(owner, labels, 3, 4)
    assert stats.chi2_contingency(table[table.sum(axis=1) > 40]).pvalue > 1e-4
    assert len(np.unique(table)) > 3
    assert rule != "iid" or np.ptp(np.bincount(owner)) <= 1


def holding(seeds, labels, num_clients, held, num_classes=NUM_CLASSES):
    return owners(("classes_per_client", {"classes_per_client": held}), seeds, labels, num_clients, num_classes)


def test_clients_hold_so_many_classes():
    """A class is even among its holders; a class of nobody is at -1 as a whole; each class is as likely."""
    labels = balanced(50)
    for num_clients, held in ((FEW, 1), (FEW, 7), (1, 3), (FEW, 10)):
        for owner in holding(range(4), labels, num_clients, held):
            table = counts(owner[owner >= 0], labels[owner >= 0], num_clients)
            np.testing.assert_array_equal((table > 0).sum(1), held)
            for label in range(10):
                sizes = table[:, label][table[:, label] > 0]
                assert sizes.sum() == (50 if len(sizes) else 0) == (owner[labels == label] >= 0).sum()
                assert not len(sizes) or sizes.max() - sizes.min() <= 1
    keys, holds = 120, np.zeros((FEW, 10))
    for owner in holding(range(keys), labels, FEW, 3):
        holds += counts(owner[owner >= 0], labels[owner >= 0], FEW) > 0
    assert (np.abs(holds / keys - 0.3) < SIGMAS * np.sqrt(0.3 * 0.7 / keys)).all()
    draws = holding(range(120), np.zeros(3, np.int32), 3, 1, 1)[:, 0]
    assert stats.chisquare(np.bincount(draws, minlength=3)).pvalue > 1e-4


def test_shards_are_dealt_at_random():
    """Anyone may get the first shard, and the first and last shards go to one client with probability 2/14.

    Shards are runs of the samples in the order of their labels.
    """
    labels = np.random.default_rng(0).integers(0, NUM_CLASSES, 60).astype(np.int32)
    drawn = owners(RULES["shards 3"], range(150), labels, 5)[:, np.argsort(labels, kind="stable")]
    runs = drawn.reshape(150, 15, 4)
    assert (runs == runs[..., :1]).all()
    assert all((np.bincount(of_seed[:, 0]) == 3).all() for of_seed in runs)
    assert stats.chisquare(np.bincount(drawn[:, 0], minlength=5)).pvalue > 1e-4
    together = (drawn[:, 0] == drawn[:, -1]).sum()
    assert stats.binomtest(int(together), 150, 1 / 7).pvalue > 1e-4


def sizes(rule, seeds, n, num_clients, **number):
    """[seeds, N] the samples of each client."""
    drawn = owners((rule, number), range(seeds), np.zeros(n, np.int32), num_clients)
    return np.array([np.bincount(owner, minlength=num_clients) for owner in drawn])


def test_sizes_follow_a_power_law_or_dirichlets():
    """Sorted, the sizes are 1 + (n - N) r^-a / sum, up to rounding; a client's rank is anyone's.

    Of the other law a client's share of the samples is Beta(beta, (N - 1) beta).
    """
    n, num_clients = 1000, 8
    for exponent in (0.0, 2.0):
        share = np.arange(1, num_clients + 1.0) ** -exponent
        expected = 1 + (n - num_clients) * share / share.sum()
        found = sizes("power_law", 40, n, num_clients, exponent=exponent)
        for of_seed in found:
            assert (np.abs(np.sort(of_seed)[::-1] - expected) <= 1).all()
    assert len({int(np.argmax(of_seed)) for of_seed in found}) > num_clients / 2
    shares = (sizes("quantity_skew", 120, 2000, 5, beta=0.5) - 1) / (2000 - 5)
    law = stats.beta(0.5, 4 * 0.5)
    assert abs((shares**2).mean() - (law.var() + law.mean() ** 2)) < 5 * (shares**2).std() / np.sqrt(shares.size)
    assert stats.kstest(shares[:, 0], law.cdf).pvalue > 1e-4


SOME = np.random.default_rng(0).choice(4, 61, p=[0.5, 0.3, 0.2, 0]).astype(np.int32)  # label 3 is absent


def test_sizes_are_as_asked_and_labels_those_of_the_shares():
    """Equal sizes of all samples, or so many each; few labels a client with a small concentration, else all."""
    for name, size in (("dirichlet_per_client", 0), ("dirichlet_per_client", 5), ("dirichlet_balanced", 0)):
        for alpha in (0.01, 1e3):
            numbers = {"alpha": alpha} | ({"samples_per_client": size} if size else {})
            for owner in owners((name, numbers), range(4), SOME, 7, 4):
                table = counts_of(owner, SOME, 7, 4)
                held = table.sum(axis=1)
                assert held.tolist() == [5] * 7 if size else sorted(held) == [8] * 2 + [9] * 5
                pure = (table.max(axis=1) / held).mean()
                assert pure > 0.7 if alpha < 1 else pure < 0.75 or (name, size) == ("dirichlet_per_client", 0), name
    dataset = toy_dataset(20)
    PerClientNumbers(samples_per_client=4).check_dataset(dataset, 5)
    line = told(PerClientNumbers(samples_per_client=5).check_dataset, dataset, 5)
    assert line.startswith("data.samples_per_client is 5; ")
    assert "has 20 training samples" in line


def test_of_a_turn_each_client_draws_among_what_is_left():
    """Oracle: in each turn one client draws one label among the classes that have samples left."""
    key_turns, key_shares, key_draws, _ = jax.random.split(jax.random.key(0), 4)
    turns = np.asarray(jax.random.permutation(key_turns, 7))
    log_shares = np.asarray(jax.random.loggamma(key_shares, 0.3, (7, 4)), np.float64)
    left, expected = np.bincount(SOME, minlength=4), np.zeros((7, 4), int)
    for turn in range(61):
        noise = np.asarray(jax.random.gumbel(jax.random.fold_in(key_draws, turn), (4,)))
        label = int(np.argmax(np.where(left > 0, log_shares[turns[turn % 7]] + noise, -np.inf)))
        left[label] -= 1
        expected[turns[turn % 7], label] += 1
    (owner,) = owners(("dirichlet_balanced", {"alpha": 0.3}), [0], SOME, 7, 4)
    np.testing.assert_array_equal(counts_of(owner, SOME, 7, 4), expected)


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
