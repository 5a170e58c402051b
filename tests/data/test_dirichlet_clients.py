"""Dirichlet laws of the clients' own labels: equal sizes, and draws without replacement."""

import jax
import jax.numpy as jnp
import numpy as np
from dealing import counts_of, deal
from scipy import stats
from small import told, toy_dataset

from mdfl_jax.data.partition.dirichlet_per_client import PerClientNumbers, draw_labels

LABELS = np.random.default_rng(0).choice(4, 61, p=[0.5, 0.3, 0.2, 0]).astype(np.int32)  # label 3 is absent


def test_sizes_are_as_asked_and_labels_those_of_the_shares():
    """Equal sizes of all samples, or so many each; few labels a client with a small concentration, else all."""
    for name, size, alpha in (
        ("dirichlet_per_client", 0, 0.01),
        ("dirichlet_per_client", 5, 0.01),
        ("dirichlet_per_client", 5, 1e3),
        ("dirichlet_balanced", 0, 0.01),
        ("dirichlet_balanced", 0, 1e3),
    ):
        more = {"samples_per_client": size} if size else {}
        rule = jax.jit(
            lambda key, name=name, more=more, alpha=alpha: deal(name, key, LABELS, 7, 4, alpha=alpha, **more)
        )
        for seed in range(4):
            counts = counts_of(np.asarray(rule(jax.random.key(seed))), LABELS, 7, 4)
            sizes = counts.sum(axis=1)
            assert sizes.tolist() == [5] * 7 if size else sorted(sizes) == [8] * 2 + [9] * 5
            pure = (counts.max(axis=1) / sizes).mean()
            assert pure > 0.7 if alpha < 1 else pure < 0.75, name
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
    left, expected = np.bincount(LABELS, minlength=4), np.zeros((7, 4), int)
    for turn in range(61):
        noise = np.asarray(jax.random.gumbel(jax.random.fold_in(key_draws, turn), (4,)))
        label = int(np.argmax(np.where(left > 0, log_shares[turns[turn % 7]] + noise, -np.inf)))
        left[label] -= 1
        expected[turns[turn % 7], label] += 1
    owner = deal("dirichlet_balanced", jax.random.key(0), LABELS, 7, 4, alpha=0.3)
    np.testing.assert_array_equal(counts_of(np.asarray(owner), LABELS, 7, 4), expected)


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
