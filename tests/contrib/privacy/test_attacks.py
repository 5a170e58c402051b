"""Attacks on what clients send: what they find out stays below the account, and is something without noise."""

import functools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.stats import beta, norm
from tiny import TINY

from mdfl_jax.config import default_config
from mdfl_jax.contrib.privacy.account import Account, largest_draw
from mdfl_jax.core.rng import STREAMS, stream
from mdfl_jax.study import make_study

SMALL = TINY | {"eval_every": 1, "seeds": 1, "network.num_clients": 2, "engine.client_devices": 1}
SMALL |= {"data.limit_train": 40, "network.graph": "complete", "data.normalize": "none", "privacy.clip": 1.0}
KEY, RUNS, AT_ONCE, DELTA, SURE = jax.random.key(5), 4000, 200, 1e-3, 0.999


def simulated(**changes):
    config = default_config()
    config.update_from_flattened_dict(SMALL | {path.replace("__", "."): value for path, value in changes.items()})
    (group,) = make_study(config).groups
    return group.simulation, group.hparams[0]


class Program:
    """Runs that differ in the noise and the minibatches alone, of two clients with 20 samples each, and a sample.

    Attributes:
      kept: (data, noise) -> [RUNS, N, d], the models after the last round.
      start, sample: the first model [d], and the sample of client 0.
    """

    def __init__(self, name, batch_size):
        changes = {"algorithm.name": name, "algorithm.batch_size": batch_size, "algorithm.lr": 0.1, "rounds": 3}
        changes |= {"algorithm.participation": 1.0, "algorithm.period_min": 1, "algorithm.period_max": 1}
        simulation, hparams = simulated(**changes)
        task, data = simulation.task, simulation.data
        self.data = data._replace(x_train=data.x_train.astype(jnp.float32) / 16)
        held = task.partition(data, hparams.task, KEY).inner.held
        assert np.asarray(held.num_samples).tolist() == [20, 20]
        self.place = int(held.sample[0])
        self.sample = self.data.x_train[self.place].ravel(), int(data.y_train[self.place])
        self.start = ravel_pytree(task.init(data, stream(KEY, "init")))[0]

        def of_one(data, noise, batches):
            keys = jnp.stack([batches if each == "batch" else KEY for each in STREAMS])
            own = hparams._replace(task=hparams.task._replace(noise=noise))
            one = lambda carry, _: (simulation.round(data, own, keys, carry), None)  # noqa: E731
            carry, _ = jax.lax.scan(one, simulation.first(data, own, keys), length=3)
            return jax.vmap(lambda model: ravel_pytree(model)[0])(simulation.algorithm.params(carry.algorithm))

        def kept(data, noise):
            keys = jax.random.split(jax.random.key(6), RUNS)
            return jax.lax.map(lambda key: of_one(data, noise, key), keys, batch_size=AT_ONCE)

        self.kept = jax.jit(kept)

    def loss(self, model):
        """The loss of the sample, for a model [d]: the bias of each label, and the weights of its pixels."""
        (x, y), bias, weights = self.sample, model[:10], model[10:].reshape(-1, 10)
        return -jax.nn.log_softmax(x @ weights + bias)[y]


program = functools.lru_cache(Program)


@functools.lru_cache
def worlds(noise, batch_size, name):
    """The models of client 1 in runs in which client 0 has the sample, and in runs in which it does not, [RUNS, d]."""
    of = program(name, batch_size)
    without = of.data._replace(x_train=of.data.x_train.at[of.place].set(jnp.nan))
    # A gradient that is not finite becomes zero: so the account takes a sample away.
    return [np.asarray(of.kept(data, jnp.float32(noise))[:, 1]) for data in (of.data, without)]


def least_epsilon(inside, outside, delta=DELTA):
    """The epsilon below which no mechanism of this delta allows a test that errs so seldom, at a confidence of 99.9 %.

    The test says inside above a threshold, which is chosen on half of the scores and judged on the others.
    """

    def found(threshold, a, b, sure):
        hits, alarms, n = (a > threshold).sum(), (b > threshold).sum(), len(a)
        risk = (1 - sure) / 2
        low = lambda k: beta.ppf(risk, k, n - k + 1) if k else 0.0  # noqa: E731
        ratios = [(low(k) - delta) / (1 - low(n - m)) for k, m in ((hits, alarms), (n - alarms, n - hits))]
        return np.log(max(*ratios, 1e-9))

    half = len(inside) // 2
    places = np.quantile(np.concatenate([inside[:half], outside[:half]]), np.linspace(0.002, 0.998, 250))
    best = max(places, key=lambda t: found(t, inside[:half], outside[:half], 0.95))
    return max(found(best, inside[half:], outside[half:], SURE), 0.0)


def scores(attack, noise, batch_size, name):
    """The scores of the runs with the sample and without: larger ones speak for it."""
    of, of_worlds = program(name, batch_size), worlds(noise, batch_size, name)
    if attack == "direction":  # of who knows the first model, too
        towards = -np.asarray(jax.grad(of.loss)(of.start))
        return [models @ towards for models in of_worlds]
    losses = [np.asarray(jax.vmap(of.loss)(jnp.asarray(models)), np.float64) for models in of_worlds]
    if attack == "loss":
        return [-x for x in losses]
    confidence = [np.log(np.expm1(np.maximum(x, 1e-7))) for x in losses]  # LiRA: the logit, fitted by shadow runs
    fits = [(x[: RUNS // 2].mean(), x[: RUNS // 2].std() + 1e-6) for x in confidence]
    return [norm.logpdf(x, *fits[0]) - norm.logpdf(x, *fits[1]) for x in confidence]


ATTACKS = ("loss", "lira", "direction")


@pytest.mark.long
@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize(("noise", "batch_size", "name"), [(1.0, 0, "dpsgd"), (0.5, 0, "pame"), (0.7, 8, "dpsgd")])
def test_what_attacks_on_a_neighbours_model_find_out_is_below_the_account(noise, batch_size, name, attack):
    steps = 2 if name == "pame" else 3
    account = Account("pld", batch_size, largest_draw(batch_size) if batch_size else 0)
    most = account.epsilon(steps, 20, noise, DELTA)
    found = least_epsilon(*scores(attack, noise, batch_size, name))
    assert found < most


@pytest.mark.long
def test_the_attacks_tell_an_account_that_takes_the_noise_for_four_times_what_it_is():
    assert least_epsilon(*scores("loss", 1.0, 0, "dpsgd")) > Account("pld").epsilon(3, 20, 4.0, DELTA)


@pytest.mark.long
@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("name", ["dpsgd", "pame"])
def test_without_noise_attacks_find_out_who_has_a_sample(name, attack):
    found = least_epsilon(*scores(attack, 0.0, 0, name))
    assert found > 3


def recovered(shares, noise=None):
    """The share of the pixels of a client's only sample that a neighbour knows from one partial message of PaME.

    The gradient of a linear model is the sample times that of the bias (Phong et al. 2018), label by label.
    """
    changes = {"algorithm.name": "pame", "algorithm.lr": 1.0, "algorithm.period_min": 1, "algorithm.period_max": 1}
    changes |= {"algorithm.participation": 1.0, "data.limit_train": 1, "rounds": 2, "data.normalize": "auto"}
    private = {"privacy.clip": np.inf} if noise is None else {"privacy.noise": noise, "privacy.public": "moments"}
    simulation, hparams = simulated(**changes | private)
    task, data = simulation.task, simulation.data
    clients = task.partition(data, hparams.task, KEY)
    other = int(np.argmin(clients.num_samples))
    start = ravel_pytree(task.init(data, stream(KEY, "init")))[0]
    sample = ((data.x_train[0].astype(jnp.float32) - data.mean) / data.std).ravel()  # no pixel is 0

    def of_one(share, batches):
        keys = jnp.stack([batches if each == "batch" else KEY for each in STREAMS])
        own = hparams._replace(algorithm=hparams.algorithm.replace(transmission=share))
        carry = simulation.first(data, own, keys)
        for _ in range(2):  # the first step, and the message that tells of it
            carry = simulation.round(data, own, keys, carry)
        model = jax.tree.map(lambda x: x[other], simulation.algorithm.params(carry.algorithm))
        moved = ravel_pytree(model)[0] - start  # the neighbour holds no samples
        bias, weights = moved[:10], moved[10:].reshape(-1, 10)
        found = jnp.where((bias != 0) & (weights != 0), weights / bias, jnp.inf)
        return jnp.mean(jnp.any(jnp.abs(found - sample[:, None]) < 2e-3, axis=1))

    keys = jax.random.split(jax.random.key(7), 200)
    run = jax.jit(lambda share: jax.vmap(of_one, (None, 0))(share, keys))
    return [float(np.mean(run(jnp.float32(share)))) for share in shares]


SHARES = (0.05, 0.1, 0.2, 0.5, 1.0)


@pytest.mark.long
def test_a_partial_message_hands_over_the_pixels_of_which_it_carries_a_weight_and_the_bias_of_its_label():
    by_hand = [1 - (1 - share**2) ** 10 for share in SHARES]
    np.testing.assert_allclose(recovered(SHARES), by_hand, atol=0.06)
    assert max(recovered([1.0], noise=1.0)) < 0.02
    page = (Path(__file__).parents[3] / "docs" / "privacy.md").read_text()
    shares = ", ".join(f"{100 * share:.3g}" for share in by_hand)
    assert f"{shares} % of the pixels" in page.replace("\n", " ")
