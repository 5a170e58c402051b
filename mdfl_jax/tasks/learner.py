"""The functions of the task of a data set: a model, a loss and the clients' samples with their targets."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from mdfl_jax.core import contract, sharding
from mdfl_jax.core.batch_statistics import STATISTICS, trained, with_trained
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.numbers import Numbers
from mdfl_jax.core.rng import stream
from mdfl_jax.core.trees import chosen_leaves, joined_leaves, rows_like
from mdfl_jax.core.types import ClientParams, Params, Score, Tally
from mdfl_jax.data.augment import Augmentation, draw_views, show
from mdfl_jax.data.batching import Blocks, cut_blocks, index_clients
from mdfl_jax.data.partition import PARTITIONS, PartitionSettings
from mdfl_jax.models.model import SampleSpec
from mdfl_jax.tasks.gradients import Cut, PerSample, by_sample, client_gradients, pad_blocks
from mdfl_jax.tasks.losses import Loss
from mdfl_jax.tasks.samples import SupervisedClients, SupervisedData, minibatch_blocks, seed_of_block
from mdfl_jax.tasks.scoring import Evaluator, draw_part, local_accuracy_of, over_samples, score_of, score_of_part

# Precision of the models' arithmetic -> JAX's name for the precision of products (on a CPU all products are float32).
PRECISIONS = {"float32": "highest", "tensorfloat32": "tensorfloat32", "bfloat16": "default"}


@dataclass(frozen=True, eq=False)
class Learner:
    """The settings of the task, and its functions for `mdfl_jax.core.types.Task` as methods.

    Attributes:
      num_clients: N.
      num_owners: the number of clients that hold data, the first ones.
      model: a client model (`mdfl_jax.models.client_model`).
      sample: the shape and kind of a sample.
      num_outputs: C, the outputs of the model (of each position).
      per_position: whether there is a label at each position of a sequence.
      loss, loss_numbers: the loss and its numbers.
      partition_name: a name of `PARTITIONS`.
      num_strata: the number of groups by which a partition of label skew divides: the classes, if samples have a label.
      num_natural_owners: K, 0 if the data set does not say them.
      batch_size: samples of a minibatch; 0: full batch.
      sizes: the sizes of blocks and tiles.
      precision: one of `PRECISIONS`.
      mesh: devices that share one simulation, or None.
      augmentation: how training images are augmented.
      with_statistics, may_draw: whether the model has batch statistics, and whether it draws random numbers.
      has_one_label: whether each sample has one label.
      trainable: patterns of the paths of the leaves that are trained (`mdfl_jax.core.trees.chosen_leaves`); "": all.
    """

    num_clients: int
    num_owners: int
    model: Any
    sample: SampleSpec
    num_outputs: int
    per_position: bool
    loss: Loss
    loss_numbers: Any
    partition_name: str
    num_strata: int
    num_natural_owners: int
    batch_size: int
    sizes: Cut
    precision: str
    mesh: Mesh | None
    augmentation: Augmentation
    with_statistics: bool
    may_draw: bool
    has_one_label: bool
    trainable: str = ""

    @property
    def evaluator(self) -> Evaluator:
        """The functions and sizes by which models are evaluated."""
        shape = (*self.sample.shape[:1], self.num_outputs) if self.per_position else (self.num_outputs,)
        return Evaluator(self.logits, shape, self.sizes.tile, self.sizes.chunk, self.mesh)

    def in_precision(self) -> AbstractContextManager[Any]:
        """Return the context in which products have the precision of the task."""
        return jax.default_matmul_precision(PRECISIONS[self.precision])

    def apply(self, params: Params, data: SupervisedData, x: jax.Array, *mask: jax.Array, **rest: Any) -> Any:
        """Normalise samples x [B, ...] and apply the model, whose arithmetic has the precision of the task."""
        dtype = low_type(self.precision)
        if not self.sample.vocabulary:
            x = x.astype(jnp.float32)
            if data.mean is not None and data.std is not None:
                x = (x - data.mean) / data.std
            x = x.astype(dtype)
        own = trained(params) if data.frozen is None else joined_leaves(trained(params), data.frozen)
        low = {"params": jax.tree.map(lambda p: p.astype(dtype), own)}
        if self.with_statistics:
            low[STATISTICS] = params[STATISTICS]
        return self.model.apply(low, x, *mask, **rest)

    def logits(self, params: Params, data: SupervisedData, x: jax.Array) -> jax.Array:
        """Return the outputs of a model in evaluation, float32, for samples x [B, ...]."""
        return cast(jax.Array, self.apply(params, data, x)).astype(jnp.float32)

    def of_block(self, model_params: Params, data: SupervisedData, block: Blocks) -> tuple[jax.Array, Params]:
        """Return the sums of the losses and of the gradients over the samples of a block."""
        x = data.x_train[block.sample]
        if block.view is not None:
            x = show(self.augmentation, data.x_train, block.sample, block.view)

        def loss_sum(params: Params) -> tuple[jax.Array, Params]:
            whole, moved = with_trained(model_params, params), {}
            if self.with_statistics or self.may_draw:
                rngs = {} if block.draws is None else {"dropout": jax.random.key(block.draws)}
                outputs, moved = self.apply(whole, data, x, block.mask, mutable=[STATISTICS], rngs=rngs)
                outputs = outputs.astype(jnp.float32)
            else:
                outputs = self.logits(whole, data, x)
            losses = self.loss.losses(self.loss_numbers, outputs, data.y_train[block.sample])
            contract.arrays(self.loss.losses, losses, block.mask.shape, float)
            return jnp.sum(jnp.where(block.mask, losses, 0.0)), moved

        (loss, moved), found = jax.value_and_grad(loss_sum, has_aux=True)(trained(model_params))
        if not self.with_statistics:
            return loss, found
        by_samples = lambda now, then: jnp.sum(block.mask) * (now - then)  # noqa: E731
        return loss, {"params": found, **jax.tree.map(by_samples, {STATISTICS: model_params[STATISTICS]}, moved)}

    def owner(
        self, data: SupervisedData, hparams: Numbers, key: jax.Array, places: jax.Array | None = None
    ) -> jax.Array:
        """Return the client that holds each training sample, [n] int32; -1 for nobody."""
        places = None if places is None else places[: self.num_owners]
        settings = PartitionSettings(
            self.num_owners, self.num_strata, hparams, data.natural_owner, self.num_natural_owners, places
        )
        divide = PARTITIONS[self.partition_name]
        owner = divide(key, data.strata, settings)
        return contract.arrays(divide, owner, data.strata.shape, int)

    def partition(
        self, data: SupervisedData, hparams: Numbers, key: jax.Array, places: jax.Array | None = None
    ) -> SupervisedClients:
        """Divide the training samples among the clients; see `mdfl_jax.core.types.Task`."""
        owner = self.owner(data, hparams, key, places)
        index = index_clients(owner, data.strata, sharding.padded(self.num_clients, self.mesh), self.num_strata)
        blocks = None
        if not self.batch_size:
            blocks = pad_blocks(cut_blocks(index, self.sizes.block_size), sharding.size(self.mesh))
        return SupervisedClients(index, blocks, self.frozen(data, key) if self.trainable else None)

    def frozen(self, data: SupervisedData, key: jax.Array) -> Params:
        """Return the leaves of the model that are not trained, from the given weights or drawn by the key."""
        return chosen_leaves(trained(self._variables(data, stream(key, "init"))), self.trainable, inside=False)

    def init(self, data: SupervisedData, key: jax.Array) -> Params:
        """Draw the variables of one model, except for those that are given and those that are not trained."""
        variables = self._variables(data, key)
        if not self.trainable:
            return variables
        return with_trained(variables, chosen_leaves(trained(variables), self.trainable))

    def _variables(self, data: SupervisedData, key: jax.Array) -> Params:
        variables = self.model.init(key, jnp.zeros((1, *self.sample.shape), self.sample.dtype))
        if data.pretrained is not None:
            variables = jax.tree.map(_or_drawn, data.pretrained, variables, is_leaf=lambda given: given is None)
        return variables if self.with_statistics else variables["params"]

    def gradient(
        self,
        data: SupervisedData,
        clients: SupervisedClients,
        client_params: ClientParams,
        key: jax.Array,
        per_sample: PerSample | None = None,
    ) -> tuple[jax.Array, ClientParams]:
        """Compute the mean losses and gradients of all clients; see `mdfl_jax.core.types.Task`."""
        if per_sample and self.with_statistics:
            raise UserError("a model with batch statistics has no gradients of single samples")
        of_block = by_sample(self.of_block, per_sample) if per_sample else self.of_block
        if clients.blocks is None:
            blocks = minibatch_blocks(key, clients.held, self.batch_size, self.sizes.block_size)
            per_client = blocks.sample.size // len(clients.num_samples)
            place = jnp.arange(blocks.sample.size).reshape(blocks.sample.shape) % per_client
            samples = jnp.where(clients.num_samples > 0, self.batch_size, 1)
        else:
            blocks, place = clients.blocks, clients.blocks.sample
            samples = jnp.maximum(clients.num_samples, 1)
        if self.augmentation.num_views > 1:
            of_views = stream(key, "augmentation")
            blocks = blocks._replace(view=draw_views(self.augmentation, of_views, blocks.client, place))
        if self.may_draw:
            seed = jax.vmap(partial(seed_of_block, stream(key, "dropout")))(blocks.client, place[:, 0])
            blocks = blocks._replace(draws=seed)
        data, equal_shares, at_once = self._whole(data, clients), clients.blocks is None, self.sizes.at_once
        with self.in_precision():
            sums = client_gradients(of_block, data, client_params, blocks, at_once, self.mesh, equal_shares)
        return jax.tree.map(lambda a: a / rows_like(samples, a), sums)

    def _whole(self, data: SupervisedData, clients: SupervisedClients) -> SupervisedData:
        """Return the data with the leaves of the model that are not trained, which lie with the clients of a run."""
        return data._replace(frozen=clients.frozen) if self.trainable else data

    def evaluate(self, data: SupervisedData, clients: SupervisedClients, client_params: ClientParams) -> Score:
        """Compute the accuracy and the loss of M models on all test samples."""
        data = self._whole(data, clients)
        with self.in_precision():
            return score_of(self.evaluator, self.loss, self.loss_numbers, data, client_params)

    def evaluate_part(
        self, data: SupervisedData, clients: SupervisedClients, client_params: ClientParams, key: jax.Array, count: int
    ) -> tuple[Score, jax.Array]:
        """Compute the scores of M models on a part of the test samples; see `mdfl_jax.tasks.scoring.Part`."""
        data = self._whole(data, clients)
        stratum = data.y_test if self.has_one_label else jnp.zeros(data.y_test.shape[0], jnp.int32)
        sample = draw_part(key, stratum, count)
        with self.in_precision():
            return score_of_part(self.evaluator, self.loss, self.loss_numbers, data, client_params, sample)

    def over_test(
        self, data: SupervisedData, clients: SupervisedClients, client_params: ClientParams, tally: Tally
    ) -> Any:
        """Add up a function of outputs and targets over all test samples; see `mdfl_jax.core.types.Task`."""
        data = self._whole(data, clients)
        of_targets = lambda y_test, outputs, sample, mask: tally(outputs, y_test[sample], mask)  # noqa: E731
        with self.in_precision():
            return over_samples(self.evaluator, data, client_params, of_targets, data.y_test)

    def local_accuracy(
        self, data: SupervisedData, clients: SupervisedClients, client_params: ClientParams
    ) -> jax.Array:
        """Compute the accuracy of each client's model on the test samples of its own natural owners, [N]."""
        data = self._whole(data, clients)
        with self.in_precision():
            return local_accuracy_of(
                self.evaluator, self.loss, data, clients.held, self.num_natural_owners, client_params
            )

    def validate(self, data: SupervisedData, clients: SupervisedClients, params: ClientParams) -> jax.Array:
        """Compute the loss of one model on the validation samples, []."""
        assert data.x_validation is not None
        assert data.y_validation is not None
        held_out = data._replace(x_test=data.x_validation, y_test=data.y_validation)
        return self.evaluate(held_out, clients, params).loss[0]


def low_type(precision: str) -> Any:
    """Return the type of parameters and samples in the model's arithmetic."""
    return jnp.bfloat16 if precision == "bfloat16" else jnp.float32


def _or_drawn(given: jax.Array | None, drawn: jax.Array) -> jax.Array:
    return drawn if given is None else given
