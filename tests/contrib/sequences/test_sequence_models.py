"""The LSTM and the transformer: their forward passes by NumPy, what a position sees, and the samples that they take."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import assert_trees_equal, told

from mdfl_jax.contrib.sequences.transformer import sinusoids
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.numbers import from_values
from mdfl_jax.models import MODELS, SampleSpec, make_model
from mdfl_jax.models.adapters import draws, variables_of

NAMES = ("lstm", "transformer")
TOKENS, FLOATS, IMAGES = SampleSpec((5,), 7), SampleSpec((5, 3)), SampleSpec((5, 4, 2))
SAMPLES = {"tokens": TOKENS, "floats": FLOATS, "images": IMAGES}
B, C = 3, 4


def made(name, sample, per_position=False, **numbers):
    """(model, samples, variables) with all variables drawn, so that no bias is zero."""
    own = {"width": 8, "layers": 2} | ({"heads": 2} if name == "transformer" else {}) | numbers
    model = make_model(name, C, sample=sample, per_position=per_position, **own)
    rng = np.random.default_rng(0)
    shape = (B, *sample.shape)
    samples = rng.integers(0, sample.vocabulary, shape) if sample.vocabulary else rng.normal(size=shape)
    samples = jnp.asarray(samples, sample.dtype)
    shapes = jax.eval_shape(model.init, jax.random.key(0), samples)
    return model, samples, jax.tree.map(lambda leaf: jnp.asarray(rng.normal(0, 0.4, leaf.shape), leaf.dtype), shapes)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def dense(p, x):
    return x @ p["kernel"] + p.get("bias", 0)


def vectors(params, samples, sample):
    if sample.vocabulary:
        return params["vectors"]["embedding"]["embedding"][samples]
    return samples.reshape(*samples.shape[:2], -1)


def lstm_by_numpy(params, samples, sample, per_position):
    x = vectors(params, samples, sample)
    for layer in ("layer_0", "layer_1"):
        p, h, c, states = params[layer], np.zeros((B, 8)), np.zeros((B, 8)), []
        for t in range(x.shape[1]):
            i, f, g, o = (dense(p[f"i{gate}"], x[:, t]) + dense(p[f"h{gate}"], h) for gate in "ifgo")
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            states.append(h)
        x = np.stack(states, axis=1)
    return dense(params["out"], x if per_position else x[:, -1])


def normalised(p, x):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + 1e-6) * p["scale"] + p["bias"]


def attended(p, x, causal):
    q, k, v = (np.einsum("btd,dhf->bthf", x, p[n]["kernel"]) + p[n]["bias"] for n in ("query", "key", "value"))
    scores = np.einsum("bqhf,bkhf->bhqk", q, k) / np.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.tri(x.shape[1], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return np.einsum("bhqk,bkhf,hfd->bqd", weights, v, p["out"]["kernel"]) + p["out"]["bias"]


def transformer_by_numpy(params, samples, sample, per_position):
    x = vectors(params, samples, sample)
    x = (x if sample.vocabulary else dense(params["embedding"], x)) + params["position"]
    for block in ("block_0", "block_1"):
        p = params[block]
        x = x + attended(p["attention"], normalised(p["norm_0"], x), per_position)
        y = dense(p["dense_0"], normalised(p["norm_1"], x))
        y = 0.5 * y * (1 + np.tanh(np.sqrt(2 / np.pi) * (y + 0.044715 * y**3)))
        x = x + dense(p["dense_1"], y)
    x = normalised(params["norm"], x)
    return dense(params["out"], x if per_position else x.mean(axis=1))


@pytest.mark.few(2)
@pytest.mark.parametrize("per_position", [False, True])
@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)
@pytest.mark.parametrize(("name", "by_numpy"), [("lstm", lstm_by_numpy), ("transformer", transformer_by_numpy)])
def test_the_outputs_are_those_of_numpy(name, by_numpy, sample, per_position):
    model, samples, variables = made(name, sample, per_position)
    assert variables_of(model, sample, C, per_position).keys() == {"params"}
    params = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), variables["params"])
    wanted = by_numpy(params, np.asarray(samples), sample, per_position)
    np.testing.assert_allclose(model.apply(variables, samples), wanted, rtol=1e-3, atol=1e-5)


@pytest.mark.few(2)
@pytest.mark.parametrize("last", [0, 2])
@pytest.mark.parametrize("name", NAMES)
def test_a_position_sees_none_after_it(name, last):
    model, samples, variables = made(name, TOKENS, per_position=True)
    changed = samples.at[:, last + 1 :].set((samples[:, last + 1 :] + 1) % 7)
    found, other = (np.asarray(model.apply(variables, x)) for x in (samples, changed))
    np.testing.assert_array_equal(found[:, : last + 1], other[:, : last + 1])
    assert (np.abs(found - other)[:, last + 1 :].max(axis=2) > 1e-4).all()


def test_positions_are_learned_sinusoidal_or_unknown():
    """Without positions, the mean over positions does not tell a sequence from its reverse; with them it does."""
    for position, has in (("learned", True), ("sinusoidal", True), ("none", False)):
        model, samples, variables = made("transformer", TOKENS, position=position)
        assert ("position" in variables["params"]) is (position == "learned")
        reverse = np.abs(model.apply(variables, samples) - model.apply(variables, samples[:, ::-1])).max()
        assert bool(reverse > 1e-3) is has
    np.testing.assert_allclose(sinusoids(3, 4)[2], [np.sin(2), np.cos(2), np.sin(0.02), np.cos(0.02)], rtol=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_dropout_is_of_a_training_step_alone_and_stages_computed_again_give_the_same(name):
    plain, samples, variables = made(name, FLOATS)
    dropping, *_ = made(name, FLOATS, dropout=0.5)
    assert (draws(plain), draws(dropping)) == (False, True)
    np.testing.assert_array_equal(plain.apply(variables, samples), dropping.apply(variables, samples))
    train = lambda key: dropping.apply(variables, samples, jnp.ones(B, bool), rngs={"dropout": jax.random.key(key)})  # noqa: E731
    assert_trees_equal(train(0), train(0))
    assert np.abs(train(0) - train(1)).min() > 1e-6
    again = MODELS[name](plain.settings._replace(remat=True))
    loss = lambda model: jax.grad(lambda v: jnp.sum(jnp.square(model.apply(v, samples))))(variables)  # noqa: E731
    assert_trees_equal(loss(plain), loss(again), 1e-4)


def test_samples_that_a_model_cannot_process_are_told_in_a_line():
    images = "it needs images [height, width, channels]"
    sequences = "it needs tokens [T], floats [T, F] or images [height, width, channels]"
    for name, sample, said in (
        ("cnn", TOKENS, f"{images}, and toy has samples [5] of tokens 0 .. 6; lstm and transformer"),
        ("lenet", SampleSpec((3, 32, 32)), f"{images} of 4 x 4 at least, and toy has"),
        ("resnet9", SampleSpec((7, 7, 3)), f"{images} of 8 x 8 at least, and toy has"),
        ("linear", TOKENS, "it has no embedding of tokens, and toy has samples [5] of"),
        ("lstm", SampleSpec((5,)), sequences),
        ("transformer", SampleSpec((5, 2), 7), sequences),
    ):
        line = told(lambda name=name, of=sample: from_values(MODELS.numbers(name), {}).check_sample(of, name, "toy"))
        assert line.startswith(f"model.name is {name}; {said}")
    with pytest.raises(UserError, match=r"model.heads is 3; it must divide model.width"):
        make_model("transformer", C, sample=TOKENS, heads=3)
