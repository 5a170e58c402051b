"""Data that are turned on the way, and those that are tested; the reference has what clients hold."""

import jax
import jax.numpy as jnp
import numpy as np
from small import assert_trees_equal, toy_dataset

from mdfl_jax.contrib.collecting.collecting import CollectingNumbers, collecting
from mdfl_jax.data.partition import DirichletNumbers
from mdfl_jax.models import make_model
from mdfl_jax.tasks import classification

N, SIDE, RATE, WINDOW, CLASSES, EVERY = 5, 2, 3, 4, 3, 3
KEY = jax.random.key(4)
AREA = np.zeros(2, np.float32), np.full(2, 10, np.float32)
NUMBERS = CollectingNumbers(DirichletNumbers(np.float32(0.3)), *AREA, np.int32(EVERY))


def test_what_is_found_and_what_is_tested_is_turned():
    inner = classification(toy_dataset(), make_model("linear", CLASSES), SIDE**2, partition="dirichlet", batch_size=8)
    task = collecting(inner, N, RATE, WINDOW, SIDE, CLASSES, "rotation", 0)
    n, images = len(inner.data.y_train), np.asarray(inner.data.x_train)
    params = jax.tree.map(lambda p: jnp.stack([p] * N), inner.init(inner.data, KEY))
    for q in range(4):
        sample = np.arange(n) + q * n
        np.testing.assert_array_equal(np.asarray(task.data.x_train)[sample], [np.rot90(x, q) for x in images])
        np.testing.assert_array_equal(np.asarray(task.data.y_train)[sample], inner.data.y_train)
    clients = jax.jit(task.partition)(task.data, NUMBERS, KEY, np.ones((N, 2), np.float32))
    state = jax.jit(task.hooks.changes.step)(
        task.data,
        NUMBERS,
        KEY,
        jnp.int32(2 * EVERY),
        clients,
        np.ones((N, 2)),
        np.ones(N, bool),
        task.hooks.changes.start,
    )
    holding = task.hooks.changes.held(task.data, clients, state)
    score = jax.jit(task.evaluate)(task.data, holding, params)
    turned = inner.data._replace(x_test=jnp.asarray([np.rot90(x, 2) for x in np.asarray(inner.data.x_test)]))
    assert_trees_equal(score, inner.evaluate(turned, holding.inner, params), 1e-6)
    loss, found = jax.jit(task.gradient)(task.data, holding, params, KEY)
    half = inner.data._replace(x_train=jnp.asarray([np.rot90(x, 2) for x in images]))
    back = holding.inner._replace(held=holding.inner.held._replace(sample=holding.inner.held.sample % n))
    assert_trees_equal((loss, found), inner.gradient(half, back, params, KEY), 1e-6)
