"""Algorithms with personal models: recursions by hand, one client alone against plain flax and optax, special cases.

That they do what their papers say with everything else that a study may have is judged by tests/reference.
"""

from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from least_squares import NO_LINKS, Problem, graph, run
from small import Normalised, told, toy_dataset
from tiny import tiny_config

from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import Settings, adam, sgd
from mdfl_jax.algorithms.registry import numbers_of
from mdfl_jax.core.trees import ravel
from mdfl_jax.core.types import Links, RoundContext
from mdfl_jax.data.partition import PartitionNumbers
from mdfl_jax.study import make_study
from mdfl_jax.tasks import classification

BOTH = np.array([[False, True], [True, False]]), np.full((2, 2), 0.5)


class Wells:
    """f_i(u, v) = (u + v - c_i)^2 / 2 of two clients, c = 1 and 3; or of one leaf x. All leaves start at zero."""

    centre = np.array([1.0, 3.0])

    def gradient(self, params, key):
        gap = sum(params.values()) - self.centre
        return gap**2 / 2, dict.fromkeys(params, gap)

    def after(self, name, leaves, rounds, settings=Settings(sgd(momentum=False)), **numbers):
        """The state after some rounds in which both hear each other."""
        algorithm, hparams = ALGORITHMS[name](settings), numbers_of(name, lr=0.5, **numbers)
        state = algorithm.init(hparams, {leaf: jnp.zeros(2) for leaf in leaves})
        for t in range(rounds):
            context = RoundContext(jax.random.key(t), self.gradient)
            state, _ = algorithm.round(hparams, state, Links(*map(jnp.asarray, BOTH)), context)
        return state


def test_two_clients_by_hand_ditto():
    """x: 0 -> 1 -> 1.5 of both; v1: 0 -> 0.5 -> 1, v2: 0 -> 1.5 -> 1.5 + (1.5 - 0.5) / 2, with lambda 1."""
    for rounds, x, v in ((1, [1, 1], [0.5, 1.5]), (2, [1.5, 1.5], [1, 2])):
        state = Wells().after("ditto", "x", rounds, personal_proximal=1.0)
        np.testing.assert_array_equal(state.shared.params["x"], x)
        np.testing.assert_array_equal(state.personal["x"], v)


def test_two_clients_by_hand_apfl():
    """In the second round the mixtures are 0.625 and 0.875; their slopes by alpha are 0.75 0.375 and 0.25 2.125."""
    for rounds, x, v, alpha in (
        (1, [1, 1], [0.25, 0.75], [0.5, 0.5]),
        (2, [1.5, 1.5], [0.34375, 1.28125], [0.5 - 0.1 * 0.28125, 0.5 - 0.1 * 0.53125]),
    ):
        state = Wells().after("apfl", "x", rounds, alpha=0.5, alpha_lr=0.1)
        np.testing.assert_array_equal(state.shared["x"], x)
        np.testing.assert_array_equal(state.own["x"], v)
        np.testing.assert_allclose(state.alpha, alpha, rtol=1e-6)
    for rounds, within in ((2, [0, 0]), (3, [1, 0])):  # steps that would lead far outside
        state = Wells().after("apfl", "x", rounds, alpha=0.5, alpha_lr=1e3)
        np.testing.assert_array_equal(state.alpha, within)


@pytest.mark.parametrize(
    ("name", "more", "u"),
    [("dfedalt", {}, [0.25, 0.28125]), ("dfedsalt", {"rho": 0.125}, [0.3125, 0.375])],
)
def test_two_clients_by_hand_dfedalt(name, more, u):
    """Two steps on v, one on u, then the mean of u. DFedSalt's gradient by u is farther from zero, by rho."""
    settings = Settings(sgd(momentum=False), shared="u")
    state = Wells().after(name, "uv", 1, settings, personal_steps=2, **more)
    np.testing.assert_array_equal(state.params["v"], [0.75, 2.25])
    np.testing.assert_allclose(state.params["u"], np.full(2, u[0]))
    if name == "dfedalt":
        state = Wells().after(name, "uv", 2, settings, personal_steps=2)
        np.testing.assert_array_equal(state.params["v"], [0.75, 2.625])
        np.testing.assert_allclose(state.params["u"], np.full(2, u[1]))


class Net(nn.Module):
    """A body and a head."""

    @nn.compact
    def __call__(self, images):
        x = nn.tanh(nn.Dense(6, name="body")(images.reshape(len(images), -1)))
        return nn.Dense(3, name="head")(x)


def alone(name, optimizer, **numbers):
    """Three rounds of three steps of a client that hears nobody: (its model, first model, loss of a model)."""
    task = classification(toy_dataset(), Net(), 3, "iid")
    clients = task.partition(task.data, PartitionNumbers(), jax.random.key(0))
    first = task.init(task.data, jax.random.key(1))
    settings = Settings(optimizer, num_local_steps=3, shared="body/*" if "salt" in name or "alt" in name else "")
    algorithm, hparams = ALGORITHMS[name](settings), numbers_of(name, lr=0.05, **numbers)
    state = algorithm.init(hparams, jax.tree.map(lambda p: jnp.stack([p] * 3), first))
    gradient, links = partial(task.gradient, task.data, clients), Links(jnp.zeros((3, 3), bool), jnp.eye(3))
    for t in range(3):
        state, _ = algorithm.round(hparams, state, links, RoundContext(jax.random.key(t), gradient))
    data, own = task.data, np.asarray(clients.held.sample)[: int(clients.num_samples[0])]
    x, y = (data.x_train[own].astype(np.float32) - data.mean) / data.std, data.y_train[own]

    def loss(params):
        return optax.softmax_cross_entropy_with_integer_labels(Net().apply({"params": params}, x), y).mean()

    return jax.tree.map(lambda p: p[0], algorithm.params(state)), first, loss


def steps(optimizer, params, state, gradient, count):
    """Steps of an optimiser of optax from a model and its state."""
    for _ in range(count):
        updates, state = optimizer.update(gradient(params), state, params)
        params = optax.apply_updates(params, updates)
    return params, state


OPTIMIZERS = {"sgd": (sgd(), lambda: optax.sgd(0.05, 0.5)), "adam": (adam(), lambda: optax.adamw(0.05, weight_decay=0))}


@pytest.mark.parametrize("rule", OPTIMIZERS)
@pytest.mark.parametrize("name", ["ditto", "apfl", "dfedalt", "dfedsalt"])
def test_one_client_alone_is_plain_flax_and_optax(name, rule):
    ours, plain = OPTIMIZERS[rule]
    own = {"ditto": {"personal_proximal": 0.3}, "apfl": {"alpha": 0.25, "alpha_lr": 0.2}, "dfedsalt": {"rho": 0.02}}
    more = own.get(name, {}) | ({"personal_steps": 2} if "alt" in name else {})
    found, first, loss = alone(name, ours, momentum=0.5, **more)
    grad, tree, optimizer = jax.jit(jax.grad(loss)), jax.tree.map, plain()
    if name == "ditto":
        x, v, of_x, of_v = first, first, optimizer.init(first), optimizer.init(first)
        for _ in range(3):
            held = lambda p, x=x: tree(lambda g, p, x: g + 0.3 * (p - x), grad(p), p, x)  # noqa: E731
            v, of_v = steps(optimizer, v, of_v, held, 3)
            x, of_x = steps(optimizer, x, of_x, grad, 3)
        expected = v
    elif name == "apfl":
        x, v, of_x, of_v, alpha = first, first, optimizer.init(first), optimizer.init(first), 0.25
        mixed = lambda v, x, a: tree(lambda v, x: a * v + (1 - a) * x, v, x)  # noqa: E731
        for _ in range(3):
            for k in range(3):
                h = grad(mixed(v, x, alpha))
                slope = sum(jnp.vdot(d, g) for d, g in zip(*map(jax.tree.leaves, (tree(jnp.subtract, v, x), h))))
                scaled = tree(lambda g, a=alpha: a * g, h)
                v, of_v = steps(optimizer, v, of_v, lambda p, scaled=scaled: scaled, 1)
                x, of_x = steps(optimizer, x, of_x, grad, 1)
                alpha = jnp.clip(alpha - 0.2 * slope, 0, 1) if k == 0 else alpha
        assert alpha != 0.25
        expected = mixed(v, x, alpha)
    else:
        head, body = {"head": first["head"]}, {"body": first["body"]}
        of_head, of_body = optimizer.init(head), optimizer.init(body)
        for _ in range(3):
            by_head = lambda p, body=body: {"head": grad(p | body)["head"]}  # noqa: E731
            head, of_head = steps(optimizer, head, of_head, by_head, 2)

            def by_body(p, head=head):
                g = {"body": grad(p | head)["body"]}
                if name == "dfedsalt":
                    size = optax.global_norm(g)
                    g = {"body": grad(tree(lambda p, g: p + 0.02 * g / size, p, g) | head)["body"]}
                return g

            body, of_body = steps(optimizer, body, of_body, by_body, 3)
        expected = head | body
    np.testing.assert_allclose(ravel(tree(lambda p: p[None], found))[0], ravel(tree(lambda p: p[None], expected))[0],
                               atol=1e-5)  # fmt: skip


def models_of(name, settings=Settings(num_local_steps=2), **numbers):
    """The models after each of four rounds with links and without, in double precision."""
    with jax.enable_x64(True):
        links = [graph(), NO_LINKS, graph(), graph()]
        return run(ALGORITHMS[name](settings), numbers_of(name, lr=0.125, momentum=0.5, **numbers), Problem(), links)[0]


def test_special_cases_are_other_algorithms():
    """Nothing held or nothing mixed is training alone; nothing of one's own, or no personal leaf, is D-PSGD."""
    np.testing.assert_array_equal(models_of("ditto", personal_proximal=0.0), models_of("local_only"))
    np.testing.assert_array_equal(models_of("apfl", alpha=1.0), models_of("local_only"))
    np.testing.assert_array_equal(models_of("apfl", alpha=0.0), models_of("dpsgd"))
    whole = Settings(num_local_steps=2, shared="*")
    np.testing.assert_array_equal(models_of("dfedalt", whole, personal_steps=5), models_of("dpsgd"))
    np.testing.assert_array_equal(models_of("dfedsalt", whole, rho=0.1), models_of("dfedsam", rho=0.1))
    part = Settings(num_local_steps=2, shared="u")
    np.testing.assert_allclose(models_of("dfedsalt", part, rho=0.0), models_of("dfedalt", part), rtol=1e-12)


def test_batch_statistics_are_those_of_the_model_that_is_evaluated():
    """An APFL mixture of one's own model alone has the statistics of training alone; they follow the samples."""
    task = classification(toy_dataset(), Normalised(), 3, "iid")
    clients = task.partition(task.data, PartitionNumbers(), jax.random.key(0))
    gradient, links = (
        partial(task.gradient, task.data, clients),
        Links(~jnp.eye(3, dtype=bool), jnp.full((3, 3), 1 / 3)),
    )
    first = jax.tree.map(lambda p: jnp.stack([p] * 3), task.init(task.data, jax.random.key(1)))
    found = {}
    for name, own in (("apfl", {"alpha": 1.0}), ("local_only", {}), ("ditto", {"personal_proximal": 0.0})):
        algorithm, hparams = ALGORITHMS[name](Settings(num_local_steps=2)), numbers_of(name, lr=0.05, **own)
        state = algorithm.init(hparams, first)
        for t in range(2):
            state, _ = algorithm.round(hparams, state, links, RoundContext(jax.random.key(t), gradient))
        found[name] = jax.tree.leaves(algorithm.params(state)["batch_stats"])
    for name in ("apfl", "ditto"):
        for one, other, start in zip(found[name], found["local_only"], jax.tree.leaves(first["batch_stats"])):
            np.testing.assert_array_equal(one, other)
            assert (np.asarray(one) != np.asarray(start)).any()


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"algorithm.name": "dfedalt"}, "model.shared is ''; it must be patterns of the leaves that dfedalt exchanges"),
        ({"algorithm.name": "dfedsalt", "model.shared": "body"}, "'body' matches none of the leaves Dense_0/bias, "),
        (
            {"algorithm.name": "dfedalt", "model.shared": "*/bias", "algorithm.lr_schedule": "cosine",
             "algorithm.local_steps": 2},
            "algorithm.lr_schedule is cosine; it must be constant or exponential unless algorithm.personal_steps",
        ),
        ({"algorithm.name": "ditto", "algorithm.compressor": "top_k"}, "ditto sends nothing compressed"),
        ({"algorithm.name": "ditto", "algorithm.personal_proximal": -1.0}, "it must be at least 0"),
        ({"algorithm.name": "apfl", "algorithm.alpha": 2.0}, "alpha is 2.0; it must be at least 0 and at most"),
        ({"algorithm.name": "apfl", "privacy.clip": 1.0, "privacy.public": "labels,moments"}, "apfl releases messages"),
        ({"algorithm.name": "ditto", "network.mobility": "staleness"}, "a rule that reads no models with ditto"),
        ({"model.shared": "*/bias", "network.mobility": "staleness"}, "a rule that reads no models with model"),
        ({"personal.evaluate_after": 1, "privacy.clip": 1.0, "privacy.public": "labels,moments"},
         "personal.evaluate_after is 1; it must be 0 with privacy.clip"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(changes, line):
    assert line in told(make_study, tiny_config(**changes))


def test_a_cosine_of_equal_steps_is_allowed():
    changes = {"algorithm.name": "dfedalt", "model.shared": "*/bias", "algorithm.lr_schedule": "cosine"}
    assert make_study(tiny_config(**changes)).points
