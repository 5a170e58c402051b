"""Gradients by every mapping, cut, precision and form of convolution against the plain loss of each client alone."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from small import assert_trees_equal, toy_dataset

from mdfl_jax import UserError
from mdfl_jax.data.batching import Blocks, cut_blocks, draw_minibatch
from mdfl_jax.data.partition import DirichletNumbers
from mdfl_jax.models import make_model
from mdfl_jax.tasks import SupervisedClients, classification
from mdfl_jax.tasks.gradients import Tiling, block_gradients, cut
from mdfl_jax.tasks.supervised import Learner

COMPILE_FULLY = True

N, BATCH = 7, 10
DATA = toy_dataset(num_train=91, side=6)
NUMBERS = {"linear": {}, "cnn": {"widths": (3, 4), "kernel": 3, "hidden": 5}, "gn_lenet": {}}
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


def model_of(model="linear", **settings):
    return make_model(model, 3, **{**NUMBERS[model], **settings})


def make(model="linear", batch_size=0, tiling=Tiling(), precision="float32", **settings):
    module = model_of(model, **settings)
    return classification(DATA, module, N, batch_size=batch_size, tiling=tiling, precision=precision)


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


def models(model="linear", **settings):
    """A random model for each client."""
    rng, task = np.random.default_rng(0), make(model, **settings)
    shapes = jax.eval_shape(task.init, task.data, KEY)
    return jax.tree.map(lambda p: jnp.asarray(rng.normal(size=(N, *p.shape)) / 4, jnp.float32), shapes)


def gradients(model="linear", batch_size=0, tiling=Tiling(), precision="float32", whole=False, **settings):
    task, clients = make(model, batch_size, tiling, precision, **settings), clients_of(batch_size, tiling)
    gradient = jax.jit(lambda params: task.gradient(task.data, clients, params, KEY, whole=whole))
    return gradient(models(model, **{k: v for k, v in settings.items() if k in ("kernel", "widths")}))


def normalised(images):
    data = make().data
    return (images - data.mean) / data.std


@cache
def plain(model, batch_size):
    """(loss, gradients) by autodiff of each client's mean loss: no blocks, no padding."""
    module, held = model_of(model), jax.device_get(divided().held)
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

    return jax.jit(jax.vmap(jax.value_and_grad(mean_loss)))(models(model), counts)


CASES = [("linear", 0, tiling) for tiling in TILINGS] + [("linear", BATCH, tiling) for tiling in TILINGS[:3]]
CASES += [("cnn", 0, TILINGS[0]), ("cnn", BATCH, TILINGS[1])]


@pytest.mark.long
@pytest.mark.parametrize(("model", "batch_size", "tiling"), CASES, ids=str)
def test_mappings_and_tilings_give_the_plain_gradient(model, batch_size, tiling):
    found, expected = gradients(model, batch_size, tiling), plain(model, batch_size)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    assert_trees_equal(found, expected, TOLERANCE)
    assert max(float(jnp.max(jnp.abs(g))) for g in jax.tree.leaves(expected[1])) > 0.1


@pytest.mark.parametrize("tiling", TILINGS[:3:2], ids=str)
def test_the_gradient_of_all_samples_beside_minibatches_is_the_plain_one(tiling):
    found = gradients(batch_size=BATCH, tiling=tiling, whole=True)
    assert_trees_equal(found, plain("linear", 0), TOLERANCE)


def test_a_round_over_all_samples_computes_no_block_without_samples(monkeypatch):
    """Its values would not be numbers here."""
    of_block = Learner.of_block

    def of_samples(self, params, data, block):
        found = of_block(self, params, data, block)
        return jax.tree.map(lambda x: jnp.where(jnp.any(block.mask), x, jnp.nan), found)

    monkeypatch.setattr(Learner, "of_block", of_samples)
    one_by_one = Tiling(4, 4, "scan")
    assert not np.asarray(clients_of(0, one_by_one).blocks.mask).any(axis=1).all()
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(gradients("linear", 0, one_by_one)))


@pytest.mark.parametrize("at_once", [0, 1, 2, 3, 8, 9, 20])
def test_sums_of_blocks_are_exact_for_any_number_at_once(at_once):
    """Nine blocks of three clients in any order, in whole numbers: nothing is lost, doubled or given to another."""
    owner = np.array([2, 0, 0, 2, 1, 2, 2, 0, 2])
    sample, mask = np.arange(36).reshape(9, 4), np.arange(36).reshape(9, 4) % 5 > 0
    params = {"w": jnp.array([1.0, 2.0, 3.0])}

    def of_block(p, data, block):
        total = jnp.sum(jnp.where(block.mask, data[block.sample], 0.0))
        return p["w"] ** 2 * total, {"w": 2 * p["w"] * total}

    blocks = Blocks(jnp.asarray(owner), jnp.asarray(sample), jnp.asarray(mask))
    loss, gradient = block_gradients(of_block, jnp.arange(36.0), params, blocks, at_once)
    total = np.array([(sample * mask)[owner == i].sum() for i in range(3)])
    np.testing.assert_array_equal(loss, total * np.array([1, 4, 9]))
    np.testing.assert_array_equal(gradient["w"], total * np.array([2, 4, 6]))


@pytest.mark.parametrize("tile", [1, 500])
def test_evaluation_in_chunks_equals_all_at_once(tile):
    """30 test samples in chunks of 16 or 30 of them: the last chunk's masked places count for nothing."""
    task, images = make(tiling=Tiling(tile=tile)), normalised(DATA.x_test)
    logits = np.asarray(jax.vmap(lambda p: model_of("linear").apply({"params": p}, images))(models()))
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, np.tile(DATA.y_test, (N, 1)))
    score = jax.jit(task.evaluate)(task.data, None, models())
    np.testing.assert_allclose(score.accuracy, (logits.argmax(-1) == DATA.y_test).mean(axis=1), rtol=1e-6)
    np.testing.assert_allclose(score.loss, losses.mean(axis=1), rtol=TOLERANCE)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tiling": Tiling(mapping="chunks")}, r"mapping 'chunks' \(did you mean 'chunk'.*known: chunk, scan, vmap"),
        ({"precision": "float16"}, "precision 'float16'.*known: bfloat16, float32, tensorfloat32"),
    ],
)
def test_unknown_names_list_the_known(settings, message):
    with pytest.raises(UserError, match=message):
        make(**settings)


@pytest.mark.parametrize("model", ["linear", pytest.param("cnn", marks=pytest.mark.long)])
def test_bfloat16_gradients_are_near_and_are_kept_in_float32(model):
    """Each leaf's gradient within 3 % of float32's, in norm over all clients; losses within 1 %; and not the same."""
    low, exact = gradients(model, precision="bfloat16"), plain(model, 0)
    np.testing.assert_allclose(low[0], exact[0], rtol=1e-2)
    for a, b in zip(jax.tree.leaves(low[1]), jax.tree.leaves(exact[1]), strict=True):
        assert a.dtype == jnp.float32
        assert 1e-4 < float(jnp.linalg.norm(a - b) / jnp.linalg.norm(b)) < 0.03


def test_bfloat16_tasks_start_from_and_are_scored_with_float32_models():
    """The same initial model to the bit; losses within 1 %, and not the same."""
    low, exact = make(precision="bfloat16"), make()
    assert_trees_equal(low.init(low.data, KEY), exact.init(exact.data, KEY))
    assert {p.dtype for p in jax.tree.leaves(low.init(low.data, KEY))} == {jnp.dtype("float32")}
    score, expected = (jax.jit(task.evaluate)(task.data, None, models()) for task in (low, exact))
    np.testing.assert_allclose(score.loss, expected.loss, rtol=1e-2)
    assert not np.array_equal(score.loss, expected.loss)


WHOLE_MODELS = {"cnn": {"kernel": 5, "widths": (3, 4)}, "gn_lenet": {"kernel": 3, "widths": (2, 4)}}


def whole_model(model, form, remat=False):
    """params -> (logits [N, B, C], gradients of a weighted sum of them) for the test images."""
    module = model_of(model, convolution=form, remat=remat, **WHOLE_MODELS[model])
    apply = jax.vmap(lambda p: module.apply({"params": p}, normalised(DATA.x_test)))
    weights = np.random.default_rng(1).normal(size=(N, len(DATA.y_test), 3)).astype(np.float32)

    def both(params):
        logits, back = jax.vjp(apply, params)
        return logits, back(weights / len(DATA.y_test))[0]

    return both


@cache
def by_library(model):
    return jax.jit(whole_model(model, "library"))(models(model, **WHOLE_MODELS[model]))


@pytest.mark.few(1)
@pytest.mark.parametrize(("model", "form"), [("cnn", "patches"), ("cnn", "filtering"), ("gn_lenet", "filtering")])
def test_forms_of_convolution_agree_through_whole_models(model, form):
    """Stacked clients, two stages: what reaches the first kernel has gone back through the second convolution."""
    found = jax.jit(whole_model(model, form))(models(model, **WHOLE_MODELS[model]))
    assert_trees_equal(found, by_library(model), 5e-5)
    assert float(jnp.linalg.norm(found[1]["stage_0"]["Conv_0"]["kernel"])) > 0.1


def test_rematerialised_gradients_are_the_same():
    """The stages are computed again, which rounds alike but for what is fused otherwise."""
    params = models("gn_lenet", **WHOLE_MODELS["gn_lenet"])
    kept, again = (whole_model("gn_lenet", "library", remat) for remat in (False, True))
    programs = [str(jax.make_jaxpr(f)(params)) for f in (kept, again)]
    assert ["remat" in program or "checkpoint" in program for program in programs] == [False, True]
    assert_trees_equal(jax.jit(again)(params), by_library("gn_lenet"), 1e-6)
