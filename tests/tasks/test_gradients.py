"""Gradients by every mapping, cut and precision against the plain loss of each client alone."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from small import assert_trees_equal, toy_dataset

from mdfl_jax.data.batching import cut_blocks, draw_minibatch
from mdfl_jax.data.partition import DirichletNumbers, PartitionNumbers
from mdfl_jax.models import make_model
from mdfl_jax.tasks import SupervisedClients, classification
from mdfl_jax.tasks.gradients import Tiling, cut
from mdfl_jax.tasks.supervised import Learner

COMPILE_FULLY = True

N, BATCH = 7, 10
DATA = toy_dataset(num_train=91, side=6)
KEY = jax.random.key(0)
TILINGS = [
    Tiling(4, 8, "chunk"),  # 4 divides neither the batch nor the clients' samples, 2 blocks not their number
    Tiling(3, 3, "scan"),
    Tiling(mapping="vmap"),
    Tiling(),
    Tiling(128, 0, "vmap"),  # more than any client has
    Tiling(0, 7, "chunk"),
]
TOLERANCE = 1e-5  # of gradients of order one: sums in another order


def make(batch_size=0, tiling=Tiling(), precision="float32"):
    model = make_model("linear", 3)
    return classification(DATA, model, N, batch_size=batch_size, tiling=tiling, precision=precision)


@cache
def divided():
    """Very unequal clients, one of them empty, in the blocks of the first tiling."""
    task = make(tiling=TILINGS[0])
    clients = jax.jit(task.partition)(task.data, DirichletNumbers(jnp.float32(0.1)), KEY)
    sizes = np.asarray(clients.num_samples)
    assert sizes.min() == 0 < 20 < sizes.max()
    return clients


def clients_of(batch_size=0, tiling=Tiling()):
    """The same, as a task of these settings cuts them."""
    block_size = cut(tiling, DATA.x_train.shape[1:], batch_size, len(DATA.y_train), N).block_size
    blocks = None if batch_size else jax.jit(cut_blocks, static_argnums=1)(divided().held, block_size)
    return SupervisedClients(divided().held, blocks)


def models():
    """A random model for each client."""
    rng, task = np.random.default_rng(0), make()
    shapes = jax.eval_shape(task.init, task.data, KEY)
    return jax.tree.map(lambda p: jnp.asarray(rng.normal(size=(N, *p.shape)) / 4, jnp.float32), shapes)


def gradients(batch_size=0, tiling=Tiling(), precision="float32", whole=False):
    task, clients = make(batch_size, tiling, precision), clients_of(batch_size, tiling)
    gradient = jax.jit(lambda params: task.gradient(task.data, clients, params, KEY, whole=whole))
    return gradient(models())


def normalised(images):
    data = make().data
    return (images - data.mean) / data.std


@cache
def plain(batch_size):
    """(loss, gradients) by autodiff of each client's mean loss: no blocks, no padding."""
    module, held = make_model("linear", 3), jax.device_get(divided().held)
    if batch_size:
        samples = [draw_minibatch(jax.random.fold_in(KEY, i), divided().held, i, batch_size) for i in range(N)]
    else:
        samples = [held.sample[f : f + n] for f, n in zip(held.first, held.num_samples)]
    counts = np.stack([np.bincount(s, minlength=len(DATA.y_train)) for s in samples])
    counts[held.num_samples == 0] = 0

    def mean_loss(p, count):
        logits = module.apply({"params": p}, normalised(DATA.x_train))
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, DATA.y_train)
        return jnp.sum(losses * count) / jnp.maximum(jnp.sum(count), 1)

    return jax.jit(jax.vmap(jax.value_and_grad(mean_loss)))(models(), counts)


CASES = [(0, tiling) for tiling in TILINGS] + [(BATCH, tiling) for tiling in TILINGS[:3]]


@pytest.mark.few(3)
@pytest.mark.parametrize(("batch_size", "tiling"), CASES, ids=str)
def test_mappings_and_tilings_give_the_plain_gradient(batch_size, tiling):
    found, expected = gradients(batch_size, tiling), plain(batch_size)
    assert_trees_equal(found, expected, TOLERANCE)
    assert max(float(jnp.max(jnp.abs(g))) for g in jax.tree.leaves(expected[1])) > 0.1
    if batch_size:  # the gradient of all samples beside minibatches
        assert_trees_equal(gradients(batch_size=BATCH, tiling=tiling, whole=True), plain(0), TOLERANCE)


def test_a_round_over_all_samples_computes_no_block_without_samples(monkeypatch):
    """Its values would not be numbers here."""
    of_block = Learner.of_block

    def of_samples(self, params, data, block):
        found = of_block(self, params, data, block)
        return jax.tree.map(lambda x: jnp.where(jnp.any(block.mask), x, jnp.nan), found)

    monkeypatch.setattr(Learner, "of_block", of_samples)
    one_by_one = Tiling(4, 4, "scan")
    assert not np.asarray(clients_of(0, one_by_one).blocks.mask).any(axis=1).all()
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(gradients(0, one_by_one)))


def test_bfloat16_gradients_and_scores_are_near_and_models_are_kept_in_float32():
    """Each leaf's gradient within 3 % of float32's, in norm over all clients; losses within 1 %; and not the same."""
    found, (loss, exact) = gradients(precision="bfloat16"), plain(0)
    np.testing.assert_allclose(found[0], loss, rtol=1e-2)
    for a, b in zip(jax.tree.leaves(found[1]), jax.tree.leaves(exact), strict=True):
        assert a.dtype == jnp.float32
        assert 1e-4 < float(jnp.linalg.norm(a - b) / jnp.linalg.norm(b)) < 0.03
    low, high = make(precision="bfloat16"), make()
    assert_trees_equal(low.init(low.data, KEY), high.init(high.data, KEY))
    score, expected = (jax.jit(task.evaluate)(task.data, None, models()) for task in (low, high))
    np.testing.assert_allclose(score.loss, expected.loss, rtol=1e-2)
    assert not np.array_equal(score.loss, expected.loss)


@pytest.mark.parametrize("batch_size", [0, 5])
def test_gradients_of_some_clients_are_rows_of_those_of_all_and_of_no_others(batch_size):
    """Also where runs with different clients are mapped together: the loop is then that of the run with the most."""
    by_four = Tiling(block_size=5, tile=20)
    task = classification(toy_dataset(), make_model("linear", 3), 9, "iid", batch_size=batch_size, tiling=by_four)
    clients = task.partition(task.data, PartitionNumbers(), KEY)
    params = jax.vmap(lambda k: task.init(task.data, k))(jax.random.split(jax.random.key(1), 9))
    of = lambda only: task.gradient(task.data, clients, params, jax.random.key(2), only=only)  # noqa: E731
    some = jnp.asarray(np.random.default_rng(0).random((4, 9)) < np.array([[0], [0.3], [0.6], [1]]))
    whole = jax.jit(lambda: task.gradient(task.data, clients, params, jax.random.key(2)))()
    found = jax.jit(jax.vmap(of))(some)
    for k in range(4):
        rows = lambda leaf, k=k: jnp.where(some[k].reshape(-1, *[1] * (leaf.ndim - 1)), leaf, 0)  # noqa: E731
        assert_trees_equal(jax.tree.map(lambda leaf, k=k: leaf[k], found), jax.tree.map(rows, whole), 1e-6)
