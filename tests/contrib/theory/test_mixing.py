"""Mixing matrices and unions of links: closed forms, windows, spread, bounds; slow oracles and brute force in NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

from mdfl_jax.contrib.theory import mixing
from mdfl_jax.core.errors import UserError


def ring(n):
    """Metropolis-Hastings weights of a ring: 1/3 for itself and each neighbour."""
    return (np.eye(n) + np.roll(np.eye(n), 1, 0) + np.roll(np.eye(n), -1, 0)) / 3


def random_mix(rng, n, rounds, symmetric=True):
    """Doubly stochastic matrices of random pairs, or row-stochastic matrices."""
    if not symmetric:
        weights = rng.random((rounds, n, n)) * (rng.random((rounds, n, n)) < 0.5) + 0.1 * np.eye(n)
        return weights / weights.sum(-1, keepdims=True)
    found = np.tile(np.eye(n), (rounds, 1, 1))
    for matrix in found:
        i, j = rng.choice(n, 2, replace=False)
        matrix[[i, i, j, j], [i, j, i, j]] = 0.5
    return found


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_contraction_is_the_largest_change_of_the_distance_from_the_mean(seed, symmetric):
    rng = np.random.default_rng(seed)
    psi = random_mix(rng, 5, 1, symmetric)[0]
    factor = mixing.contraction(psi)
    assert mixing.contraction(np.eye(1)) == mixing.mixing_parameter(mixing.contraction(np.eye(5))) == 0
    models = rng.standard_normal((5, 200))
    apart = models - models.mean(0)
    mixed = psi @ models
    changes = np.square(mixed - mixed.mean(0)).sum(0) / np.square(apart).sum(0)
    assert changes.max() <= factor + 1e-9
    if symmetric:  # MADFL's lambda_2(W^T W)
        assert factor == pytest.approx(np.sort(np.linalg.eigvalsh(psi.T @ psi))[-2], abs=1e-9)


def test_windows_are_products_in_the_order_of_the_rounds():
    mix = random_mix(np.random.default_rng(0), 4, 7, symmetric=False)
    found = dict(mixing.windows(mix))
    assert {size: len(psi) for size, psi in found.items()} == {1: 7, 2: 3}
    assert dict(mixing.windows(mix[:1])).keys() == {1}
    for size, psi in dict(mixing.windows(np.concatenate([mix, mix[::-1]]))).items():
        whole = np.concatenate([mix, mix[::-1]])
        for k, product in enumerate(psi):
            expected = np.eye(4)
            for t in range(k * size, (k + 1) * size):
                expected = whole[t] @ expected  # a round is X <- W X
            np.testing.assert_allclose(product, expected, atol=1e-12)


def slow_spread(mix, shares):
    """Models as columns of the unit gradients of every client, one round at a time."""
    rounds, n = mix.shape[:2]
    centre = np.eye(n) - 1 / n
    models, labels, of_models, of_labels = np.zeros((n, n)), np.zeros_like(shares), [], []
    for t in range(rounds):
        models, labels = mix[t] @ (models + np.eye(n)), mix[t] @ (labels + shares)
        left, apart = centre @ models @ centre, centre @ labels
        of_models.append((left**2).sum() / (n - 1))
        of_labels.append((apart**2).sum() / n)
    half = rounds // 2
    return np.sqrt(np.mean(of_models[half:])), np.sqrt(np.mean(of_labels[half:]))


def test_spread_is_the_distance_that_constant_gradients_keep_up():
    rng = np.random.default_rng(1)
    mix, shares = random_mix(rng, 6, 30), rng.dirichlet(np.ones(3), 6)
    found = mixing.spread(mix[None], shares[None])
    drift, labels = slow_spread(mix, shares)
    assert found.drift[0] == pytest.approx(drift)
    assert found.labels[0] == pytest.approx(labels)


def test_spread_of_ring_complete_graph_and_nobody():
    """A ring halves at the rate of its second eigenvalue; its drift is the sum of a geometric series for each one."""
    n, rounds = 8, 400
    shares = np.eye(n)[:, :2]
    of = lambda matrix: mixing.spread(np.tile(matrix, (1, rounds, 1, 1)), shares[None])  # noqa: E731
    eigenvalues = (1 + 2 * np.cos(2 * np.pi * np.arange(1, n) / n)) / 3
    found = of(ring(n))
    assert found.halving[0] == pytest.approx(np.log(2) / -np.log(np.abs(eigenvalues).max()), rel=1e-6)
    assert found.drift[0] == pytest.approx(np.sqrt(np.mean((eigenvalues / (1 - eigenvalues)) ** 2)), rel=1e-6)
    complete = of(np.full((n, n), 1 / n))
    assert (complete.halving[0], complete.drift[0]) == pytest.approx((0, 0), abs=1e-6)
    nobody = of(np.eye(n))
    assert np.isinf(nobody.halving[0])
    late = np.arange(rounds // 2, rounds) + 1.0
    assert nobody.drift[0] == pytest.approx(np.sqrt(np.mean(late**2)))
    apart = np.kron(np.eye(2), np.full((4, 4), 1 / 4))
    assert np.isinf(of(apart).halving[0])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 8), st.floats(0.01, 1.0))
def test_no_gradients_go_beyond_the_windowed_bound(seed, size, lr):
    """Assumption 4 holds with equality; gradients that differ in every round stay within eta^2 A_0."""
    rng = np.random.default_rng(seed)
    n, rounds, tau = 4, 24, 3.0
    mix = random_mix(rng, n, rounds)
    products = [np.linalg.multi_dot([np.eye(n), *mix[k : k + size][::-1], np.eye(n)]) for k in range(0, rounds, size)]
    worst = mixing.contraction(np.array(products)[: rounds // size]).max()
    bound = lr**2 * tau * mixing.windowed_factor(mixing.mixing_parameter(worst), size)
    models = np.zeros((n, 2))
    fixed = rng.standard_normal((n, 2))
    for t in range(rounds // size * size):
        gradients = fixed + 0.3 * rng.standard_normal((n, 2))
        gradients -= gradients.mean(0)
        gradients *= np.sqrt(tau / (gradients**2).sum())
        models = mix[t] @ (models - lr * gradients)
        assert ((models - models.mean(0)) ** 2).sum() <= bound * (1 + 1e-9)


def test_factors_of_theorem_1():
    assert mixing.corollary_1(20, 17) == 16 * 400
    assert mixing.corollary_1(3, 2) == pytest.approx(16 * 9 * (1 - 3**-6.0) ** 2)
    assert mixing.consensus_factor(0.0, 20, 17) == np.inf
    assert mixing.consensus_factor(0.5, 2, 1) == pytest.approx((1 + 4) * 4 * (1 + 36))
    assert mixing.windowed_factor(1.0, 1) == 4
    given_numbers = {"num_clients": 10, "rounds": 99, "smoothness": 2.0, "deviation": 4.0, "heterogeneity": 3.0}
    bound = mixing.error_bound(7.0, lr=0.1, distance=5.0, **given_numbers)
    assert bound == pytest.approx((0.25 + 0.01 * 0.4 + 2 * 0.001 / 10 * 1.4 * 21) / (0.2 * 0.6))
    with pytest.raises(UserError, match=r"learning rate is 0\.25"):
        mixing.error_bound(7.0, lr=0.25, distance=5.0, **given_numbers)


def strongly_connected(union):
    reach = np.linalg.matrix_power(union.astype(float) + np.eye(len(union)), len(union)) > 0
    return reach.all()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.booleans(), st.integers(2, 6))
def test_closing_rounds_are_those_of_brute_force(seed, directed, n):
    rng = np.random.default_rng(seed)
    rounds = 9
    adjacency = rng.random((2, rounds, n, n)) < 0.15
    if not directed:
        adjacency |= adjacency.swapaxes(-1, -2)
    adjacency &= ~np.eye(n, dtype=bool)
    closing = mixing.closing_rounds(mixing.next_links(adjacency))
    strong = mixing.strong_window(closing)
    for s in range(2):
        for k in range(rounds):
            ends = [t for t in range(k, rounds) if strongly_connected(adjacency[s, k : t + 1].any(0))]
            assert closing[s, k] == (ends[0] if ends else mixing.UNREACHED)
        sizes = [
            size
            for size in range(1, rounds // 2 + 1)
            if all(strongly_connected(adjacency[s, k * size : (k + 1) * size].any(0)) for k in range(rounds // size))
        ]
        assert strong[s] == (sizes[0] if sizes else np.inf)
    number = [[connected_components(one, connection="weak")[0] for one in each] for each in adjacency]
    assert mixing.num_components(adjacency | adjacency.swapaxes(-1, -2)).tolist() == number
