"""Linear and logistic regression on synthetic data, which each seed draws as in PaME (V-A, examples 1 and 2)."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.core.numbers import Numbers, number
from mdfl_jax.core.types import ClientParams, Params, Score, Scoring, Spread, Task, TaskHooks
from mdfl_jax.data.batching import Batch, Epochs, draw_epochs
from mdfl_jax.tasks.gradients import PerSample
from mdfl_jax.tasks.scoring import MANY_MODELS, map_groups
from mdfl_jax.tasks.task import TASKS, TaskKind, TaskRequest

_KINDS = ("linear", "logistic")
NOISE = 0.5  # standard deviation of the noise in the targets of the linear regression


class LinearNumbers(Numbers):
    """The numbers of the linear regression."""

    dimension: int = number(1000, "coordinates of the model, n", static=True, at_least=1)
    samples_per_client: int = number(100, "samples of each client, q; the paper does not say", static=True, at_least=1)
    shift: float = number(
        0.0, "standard deviation of each client's truth around the common one, in its non-zero coordinates", at_least=0
    )
    truth_share: float = number(
        0.01, "share of the truth's coordinates that are not zero", at_least=0, at_most=1, source="PaME V-A"
    )
    l2: float = number(0.0, "weight lambda of the penalty lambda / 2 ||w||^2", at_least=0, source="PaME V-A")


class LogisticNumbers(LinearNumbers):
    """The numbers of the logistic regression."""

    truth_share: float = number(
        0.5, "share of the truth's coordinates that are not zero", at_least=0, at_most=1, source="PaME V-A"
    )
    l2: float = number(1e-3, "weight lambda of the penalty lambda / 2 ||w||^2", at_least=0, source="PaME V-A")


class _Samples(NamedTuple):
    """Features a [..., n] and targets b [...]."""

    features: jax.Array
    targets: jax.Array


class RegressionClients(NamedTuple):
    """The data that a seed drew.

    Attributes:
      train: [N, q, n] and [N, q], q samples a client.
      test: [T, n] and [T].
      validation: [T, n] and [T], drawn independently of ``test``.
      num_samples: [N] int32, q for each client.
      label_counts: [N, C] int32; C = 2 for the labels 0 and 1 of the logistic regression, and C = 1 for the linear one.
      l2: [] lambda.
    """

    train: _Samples
    test: _Samples
    validation: _Samples
    num_samples: jax.Array
    label_counts: jax.Array
    l2: jax.Array


def draw_truth(key: jax.Array, dimension: int, dtype: jnp.dtype, share: jax.Array | float) -> jax.Array:
    """Draw the truth w* [n]. A share of the coordinates, at least one, is uniform in +-[0.5, 2]; the others are 0."""
    key_where, key_sign, key_size = jax.random.split(key, 3)
    count = jnp.maximum(jnp.round(share * dimension), 1)
    where = jax.random.permutation(key_where, dimension) < count
    size = jax.random.uniform(key_size, (dimension,), dtype, 0.5, 2.0)
    return jnp.where(where, size * jax.random.rademacher(key_sign, (dimension,), dtype), 0)


def draw_samples(key: jax.Array, kind: str, truth: jax.Array, num_samples: int) -> _Samples:
    """Draw standard normal features a and their targets b.

    Args:
      key: the key of the draw.
      kind: "linear", b = <a, w*> + 0.5 e with standard normal e; or "logistic", b = 1 with probability
        sigmoid(<a, w*>), else 0.
      truth: [n] w*.
      num_samples: the number of samples.

    Returns:
      Features [num_samples, n] and targets [num_samples].
    """
    key_features, key_targets = jax.random.split(key)
    features = jax.random.normal(key_features, (num_samples, truth.shape[0]), truth.dtype)
    mean = jnp.matmul(features, truth, precision="highest")
    if kind == "linear":
        return _Samples(features, mean + NOISE * jax.random.normal(key_targets, mean.shape, mean.dtype))
    return _Samples(features, jax.random.bernoulli(key_targets, jax.nn.sigmoid(mean)).astype(mean.dtype))


def _losses(kind: str, outputs: jax.Array, targets: jax.Array) -> jax.Array:
    """Return each sample's loss, from the outputs <a, w>: 1/2 (<a, w> - b)^2, or ln(1 + e^<a, w>) - b <a, w>."""
    if kind == "linear":
        return jnp.square(outputs - targets) / 2
    return jax.nn.softplus(outputs) - targets * outputs


def _slopes(kind: str, outputs: jax.Array, targets: jax.Array) -> jax.Array:
    """Return the derivatives of the losses by the outputs <a, w>."""
    return (outputs if kind == "linear" else jax.nn.sigmoid(outputs)) - targets


def _mean_over(mask: jax.Array) -> Callable[[jax.Array], jax.Array]:
    """Return the function that takes the mean of x [N, B, ...] over the samples [N, B] of a mask; 0 without any."""

    def of_samples(x: jax.Array) -> jax.Array:
        inside = mask.reshape(mask.shape + (1,) * (x.ndim - mask.ndim))
        return jnp.sum(jnp.where(inside, x, 0), axis=1) / jnp.maximum(jnp.sum(inside, axis=1), 1)

    return of_samples


def _score(kind: str, samples: _Samples, weights: jax.Array) -> Score:
    """Score M models [M, n]: the share of correct labels, or max(R^2, 0), and the mean loss without the penalty."""
    outputs = jnp.matmul(weights, samples.features.T, precision="highest")
    loss = jnp.mean(_losses(kind, outputs, samples.targets), axis=1)
    if kind == "logistic":
        return Score(jnp.mean((outputs > 0) == (samples.targets > 0.5), axis=1), loss)
    return Score(jnp.maximum(1 - 2 * loss / jnp.var(samples.targets), 0), loss)


@dataclass(frozen=True, eq=False)
class Regression:
    """The settings of the task, and its functions for `mdfl_jax.core.types.Task` as methods.

    Attributes:
      kind: "linear" or "logistic".
      num_clients: N.
      dimension: n.
      samples_per_client: q.
      test_samples: T.
      batch_size: samples of a minibatch; 0: all.
      dtype: the type of all arrays.
    """

    kind: str
    num_clients: int
    dimension: int
    samples_per_client: int
    test_samples: int
    batch_size: int
    dtype: Any

    def init(self, data: None, key: jax.Array) -> Params:
        """Return the model of zeros."""
        return {"w": jnp.zeros(self.dimension, self.dtype)}

    def partition(self, data: None, hparams: LinearNumbers, key: jax.Array) -> RegressionClients:
        """Draw the truths and the samples of a seed."""
        key_truth, key_shift, key_train, key_test, key_validation = jax.random.split(key, 5)
        truth = draw_truth(key_truth, self.dimension, self.dtype, hparams.truth_share)
        train = self._training_samples(key_train, self._truths(key_shift, truth, hparams.shift))
        held = jnp.full(self.num_clients, self.samples_per_client, jnp.int32)
        ones = jnp.sum(train.targets > 0.5, axis=1, dtype=jnp.int32)
        return RegressionClients(
            train=train,
            test=draw_samples(key_test, self.kind, truth, self.test_samples),
            validation=draw_samples(key_validation, self.kind, truth, self.test_samples),
            num_samples=held,
            label_counts=held[:, None] if self.kind == "linear" else jnp.stack([held - ones, ones], axis=1),
            l2=jnp.asarray(hparams.l2, self.dtype),
        )

    def _truths(self, key: jax.Array, truth: jax.Array, shift: jax.Array | float) -> jax.Array:
        """Draw each client's truth around the common one, [N, n]."""
        own = jax.random.normal(key, (self.num_clients, self.dimension), self.dtype) * jnp.asarray(shift, self.dtype)
        return truth + jnp.where(truth != 0, own, 0)

    def _training_samples(self, key: jax.Array, truths: jax.Array) -> _Samples:
        """Draw the samples of each client from its truth."""
        draw = lambda k, w: draw_samples(k, self.kind, w, self.samples_per_client)  # noqa: E731
        return jax.vmap(draw)(jax.random.split(key, self.num_clients), truths)

    def gradient(
        self,
        data: None,
        clients: RegressionClients,
        client_params: ClientParams,
        key: jax.Array,
        per_sample: PerSample | None = None,
        whole: bool = False,
        batch: Batch | None = None,
    ) -> tuple[jax.Array, ClientParams]:
        """Compute the mean losses and gradients of all clients; see `mdfl_jax.core.types.Task`."""
        (features, targets), weights = clients.train, client_params["w"]
        if batch is not None or (self.batch_size and not whole):
            shape = self.num_clients, self.batch_size
            drawn = jax.random.randint(key, shape, 0, self.samples_per_client) if batch is None else batch.sample
            features, targets = jax.vmap(lambda a, b, i: (a[i], b[i]))(features, targets, drawn)
        mean: Callable[[jax.Array], jax.Array] = partial(jnp.mean, axis=1)
        count: Any = targets.shape[1]
        if batch is not None:
            mean, count = _mean_over(batch.mask), jnp.maximum(jnp.sum(batch.mask, axis=1, keepdims=True), 1)
        outputs = jnp.einsum("iqn,in->iq", features, weights, precision="highest")
        penalty = clients.l2 / 2 * jnp.sum(jnp.square(weights), axis=1)
        slopes = _slopes(self.kind, outputs, targets)
        if per_sample is None:
            slopes = slopes if batch is None else jnp.where(batch.mask, slopes, 0)
            slope = jnp.einsum("iqn,iq->in", features, slopes / count, precision="highest")
        else:  # the penalty belongs to no sample
            of_one = lambda a, s: per_sample({"w": s * a})["w"]  # noqa: E731
            slope = mean(jax.vmap(jax.vmap(of_one))(features, slopes))
        slope = slope + clients.l2 * weights
        return mean(_losses(self.kind, outputs, targets)) + penalty, {"w": slope}

    def epochs(self, data: None, clients: RegressionClients, key: jax.Array, num_epochs: int, equal: bool) -> Epochs:
        """Draw the minibatches of local epochs; see `mdfl_jax.core.types.Task`."""
        q, row = self.samples_per_client, jnp.arange(self.num_clients, dtype=jnp.int32)
        sample = jnp.tile(jnp.arange(q, dtype=jnp.int32), self.num_clients)
        return draw_epochs(key, num_epochs, sample, q * row, clients.num_samples, self.batch_size, equal)

    def objective(self, data: None, clients: RegressionClients, params: ClientParams) -> jax.Array:
        """Compute the sum of all f_i (PaME, equation 1), []."""
        weights = params["w"][0]
        outputs = jnp.einsum("iqn,n->iq", clients.train.features, weights, precision="highest")
        of_clients = jnp.mean(_losses(self.kind, outputs, clients.train.targets), axis=1)
        data_loss = jnp.sum(jnp.where(clients.num_samples > 0, of_clients, 0))
        return data_loss + self.num_clients * clients.l2 / 2 * jnp.sum(jnp.square(weights))

    def evaluate(self, data: None, clients: RegressionClients, client_params: ClientParams) -> Score:
        """Score M models on the test samples."""
        of_models = lambda weights: _score(self.kind, clients.test, weights)  # noqa: E731
        return map_groups(of_models, client_params["w"], MANY_MODELS)

    def validate(self, data: None, clients: RegressionClients, params: ClientParams) -> jax.Array:
        """Compute the loss of one model on the validation samples, []."""
        return _score(self.kind, clients.validation, params["w"]).loss[0]


def regression(
    kind: str,
    num_clients: int,
    dimension: int,
    samples_per_client: int,
    test_samples: int = 1000,
    batch_size: int = 0,
    precision: str = "float32",
    mesh: Mesh | None = None,
) -> Task:
    """Make the task of linear or logistic regression. All models start from zero (PaME algorithm 1).

    f_i is the mean loss over the samples of client i plus the penalty. The objective is the sum of all f_i (PaME,
    equation 1). The accuracy of the linear regression is R^2 on the test samples, or 0 where R^2 is negative.

    Args:
      kind: "linear" or "logistic".
      num_clients: N, m in the paper.
      dimension: n.
      samples_per_client: q; the paper does not give it.
      test_samples: the size of the test set, and of the validation set.
      batch_size: samples of a minibatch, drawn with replacement; 0 takes all.
      precision: "float32", or "float64" (under jax.enable_x64).
      mesh: devices that share one simulation, from `mdfl_jax.core.sharding.client_mesh`; None for one device.

    Raises:
      UserError: for an unknown kind or precision.
    """
    if kind not in _KINDS:
        raise UserError(unknown_name("regression", kind, _KINDS))
    if precision not in ("float32", "float64"):
        raise UserError(f"precision is {precision}; a regression has float32 or float64")
    dtype = jnp.dtype(precision)
    of = Regression(kind, num_clients, dimension, samples_per_client, test_samples, batch_size, dtype)
    return Task(
        num_clients,
        None,
        of.partition,
        of.init,
        of.gradient,
        of.evaluate,
        Scoring(objective=of.objective, validate=of.validate),
        TaskHooks(Spread(mesh, _by_client), passes=of.epochs if batch_size else None),
    )


def _by_client(clients: RegressionClients) -> RegressionClients:
    """Divide the clients' own data by client. Each device keeps all test and validation samples and lambda."""
    alike = jax.tree.map(lambda _: False, clients)
    return alike._replace(train=_Samples(True, True), num_samples=True, label_counts=True)  # type: ignore[arg-type]


def _register(kind: str, numbers: type[LinearNumbers], doc: str, formula: str, cite: str) -> None:
    def make(asked: TaskRequest) -> Task:
        return regression(
            kind,
            asked.num_clients,
            asked.numbers.dimension,
            asked.numbers.samples_per_client,
            batch_size=asked.batch_size,
            precision=asked.precision,
            mesh=asked.mesh,
        )

    made = TaskKind(make, precisions=("float32", "float64"), has_objective=True, is_light=True, has_epochs=True)
    TASKS.register(f"synthetic:{kind}", numbers, doc, formula=formula, cite=cite)(made)


_register(
    "linear",
    LinearNumbers,
    "Linear regression on data that each seed draws.",
    "f_i(x) = mean over the samples of client i of (a . x - b)^2 / 2, plus l2 / 2 ||x||^2",
    "pame: V-A, example 1",
)
_register(
    "logistic",
    LogisticNumbers,
    "Logistic regression on data that each seed draws.",
    "f_i(x) = mean over the samples of client i of log(1 + exp(a . x)) - b a . x, plus l2 / 2 ||x||^2",
    "pame: V-A, example 2",
)
