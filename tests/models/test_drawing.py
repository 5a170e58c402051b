"""Random draws of models: of streams that a module looks for itself, in evaluation, and by minibatch."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from adapted import step, task_of
from flax import nnx
from small import assert_trees_equal

from mdfl_jax.core.errors import UserError
from mdfl_jax.models import SamplesLast, SampleSpec, adapt, client_model, make_model
from mdfl_jax.models.adapters import draws, variables_of
from mdfl_jax.models.client_models import with_stream
from mdfl_jax.tasks import cut_for
from mdfl_jax.tasks.gradients import Tiling

SAMPLE = SampleSpec((4, 4, 1))


class Streamed(nn.Module):
    """Draws where it is given a stream."""

    rate: float = 0.5

    @nn.compact
    def __call__(self, x):
        return nn.Dense(3)(nn.Dropout(self.rate, deterministic=not self.has_rng("dropout"))(x.reshape(x.shape[0], -1)))


class Unknown(nn.Module):
    """Has an argument of an unknown name, which is never given."""

    rate: float = 0.5

    @nn.compact
    def __call__(self, x, is_train=False):
        return nn.Dense(3)(nn.Dropout(self.rate, deterministic=not is_train)(x.reshape(x.shape[0], -1)))


class Field(nn.Module):
    """Has a field of an unknown name, and tells the layer when it calls it."""

    eval_mode: bool = True

    @nn.compact
    def __call__(self, x):
        return nn.Dense(3)(nn.Dropout(0.5)(x.reshape(x.shape[0], -1), self.eval_mode))


class Attends(nn.Module):
    """Attention that would drop."""

    @nn.compact
    def __call__(self, x, is_train=False):
        x = nn.MultiHeadDotProductAttention(2, dropout_rate=0.5)(nn.Dense(4)(x[..., 0]), deterministic=not is_train)
        return nn.Dense(3)(x.mean(axis=1))


class Both(nn.Module):
    """One layer looks for the stream, and the other waits for an argument."""

    @nn.compact
    def __call__(self, x, is_train=False):
        return Unknown()(Streamed()(x))


class Last(nn.Module):
    """With the samples last, and a stream."""

    rate: float = 0.5

    @nn.compact
    def __call__(self, x):
        return Streamed(self.rate)(x.reshape(-1, x.shape[-1]).T)


def checked(model):
    model = client_model(model)
    return with_stream(model, variables_of(model, SAMPLE, 3), SAMPLE)


@pytest.mark.long
@pytest.mark.parametrize("make", [Streamed, lambda rate=0.5: SamplesLast(Last(rate))], ids=["plain", "samples_last"])
def test_a_module_that_looks_for_the_stream_has_it_in_training_alone(make):
    model = make()
    assert draws(checked(model))
    task = task_of(model)
    (first, _), params, clients = step(task)
    (again, _), _, _ = step(task)
    (without, _), _, _ = step(task_of(make(rate=0.0)))  # of the same samples
    assert_trees_equal(first, again)
    assert not np.isclose(first, without).any()
    one = jax.tree.map(lambda p: p[0], params)
    images = (task.data.x_test.astype(jnp.float32) - task.data.mean) / task.data.std
    right = jnp.argmax(model.apply({"params": one}, images), axis=1) == task.data.y_test
    np.testing.assert_allclose(task.evaluate(task.data, clients, params).accuracy[0], right.mean(), rtol=1e-6)


@pytest.mark.parametrize(
    ("model", "layer"),
    [
        (Unknown(), "Dropout"),
        (Field(), "Dropout"),
        (Attends(), "MultiHeadDotProductAttention"),
        (Both(), "Dropout"),
    ],
)
def test_dropout_that_would_be_off_in_training_is_told_in_a_line(model, layer):
    with pytest.raises(UserError) as error:
        task_of(model)
    said = f"the model {type(model).__name__} has {layer} with a rate above 0, and no argument tells it whether it is "
    assert str(error.value).startswith(said)
    assert "adapt(model, 'name')" in str(error.value)
    assert "\n" not in str(error.value)


def test_what_drops_nothing_or_is_named_is_taken():
    for model in (Unknown(rate=0.0), Streamed(rate=0.0)):
        assert not draws(checked(model))
    assert draws(checked(adapt(Unknown(), "is_train")))
    assert not draws(checked(make_model("linear", 3)))


def recurrent(cell, width=5):
    class Recurrent(nnx.Module):
        def __init__(self, rngs):
            self.rnn = nnx.RNN(cell(4, width, rngs=rngs), rngs=rngs)
            self.out = nnx.Linear(width, 3, rngs=rngs)

        def __call__(self, x):
            return self.out(self.rnn(x[..., 0])[:, -1])

    return Recurrent


@pytest.mark.long
@pytest.mark.parametrize("cell", [nnx.LSTMCell, nnx.GRUCell])
def test_recurrent_cells_of_nnx_take_keys_for_zeros(cell):
    model, samples = client_model(recurrent(cell)), jax.random.normal(jax.random.key(3), (2, 4, 4, 1))
    assert set(variables_of(model, SAMPLE, 3)) == {"params"}
    variables, module = model.init(jax.random.key(2), samples), recurrent(cell)(nnx.Rngs(jax.random.key(2)))
    outputs = module(samples)
    for mask in (None, jnp.ones(2, bool)):
        np.testing.assert_allclose(model.apply(variables, samples, mask), outputs, rtol=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("cell", [nnx.LSTMCell, nnx.GRUCell])
def test_recurrent_cells_of_nnx_are_trained_and_evaluated(cell):
    task = task_of(recurrent(cell))
    (loss, slopes), params, clients = step(task)
    assert np.isfinite(loss).all()
    assert all(np.any(leaf) for leaf in jax.tree.leaves(slopes))
    assert np.isfinite(task.evaluate(task.data, clients, params).loss).all()


class Always(nnx.Module):
    """Drops in evaluation too; its outputs begin at zero, so that their values tell nothing."""

    def __init__(self, rngs):
        self.out = nnx.Linear(16, 3, kernel_init=nnx.initializers.zeros, rngs=rngs)
        self.rngs = rngs

    def __call__(self, x):
        x = x.reshape(x.shape[0], -1)
        return self.out(nnx.Dropout(0.5, deterministic=False)(x, rngs=self.rngs))


def test_dropout_that_is_on_in_evaluation_is_refused():
    with pytest.raises(UserError, match=r"^the model Always draws random numbers in evaluation$"):
        variables_of(client_model(Always), SAMPLE, 3)


def sizes(model, batch_size=200, **tiling):
    model = client_model(model)
    shapes = variables_of(model, SAMPLE, 3)
    return cut_for(with_stream(model, shapes, SAMPLE), shapes, SAMPLE, batch_size, 1000, 4, Tiling(**tiling)).block_size


def test_a_model_that_draws_has_a_minibatch_in_one_block():
    assert [sizes(Streamed(), mapping=mapping) for mapping in ("chunk", "scan", "vmap")] == [200] * 3
    assert sizes(Streamed(), block_size=50) == 50
    assert sizes(make_model("linear", 3)) < 200


@pytest.mark.long
def test_dropout_does_not_depend_on_the_mapping():
    found = [step(task_of(Streamed(), batch_size=200, tiling=Tiling(mapping=m)))[0] for m in ("chunk", "scan", "vmap")]
    for other in found[1:]:
        assert_trees_equal(found[0], other, 1e-5)
