"""The task of a data set: its arrays on the device, the functions of a model and a loss, and the task made of them."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.attacks.registry import ATTACKS, Attackers, Samples, names
from mdfl_jax.core import contract, devices, sharding
from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.core.flops import Products, products
from mdfl_jax.core.numbers import Numbers
from mdfl_jax.core.rng import stream
from mdfl_jax.core.trees import STATISTICS, chosen_leaves, joined_leaves, rows_like, trained, with_trained
from mdfl_jax.core.types import ClientParams, Links, Params, Score, Scoring, Spread, Tally, Task, TaskHooks
from mdfl_jax.data.augment import check_augmentation, draw_views, show_views
from mdfl_jax.data.batching import (
    Batch,
    Blocks,
    ClientIndex,
    Epochs,
    cut_blocks,
    draw_epochs,
    draw_minibatch,
    index_clients,
)
from mdfl_jax.data.dataset import Dataset, Targets, numbered_owners, sample_moments, target_moments
from mdfl_jax.data.partition import PARTITIONS, PartitionSettings
from mdfl_jax.models.adapters import client_model, draws, variables_of, with_stream
from mdfl_jax.models.model import SampleSpec
from mdfl_jax.tasks.gradients import Cut, PerSample, SampleWork, Tiling, by_sample, client_gradients, cut, pad_blocks
from mdfl_jax.tasks.losses import LOSSES, Loss, check_loss, loss_named
from mdfl_jax.tasks.scoring import Evaluator, ScoredPart, draw_part
from mdfl_jax.tasks.task import OF_DATASETS, TASKS, TaskKind, TaskRequest

# Precision of the models' arithmetic -> JAX's name for the precision of products (on a CPU all products are float32).
IMAGES = 4  # axes of a batch of images
PRECISIONS = {"float32": "highest", "tensorfloat32": "tensorfloat32", "bfloat16": "default"}


class Poison(NamedTuple):
    """Who changes samples while learning, and how.

    Attributes:
      clients: [rows] bool, the attackers. A sample that others hold too is changed for the attackers alone.
      which: [] int32, the attack, an index of `mdfl_jax.attacks.registry.names`.
      numbers: the numbers of all attacks, in this order.
    """

    clients: jax.Array
    which: jax.Array
    numbers: tuple[Any, ...]


class SupervisedData(NamedTuple):
    """Samples and targets, shared by all seeds.

    Attributes:
      x_train: [n, ...] uint8, float32 or int32 samples as in `Dataset`, which each step normalises.
      y_train: [n, ...] the targets, as the loss takes them: those of a regression are normalised.
      x_test, y_test: the same of the test samples.
      mean, std: [F] float32, by which samples are normalised along their last axis; grey levels are 0 .. 255. None if
        samples are not normalised.
      brightest: [] the largest value of the training samples, for images; None for other samples.
      x_validation, y_validation: the same of the validation samples; None if there are none.
      pretrained: the model's initial variables; None means drawn.
      natural_owner: [n] int32, the data set's array ``client``, numbered from 0 without gaps; None if it has none.
      natural_owner_test: [m] int32, the same of the test samples; -1 for an owner without training samples.
      frozen: the model's leaves that are not trained, while a model is applied; None: all are trained.
      stratum: [n] int32, the groups by which partitions divide samples without a label; None for labels.
      poison: who learns from changed samples in the round; None: nobody attacks.
    """

    x_train: jax.Array
    y_train: jax.Array
    x_test: jax.Array
    y_test: jax.Array
    mean: jax.Array | None
    std: jax.Array | None
    brightest: jax.Array | None = None
    x_validation: jax.Array | None = None
    y_validation: jax.Array | None = None
    pretrained: Any = None
    natural_owner: jax.Array | None = None
    natural_owner_test: jax.Array | None = None
    stratum: jax.Array | None = None
    frozen: Any = None
    poison: Poison | None = None

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


def _with_frozen(method: Callable[..., Any]) -> Callable[..., Any]:
    """Add the model's leaves that are not trained, which lie with the clients of a run, to the data of a method."""

    @wraps(method)
    def wrapped(learner: "Learner", data: SupervisedData, clients: SupervisedClients, *rest: Any, **more: Any) -> Any:
        whole = data._replace(frozen=clients.frozen) if learner.asked.trainable else data
        return method(learner, whole, clients, *rest, **more)

    return wrapped


@dataclass(frozen=True, eq=False)
class Learner:
    """The settings of the task, and its functions for `mdfl_jax.core.types.Task` as methods.

    Attributes:
      asked: what the task was asked for, with a client model (`mdfl_jax.models.client_model`) and without the data set.
      loss: the loss.
      sample: the shape and kind of a sample.
      num_outputs: C, the outputs of the model (of each position).
      targets: the kind of the targets.
      num_strata: the number of groups by which a partition of label skew divides: the classes, if samples have a label.
      num_natural_owners: K, 0 if the data set does not say them.
      sizes: the sizes of blocks and tiles.
      with_statistics, may_draw: whether the model has batch statistics, and whether it draws random numbers.
    """

    asked: TaskRequest
    loss: Loss
    sample: SampleSpec
    num_outputs: int
    targets: Targets
    num_strata: int
    num_natural_owners: int
    sizes: Cut
    with_statistics: bool
    may_draw: bool

    @property
    def evaluator(self) -> Evaluator:
        """The functions and sizes by which models are evaluated."""
        positions = self.sample.shape[:1] if self.targets is Targets.POSITIONS else ()
        shape, sizes = (*positions, self.num_outputs), self.sizes
        return Evaluator(
            self.loss, self.asked.loss_numbers, self.logits, shape, sizes.tile, sizes.chunk, self.asked.mesh
        )

    def in_precision(self) -> AbstractContextManager[Any]:
        """Return the context in which products have the precision of the task."""
        return jax.default_matmul_precision(PRECISIONS[self.asked.precision])

    def apply(self, params: Params, data: SupervisedData, x: jax.Array, *mask: jax.Array, **rest: Any) -> Any:
        """Normalise samples x [B, ...] and apply the model, whose arithmetic has the precision of the task."""
        dtype = low_type(self.asked.precision)
        if not self.sample.vocabulary:
            x = x.astype(jnp.float32)
            if data.mean is not None and data.std is not None:
                x = (x - data.mean) / data.std
            x = x.astype(dtype)
        own = trained(params) if data.frozen is None else joined_leaves(trained(params), data.frozen)
        low = {"params": jax.tree.map(lambda p: p.astype(dtype), own)}
        if self.with_statistics:
            low[STATISTICS] = params[STATISTICS]
        return self.asked.model.apply(low, x, *mask, **rest)

    def logits(self, params: Params, data: SupervisedData, x: jax.Array) -> jax.Array:
        """Return the outputs of a model in evaluation, float32, for samples x [B, ...]."""
        return cast(jax.Array, self.apply(params, data, x)).astype(jnp.float32)

    def of_block(self, model_params: Params, data: SupervisedData, block: Blocks) -> tuple[jax.Array, Params]:
        """Return the sums of the losses and of the gradients over the samples of a block."""
        x = data.x_train[block.sample]
        if block.view is not None:
            x = show_views(self.asked.augmentation, data.x_train, block.sample, block.view)
        y = data.y_train[block.sample]
        if block.poisoned is not None:
            x, y = poisoned(data, block, x, y, self.num_outputs)

        def loss_sum(params: Params) -> tuple[jax.Array, Params]:
            whole, moved = with_trained(model_params, params), {}
            if self.with_statistics or self.may_draw:
                rngs = {} if block.draws is None else {"dropout": jax.random.key(block.draws)}
                outputs, moved = self.apply(whole, data, x, block.mask, mutable=[STATISTICS], rngs=rngs)
                outputs = outputs.astype(jnp.float32)
            else:
                outputs = self.logits(whole, data, x)
            losses = self.loss.losses(self.asked.loss_numbers, outputs, y)
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
        num_owners = self.asked.num_clients - self.asked.num_relays  # relays, which come last, hold no data
        places = None if places is None else places[:num_owners]
        settings = PartitionSettings(
            num_owners, self.num_strata, hparams, data.natural_owner, self.num_natural_owners, places
        )
        divide = PARTITIONS[self.asked.partition]
        owner = divide(key, data.strata, settings)
        return contract.arrays(divide, owner, data.strata.shape, int)

    def partition(
        self, data: SupervisedData, hparams: Numbers, key: jax.Array, places: jax.Array | None = None
    ) -> SupervisedClients:
        """Divide the training samples among the clients; see `mdfl_jax.core.types.Task`."""
        owner = self.owner(data, hparams, key, places)
        index = index_clients(owner, data.strata, self.asked.num_clients, self.num_strata)
        blocks = None if self.asked.batch_size else self.all_blocks(index)
        return SupervisedClients(index, blocks, self.frozen(data, key) if self.asked.trainable else None)

    def in_round(self, data: SupervisedData, clients: SupervisedClients, links: Links) -> SupervisedData:
        """Return the data with the attackers of the round, who learn from changed samples."""
        attackers = links.get(Attackers)
        return (
            data
            if attackers is None
            else data._replace(poison=Poison(attackers.are, attackers.which, attackers.numbers))
        )

    def all_blocks(self, held: ClientIndex) -> Blocks:
        """Cut all samples of the clients into blocks, as many as the devices of the mesh divide."""
        return pad_blocks(cut_blocks(held, self.sizes.block_size), sharding.size(self.asked.mesh))

    def frozen(self, data: SupervisedData, key: jax.Array) -> Params:
        """Return the leaves of the model that are not trained, from the given weights or drawn by the key."""
        return chosen_leaves(trained(self._variables(data, stream(key, "init"))), self.asked.trainable, inside=False)

    def init(self, data: SupervisedData, key: jax.Array) -> Params:
        """Draw the variables of one model, except for those that are given and those that are not trained."""
        variables = self._variables(data, key)
        if not self.asked.trainable:
            return variables
        return with_trained(variables, chosen_leaves(trained(variables), self.asked.trainable))

    def _variables(self, data: SupervisedData, key: jax.Array) -> Params:
        variables = self.asked.model.init(key, jnp.zeros((1, *self.sample.shape), self.sample.dtype))
        if data.pretrained is not None:
            variables = joined_leaves(data.pretrained, variables)
        return variables if self.with_statistics else variables["params"]

    @_with_frozen
    def gradient(
        self,
        data: SupervisedData,
        clients: SupervisedClients,
        client_params: ClientParams,
        key: jax.Array,
        per_sample: PerSample | None = None,
        whole: bool = False,
        batch: Batch | None = None,
        only: jax.Array | None = None,
    ) -> tuple[jax.Array, ClientParams]:
        """Compute the mean losses and gradients of all clients; see `mdfl_jax.core.types.Task`."""
        if per_sample and self.with_statistics:
            raise UserError("a model with batch statistics has no gradients of single samples")
        of_block = by_sample(self.of_block, per_sample) if per_sample else self.of_block
        of_batch = bool(self.asked.batch_size) and not whole
        if of_batch:
            batch = drawn_batch(key, clients.held, self.asked.batch_size) if batch is None else batch
            blocks = minibatch_blocks(batch, self.sizes.block_size)
            per_client = blocks.sample.size // len(clients.num_samples)
            place = jnp.arange(blocks.sample.size).reshape(blocks.sample.shape) % per_client
            samples = jnp.maximum(jnp.sum(batch.mask, axis=1), 1)
        else:
            blocks = self.all_blocks(clients.held) if clients.blocks is None else clients.blocks
            place, samples = blocks.sample, jnp.maximum(clients.num_samples, 1)
        augmentation = self.asked.augmentation
        if augmentation.num_views > 1:
            of_views = stream(key, "augmentation")
            blocks = blocks._replace(view=draw_views(augmentation, of_views, blocks.client, place))
        if self.may_draw:
            seed = jax.vmap(partial(seed_of_block, stream(key, "dropout")))(blocks.client, place[:, 0])
            blocks = blocks._replace(draws=seed)
        if data.poison is not None:
            blocks = blocks._replace(poisoned=data.poison.clients[blocks.client])
        if only is not None:
            blocks = blocks._replace(mask=blocks.mask & only[blocks.client][:, None])
        at_once, mesh = self.sizes.at_once, self.asked.mesh
        # Where all blocks are computed together, a loop would hide that their samples are the same in every round.
        some = only is not None or (not of_batch and 0 < at_once < blocks.client.shape[0])
        with self.in_precision():
            sums = client_gradients(of_block, data, client_params, blocks, at_once, mesh, of_batch, some)
        return jax.tree.map(lambda a: a / rows_like(samples, a), sums)

    def epochs(
        self, data: SupervisedData, clients: SupervisedClients, key: jax.Array, num_epochs: int, equal: bool
    ) -> Epochs:
        """Draw the minibatches of local epochs; see `mdfl_jax.core.types.Task`."""
        held = clients.held
        return draw_epochs(key, num_epochs, held.sample, held.first, held.num_samples, self.asked.batch_size, equal)

    @_with_frozen
    def evaluate(self, data: SupervisedData, clients: SupervisedClients, client_params: ClientParams) -> Score:
        """Compute the accuracy and the loss of M models on all test samples."""
        with self.in_precision():
            return self.evaluator.score(data, client_params)

    @_with_frozen
    def evaluate_part(
        self, data: SupervisedData, clients: SupervisedClients, client_params: ClientParams, key: jax.Array, count: int
    ) -> tuple[Score, jax.Array]:
        """Compute the scores of M models on a part of the test samples; see `mdfl_jax.tasks.scoring.ScoredPart`."""
        labels = data.y_test if self.targets is Targets.LABELS else jnp.zeros(data.y_test.shape[0], jnp.int32)
        sample = draw_part(key, labels, count)
        with self.in_precision():
            return self.evaluator.score_of_part(data, client_params, sample)

    @_with_frozen
    def over_test(
        self, data: SupervisedData, clients: SupervisedClients, client_params: ClientParams, tally: Tally, *given: Any
    ) -> Any:
        """Add up a function of outputs and targets over all test samples; see `mdfl_jax.core.types.Scoring`."""

        def of_targets(shared: Any, outputs: jax.Array, sample: jax.Array, mask: jax.Array) -> Any:
            return tally(outputs, shared[0][sample], mask, *shared[1:])

        with self.in_precision():
            return self.evaluator.over_samples(data, client_params, of_targets, (data.y_test, *given))

    @_with_frozen
    def local_accuracy(
        self, data: SupervisedData, clients: SupervisedClients, client_params: ClientParams
    ) -> jax.Array:
        """Compute the accuracy of each client's model on the test samples of its own natural owners, [N]."""
        with self.in_precision():
            return self.evaluator.local_accuracy(data, clients.held, self.num_natural_owners, client_params)

    def validate(self, data: SupervisedData, clients: SupervisedClients, params: ClientParams) -> jax.Array:
        """Compute the loss of one model on the validation samples, []."""
        assert data.x_validation is not None
        assert data.y_validation is not None
        held_out = data._replace(x_test=data.x_validation, y_test=data.y_validation)
        return self.evaluate(held_out, clients, params).loss[0]


def supervised(
    dataset: Dataset,
    model: Any,
    num_clients: int,
    partition: str = "dirichlet",
    batch_size: int = 0,
    tiling: Tiling = Tiling(),
    **asked: Any,
) -> Task:
    """Make the task of learning the targets of a data set that is divided among clients.

    A model with batch statistics (`mdfl_jax.core.trees`) normalises each block separately, and a model with
    random draws draws for each block. For both, a minibatch is one block, unless ``tiling`` sets the block size. In
    full-batch training each block is weighted by its number of samples.

    Args:
      dataset: samples and targets, see `mdfl_jax.data.sources.load`.
      model: a model from normalised samples [B, ...] to outputs [B, C], or [B, T, C] with a label at each position;
        anything that `mdfl_jax.models.client_model` takes.
      num_clients: N >= 1.
      partition: a name of `mdfl_jax.data.partition.PARTITIONS`; its numbers are ``hparams.task``.
      batch_size: samples of a client's minibatch, drawn with replacement; 0 takes all its samples (full batch).
      tiling: how samples are divided into blocks and tiles.
      **asked: other fields of `mdfl_jax.tasks.TaskRequest`: ``precision`` (one of `PRECISIONS`; weights, sums and
        mixing are always float32), ``mesh``, ``augmentation``, ``pretrained``, ``loss``, ``loss_numbers`` and
        ``trainable``.

    Raises:
      UserError: for an unknown partition, mapping, precision or loss; for a loss or an augmentation that the data set
        does not allow; or for full-batch training of a model that has both batch statistics and random draws.
    """
    given = {"dataset": dataset, "model": model, "partition": partition, "batch_size": batch_size, "tiling": tiling}
    return _make(TaskRequest(num_clients, **given, **asked))


def _make(asked: TaskRequest) -> Task:
    """Make the task of a request, which has a data set."""
    dataset = asked.dataset
    assert dataset is not None
    learner = _learner(asked, dataset)
    return Task(
        asked.num_clients,
        device_data(dataset)._replace(pretrained=jax.tree.map(jnp.asarray, asked.pretrained)),
        learner.partition,
        learner.init,
        learner.gradient,
        learner.evaluate,
        scoring=Scoring(
            in_turn=learner.sizes.chunk > 0,
            over_test=learner.over_test,
            num_labels=dataset.num_classes if dataset.targets is Targets.LABELS else None,
            local_accuracy=learner.local_accuracy if dataset.client_test is not None else None,
            part=ScoredPart(len(dataset.y_test), learner.evaluate_part),
            validate=learner.validate if dataset.x_validation is not None else None,
        ),
        hooks=TaskHooks(
            Spread(asked.mesh, _by_client, learner.sizes.alone),
            by_place=getattr(PARTITIONS.numbers(asked.partition), "needs_places", False),
            owner=learner.owner,
            in_round=learner.in_round if dataset.targets is Targets.LABELS else None,
            passes=learner.epochs if asked.batch_size else None,
        ),
    )


def _learner(asked: TaskRequest, dataset: Dataset) -> Learner:
    """Check a request, and return the settings of the task."""
    name = loss_named(asked.loss, dataset.targets)
    check_loss(name, dataset)
    check_augmentation(asked.augmentation, dataset)
    sample, model, num_outputs = spec_of(dataset), client_model(asked.model), LOSSES[name].num_outputs(dataset)
    shapes = variables_of(model, sample, num_outputs, dataset.targets is Targets.POSITIONS)
    model = with_stream(model, shapes, sample)
    with_statistics, may_draw = STATISTICS in shapes, draws(model)
    if may_draw and with_statistics and not asked.batch_size:
        raise UserError(
            "algorithm.batch_size is 0; an adapted model with batch statistics needs minibatches, 1 or more"
        )
    chosen_leaves(trained(shapes if with_statistics else shapes["params"]), asked.trainable, "model.trainable")
    if asked.precision not in PRECISIONS:
        raise UserError(unknown_name("precision", asked.precision, PRECISIONS))
    count, dtype = len(dataset.y_train), low_type(asked.precision)
    PARTITIONS[asked.partition]  # an unknown name is told before anything is computed
    numbers = LOSSES.numbers(name)() if asked.loss_numbers is None else asked.loss_numbers
    return Learner(
        asked=asked._replace(dataset=None, pretrained=None, model=model, loss_numbers=numbers),
        loss=LOSSES[name],
        sample=sample,
        num_outputs=num_outputs,
        targets=dataset.targets,
        num_strata=dataset.num_strata,
        num_natural_owners=0 if dataset.client is None else len(np.unique(dataset.client)),
        sizes=cut_for(model, shapes, sample, asked.batch_size, count, asked.num_clients, asked.tiling, dtype),
        with_statistics=with_statistics,
        may_draw=may_draw,
    )


def poisoned(
    data: SupervisedData, block: Blocks, x: jax.Array, y: jax.Array, num_classes: int
) -> tuple[jax.Array, jax.Array]:
    """Return samples x [B, ...] and labels y [B] as the client that holds the block learns from them.

    Args:
      data: the data, with the attack.
      block: one block.
      x, y: the samples and labels as they are.
      num_classes: C.
    """
    poison = data.poison
    assert poison is not None
    mixed = block.sample.astype(jnp.uint32) * np.uint32(2654435769)  # of Knuth's multiplicative hash: evenly spread
    of_attack = Samples(x, y, mixed.astype(jnp.float32) / np.float32(2**32), num_classes, data.brightest)

    def branch(name: str, numbers: Any) -> Callable[[], tuple[jax.Array, jax.Array]]:
        attack = ATTACKS[name]
        applies = attack.poison and (x.ndim == IMAGES or not attack.of_images)
        return (lambda: attack.poison(numbers, of_attack)) if applies else (lambda: (x, y))  # type: ignore[misc]

    changed = jax.lax.switch(poison.which, [branch(*each) for each in zip(names(), poison.numbers)])
    return jax.tree.map(partial(jnp.where, block.poisoned), changed, (x, y))


def _by_client(clients: SupervisedClients) -> SupervisedClients:
    """Divide all fields by client, except the list of sample indices.

    The clients of a device may hold any number of samples, so each device keeps the whole list, which is n words.
    """
    alike = jax.tree.map(lambda _: False, clients.frozen)
    divided = jax.tree.map(lambda _: True, clients)
    return divided._replace(held=ClientIndex(False, True, True, True), frozen=alike)  # type: ignore[arg-type]


def spec_of(dataset: Dataset) -> SampleSpec:
    """Return the shape and kind of a sample of a data set, as models receive it."""
    return SampleSpec(dataset.x_train.shape[1:], dataset.vocabulary)


def device_data(dataset: Dataset) -> SupervisedData:
    """Put a data set on the device, with the moments by which samples are normalised (`mdfl_jax.data.dataset`)."""
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
        brightest=jnp.max(jnp.asarray(dataset.x_train)) if np.ndim(dataset.x_train) == IMAGES else None,
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


def low_type(precision: str) -> Any:
    """Return the type of parameters and samples in the model's arithmetic."""
    return jnp.bfloat16 if precision == "bfloat16" else jnp.float32


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


def _work(model: Any, shapes: Any, sample: SampleSpec, dtype: Any) -> SampleWork:
    """Estimate one sample's work: three times the FLOPs of the forward pass, and twice the bytes of its outputs.

    The estimate is what a second sample adds to the first, since a form of a convolution may transform its kernel once
    a block.
    """

    def of(samples: int) -> Products:
        block = jax.ShapeDtypeStruct((samples, *sample.shape), sample.dtype)
        return products(jax.make_jaxpr(model.apply)(shapes, block))

    one, two = of(1), of(2)
    return SampleWork(3 * (two.flops - one.flops), 2 * (two.outputs - one.outputs) * jnp.dtype(dtype).itemsize)


def drawn_batch(key: jax.Array, held: ClientIndex, batch_size: int) -> Batch:
    """Draw a minibatch for each client with replacement. The minibatch of a client without samples is masked.

    Args:
      key: the key of the draw.
      held: the samples of each client.
      batch_size: the samples of a minibatch.
    """
    draw = lambda i: draw_minibatch(jax.random.fold_in(key, i), held, i, batch_size)  # noqa: E731
    sample = jax.vmap(draw)(jnp.arange(held.first.shape[0]))
    return Batch(sample, jnp.broadcast_to((held.num_samples > 0)[:, None], sample.shape))


def minibatch_blocks(batch: Batch, block_size: int) -> Blocks:
    """Cut the minibatch of each client into blocks.

    Args:
      batch: the minibatches, of at most B samples.
      block_size: the samples of a block; the rest of a client's last block is masked.

    Returns:
      N * ceil(B / block_size) blocks, in the order of the clients.
    """
    num_clients, batch_size = batch.sample.shape
    per_client = -(-batch_size // block_size)
    widened = jax.tree.map(lambda x: jnp.pad(x, [(0, 0), (0, per_client * block_size - batch_size)]), batch)
    client = jnp.repeat(jnp.arange(num_clients, dtype=jnp.int32), per_client)
    return Blocks(client, *(x.reshape(-1, block_size) for x in widened))


def seed_of_block(key: jax.Array, client: jax.Array, place: jax.Array) -> jax.Array:
    """Return the seed, [] uint32, of a model's random draws for a block; it does not depend on other clients."""
    return jax.random.bits(jax.random.fold_in(jax.random.fold_in(key, client), place), (), jnp.uint32)


TASKS.register(
    OF_DATASETS,
    doc="Learns the targets of a partitioned data set: labels, numbers or sequences.",
    formula="f_i(x) = mean over the samples of client i of the loss (model.loss) of the model (model.name)",
)(TaskKind(_make, of_datasets=True, precisions=tuple(PRECISIONS), has_epochs=True))
