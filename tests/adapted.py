"""What the tests of adapted models share: a small task, some steps of its clients, and the batches that these have."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from small import toy_dataset, toy_hparams

from mdfl_jax.core.rng import stream
from mdfl_jax.core.sharding import client_mesh
from mdfl_jax.core.trees import each
from mdfl_jax.tasks import classification
from mdfl_jax.tasks.supervised import drawn_batch, seed_of_block

N, BATCH, LR, ROUNDS = 4, 6, 0.1, 3


def task_of(model, devices=1, **settings):
    mesh = client_mesh(jax.devices()[:devices])
    return classification(toy_dataset(), model, N, "iid", **{"batch_size": BATCH, "mesh": mesh} | settings)


def started(task, apart=0.01):
    """(clients, models) with models that differ by client, as later in a run."""
    clients = task.partition(task.data, toy_hparams().task, jax.random.key(0))
    one = task.init(task.data, jax.random.key(2))
    return clients, jax.tree.map(lambda p: jnp.stack([p + apart * i * jnp.ones_like(p) for i in range(N)]), one)


def step(task, key=1):
    """(loss [N], gradients) of different models, and those models."""
    clients, params = started(task)
    gradient = jax.jit(lambda p: task.gradient(task.data, clients, p, jax.random.key(key)))
    return gradient(params), params, clients


def trained_by_the_task(task, models, clients):
    """(losses [ROUNDS, N], models) after plain steps of length LR; of statistics, of length one."""
    gradient, losses = jax.jit(lambda p, key: task.gradient(task.data, clients, p, key)), []
    for r in range(ROUNDS):
        loss, slopes = gradient(models, jax.random.key(r))
        models = each(lambda p, g: p - LR * g, lambda p, g: p - g, models, slopes)
        losses.append(loss)
    return np.stack(losses), models


def batches(task, clients, i):
    """Client i's normalised images, labels and key of random draws in each round."""
    for r in range(ROUNDS):
        key = jax.random.key(r)
        sample = drawn_batch(key, clients.held, BATCH).sample[i]
        images = (task.data.x_train[sample].astype(jnp.float32) - task.data.mean) / task.data.std
        yield images, task.data.y_train[sample], jax.random.key(seed_of_block(stream(key, "dropout"), i, 0))


def trained_by_linen(task, clients, variables, forward, i):
    """As `trained_by_the_task` for one client, with linen and optax alone.

    forward(variables, images, key) makes (outputs, new variables that are no parameters).
    """
    sgd, losses = optax.sgd(LR), []
    state = sgd.init(variables["params"])
    for images, labels, key in batches(task, clients, i):

        def mean_loss(params, variables=variables, images=images, labels=labels, key=key):
            outputs, moved = forward({**variables, "params": params}, images, key)
            return optax.softmax_cross_entropy_with_integer_labels(outputs, labels).mean(), moved

        (loss, moved), slopes = jax.value_and_grad(mean_loss, has_aux=True)(variables["params"])
        updates, state = sgd.update(slopes, state)
        variables = {**variables, **moved, "params": optax.apply_updates(variables["params"], updates)}
        losses.append(loss)
    return np.stack(losses), variables
