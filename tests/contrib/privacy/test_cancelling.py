"""Noise that cancels: its covariance, what it hides, and the account of it, against inverses in double precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm
from small import told
from tiny import TINY

import mdfl_jax
from mdfl_jax.config import default_config
from mdfl_jax.contrib.privacy.cancelling import Cancelling, inverse_diagonal, root_of, spent_by_step
from mdfl_jax.core.types import Algorithm, Links, RoundContext, RoundStats
from mdfl_jax.study import make_study

SMALL = TINY | {"rounds": 4, "eval_every": 1, "seeds": 1, "network.num_clients": 5, "engine.client_devices": 1}
SMALL |= {"privacy.clip": 1.0, "privacy.noise": 0.5, "privacy.cancelling": 20.0, "privacy.public": "moments"}
SMALL |= {"network.graph": "ring", "algorithm.lr": 0.1}
RING = np.roll(np.eye(5), 1, axis=0) + np.roll(np.eye(5), -1, axis=0)


def laplacian(between):
    return np.diag(between.sum(1)) - between


def drawn_graph(seed, num_clients, spread):
    rng = np.random.default_rng(seed)
    linked = np.triu(rng.random((num_clients, num_clients)) < 0.5, 1)
    between = np.where(linked, 10 ** rng.uniform(-1, spread, linked.shape), 0)
    return 10 ** rng.uniform(-1, 1, num_clients), between + between.T


@given(st.integers(0, 10**6), st.integers(1, 9), st.floats(0, 5))
def test_the_diagonal_of_the_inverse_is_right_in_single_precision_however_large_the_noise(seed, num_clients, spread):
    own, between = drawn_graph(seed, num_clients, spread)
    wanted = np.diag(np.linalg.inv(np.diag(own) + laplacian(between)))
    found = inverse_diagonal(jnp.asarray(own, jnp.float32), jnp.asarray(between, jnp.float32))
    np.testing.assert_allclose(found, wanted, rtol=2e-5)


@given(st.integers(0, 10**6), st.integers(2, 6))
def test_a_step_tells_what_the_likeliest_ratio_of_all_noised_gradients_does(seed, num_clients):
    """mu^2 = d' Sigma^-1 d with d the change of one gradient, without the noise that the other client knows."""
    own, between = drawn_graph(seed, num_clients, 1.0)
    length = 10 ** np.random.default_rng(seed).uniform(-1, 1, num_clients)
    wanted = np.zeros(num_clients)
    for i in range(num_clients):
        for j in set(range(num_clients)) - {i}:
            rest = [k for k in range(num_clients) if k != j]
            covariance = (np.diag(own) + laplacian(between))[np.ix_(rest, rest)] - np.diag(between[rest, j])
            wanted[i] = max(wanted[i], length[i] ** 2 * np.linalg.inv(covariance)[rest.index(i), rest.index(i)])
    found = np.asarray(spent_by_step(*(jnp.asarray(x, jnp.float32) for x in (own, between, length))))
    assert (found >= wanted).all()
    np.testing.assert_allclose(found, wanted, rtol=2e-3)


def test_the_noise_has_the_covariance_of_sums_over_pairs_and_its_mean_is_zero():
    between = jnp.asarray(9.0 * RING, jnp.float32)
    np.testing.assert_allclose(root_of(between) @ root_of(between).T, laplacian(9 * RING), atol=1e-4)
    zeros = {"a": jnp.zeros((5, 3000)), "b": jnp.zeros((5, 30, 100))}
    seen = []

    def do_round(hparams, state, links, context):
        seen.extend(context.gradient(zeros, jax.random.key(k))[1] for k in (1, 2))
        return state, RoundStats(jnp.zeros(5), jnp.zeros(5, jnp.int32), None)

    plain = Algorithm(frozenset(), None, do_round, None)
    context = RoundContext(jax.random.key(0), lambda models, key: (jnp.zeros(5), zeros))
    Cancelling(between).around(plain).round(None, None, Links(between > 0, jnp.eye(5)), context)
    draws = [leaf.reshape(5, -1) for found in seen for leaf in found.values()]
    assert max(np.abs(x.mean(0)).max() for x in draws) < 1e-5
    together = np.concatenate(draws, axis=1)
    np.testing.assert_allclose(np.cov(together), laplacian(9 * RING), atol=6 * 18 / np.sqrt(together.shape[1]))
    assert np.abs(np.corrcoef(np.concatenate(draws)) - np.kron(np.eye(4), np.corrcoef(together))).max() < 0.1


def test_who_distinguishes_two_gradients_by_all_messages_errs_as_often_as_the_account_says():
    """The best test by a client that knows its own secrets, on 40,000 steps."""
    own, length, between = np.full(5, 0.25), np.ones(5), 4 * RING
    found = float(spent_by_step(*(jnp.asarray(x, jnp.float32) for x in (own, between, length)))[0])
    known = between * (np.arange(5) != 1)[:, None] * (np.arange(5) != 1)
    covariance = np.diag(own) + laplacian(known)
    noise = np.random.default_rng(0).multivariate_normal(np.zeros(5), covariance, 40_000)
    direction = np.linalg.solve(covariance, np.eye(5)[0])
    right = ((noise + np.eye(5)[0]) @ direction > direction[0] / 2).mean()
    assert right == pytest.approx(norm.cdf(np.sqrt(found) / 2), abs=0.01)


def study(**changes):
    config = default_config()
    config.update_from_flattened_dict(SMALL | {path.replace("__", "."): value for path, value in changes.items()})
    return make_study(config)


def test_the_account_is_that_of_all_rounds_and_what_is_shared_cancels_in_the_mean():
    found = mdfl_jax.run(SMALL | {"sweep": "privacy.cancelling=0,20"}, progress=False)
    plain, hidden = found["epsilon"].isel(seed=0).values
    covariance = 0.25 * np.eye(5) + 400 * laplacian(RING)
    known = 400 * RING * (np.arange(5) != 1)[:, None] * (np.arange(5) != 1)  # the worst: a neighbour
    by_step = np.diag(np.linalg.inv(0.25 * np.eye(5) + laplacian(known)))[0]
    assert by_step > np.diag(np.linalg.inv(covariance))[0]
    orders = np.array([1 + x / 10 for x in range(1, 100)] + [*range(11, 64), 128, 256, 512, 1024])
    for t in range(1, 5):
        renyi = t * by_step * orders / 2
        wanted = (renyi + np.log1p(-1 / orders) - np.log(1e-5 * orders) / (orders - 1)).min()
        np.testing.assert_allclose(hidden[t], wanted, rtol=2e-3)
        assert (hidden[t] < plain[t]).all()
    apart, of_mean = (found[name].isel(seed=0, round=1).values for name in ("consensus_distance", "mean_model_loss"))
    assert apart[1] > 10 * apart[0]
    assert of_mean[1] == pytest.approx(of_mean[0], rel=1e-4)  # all that is shared has cancelled


REFUSED = [
    ({"privacy.clip": np.inf, "privacy.noise": 0.0}, "privacy.cancelling is 20.0; it must be 0 with privacy.clip inf"),
    ({"privacy.noise": 0.0}, "it must be 0 with privacy.noise 0: the sum over all clients"),
    ({"privacy.on": "messages"}, "it must be 0 with privacy.on messages"),
    ({"algorithm.batch_size": 8}, "it must be 0 with algorithm.batch_size above 0"),
    ({"privacy.pairs": True}, "it must be 0 with privacy.pairs"),
    ({"attack.name": "sign_flip"}, "it must be 0 with attackers"),
    ({"privacy.noise": 0.0, "privacy.target_epsilon": 8.0}, "it must be 0 with privacy.noise 0"),
    ({"engine.links": "lists"}, "it must be 0 without engine.links=dense"),
]


@pytest.mark.parametrize(("changes", "why"), REFUSED)
def test_where_the_account_does_not_hold_noise_that_cancels_is_refused(changes, why):
    assert why in told(study, **changes)
