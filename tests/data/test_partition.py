"""The ways to deal samples to clients: who owns what, and with which law."""

import hashlib
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dealing import counts_of, deal
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mdfl_jax.data.partition import deal_by_cuts, sizes_of_shares

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
    "dirichlet 0.05": ("dirichlet", {"alpha": 0.05}),
    "dirichlet 1": ("dirichlet", {"alpha": 1.0}),
    "dirichlet 1e4": ("dirichlet", {"alpha": 1e4}),
    "iid": ("iid", {}),
    "all classes": ("classes_per_client", {"classes_per_client": NUM_CLASSES}),
    "shards 1": ("shards", {"shards_per_client": 1}),
    "shards 3": ("shards", {"shards_per_client": 3}),
    "per client 0.1": ("dirichlet_per_client", {"alpha": 0.1}),
    "balanced 0.1": ("dirichlet_balanced", {"alpha": 0.1}),
    "quantity 0.5": ("quantity_skew", {"beta": 0.5}),
    "power law 1": ("power_law", {"exponent": 1.0}),
}
DIGESTS = {
    "dirichlet 0.05": "8b1b95e96af3484d",  # classes of as many samples as clients, or more
    "iid": "3e73f55ced6c76b8",
    "three classes": "9ce812a087ae7d14",
    "shards 3": "a9b6e443770aa6ed",
}
"""SHA-256 of the owners of the first partitions of version 0.1: studies of the same seed must draw the same data."""


@cache
def program(name, num_clients, num_classes, traced, fixed):
    def one(key, labels, values):
        return deal(name, key, labels, num_clients, num_classes, **dict(fixed), **dict(zip(traced, values)))

    return jax.jit(jax.vmap(one, in_axes=(0, None, None)))


def owners(rule, seeds, labels, num_clients, num_classes=NUM_CLASSES):
    """[seeds, n] the owner of each sample, by several seeds; one program for all numbers that are no counts."""
    name, numbers = rule
    traced = {key: value for key, value in numbers.items() if isinstance(value, float)}
    fixed = tuple((key, value) for key, value in numbers.items() if key not in traced)
    keys = jax.vmap(jax.random.key)(jnp.asarray(seeds))
    values = [jnp.float32(value) for value in traced.values()]
    return np.asarray(program(name, num_clients, num_classes, tuple(traced), fixed)(keys, labels, values))


def dirichlet(seeds, labels, num_clients, alpha):
    return owners(("dirichlet", {"alpha": alpha}), seeds, labels, num_clients)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", DIGESTS)
def test_the_draws_are_those_of_earlier_versions(name):
    rules = RULES | {"three classes": ("classes_per_client", {"classes_per_client": 3})}
    digest = hashlib.sha256()
    first = balanced(50) if name.startswith("dirichlet") else unbalanced()
    for labels, num_clients in ((first, MANY), (balanced(50), FEW)):
        digest.update(owners(rules[name], range(3), labels, num_clients).astype(np.int32).tobytes())
    assert digest.hexdigest()[:16] == DIGESTS[name]


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
class TestEveryRule:
    @pytest.mark.few(12)
    @pytest.mark.parametrize("num_clients", [MANY, 1])
    @pytest.mark.parametrize("labels", [balanced(50), unbalanced()], ids=["balanced", "unbalanced"])
    def test_every_sample_has_one_owner_and_the_key_decides(self, rule, labels, num_clients):
        owner = owners(rule, [0, 0, 1], labels, num_clients)
        assert owner.shape == (3, *labels.shape)
        assert np.issubdtype(owner.dtype, np.integer)
        assert owner.min() >= 0
        assert owner.max() < num_clients
        np.testing.assert_array_equal(owner[0], owner[1])
        assert (owner[0] != owner[2]).any() or num_clients == 1


@pytest.mark.parametrize("name", [*RULES][3:])
def test_fewer_samples_than_clients(name):
    owner = owners(RULES[name], [0], np.array([9, 0, 9], np.int32), MANY)
    assert owner.shape == (1, 3)
    assert ((owner >= 0) & (owner < MANY)).all()


class TestDirichlet:
    """Shares of a class over N clients ~ Dir(alpha): each is Beta(alpha, (N - 1) alpha)."""

    num_clients, per_class, num_keys = FEW, 400, 80

    def shares(self, alpha):
        """Independent draws of the vector of shares, [keys * classes, N]."""
        labels = balanced(self.per_class)
        drawn = dirichlet(range(self.num_keys), labels, self.num_clients, alpha)
        return np.concatenate([counts(owner, labels, self.num_clients).T / self.per_class for owner in drawn])

    @pytest.mark.long
    @pytest.mark.parametrize("alpha", [0.01, 0.05, 1.0])
    def test_shares_follow_the_law(self, alpha):
        """Mean, second and cross moments, and the chance of more than half, of every client; cuts round by 1/400."""
        shares, n = self.shares(alpha), self.num_clients
        law = stats.beta(alpha, (n - 1) * alpha)
        rounding = 2 / self.per_class

        def assert_mean(values, expected, slack):
            error = np.abs(values.mean(0) - expected)
            assert (error < SIGMAS * values.std(0) / np.sqrt(len(values)) + slack).all()

        np.testing.assert_allclose(law.var(), (1 / n) * (1 - 1 / n) / (n * alpha + 1))
        assert_mean(shares, 1 / n, rounding / 2)
        assert_mean((shares - 1 / n) ** 2, law.var(), rounding)
        assert_mean(((shares - 1 / n) ** 2).sum(1), n * law.var(), rounding)
        assert_mean((shares > 0.5).astype(float), law.sf(0.5), rounding)
        cross = -law.var() / (n - 1)
        assert_mean((shares - 1 / n) * (np.roll(shares, 1, axis=1) - 1 / n), cross, rounding)

    def test_classes_are_drawn_apart(self):
        """The shares of two classes of one partition are uncorrelated."""
        shares = self.shares(0.1).reshape(self.num_keys, NUM_CLASSES, self.num_clients) - 1 / self.num_clients
        variance = stats.beta(0.1, 0.4).var()
        product = np.stack([shares[:, c] * shares[:, c + 1] for c in range(0, NUM_CLASSES, 2)], 1)
        product = product.reshape(-1, self.num_clients) / variance
        assert (np.abs(product.mean(0)) < SIGMAS * product.std(0) / np.sqrt(len(product))).all()

    @pytest.mark.parametrize("alpha", [1e-3, 0.01])
    def test_tiny_alpha_gives_a_class_to_almost_one_client(self, alpha):
        """E of the sum of squared shares is (alpha + 1) / (N alpha + 1): 0.84 for 20 clients at 0.01."""
        labels = balanced(50)
        owner = dirichlet(range(20), labels, MANY, alpha)
        assert owner.min() >= 0
        assert owner.max() < MANY
        tables = [counts(of_seed, labels, MANY) for of_seed in owner]
        total = np.concatenate([((table / 50) ** 2).sum(0) for table in tables])
        expected = (alpha + 1) / (MANY * alpha + 1)
        assert abs(total.mean() - expected) < SIGMAS * total.std() / np.sqrt(len(total)) + 0.02
        largest = np.concatenate([table.argmax(0) for table in tables])
        assert stats.chisquare(np.bincount(largest, minlength=MANY)).pvalue > 1e-4, "a class goes to anyone"

    def test_a_class_is_shuffled_before_it_is_cut(self):
        """Along a class's samples the owner changes as often as when throwing a die; anyone may own the first."""
        labels = balanced(self.per_class)
        (owner,) = dirichlet([0], labels, FEW, 1e4)
        for label in range(NUM_CLASSES):
            mine = owner[labels == label]
            assert abs((mine[1:] != mine[:-1]).mean() - (1 - 1 / FEW)) < 0.1
        small = np.full(53, NUM_CLASSES - 1, np.int32)
        drawn = dirichlet(range(80), small, FEW, 1e4)
        first_and_last = np.stack([np.bincount(drawn[:, place], minlength=FEW) for place in (0, -1)])
        assert stats.chisquare(first_and_last, axis=1).pvalue.min() > 1e-4

    def test_small_classes_leave_nobody_empty_again_and_again(self):
        """Ten classes of 60 samples for 100 clients: each class has 40 clients without a sample, and not the same."""
        for alpha in (1e3, 1e6):
            assert np.bincount(dirichlet([0], balanced(60), 100, alpha)[0], minlength=100).min() > 0

    def test_one_class_is_cut_at_its_shares(self):
        """No client's samples are lost or doubled by rounding: 53 samples over 20 equal shares of 2.65."""
        labels = np.full(53, NUM_CLASSES - 1, np.int32)
        sizes = np.bincount(dirichlet([0], labels, MANY, 1e7)[0], minlength=MANY)
        assert sizes.sum() == 53
        assert sizes.min() >= 2
        assert sizes.max() <= 3


class TestIid:
    @pytest.mark.parametrize(("n", "num_clients"), [(503, MANY), (3, MANY), (1, 1)])
    def test_sizes_differ_by_at_most_one(self, n, num_clients):
        for owner in owners(RULES["iid"], range(3), np.zeros(n, np.int32), num_clients):
            assert np.ptp(np.bincount(owner, minlength=num_clients)) <= 1

    def test_label_does_not_matter(self):
        """The table of counts by client and label is that of independence; that labels come sorted does not show."""
        labels = np.sort(balanced(50))
        table = counts(owners(RULES["iid"], [0], labels, FEW)[0], labels, FEW)
        assert stats.chi2_contingency(table).pvalue > 1e-4
        assert len(np.unique(table)) > 1, "a stratified deal is not a random one"


def holding(seeds, labels, num_clients, held, num_classes=NUM_CLASSES):
    return owners(("classes_per_client", {"classes_per_client": held}), seeds, labels, num_clients, num_classes)


class TestClassesPerClient:
    @pytest.mark.few(3)
    @pytest.mark.parametrize("held", [1, 3, 7, 10])
    @pytest.mark.parametrize("num_clients", [1, FEW])
    def test_holdings(self, held, num_clients):
        """Exactly that many classes a client; a class even among its holders; a class of nobody at -1 as a whole."""
        labels = balanced(50)
        for owner in holding(range(4), labels, num_clients, held):
            assert np.issubdtype(owner.dtype, np.integer)
            assert owner.shape == labels.shape
            assert owner.min() >= -1
            assert owner.max() < num_clients
            table = counts(owner[owner >= 0], labels[owner >= 0], num_clients)
            np.testing.assert_array_equal((table > 0).sum(1), held)
            for label in range(10):
                sizes = table[:, label][table[:, label] > 0]
                if len(sizes):
                    assert sizes.sum() == (labels == label).sum()
                    assert sizes.max() - sizes.min() <= 1
                else:
                    assert (owner[labels == label] == -1).all()

    def test_every_class_is_as_likely(self):
        """Over many keys each client holds each class with probability 3 in 10."""
        labels, keys = balanced(50), 120
        holds = np.zeros((FEW, 10))
        for owner in holding(range(keys), labels, FEW, 3):
            holds += counts(owner[owner >= 0], labels[owner >= 0], FEW) > 0
        assert (np.abs(holds / keys - 0.3) < SIGMAS * np.sqrt(0.3 * 0.7 / keys)).all()

    def test_a_class_is_shuffled_before_it_is_dealt(self):
        """Over keys, the first sample of a class is anyone's."""
        draws = holding(range(120), np.zeros(3, np.int32), 3, 1, 1)[:, 0]
        assert stats.chisquare(np.bincount(draws, minlength=3)).pvalue > 1e-4


class TestShards:
    def test_shards_are_runs_of_the_sorted_labels(self):
        """With 50 different labels the order is plain: along it the owners make 15 runs of 3 or 4, dealt 3 each."""
        labels = np.random.default_rng(0).permutation(50).astype(np.int32)
        for owner in owners(RULES["shards 3"], range(10), labels, 5):
            assert shard_sequences(owner[np.argsort(labels)], {3: 10, 4: 5}), "no cut into such shards gives this deal"

    def test_deal_is_random(self):
        """Anyone may get the first shard, and the first and last shards go to one client with probability 2/14."""
        labels = np.arange(50, dtype=np.int32)
        drawn = owners(RULES["shards 3"], range(150), labels, 5)
        assert stats.chisquare(np.bincount(drawn[:, 0], minlength=5)).pvalue > 1e-4
        together = (drawn[:, 0] == drawn[:, -1]).sum()
        assert stats.binomtest(int(together), 150, 1 / 7).pvalue > 1e-4


def shard_sequences(along, sizes):
    """Whether the owners along the sorted samples can be cut into shards of one owner each, so many of each size."""
    if not len(along):
        return not any(sizes.values())
    for size, number in sizes.items():
        fits = number and len(along) >= size and len(set(along[:size].tolist())) == 1
        if fits and shard_sequences(along[size:], {**sizes, size: number - 1}):
            return True
    return False


def sizes(rule, seeds, n, num_clients, **number):
    """[seeds, N] the samples of each client."""
    drawn = owners((rule, number), range(seeds), np.zeros(n, np.int32), num_clients)
    return np.array([np.bincount(owner, minlength=num_clients) for owner in drawn])


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
    found = sizes("power_law", 40, n, num_clients, exponent=exponent)
    for of_seed in found:
        assert (np.abs(np.sort(of_seed)[::-1] - expected) <= 1).all()
    if exponent:
        assert len({int(np.argmax(of_seed)) for of_seed in found}) > num_clients / 2


def test_dirichlet_sizes_follow_the_law():
    """A client's share of the samples is Beta(beta, (N - 1) beta)."""
    n, num_clients, beta = 2000, 5, 0.5
    shares = (sizes("quantity_skew", 120, n, num_clients, beta=beta) - 1) / (n - 5)
    law = stats.beta(beta, (num_clients - 1) * beta)
    error = shares.std() / np.sqrt(shares.size)
    assert abs((shares**2).mean() - (law.var() + law.mean() ** 2)) < 5 * (shares**2).std() / np.sqrt(shares.size)
    assert stats.kstest(shares[:, 0], law.cdf).pvalue > 1e-4
    assert abs(shares.mean() - 1 / num_clients) < 5 * error


@pytest.mark.parametrize("rule", ["quantity 0.5", "power law 1"])
def test_labels_do_not_matter_for_sizes(rule):
    """The counts by client and label are those of independence, although the labels come sorted."""
    labels = np.repeat(np.arange(4, dtype=np.int32), 500)
    table = counts_of(owners(RULES[rule], [0], labels, 3)[0], labels, 3, 4)
    assert stats.chi2_contingency(table[table.sum(axis=1) > 40]).pvalue > 1e-4
    assert len(np.unique(table)) > 3


def test_samples_behind_the_last_cut_belong_to_nobody():
    labels = np.array([0, 1, 0, 1, 2, 0, 2, 2], np.int32)
    cuts = np.array([[1, 2], [0, 0], [2, 3]], np.int32)
    owner = np.asarray(deal_by_cuts(jax.random.key(0), labels, cuts))
    assert np.bincount(owner[labels == 0] + 1, minlength=3).tolist() == [1, 1, 1]
    assert (owner[labels == 1] == -1).all()
    assert np.bincount(owner[labels == 2] + 1, minlength=3).tolist() == [0, 2, 1]
