"""Low-rank adapters: plain flax and optax with the same adapters, what is frozen and sent, layers of each kind."""

from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from small import told, toy_dataset
from tiny import run_study, tiny_config

from mdfl_jax import Results
from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import Settings
from mdfl_jax.algorithms.registry import numbers_of
from mdfl_jax.contrib.adapters.lora import LowRank, find
from mdfl_jax.core.trees import joined_leaves
from mdfl_jax.core.types import Links, RoundContext
from mdfl_jax.data.partition import PartitionNumbers
from mdfl_jax.models.model import SampleSpec
from mdfl_jax.study import make_study
from mdfl_jax.tasks import classification

ON = {"adapters.rank": 2, "adapters.alpha": 3.0, "model.name": "mlp", "model.trainable": "adapters/*"}
SAMPLE, C, RANK, ALPHA = SampleSpec((8, 8, 3)), 5, 2, 3.0


class Layers(nn.Module):
    """A layer of each kind."""

    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Conv(6, (3, 3), strides=2, padding="VALID")(x))
        x = nn.relu(nn.Conv(6, (3, 3), feature_group_count=2)(x)).reshape(len(x), 9, 6)
        x = nn.MultiHeadDotProductAttention(2, qkv_features=8)(x, x)
        return nn.Dense(C)(x.reshape(len(x), -1))


def by_hand(params):
    """The parameters of the model with each matrix summed with its adapter."""

    def summed(path, w):
        pair = params["adapters"]
        for key in path:
            pair = pair.get(key.key, {})
        if not pair:
            return w
        r = pair["a"].shape[-1]
        product = np.reshape(pair["a"], (-1, r)) @ np.reshape(pair["b"], (r, -1))
        return w + ALPHA / RANK * product.reshape(w.shape)

    return jax.tree_util.tree_map_with_path(summed, params["base"])


def drawn(model, sample=SAMPLE):
    """Variables whose adapters' products are not zero, and samples."""
    x = jax.random.normal(jax.random.key(1), (4, *sample.shape))
    variables = model.init(jax.random.key(0), x)
    some = lambda b: b + 0.1 * jax.random.normal(jax.random.key(b.size), b.shape)  # noqa: E731
    adapters = jax.tree_util.tree_map_with_path(
        lambda path, leaf: some(leaf) if path[-1].key == "b" else leaf, variables["params"]["adapters"]
    )
    return variables, model.around({"params": variables["params"]["base"]}, adapters), x


def test_each_kind_of_layer_acts_with_the_sum_of_its_matrix_and_the_product():
    model = LowRank(Layers(), SAMPLE, C, RANK, ALPHA)
    at_first, variables, x = drawn(model)
    base = at_first["params"]["base"]
    np.testing.assert_array_equal(model.apply(at_first, x), Layers().apply({"params": base}, x))
    jax.tree.map(np.testing.assert_array_equal, base, Layers().init(jax.random.key(0), x)["params"])
    np.testing.assert_allclose(
        model.apply(variables, x), Layers().apply({"params": by_hand(variables["params"])}, x), rtol=2e-5, atol=2e-5
    )
    thin = {path for path, layer in model.layers.items() if layer.is_thin}
    assert set(model.layers) - thin == {"Conv_1/kernel"}  # of groups
    attention = "MultiHeadDotProductAttention_0"
    adapters = variables["params"]["adapters"]
    shapes = {path: tuple(find(adapters, path)[name].shape for name in "ab") for path in model.layers}
    assert shapes[f"{attention}/query/kernel"] == ((6, 2), (2, 2, 4))
    assert shapes[f"{attention}/out/kernel"] == ((2, 4, 2), (2, 6))
    assert shapes["Conv_0/kernel"] == ((3, 3, 3, 2), (2, 6))


@pytest.mark.parametrize("library", ["nnx", "functions"])
def test_models_of_other_libraries(library):
    if library == "nnx":
        from flax import nnx

        class Net(nnx.Module):
            def __init__(self, rngs):
                self.first, self.last = nnx.Linear(12, 7, rngs=rngs), nnx.Linear(7, C, rngs=rngs)

            def __call__(self, x):
                return self.last(nnx.relu(self.first(x)))

        written, on = Net, "*kernel"
    else:
        init = lambda key, x: {"w": jax.random.normal(key, (12, 7)), "v": jnp.ones((7, C))}  # noqa: E731
        written, on = (init, lambda p, x: jax.nn.relu(x @ p["w"]) @ p["v"]), "w, v"
    model = LowRank(written, SampleSpec((12,)), C, RANK, ALPHA, on)
    _, variables, x = drawn(model, SampleSpec((12,)))
    whole = model.base.apply({"params": by_hand(variables["params"])}, x)
    np.testing.assert_allclose(model.apply(variables, x), whole, rtol=2e-5, atol=2e-5)


class Net(nn.Module):
    """Two layers."""

    @nn.compact
    def __call__(self, x):
        return nn.Dense(3, name="last")(jnp.tanh(nn.Dense(6, name="first")(x.reshape(len(x), -1))))


@pytest.mark.parametrize("trainable", ["adapters/*", "adapters/*/b", "adapters/first/*, base/last/*"])
def test_a_client_alone_takes_the_steps_of_plain_flax_and_optax(trainable):
    model = LowRank(Net(), SampleSpec((4, 4, 1)), 3, RANK, ALPHA)
    task = classification(toy_dataset(), model, 3, "iid", trainable=trainable)
    clients = task.partition(task.data, PartitionNumbers(), jax.random.key(7))
    first = task.init(task.data, jax.random.key(1))
    algorithm, hparams = ALGORITHMS["local_only"](Settings(num_local_steps=3)), numbers_of("local_only", lr=0.05)
    state = algorithm.init(hparams, jax.tree.map(lambda p: jnp.stack([p] * 3), first))
    gradient, links = partial(task.gradient, task.data, clients), Links(jnp.zeros((3, 3), bool), jnp.eye(3))
    for t in range(4):
        state, _ = algorithm.round(hparams, state, links, RoundContext(jax.random.key(t), gradient))
    data, own = task.data, np.asarray(clients.held.sample)[: int(clients.num_samples[0])]
    x, y = ((data.x_train[own] - data.mean) / data.std).reshape(len(own), -1), data.y_train[own]
    whole = joined_leaves(first, clients.frozen)

    def loss(some):
        params = joined_leaves(some, whole)
        base, of = params["base"], params["adapters"]
        matrix = {n: base[n]["kernel"] + 1.5 * of[n]["kernel"]["a"] @ of[n]["kernel"]["b"] for n in base}
        hidden = jnp.tanh(x @ matrix["first"] + base["first"]["bias"])
        logits = hidden @ matrix["last"] + base["last"]["bias"]
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    some, optimizer = first, optax.sgd(0.05, numbers_of("local_only").momentum)
    moments = optimizer.init(some)
    for _ in range(12):
        moves, moments = optimizer.update(jax.grad(loss)(some), moments)
        some = optax.apply_updates(some, moves)
    found = jax.tree.map(lambda p: p[0], algorithm.params(state))
    for one, other, start in zip(*map(jax.tree.leaves, (found, some, first)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
        assert (np.abs(np.asarray(one) - start)).max() > 1e-3


def test_averaged_adapters_are_no_averaged_products_but_for_a_common_factor():
    """A complete graph averages A and B (LoRA), which misses the mean of A B, or B alone (FFA-LoRA), which gives it."""
    model, products = LowRank(Net(), SampleSpec((4, 4, 1)), 3, RANK, ALPHA), {}
    for trainable in ("adapters/*", "adapters/*/b"):
        task = classification(toy_dataset(), model, 3, "iid", trainable=trainable)
        clients = task.partition(task.data, PartitionNumbers(), jax.random.key(7))
        first = task.init(task.data, jax.random.key(1))
        algorithm, hparams = ALGORITHMS["dpsgd"](Settings(num_local_steps=5)), numbers_of("dpsgd", lr=0.1)
        state = algorithm.init(hparams, jax.tree.map(lambda p: jnp.stack([p] * 3), first))
        context = RoundContext(jax.random.key(0), partial(task.gradient, task.data, clients))
        found = {}
        for name, links in (("own", Links(jnp.zeros((3, 3), bool), jnp.eye(3))), ("mean", complete(3))):
            models = algorithm.params(algorithm.round(hparams, state, links, context)[0])
            pair = find(joined_leaves(models, clients.frozen)["adapters"], "first/kernel")
            found[name] = np.mean(pair["a"] @ pair["b"], axis=0)
        products[trainable] = np.abs(found["mean"] - found["own"]).max() / np.abs(found["own"]).max()
    assert products["adapters/*/b"] < 1e-5
    assert products["adapters/*"] > 1e-3


def complete(clients):
    """Links over which all clients average."""
    return Links(~jnp.eye(clients, dtype=bool), jnp.full((clients, clients), 1 / clients))


class WithStatistics(nn.Module):
    """A layer with batch statistics and dropout."""

    @nn.compact
    def __call__(self, x, train=False):
        x = nn.BatchNorm(use_running_average=not train)(nn.Dense(6)(x.reshape(len(x), -1)))
        return nn.Dense(3)(nn.Dropout(0.5, deterministic=not train)(x))


def test_batch_statistics_dropout_and_given_weights_are_those_of_the_model():
    model = LowRank(WithStatistics(), SampleSpec((4, 4, 1)), 3, RANK, ALPHA)
    x, mask = jnp.ones((4, 4, 4, 1)), jnp.ones(4, bool)
    variables = model.init(jax.random.key(0), x)
    given = model.base.init(jax.random.key(5), x)
    placed = joined_leaves(model.around(given), variables)
    np.testing.assert_array_equal(model.apply(placed, x), model.base.apply(given, x))
    rest = {"mutable": ["batch_stats"], "rngs": {"dropout": jax.random.key(2)}}
    ours, theirs = (of.apply(v, x, mask, **rest) for of, v in ((model, placed), (model.base, given)))
    jax.tree.map(np.testing.assert_array_equal, ours, theirs)
    assert model.draws


def test_what_is_frozen_is_no_parameter_of_a_client():
    def counted(**changes):
        return make_study(tiny_config(**(ON | {"sweep": ""} | changes))).groups[0].simulation.num_params

    frozen = make_study(tiny_config(**{"model.name": "mlp", "sweep": ""})).groups[0].simulation.model
    matrices = [leaf.shape for leaf in jax.tree.leaves(frozen) if leaf.ndim == 2]
    whole = sum(RANK * sum(shape) for shape in matrices)
    assert counted() == whole
    assert counted(**{"model.trainable": "adapters/*/b"}) == sum(RANK * columns for _, columns in matrices)
    head = sum(leaf.size for leaf in jax.tree.leaves(frozen["Dense_2"]))
    assert counted(**{"model.trainable": "adapters/*, base/Dense_2/*"}) == whole + head


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"model.trainable": ""}, "model.trainable is ''; it must be patterns of the leaves that are trained, such as"),
        ({"adapters.on": "*weight"}, "'*weight' matches none of the leaves Dense_0/bias, "),
        ({"adapters.on": "*"}, "it must match matrices, and Dense_0/bias is of shape ["),
        ({"adapters.on": " , "}, "adapters.on is ' , '; it must be patterns of paths"),
        ({"adapters.rank": 11}, "adapters.rank is 11; it must be at most 10, the rank of Dense_2/kernel"),
        ({"adapters.rank": -1}, "adapters.rank is -1; it must be at least 0"),
        ({"adapters.alpha": 0.0}, "adapters.alpha is 0.0; it must be greater than 0"),
        (
            {"model.trainable": "adapters/*, adapters/*/c"},
            "'adapters/*/c' matches none of the leaves adapters/Dense_0/kernel/a, ",
        ),
        ({"adapters.rank": 0}, "'adapters/*' matches none of the leaves"),
        ({"model.trainable": "adapters/*/a"}, "model.trainable is 'adapters/*/a'; it must match some of adapters/*/b"),
        ({"model.trainable": "base/Dense_2/*"}, "it must match some of adapters/*/b with adapters.rank: they begin at"),
    ],
)
def test_mistakes_are_one_line(changes, line):
    assert line in told(make_study, tiny_config(**(ON | changes)))


def test_a_study_sends_what_it_shares_and_learns(tmp_path):
    changes = {"rounds": 60, "eval_every": 60, "data.limit_train": 600, "network.mobility": "static", "seeds": 1}
    changes |= {"model.trainable": "adapters/*, base/Dense_2/*", "algorithm.lr": 0.05}
    found = {}
    for shared in ("", "*/a"):
        study = make_study(tiny_config(**(ON | changes | {"model.shared": shared})))
        run_study(study, tmp_path / f"run{len(shared)}")
        found[shared] = Results.read(tmp_path / f"run{len(shared)}").to_xarray()
        accuracy = found[shared]["accuracy"].mean(["seed", "client"]).to_numpy().ravel()
        assert accuracy[-1] > accuracy[0] + 0.1
    leaves = jax.tree_util.tree_leaves_with_path(study.groups[0].simulation.model)
    factors = sum(leaf.size for path, leaf in leaves if path[-1].key == "a")
    whole, part = (of["bits_sent"].sum().item() for of in found.values())
    assert part > 0
    assert part * sum(leaf.size for _, leaf in leaves) == pytest.approx(whole * factors, rel=1e-6)
