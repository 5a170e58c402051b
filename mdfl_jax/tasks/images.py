"""The task of image classification: a model, a loss and the clients' data."""

from functools import partial
from typing import Any, NamedTuple, cast

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh

from mdfl_jax import contract, sharding
from mdfl_jax.batch_statistics import STATISTICS, trained, with_trained
from mdfl_jax.data.augment import Augmentation, draw_views, show
from mdfl_jax.data.batching import Blocks, ClientIndex, cut_blocks, index_clients
from mdfl_jax.data.dataset import Dataset
from mdfl_jax.data.partition import PARTITIONS, PartitionSettings
from mdfl_jax.errors import UserError, unknown_name
from mdfl_jax.gradients import Tiling, client_gradients, pad_blocks
from mdfl_jax.models.adapters import draws, variables_of
from mdfl_jax.numbers import Numbers
from mdfl_jax.rng import stream
from mdfl_jax.rows import rows_like
from mdfl_jax.tasks.blocks import cut_for, minibatch_blocks, seed_of_block
from mdfl_jax.tasks.evaluation import over_test, score_of
from mdfl_jax.tasks.registry import OF_DATASETS, TASKS, TaskKind
from mdfl_jax.types import ClientParams, Params, Score, Tally, Task

# Precision of the models' arithmetic -> JAX's name for the precision of products (on a CPU all products are float32).
PRECISIONS = {"float32": "highest", "tensorfloat32": "tensorfloat32", "bfloat16": "default"}


class ClassificationData(NamedTuple):
    """Images and labels, shared by all seeds.

    Images are uint8, [samples, H, W, channels]. Each step normalises them with ``mean`` and ``std`` [channels], which
    refer to pixel values 0 .. 255. ``pretrained`` holds the model's initial variables; None means drawn.
    ``natural_owner`` [n] int32 is the data set's array ``client``, numbered from 0 without gaps.
    """

    x_train: jax.Array
    y_train: jax.Array
    x_test: jax.Array
    y_test: jax.Array
    mean: jax.Array
    std: jax.Array
    x_validation: jax.Array | None = None
    y_validation: jax.Array | None = None
    pretrained: Any = None
    natural_owner: jax.Array | None = None


class ClassificationClients(NamedTuple):
    """The samples of each client, and their blocks in full-batch training (None for minibatches)."""

    held: ClientIndex
    blocks: Blocks | None

    @property
    def num_samples(self) -> jax.Array:
        """The number of samples of each client, [N] int32."""
        return self.held.num_samples

    @property
    def label_counts(self) -> jax.Array:
        """The number of samples of each client and class, [N, C] int32."""
        return self.held.label_counts


def device_data(dataset: Dataset) -> ClassificationData:
    """Put a data set on the device, with the mean and standard deviation of each channel over the training images."""
    # A histogram of the 256 levels needs no float copy of the images.
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
        x_validation=None if dataset.x_validation is None else jnp.asarray(dataset.x_validation),
        y_validation=None if dataset.y_validation is None else jnp.asarray(dataset.y_validation, jnp.int32),
        natural_owner=None if dataset.client is None else jnp.asarray(_without_gaps(dataset.client), jnp.int32),
    )


def _without_gaps(owner: np.ndarray) -> np.ndarray:
    return np.unique(owner, return_inverse=True)[1]


def classification(
    dataset: Dataset,
    model: nn.Module,
    num_clients: int,
    partition: str = "dirichlet",
    batch_size: int = 0,
    tiling: Tiling = Tiling(),
    precision: str = "float32",
    mesh: Mesh | None = None,
    augmentation: Augmentation = Augmentation(),
    pretrained: Any = None,
) -> Task:
    """Make the task of image classification with softmax cross-entropy on partitioned data.

    A model with batch statistics (`mdfl_jax.batch_statistics`) normalises each block separately. A minibatch is one
    block, unless ``tiling`` says otherwise. In full-batch training each block is weighted by its number of samples.

    Args:
      dataset: images and labels, see `mdfl_jax.data.sources.load`.
      model: a flax module from normalised images [B, H, W, channels] to logits [B, C].
      num_clients: N >= 1.
      partition: a name of `mdfl_jax.data.partition.PARTITIONS`; its numbers are ``hparams.task``.
      batch_size: samples of a client's minibatch, drawn with replacement; 0 takes all its samples (full batch).
      tiling: how samples are divided into blocks and tiles.
      precision: the precision of the models' arithmetic, one of `PRECISIONS`; weights, sums and mixing are always
        float32.
      mesh: devices that share one simulation, from `mdfl_jax.sharding.client_mesh`; None for one device.
      augmentation: how training images are augmented; by default they are not.
      pretrained: initial variables of the model, see `mdfl_jax.models.pretrained.match`; None draws all of them.

    Raises:
      UserError: for an unknown partition, mapping or precision, or for full-batch training of a model that has both
        batch statistics and random draws.
    """
    divide, by_place = PARTITIONS[partition], getattr(PARTITIONS.numbers(partition), "needs_places", False)
    num_natural_owners = 0 if dataset.client is None else len(np.unique(dataset.client))
    image_shape = dataset.x_train.shape[1:]
    shapes = variables_of(model, image_shape)
    with_statistics, may_draw = STATISTICS in shapes, draws(model)
    if may_draw and with_statistics and not batch_size:
        raise UserError(
            "algorithm.batch_size is 0; an adapted model with batch statistics needs minibatches, 1 or more"
        )
    dtype = jnp.bfloat16 if precision == "bfloat16" else jnp.float32
    sizes = cut_for(model, shapes, image_shape, batch_size, len(dataset.y_train), num_clients, tiling, dtype)
    block_size, at_once = sizes.block_size, sizes.at_once
    if precision not in PRECISIONS:
        raise UserError(unknown_name("precision", precision, PRECISIONS))
    in_precision = partial(jax.default_matmul_precision, PRECISIONS[precision])

    def apply(params: Params, data: ClassificationData, images: jax.Array, *mask: jax.Array, **rest: Any) -> Any:
        normalised = (images.astype(jnp.float32) - data.mean) / data.std
        low = {"params": jax.tree.map(lambda p: p.astype(dtype), trained(params))}
        if with_statistics:
            low[STATISTICS] = params[STATISTICS]
        return model.apply(low, normalised.astype(dtype), *mask, **rest)

    def logits(params: Params, data: ClassificationData, images: jax.Array) -> jax.Array:
        return cast(jax.Array, apply(params, data, images)).astype(jnp.float32)

    def of_block(model_params: Params, data: ClassificationData, block: Blocks) -> tuple[jax.Array, Params]:
        images = data.x_train[block.sample]
        if block.view is not None:
            images = show(augmentation, data.x_train, block.sample, block.view)

        def loss_sum(params: Params) -> tuple[jax.Array, Params]:
            whole, moved = with_trained(model_params, params), {}
            if with_statistics or may_draw:
                rngs = {} if block.draws is None else {"dropout": jax.random.key(block.draws)}
                outputs, moved = apply(whole, data, images, block.mask, mutable=[STATISTICS], rngs=rngs)
                outputs = outputs.astype(jnp.float32)
            else:
                outputs = logits(whole, data, images)
            losses = optax.softmax_cross_entropy_with_integer_labels(outputs, data.y_train[block.sample])
            return jnp.sum(jnp.where(block.mask, losses, 0.0)), moved

        (loss, moved), found = jax.value_and_grad(loss_sum, has_aux=True)(trained(model_params))
        if not with_statistics:
            return loss, found
        by_samples = lambda now, then: jnp.sum(block.mask) * (now - then)  # noqa: E731
        return loss, {"params": found, **jax.tree.map(by_samples, {STATISTICS: model_params[STATISTICS]}, moved)}

    def do_partition(
        data: ClassificationData, hparams: Numbers, key: jax.Array, places: jax.Array | None = None
    ) -> ClassificationClients:
        settings = PartitionSettings(
            num_clients, dataset.num_classes, hparams, data.natural_owner, num_natural_owners, places
        )
        owner = divide(key, data.y_train, settings)
        contract.arrays(divide, owner, data.y_train.shape, int)
        index = index_clients(owner, data.y_train, sharding.padded(num_clients, mesh), dataset.num_classes)
        blocks = None if batch_size else pad_blocks(cut_blocks(index, block_size), sharding.size(mesh))
        return ClassificationClients(index, blocks)

    def init(data: ClassificationData, key: jax.Array) -> Params:
        variables = model.init(key, jnp.zeros((1, *image_shape)))
        if data.pretrained is not None:
            variables = jax.tree.map(_or_drawn, data.pretrained, variables, is_leaf=lambda given: given is None)
        return variables if with_statistics else variables["params"]

    def gradient(
        data: ClassificationData, clients: ClassificationClients, client_params: ClientParams, key: jax.Array
    ) -> tuple[jax.Array, ClientParams]:
        if clients.blocks is None:
            blocks = minibatch_blocks(key, clients.held, batch_size, block_size)
            per_client = blocks.sample.size // len(clients.num_samples)
            place = jnp.arange(blocks.sample.size).reshape(blocks.sample.shape) % per_client
            samples = jnp.where(clients.num_samples > 0, batch_size, 1)
        else:
            blocks, place = clients.blocks, clients.blocks.sample
            samples = jnp.maximum(clients.num_samples, 1)
        if augmentation.num_views > 1:
            of_views = stream(key, "augmentation")
            blocks = blocks._replace(view=draw_views(augmentation, of_views, blocks.client, place))
        if may_draw:
            seed = jax.vmap(partial(seed_of_block, stream(key, "dropout")))(blocks.client, place[:, 0])
            blocks = blocks._replace(draws=seed)
        with in_precision():
            sums = client_gradients(of_block, data, client_params, blocks, at_once, mesh, clients.blocks is None)
        return jax.tree.map(lambda a: a / rows_like(samples, a), sums)

    def evaluate(data: ClassificationData, clients: ClassificationClients, client_params: ClientParams) -> Score:
        del clients
        with in_precision():
            return score_of(logits, data, client_params, sizes.tile, sizes.chunk, mesh)

    def sums_over_test(
        data: ClassificationData, clients: ClassificationClients, client_params: ClientParams, tally: Tally
    ) -> Any:
        del clients
        with in_precision():
            return over_test(logits, data, client_params, tally, sizes.tile, sizes.chunk, mesh)

    def validate(data: ClassificationData, clients: ClassificationClients, params: ClientParams) -> jax.Array:
        assert data.x_validation is not None
        assert data.y_validation is not None
        held_out = data._replace(x_test=data.x_validation, y_test=data.y_validation)
        return evaluate(held_out, clients, params).loss[0]

    validated = validate if dataset.x_validation is not None else None
    return Task(
        num_clients,
        device_data(dataset)._replace(pretrained=jax.tree.map(jnp.asarray, pretrained)),
        do_partition,
        init,
        gradient,
        evaluate,
        mesh,
        by_client=_by_client,
        validate=validated,
        alone=sizes.alone,
        in_turn=sizes.chunk > 0,
        by_place=by_place,
        over_test=sums_over_test,
    )


def _by_client(clients: ClassificationClients) -> ClassificationClients:
    """Divide all fields by client, except the list of sample indices.

    The clients of a device may hold any number of samples, so each device keeps the whole list, which is n words.
    """
    return jax.tree.map(lambda _: True, clients)._replace(held=ClientIndex(False, True, True, True))  # type: ignore[arg-type]


def _or_drawn(given: jax.Array | None, drawn: jax.Array) -> jax.Array:
    return drawn if given is None else given


TASKS.register(OF_DATASETS, doc="Image classification with softmax cross-entropy over a partitioned data set.")(
    TaskKind(
        lambda asked: classification(
            asked.dataset,  # type: ignore[arg-type]
            asked.model,
            asked.num_clients,
            asked.partition,
            asked.batch_size,
            asked.tiling,
            asked.precision,
            asked.mesh,
            asked.augmentation,
            asked.pretrained,
        ),
        of_datasets=True,
        precisions=tuple(PRECISIONS),
    )
)
