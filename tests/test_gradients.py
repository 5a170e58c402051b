"""Gradients by every mapping, cut, precision and form of convolution against the plain loss of each client alone."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from small import leaves_equal, toy_dataset, toy_task

from mdfl_jax import UserError
from mdfl_jax.data.batching import Blocks, draw_minibatch
from mdfl_jax.gradients import Tiling, block_gradients, cut
from mdfl_jax.models import MODELS, ModelSettings
from mdfl_jax.models.conv import FORMS
from mdfl_jax.tasks import PartitionParams, classification

N, BATCH = 7, 10
DATA = toy_dataset(num_train=91, side=6)
MODEL_SETTINGS = {"linear": ModelSettings(3), "cnn": ModelSettings(3, (3, 4), 3, 5)}
KEY = jax.random.key(0)
TOLERANCE = 1e-5  # of gradients of order one: sums in another order


def make(model="linear", batch_size=0, tiling=Tiling(), precision="float32", **settings):
    module = MODELS[model](MODEL_SETTINGS.get(model, MODEL_SETTINGS["cnn"])._replace(**settings))
    return classification(DATA, module, N, batch_size=batch_size, tiling=tiling, precision=precision)


def start(task):
    """Very unequal clients, one of them empty, and a model of its own for each."""
    clients = task.partition(task.data, PartitionParams(jnp.float32(0.1)), KEY)
    sizes = np.asarray(clients.num_samples)
    assert sizes.min() == 0 < 20 < sizes.max()
    return clients, jax.jit(jax.vmap(task.init))(jax.random.split(jax.random.key(0), N))


def gradients(task):
    clients, params = start(task)
    return jax.jit(lambda p: task.gradient(task.data, clients, p, KEY))(params)


@pytest.fixture(scope="module", params=["linear", "cnn"])
def model(request):
    return request.param


@pytest.fixture(scope="module", params=[0, BATCH], ids=["full", "minibatch"])
def plain(request, model):
    """(model, batch size, (loss, gradients) by autodiff of each client's mean loss): no blocks, no padding."""
    batch_size = request.param
    task = make(model, batch_size)
    clients, params = start(task)
    module = MODELS[model](MODEL_SETTINGS[model])
    samples = np.asarray(clients.num_samples)
    if batch_size:
        draws = [draw_minibatch(jax.random.fold_in(KEY, i), clients.held, i, batch_size) for i in range(N)]
        counts = np.stack([np.bincount(d, minlength=91) for d in draws]) * (samples > 0)[:, None]
    else:
        first = np.asarray(clients.held.first)
        mine = [np.asarray(clients.held.sample)[first[i] : first[i] + samples[i]] for i in range(N)]
        counts = np.stack([np.bincount(m, minlength=91) for m in mine])

    def mean_loss(p, count):
        logits = module.apply({"params": p}, (DATA.x_train - task.data.mean) / task.data.std)
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, DATA.y_train)
        return jnp.sum(losses * count) / jnp.maximum(jnp.sum(count), 1)

    return model, batch_size, jax.jit(jax.vmap(jax.value_and_grad(mean_loss)))(params, counts)


@pytest.mark.parametrize(
    "tiling",
    [
        Tiling(),
        Tiling(mapping="vmap"),
        Tiling(mapping="scan"),
        Tiling(4, 12, "chunk"),  # 4 divides neither the batch nor the clients' samples, 3 blocks not their number
        Tiling(3, 3, "scan"),
        Tiling(128, 0, "vmap"),  # more than any client has
        Tiling(0, 7, "chunk"),
        Tiling(1, 5, "chunk"),
    ],
    ids=str,
)
def test_mappings_and_tilings_give_the_plain_gradient(plain, tiling):
    model, batch_size, expected = plain
    found = gradients(make(model, batch_size, tiling))
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    assert leaves_equal(found, expected, TOLERANCE)
    assert max(float(jnp.max(jnp.abs(g))) for g in jax.tree.leaves(expected)) > 0.1


def test_the_cuts_above_leave_remainders():
    """What the test of mappings means to cover: padded blocks in a chunk, samples in a block, whole mappings."""
    shape, n = DATA.x_train.shape[1:], len(DATA.y_train)
    full, mini = (cut(Tiling(4, 12, "chunk"), shape, batch_size, n, N) for batch_size in (0, BATCH))
    assert full.block_size == mini.block_size == 4
    assert full.at_once == mini.at_once == 3
    num_blocks = make(tiling=Tiling(4, 12)).partition(make().data, PartitionParams(1.0), KEY).blocks.client.shape[0]
    assert num_blocks % 3
    assert BATCH % 4
    assert (N * 3 * 4) % (N * BATCH)
    assert [cut(Tiling(4, 12, m), shape, 0, n, N).at_once for m in ("vmap", "scan")] == [0, 1]
    assert cut(Tiling(0, 7, "chunk"), shape, BATCH, n, N).at_once * 2 < 7  # blocks of 3 or less, and fewer than a tile


@pytest.mark.parametrize("at_once", [0, 1, 2, 3, 8, 9, 20])
def test_sums_of_blocks_are_exact_for_any_number_at_once(at_once):
    """Nine blocks of three clients in any order, in whole numbers: nothing is lost, doubled or given to another."""
    owner = np.array([2, 0, 0, 2, 1, 2, 2, 0, 2])
    sample, mask = np.arange(36).reshape(9, 4), np.arange(36).reshape(9, 4) % 5 > 0
    params = {"w": jnp.array([1.0, 2.0, 3.0])}

    def loss_sum(p, data, sample, mask):
        return p["w"] ** 2 * jnp.sum(jnp.where(mask, data[sample], 0.0))

    blocks = Blocks(jnp.asarray(owner), jnp.asarray(sample), jnp.asarray(mask))
    loss, gradient = block_gradients(loss_sum, jnp.arange(36.0), params, blocks, at_once)
    total = np.array([(sample * mask)[owner == i].sum() for i in range(3)])
    np.testing.assert_array_equal(loss, total * np.array([1, 4, 9]))
    np.testing.assert_array_equal(gradient["w"], total * np.array([2, 4, 6]))


@pytest.mark.parametrize("tile", [1, 13, 500])
def test_evaluation_in_chunks_equals_all_at_once(tile):
    """30 test samples in chunks of 16 or 30 of them: the last chunk's masked places count for nothing."""
    task = make(tiling=Tiling(tile=tile))
    _, params = start(task)
    images = (DATA.x_test - task.data.mean) / task.data.std
    logits = jax.vmap(lambda p: MODELS["linear"](MODEL_SETTINGS["linear"]).apply({"params": p}, images))(params)
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, np.tile(DATA.y_test, (N, 1)))
    score = task.evaluate(task.data, params)
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


@pytest.fixture(scope="module")
def of_cnn():
    """Of the CNN as it is by default, full batch: (loss, gradients)."""
    return gradients(make("cnn"))


@pytest.mark.parametrize("model_name", ["linear", "cnn"])
def test_bfloat16_gradients_are_near_and_all_that_is_kept_is_float32(model_name):
    """Each leaf's gradient within 3 % of float32's, in norm over all clients; losses within 1 %; and not the same."""
    exact, low = (gradients(make(model_name, precision=p)) for p in ("float32", "bfloat16"))
    np.testing.assert_allclose(low[0], exact[0], rtol=1e-2)
    for a, b in zip(jax.tree.leaves(low[1]), jax.tree.leaves(exact[1]), strict=True):
        assert a.dtype == b.dtype == jnp.float32
        assert 1e-4 < float(jnp.linalg.norm(a - b) / jnp.linalg.norm(b)) < 0.03
    task = make(model_name, precision="bfloat16")
    _, params = start(task)
    assert {p.dtype for p in jax.tree.leaves(params)} == {jnp.dtype("float32")}
    score, expected = task.evaluate(task.data, params), make(model_name).evaluate(task.data, params)
    np.testing.assert_allclose(score.loss, expected.loss, rtol=1e-2)
    assert not np.array_equal(score.loss, expected.loss)


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="where products may be of TF32")
def test_tensorfloat32_is_float32_on_a_cpu(of_cnn):
    assert leaves_equal(gradients(make("cnn", precision="tensorfloat32")), of_cnn)


@pytest.mark.parametrize("model_name", ["cnn", "gn_lenet"])
def test_rematerialised_gradients_are_the_same(model_name):
    """The same sums in the same order: equal to rounding of what is fused otherwise."""
    settings = {"widths": (4, 2)}
    plain, again = (make(model_name, remat=remat, **settings) for remat in (False, True))
    clients, params = start(plain)
    programs = [str(jax.make_jaxpr(lambda p, t=t: t.gradient(t.data, clients, p, KEY))(params)) for t in (plain, again)]
    assert [("remat" in p or "checkpoint" in p) for p in programs] == [False, True]
    assert leaves_equal(gradients(again), gradients(plain), 1e-6)


@pytest.fixture(scope="module", params=[("cnn", 5, (3, 4)), ("gn_lenet", 3, (2, 4))], ids=["cnn", "gn_lenet"])
def whole_model(request):
    """A model and what it gives with the library's convolution: logits, (loss, gradients)."""
    name, kernel, widths = request.param
    settings = {"kernel": kernel, "widths": widths}
    return name, settings, logits_and_gradients(name, {**settings, "convolution": "library"})


def logits_and_gradients(name, settings):
    task = make(name, **settings)
    module = MODELS[name](MODEL_SETTINGS["cnn"]._replace(**settings))
    images = (DATA.x_test - task.data.mean) / task.data.std
    _, params = start(task)
    return jax.jit(jax.vmap(lambda p: module.apply({"params": p}, images)))(params), gradients(task)


@pytest.mark.parametrize("form", ["", *(form for form in FORMS if form != "library")])
def test_forms_of_convolution_agree_through_whole_models(whole_model, form):
    """Stacked clients, two stages: what reaches the first kernel has gone back through the second convolution."""
    name, settings, expected = whole_model
    found = logits_and_gradients(name, {**settings, "convolution": form})
    assert leaves_equal(found[0], expected[0], 5e-5)
    assert leaves_equal(found[1], expected[1], 5e-5)


def test_toy_task_and_default_precision_are_float32(of_cnn):
    """The task that other tests share takes the defaults of a task."""
    assert leaves_equal(gradients(toy_task(N, "cnn", dataset=DATA, widths=(3, 4), hidden=5)), of_cnn)
