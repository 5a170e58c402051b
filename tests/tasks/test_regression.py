"""The regressions against plain NumPy, their recipe, and the stop rule."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mdfl_jax import Hparams, Schedule, UserError, simulate
from mdfl_jax.algorithms.dpsgd import dpsgd
from mdfl_jax.algorithms.local import LocalNumbers
from mdfl_jax.core.stopping import initial_stop_state, update_stop_state
from mdfl_jax.networks.spatial import SpatialParams, spatial
from mdfl_jax.tasks.regression import LinearNumbers, LogisticNumbers, draw_samples, draw_truth, regression

N, DIM, Q = 4, 12, 7
EVERYBODY = SpatialParams(radius=np.float32(np.inf))


KINDS = {"linear": LinearNumbers, "logistic": partial(LogisticNumbers, l2=0.0)}


def drawn(kind, **numbers):
    task = regression(kind, N, DIM, Q, test_samples=50)
    return task, task.partition(None, KINDS[kind](**numbers), jax.random.key(0))


def plain_loss(kind, a, b, w, l2):
    """f_i of PaME's examples 1 and 2, sample by sample."""
    total = 0.0
    for x, y in zip(np.asarray(a, np.float64), np.asarray(b, np.float64)):
        z = float(x @ w)
        total += (z - y) ** 2 / 2 if kind == "linear" else np.log1p(np.exp(z)) - y * z
    return total / len(b) + l2 / 2 * float(w @ w)


@pytest.mark.parametrize(("kind", "l2"), [("linear", 0.0), ("linear", 0.3), ("logistic", 1e-3)])
def test_losses_gradients_and_objective_are_those_of_the_paper(kind, l2):
    task, clients = drawn(kind, l2=np.float32(l2))
    weights = np.random.default_rng(1).normal(size=(N, DIM)) / 4
    loss, slopes = jax.jit(task.gradient)(None, clients, {"w": jnp.asarray(weights, jnp.float32)}, jax.random.key(1))
    for i in range(N):
        a, b = clients.train.features[i], clients.train.targets[i]
        np.testing.assert_allclose(loss[i], plain_loss(kind, a, b, weights[i], l2), rtol=1e-5)
        for k in range(DIM):
            step = np.zeros(DIM)
            step[k] = 1e-5
            up, down = (plain_loss(kind, a, b, weights[i] + s * step, l2) for s in (1, -1))
            np.testing.assert_allclose(slopes["w"][i, k], (up - down) / 2e-5, atol=2e-4)
    w = weights[0]
    value = task.objective(None, clients, {"w": jnp.asarray(w[None], jnp.float32)})
    per_client = [plain_loss(kind, clients.train.features[i], clients.train.targets[i], w, l2) for i in range(N)]
    np.testing.assert_allclose(value, sum(per_client), rtol=1e-5)


@pytest.mark.parametrize(("kind", "share"), [("linear", 0.01), ("logistic", 0.5)])
def test_the_truth_has_the_papers_share_of_coordinates_and_size(kind, share):
    truth = np.asarray(draw_truth(jax.random.key(0), 1000, jnp.float32, KINDS[kind]().truth_share))
    assert np.count_nonzero(truth) == 1000 * share
    size = np.abs(truth[truth != 0])
    assert size.min() >= 0.5
    assert size.max() <= 2.0
    assert (truth > 0).any()
    assert (truth < 0).any()


def test_targets_follow_the_recipe():
    truth = draw_truth(jax.random.key(0), 40, jnp.float32, 0.01)
    a, b = draw_samples(jax.random.key(1), "linear", truth, 20_000)
    noise = np.asarray(b - a @ truth)
    assert abs(noise.std() - 0.5) < 0.01
    assert abs(noise.mean()) < 0.015
    assert abs(np.asarray(a).std() - 1) < 0.01
    a, b = draw_samples(jax.random.key(1), "logistic", truth / 2, 20_000)
    z = np.asarray(a @ (truth / 2))
    expected = 1 / (1 + np.exp(-z))
    assert abs(float((np.asarray(b) - expected).mean())) < 0.01
    assert abs(float(((np.asarray(b) - expected) * z).mean())) < 0.02  # no trend left along <a, w*>
    assert set(np.unique(b)) == {0.0, 1.0}


def test_scores_are_r_squared_and_the_share_of_right_labels():
    task, clients = drawn("linear")
    w = np.random.default_rng(2).normal(size=(3, DIM)).astype(np.float32)
    a, b = np.asarray(clients.test.features), np.asarray(clients.test.targets)
    residual = b - w @ a.T
    expected = np.maximum(1 - (residual**2).mean(1) / b.var(), 0)
    score = task.evaluate(None, clients, {"w": jnp.asarray(w)})
    np.testing.assert_allclose(score.accuracy, expected, atol=1e-5)
    np.testing.assert_allclose(score.loss, (residual**2).mean(1) / 2, rtol=1e-5)
    task, clients = drawn("logistic")
    a, b = np.asarray(clients.test.features), np.asarray(clients.test.targets)
    score = task.evaluate(None, clients, {"w": jnp.asarray(w)})
    np.testing.assert_allclose(score.accuracy, ((w @ a.T > 0) == (b > 0.5)).mean(1), atol=1e-6)
    validation = task.validate(None, clients, {"w": jnp.asarray(w[:1])})
    a, b = np.asarray(clients.validation.features), np.asarray(clients.validation.targets)
    np.testing.assert_allclose(validation, plain_loss("logistic", a, b, w[0].astype(float), 0), rtol=1e-4)
    assert clients.label_counts.tolist() == [[Q - s, s] for s in np.asarray(clients.train.targets.sum(1)).tolist()]


def test_minibatches_are_unbiased():
    task = regression("linear", N, DIM, Q, batch_size=3)
    clients = task.partition(None, LinearNumbers(), jax.random.key(0))
    whole = regression("linear", N, DIM, Q)
    params = {"w": jnp.ones((N, DIM))}
    many = jax.vmap(lambda k: task.gradient(None, clients, params, k)[1]["w"])(
        jax.random.split(jax.random.key(3), 4000)
    )
    expected = whole.gradient(None, clients, params, jax.random.key(0))[1]["w"]
    asked = task.gradient(None, clients, params, jax.random.key(0), whole=True)[1]["w"]
    np.testing.assert_array_equal(asked, expected)
    error = np.asarray(many.std(0)) / np.sqrt(4000)
    assert np.all(np.abs(np.asarray(many.mean(0) - expected)) < 5 * error)


@pytest.mark.parametrize("rounds_run", [2, 3, 8])
def test_the_stop_rule_is_numpys_standard_deviation_of_the_last_three(rounds_run):
    values = [9.0, 4.0, 4.1, 4.05, 4.0501, 4.0502, 4.0501, 4.05]
    watch = initial_stop_state(jnp.float32)
    for value in values[:rounds_run]:
        watch = update_stop_state(watch, jnp.float32(value), 1e-3)
    recent = values[max(rounds_run - 3, 0) : rounds_run]
    assert bool(watch.stopped) == (len(recent) == 3 and np.std(recent) < 1e-3)
    assert int(watch.rounds) == rounds_run
    assert bool(update_stop_state(watch, jnp.float32(np.inf), 1e-3).stopped)
    waited = update_stop_state(watch, jnp.float32(values[rounds_run - 1]), 1e-3, moved=jnp.bool_(False))
    assert not bool(waited.stopped)  # a round in which nothing happened says nothing
    assert np.array_equal(waited.recent, watch.recent, equal_nan=True)


@cache
def program(stop_std, eval_every):
    task = regression("linear", N, DIM, 40)
    return jax.jit(simulate(task, spatial(N, 3), dpsgd(), Schedule(60, eval_every, stop_std=stop_std)))


def run(stop_std, eval_every=20, lr=0.2):
    hparams = Hparams(LinearNumbers(), EVERYBODY, LocalNumbers(lr=np.float32(lr)))
    return program(stop_std, eval_every)(hparams, jax.random.key(0))


def test_a_stopped_run_holds_still_and_counts_nothing():
    every = run(0.0, eval_every=1)
    objectives = np.asarray(every.objective, np.float64)
    still = [k for k in range(3, 61) if np.std(objectives[k - 2 : k + 1]) < 1e-3]
    stopped = run(1e-3)
    done = int(stopped.rounds_done[-1])
    assert done == still[0]
    assert stopped.round.tolist() == [0, 20, 40, 60]
    np.testing.assert_allclose(stopped.objective[-1], objectives[done], rtol=1e-6)
    assert stopped.messages[-1].tolist() == every.messages[done].tolist()
    assert int(every.rounds_done[-1]) == 60


def test_a_diverging_run_stops():
    metrics = run(1e-3, lr=1e18)
    assert int(metrics.rounds_done[-1]) < 60
    assert not np.isfinite(metrics.objective[-1])


@pytest.mark.long
def test_double_precision_reaches_what_single_cannot():
    def final(precision):
        task = regression("linear", N, DIM, 40, precision=precision)
        simulation = simulate(task, spatial(N, 3), dpsgd(), Schedule(300, 100))
        numbers = Hparams(LinearNumbers(), EVERYBODY, LocalNumbers(lr=np.float32(0.2)))
        return jax.jit(simulation)(numbers, jax.random.key(0))

    with jax.enable_x64(True):
        metrics = final("float64")
        assert metrics.objective.dtype == jnp.float64
        assert metrics.consensus_distance[-1] < 1e-12
        assert int(metrics.messages[-1, 0]) == 300 * (N - 1)
    assert final("float32").objective.dtype == jnp.float32


def test_shift_moves_the_clients_truths_apart_and_only_where_the_common_one_is():
    shifted, same = (drawn("linear", shift=np.float32(s))[1] for s in (3.0, 0.0))
    truth = draw_truth(jax.random.split(jax.random.key(0), 5)[0], DIM, jnp.float32, 0.01)
    (where,) = np.flatnonzero(truth)
    assert np.array_equal(shifted.train.features, same.train.features)
    moved = np.asarray(shifted.train.targets - same.train.targets) / np.asarray(same.train.features[:, :, where])
    np.testing.assert_allclose(moved, np.repeat(moved[:, :1], Q, axis=1), rtol=1e-2)  # one number a client
    assert np.ptp(moved[:, 0]) > 0.5


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: regression("linaer", N, DIM, Q), "linear"),
        (lambda: regression("linear", N, DIM, Q, precision="bfloat16"), "float32 or float64"),
    ],
)
def test_mistakes_are_one_line(make, says):
    with pytest.raises(UserError, match=says):
        make()
