"""Tasks: a model, a loss and the clients' data as one noun."""

from collections.abc import Callable
from typing import NamedTuple, cast

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from mdfl_jax.data.batching import Blocks, ClientIndex, cut_blocks, default_block_size, draw_minibatch, index_clients
from mdfl_jax.data.dataset import Dataset
from mdfl_jax.data.partition import PARTITIONS, PartitionSettings
from mdfl_jax.types import ClientParams, Params, Score, Task


class ClassificationData(NamedTuple):
    """Images as uint8 and labels, shared by all seeds. Normalised in the step with ``mean`` and ``std`` [channels]."""

    x_train: jax.Array
    y_train: jax.Array
    x_test: jax.Array
    y_test: jax.Array
    mean: jax.Array
    std: jax.Array


class ClassificationClients(NamedTuple):
    """The samples of each client, and their blocks where rounds take all of them (None for minibatches)."""

    held: ClientIndex
    blocks: Blocks | None

    @property
    def num_samples(self) -> jax.Array:
        """[N] int32."""
        return self.held.num_samples

    @property
    def label_counts(self) -> jax.Array:
        """[N, C] int32."""
        return self.held.label_counts


class PartitionParams(NamedTuple):
    """Traced numbers of a partition: ``alpha``, the concentration of the Dirichlet one."""

    alpha: jax.Array | float = 1.0


class Tiling(NamedTuple):
    """How the samples of a round are cut up; it changes the speed and the memory, and the results by rounding only.

    Attributes:
      block_size: samples of one client that make a block of a full-batch round (0: by the size of a client's share).
      tile: samples that are in flight at once; 0: what fits a CPU's cache, or all where it runs on an accelerator.
    """

    block_size: int = 0
    tile: int = 0


def _default_tile(image_shape: tuple[int, ...]) -> int:
    """Samples at once: patches of a tile should fit a core's cache on CPU; accelerators want long products."""
    if jax.default_backend() != "cpu":
        return 16384
    return max(10240 // (image_shape[0] * image_shape[1]), 32)


def _pad_blocks(blocks: Blocks, multiple: int) -> Blocks:
    """Appends masked blocks until their number is a multiple."""
    extra = -blocks.client.shape[0] % multiple
    pad = lambda a: jnp.pad(a, [(0, extra)] + [(0, 0)] * (a.ndim - 1))  # noqa: E731
    return jax.tree.map(pad, blocks)


def device_data(dataset: Dataset) -> ClassificationData:
    """Puts a data set on the device, with its per-channel mean and standard deviation over the training images."""
    # Through a histogram of the 256 levels: no float copy of the images.
    levels = np.stack([np.bincount(c.reshape(-1), minlength=256) for c in np.moveaxis(dataset.x_train, -1, 0)])
    share = levels / levels.sum(axis=1, keepdims=True)
    mean = share @ np.arange(256)
    std = np.sqrt(share @ np.arange(256) ** 2 - mean**2)
    return ClassificationData(
        x_train=jnp.asarray(dataset.x_train),
        y_train=jnp.asarray(dataset.y_train, jnp.int32),
        x_test=jnp.asarray(dataset.x_test),
        y_test=jnp.asarray(dataset.y_test, jnp.int32),
        mean=jnp.asarray(mean, jnp.float32),
        std=jnp.asarray(np.where(std > 0, std, 1.0), jnp.float32),
    )


def block_gradients(
    loss_sum: Callable[[Params, jax.Array, jax.Array, jax.Array], jax.Array],
    data: ClassificationData,
    client_params: ClientParams,
    blocks: Blocks,
    at_once: int,
) -> tuple[jax.Array, ClientParams]:
    """Losses and gradients of blocks, summed by client, ``at_once`` blocks in flight.

    Args:
      loss_sum: (params, images [B, ...], labels [B], mask [B]) -> summed loss of one block.
      data: the images.
      client_params: [N, ...].
      blocks: K blocks; K is a multiple of ``at_once``.
      at_once: how many are mapped together; the others follow in a scan, so memory does not grow with K.

    Returns:
      (loss [N], gradients [N, ...]), sums over each client's samples.
    """

    def add(sums: tuple[jax.Array, ClientParams], part: Blocks) -> tuple[tuple[jax.Array, ClientParams], None]:
        client, sample, mask = part
        params = jax.tree.map(lambda p: p[client], client_params)
        images, labels = data.x_train[sample], data.y_train[sample]
        losses, gradients = jax.vmap(jax.value_and_grad(loss_sum))(params, images, labels, mask)
        return jax.tree.map(lambda s, g: s.at[client].add(g), sums, (losses, gradients)), None

    num_clients = jax.tree.leaves(client_params)[0].shape[0]
    zeros = (jnp.zeros(num_clients), jax.tree.map(jnp.zeros_like, client_params))
    parts = jax.tree.map(lambda a: a.reshape(-1, at_once, *a.shape[1:]), blocks)
    return jax.lax.scan(add, zeros, parts)[0]


def classification(
    dataset: Dataset,
    model: nn.Module,
    num_clients: int,
    partition: str = "dirichlet",
    settings: PartitionSettings | None = None,
    batch_size: int = 0,
    tiling: Tiling = Tiling(),
) -> Task:
    """Image classification with softmax cross-entropy over partitioned data.

    Args:
      dataset: images and labels, see `mdfl_jax.data.sources.load`.
      model: a flax module from normalised images [B, H, W, channels] to logits [B, C].
      num_clients: N >= 1.
      partition: a name of `mdfl_jax.data.partition.PARTITIONS`.
      settings: the partition's settings; its ``alpha`` is overridden by ``hparams.task.alpha``.
      batch_size: samples of a client's minibatch, drawn with replacement; 0 takes all its samples (full batch).
      tiling: how samples are cut up.

    Raises:
      UserError: for an unknown partition.
    """
    divide = PARTITIONS[partition]
    base = settings or PartitionSettings(num_clients, dataset.num_classes)
    image_shape = dataset.x_train.shape[1:]
    tile = tiling.tile or _default_tile(image_shape)
    # Two blocks at once or more: a product of one block alone takes a slower path on CPU (benchmarks/README.md).
    block_size = tiling.block_size or max(tile // 2, 1)
    if batch_size:
        block_size = -(-batch_size // -(-batch_size // block_size))  # as few as would do, of equal size
    elif not tiling.block_size:
        block_size = min(block_size, default_block_size(len(dataset.y_train), num_clients))
    at_once = max(tile // block_size, 1)

    def logits(params: Params, data: ClassificationData, images: jax.Array) -> jax.Array:
        normalised = (images.astype(jnp.float32) - data.mean) / data.std
        return cast(jax.Array, model.apply({"params": params}, normalised))

    def do_partition(data: ClassificationData, hparams: PartitionParams, key: jax.Array) -> ClassificationClients:
        owner = divide(key, data.y_train, base._replace(alpha=hparams.alpha))
        index = index_clients(owner, data.y_train, num_clients, dataset.num_classes)
        return ClassificationClients(index, None if batch_size else _pad_blocks(cut_blocks(index, block_size), at_once))

    def init(key: jax.Array) -> Params:
        return model.init(key, jnp.zeros((1, *image_shape)))["params"]

    def gradient(
        data: ClassificationData, clients: ClassificationClients, client_params: ClientParams, key: jax.Array
    ) -> tuple[jax.Array, ClientParams]:
        def loss_sum(params: Params, images: jax.Array, labels: jax.Array, mask: jax.Array) -> jax.Array:
            losses = optax.softmax_cross_entropy_with_integer_labels(logits(params, data, images), labels)
            return jnp.sum(jnp.where(mask, losses, 0.0))

        if clients.blocks is None:
            blocks = _pad_blocks(_minibatch_blocks(key, clients.held, batch_size, block_size), at_once)
            samples = jnp.where(clients.num_samples > 0, batch_size, 1)
        else:
            blocks, samples = clients.blocks, jnp.maximum(clients.num_samples, 1)
        sums = block_gradients(loss_sum, data, client_params, blocks, at_once)
        return jax.tree.map(lambda a: a / samples.reshape(-1, *[1] * (a.ndim - 1)), sums)

    def evaluate(data: ClassificationData, client_params: ClientParams) -> Score:
        return _evaluate(logits, data, client_params, tile)

    return Task(num_clients, device_data(dataset), do_partition, init, gradient, evaluate)


def _minibatch_blocks(key: jax.Array, held: ClientIndex, batch_size: int, block_size: int) -> Blocks:
    """Freshly drawn minibatches, cut into blocks; those of a client without samples are masked."""
    num_clients, per_client = held.first.shape[0], -(-batch_size // block_size)
    draw = lambda i: draw_minibatch(jax.random.fold_in(key, i), held, i, batch_size)  # noqa: E731
    sample = jax.vmap(draw)(jnp.arange(num_clients))
    sample = jnp.pad(sample, [(0, 0), (0, per_client * block_size - batch_size)]).reshape(-1, block_size)
    client = jnp.repeat(jnp.arange(num_clients, dtype=jnp.int32), per_client)
    drawn = jnp.tile(jnp.arange(per_client * block_size).reshape(per_client, block_size) < batch_size, (num_clients, 1))
    return Blocks(client, sample, drawn & (held.num_samples > 0)[client][:, None])


def _evaluate(
    logits: Callable[[Params, ClassificationData, jax.Array], jax.Array],
    data: ClassificationData,
    client_params: ClientParams,
    tile: int,
) -> Score:
    """Accuracy and loss of M models over all test samples, in chunks of samples."""
    num_models = jax.tree.leaves(client_params)[0].shape[0]
    total = data.y_test.shape[0]
    chunk = min(max(4 * tile // num_models, 16), total)
    places = jnp.arange(-(-total // chunk) * chunk).reshape(-1, chunk)

    def add(sums: tuple[jax.Array, jax.Array], place: jax.Array) -> tuple[tuple[jax.Array, jax.Array], None]:
        sample, mask = jnp.minimum(place, total - 1), place < total
        images, labels = data.x_test[sample], data.y_test[sample]
        outputs = jax.vmap(lambda params: logits(params, data, images))(client_params)
        losses = optax.softmax_cross_entropy_with_integer_labels(outputs, jnp.broadcast_to(labels, (num_models, chunk)))
        right = (jnp.argmax(outputs, axis=-1) == labels) & mask
        loss = jnp.sum(jnp.where(mask, losses, 0.0), axis=1)
        return (sums[0] + jnp.sum(right, axis=1), sums[1] + loss), None

    zeros = (jnp.zeros(num_models, jnp.int32), jnp.zeros(num_models))
    correct, loss = jax.lax.scan(add, zeros, places)[0]
    return Score(correct / total, loss / total)
