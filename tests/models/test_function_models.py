"""Pairs of functions (init, apply) as clients' models: trained as JAX and optax alone train them, errors in a line."""

from functools import partial
from types import SimpleNamespace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from adapted import N, started, step, task_of, trained_by_linen, trained_by_the_task
from small import assert_trees_equal

from mdfl_jax.core.errors import UserError
from mdfl_jax.models import SampleSpec, client_model
from mdfl_jax.models.adapters import draws, variables_of


def init(key, x):
    """A tree that is no dictionary."""
    return [(0.3 * jax.random.normal(key, (x[0].size, 3)), jnp.zeros(3))]


def plain(params, x):
    ((kernel, bias),) = params
    return x.reshape(x.shape[0], -1) @ kernel + bias


def dropping(params, x, *, key=None):
    kept = 1.0 if key is None else jax.random.bernoulli(key, 0.5, x.shape) / 0.5
    return plain(params, x * kept)


def as_haiku(params, rng, x, is_training):
    return dropping(params, x, key=rng if is_training else None)


def with_flag(params, x, deterministic=True):
    return plain(params, x) if deterministic else 2 * plain(params, x)


class Transformed(NamedTuple):
    init: object
    apply: object


@pytest.mark.long
@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("model", "in_training", "may_draw"),
    [
        ((init, plain), lambda params, x, key: plain(params, x), False),
        ((init, dropping), lambda params, x, key: dropping(params, x, key=key), True),
        (Transformed(init, as_haiku), lambda params, x, key: as_haiku(params, key, x, True), True),
        (SimpleNamespace(init=init, apply=with_flag), lambda params, x, key: 2 * plain(params, x), True),
        ((init, jax.jit(dropping)), lambda params, x, key: dropping(params, x, key=key), True),
        ((init, partial(as_haiku, is_training=True)), lambda params, x, key: as_haiku(params, key, x, True), True),
    ],
    ids=["plain", "key", "haiku", "flag", "jit", "partial"],
)
def test_clients_train_as_the_functions_say(model, in_training, may_draw):
    task = task_of(model)
    assert draws(client_model(model)) is may_draw
    clients, models = started(task)
    losses, after = trained_by_the_task(task, models, clients)
    forward = lambda variables, images, key: (in_training(variables["params"], images, key), {})  # noqa: E731
    for i in range(N):
        mine = jax.tree.map(lambda p, i=i: p[i], models)
        wanted, variables = trained_by_linen(task, clients, {"params": mine}, forward, i)
        np.testing.assert_allclose(losses[:, i], wanted, rtol=1e-4)
        assert_trees_equal(jax.tree.map(lambda p, i=i: p[i], after), variables["params"], 1e-4)


@pytest.mark.long
def test_draws_differ_by_round_and_not_by_devices_and_an_evaluation_has_none():
    task, without = task_of((init, dropping)), task_of((init, plain))
    (first, found), models, clients = step(task)
    (other, _), _, _ = step(task, key=5)
    assert not np.allclose(first, other)
    assert_trees_equal((first, found), step(task_of((init, dropping), devices=2))[0], 1e-5)
    assert_trees_equal(task.evaluate(task.data, clients, models), without.evaluate(without.data, clients, models))


def whole_numbers(key, x):
    return {"w": jnp.zeros((16, 3)), "step": jnp.zeros((), jnp.int32)}


def with_statistics(key, x):
    return {"params": {"w": jnp.zeros((16, 3))}, "batch_stats": {"mean": jnp.zeros(3)}}


def needs_key(params, x, key):
    return plain(params, x) + jax.random.normal(key, (3,))


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ((init, None), "apply of a model's pair (init, apply) is None; it must be a function"),
        ((init, plain, plain), "the model is (<function init"),
        ((whole_numbers, plain), "whole_numbers returned int32 in ['step']; parameters must be floats"),
        ((with_statistics, plain), "with_statistics returned batch statistics beside params; give the flax module"),
        ((lambda key, x: {}, plain), "<lambda> returned no parameters"),
        ((init, needs_key), "the model needs_key cannot be called with samples float32[2, 4, 4, 1] alone: "),
        ((init, lambda params, x: plain(params, x)[0]), "the model <lambda> returned float32[3] for samples float32["),
        ((init, lambda params, x: None), "the model <lambda> returned NoneType for samples float32["),
    ],
)
def test_what_cannot_be_used_is_told_in_a_line(model, said):
    with pytest.raises(UserError) as error:
        variables_of(client_model(model), SampleSpec((4, 4, 1)), 3)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
