"""The arrays of the task of data sets: those on the device, the samples of each client, and the blocks of a round."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.core import devices
from mdfl_jax.core.batch_statistics import STATISTICS
from mdfl_jax.core.flops import products
from mdfl_jax.data.batching import Blocks, ClientIndex, draw_minibatch
from mdfl_jax.data.dataset import Dataset, Targets, numbered_owners
from mdfl_jax.data.normalize import sample_moments, target_moments
from mdfl_jax.models.adapters import draws
from mdfl_jax.models.model import SampleSpec
from mdfl_jax.tasks.gradients import Cut, Tiling, Work, cut


class SupervisedData(NamedTuple):
    """Samples and targets, shared by all seeds.

    Attributes:
      x_train: [n, ...] uint8, float32 or int32 samples as in `Dataset`, which each step normalises.
      y_train: [n, ...] the targets, as the loss takes them: those of a regression are normalised.
      x_test, y_test: the same of the test samples.
      mean, std: [F] float32, by which samples are normalised along their last axis; grey levels are 0 .. 255. None if
        samples are not normalised.
      x_validation, y_validation: the same of the validation samples; None if there are none.
      pretrained: the model's initial variables; None means drawn.
      natural_owner: [n] int32, the data set's array ``client``, numbered from 0 without gaps; None if it has none.
      natural_owner_test: [m] int32, the same of the test samples; -1 for an owner without training samples.
      frozen: the model's leaves that are not trained, while a model is applied; None: all are trained.
      stratum: [n] int32, the groups by which partitions divide samples without a label; None for labels.
    """

    x_train: jax.Array
    y_train: jax.Array
    x_test: jax.Array
    y_test: jax.Array
    mean: jax.Array | None
    std: jax.Array | None
    x_validation: jax.Array | None = None
    y_validation: jax.Array | None = None
    pretrained: Any = None
    natural_owner: jax.Array | None = None
    natural_owner_test: jax.Array | None = None
    stratum: jax.Array | None = None
    frozen: Any = None

    @property
    def strata(self) -> jax.Array:
        """The group of each training sample by which partitions divide, [n] int32: its label, if it has one."""
        return self.y_train if self.stratum is None else self.stratum


class SupervisedClients(NamedTuple):
    """The data of the clients of a run.

    Attributes:
      held: the samples of each client.
      blocks: their blocks in full-batch training; None for minibatches.
      frozen: the leaves of the model that are not trained, which all clients have alike, so they are stored once; None
        if all leaves are trained.
    """

    held: ClientIndex
    blocks: Blocks | None
    frozen: Any = None

    @property
    def num_samples(self) -> jax.Array:
        """The number of samples of each client, [N] int32."""
        return self.held.num_samples

    @property
    def label_counts(self) -> jax.Array:
        """The number of samples of each client and class (or stratum), [N, C] int32."""
        return self.held.label_counts


def spec_of(dataset: Dataset) -> SampleSpec:
    """Return the shape and kind of a sample of a data set, as models receive it."""
    return SampleSpec(dataset.x_train.shape[1:], dataset.vocabulary)


def device_data(dataset: Dataset) -> SupervisedData:
    """Put a data set on the device, with the moments by which samples are normalised (`mdfl_jax.data.normalize`)."""
    mean, std = sample_moments(dataset) or (None, None)
    # A limit of the training samples may have left some owners without any.
    owner, owner_test = (None, None) if dataset.client is None else numbered_owners(dataset.client, dataset.client_test)
    on_device = lambda array: None if array is None else jnp.asarray(array)  # noqa: E731
    return SupervisedData(
        x_train=jnp.asarray(dataset.x_train),
        y_train=_targets(dataset, dataset.y_train),
        x_test=jnp.asarray(dataset.x_test),
        y_test=_targets(dataset, dataset.y_test),
        mean=on_device(mean),
        std=on_device(std),
        x_validation=on_device(dataset.x_validation),
        y_validation=None if dataset.y_validation is None else _targets(dataset, dataset.y_validation),
        natural_owner=on_device(owner),
        natural_owner_test=on_device(owner_test),
        stratum=on_device(dataset.stratum),
    )


def _targets(dataset: Dataset, y: np.ndarray) -> jax.Array:
    """Return targets in the form that the loss takes."""
    if dataset.targets is Targets.FLAGS:
        return jnp.asarray(y, bool)
    if dataset.targets is not Targets.NUMBERS:
        return jnp.asarray(y, jnp.int32)
    moments = target_moments(dataset)
    return jnp.asarray(y if moments is None else (y - moments[0]) / moments[1], jnp.float32)


def cut_for(
    model: Any,
    shapes: Any,
    sample: SampleSpec,
    batch_size: int,
    num_samples: int,
    num_clients: int,
    tiling: Tiling = Tiling(),
    dtype: Any = jnp.float32,
) -> Cut:
    """Choose the block size for a model with `mdfl_jax.tasks.gradients.cut`, from the work that one sample takes.

    If the model has batch statistics or draws random numbers, a minibatch is one block, unless ``tiling`` sets the
    block size. So the results do not depend on the tile or the mapping.

    Args:
      model: a client model (`mdfl_jax.models.client_model`).
      shapes: the shapes of its variables.
      sample: what a sample is.
      batch_size, num_samples, num_clients, tiling: as for `mdfl_jax.tasks.gradients.cut`.
      dtype: the type of the activations.
    """
    if (STATISTICS in shapes or draws(model)) and batch_size and not tiling.block_size:
        tiling = tiling._replace(block_size=batch_size)
    work = None if devices.backend() == "cpu" else _work(model, shapes, sample, dtype)
    return cut(tiling, sample.shape, batch_size, num_samples, num_clients, work)


def _work(model: Any, shapes: Any, sample: SampleSpec, dtype: Any) -> Work:
    """Estimate one sample's work: three times the FLOPs of the forward pass, and twice the bytes of its outputs."""
    one = jax.ShapeDtypeStruct((1, *sample.shape), sample.dtype)
    forward = products(jax.make_jaxpr(model.apply)(shapes, one))
    return Work(3 * forward.flops, 2 * forward.outputs * jnp.dtype(dtype).itemsize)


def minibatch_blocks(key: jax.Array, held: ClientIndex, batch_size: int, block_size: int) -> Blocks:
    """Draw a minibatch for each client and cut it into blocks. The blocks of a client without samples are masked.

    Args:
      key: the key of the draw.
      held: the samples of each client.
      batch_size: the samples of a minibatch.
      block_size: the samples of a block; the rest of a client's last block is masked.

    Returns:
      N * ceil(batch_size / block_size) blocks, in the order of the clients.
    """
    num_clients, per_client = held.first.shape[0], -(-batch_size // block_size)
    draw = lambda i: draw_minibatch(jax.random.fold_in(key, i), held, i, batch_size)  # noqa: E731
    sample = jax.vmap(draw)(jnp.arange(num_clients))
    sample = jnp.pad(sample, [(0, 0), (0, per_client * block_size - batch_size)]).reshape(-1, block_size)
    client = jnp.repeat(jnp.arange(num_clients, dtype=jnp.int32), per_client)
    drawn = jnp.tile(jnp.arange(per_client * block_size).reshape(per_client, block_size) < batch_size, (num_clients, 1))
    return Blocks(client, sample, drawn & (held.num_samples > 0)[client][:, None])


def seed_of_block(key: jax.Array, client: jax.Array, place: jax.Array) -> jax.Array:
    """Return the seed, [] uint32, of a model's random draws for a block; it does not depend on other clients."""
    return jax.random.bits(jax.random.fold_in(jax.random.fold_in(key, client), place), (), jnp.uint32)
