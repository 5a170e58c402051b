"""Accuracy and loss of many models on all test samples or on a part of them, and other sums over these samples.

A part is drawn systematically from a list of all test samples: label after label, each in random order. So each test
sample is in the part with the same probability, and each label has its proportional share of the part, rounded up or
down. A plain mean over the part is then an estimate without bias.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from mdfl_jax.core import contract, sharding
from mdfl_jax.core.types import ClientParams, Params, Score
from mdfl_jax.data.batching import ClientIndex
from mdfl_jax.tasks.losses import Loss

Logits = Callable[[Params, Any, jax.Array], jax.Array]
# (shared, outputs [M, B, ...], test samples [B] int32, mask [B]) -> sums over the samples whose mask is True
Summed = Callable[[Any, jax.Array, jax.Array, jax.Array], Any]

MANY_MODELS = 512  # of more models, only a group is computed at a time, so that memory does not grow with their number
_CHUNK = 128  # test samples of a chunk for such a group: long enough for a product of matrices to be fast
_AT_ONCE = 512  # samples (models of a group x samples of a chunk) that are computed together at least
SAMPLE_GROUPS = 20  # groups of the drawn samples; the error is estimated from the scores without each group (jackknife)


def map_groups(of_models: Callable[[ClientParams], Any], client_params: ClientParams, size: int) -> Any:
    """Apply a function of stacked models to one group of them after another, and join the results.

    Args:
      of_models: (models [g, ...]) -> a tree with the leading axis g.
      client_params: [M, ...] the models.
      size: the largest size of a group. The groups are equal, of a divisor of M, if there is one above size / 2.

    Returns:
      The tree with the leading axis M.
    """
    count = jax.tree.leaves(client_params)[0].shape[0]
    if count <= size:
        return of_models(client_params)
    size = next((g for g in range(size, size // 2, -1) if count % g == 0), size)
    whole = count // size * size
    groups = jax.tree.map(lambda x: x[:whole].reshape(whole // size, size, *x.shape[1:]), client_params)
    done = jax.tree.map(lambda x: x.reshape(whole, *x.shape[2:]), jax.lax.map(of_models, groups))
    if whole == count:
        return done
    rest = of_models(jax.tree.map(lambda x: x[whole:], client_params))
    return jax.tree.map(lambda x, y: jnp.concatenate([x, y]), done, rest)


def masked_sum(values: jax.Array, mask: jax.Array) -> jax.Array:
    """Add up the values [M, B, ...] of the samples whose mask [M or 1, B] is True: [M, ...]."""
    counts = mask.reshape(*mask.shape, *[1] * (values.ndim - 2))
    return jnp.sum(values & counts if values.dtype == bool else jnp.where(counts, values, 0), axis=1)


class Evaluator(NamedTuple):
    """Evaluates models by the functions of a model and a loss.

    Attributes:
      loss, loss_numbers: the loss and its numbers.
      logits: (params of one model, data, samples [B, ...]) -> its outputs [B, *output_shape] float32.
      output_shape: (C,), or (T, C) with an output for each position.
      tile: the samples computed at once, by which the chunks are chosen where models are mapped together.
      in_turn: samples of a chunk where the models are evaluated one after the other, because a chunk is enough work
        for the device; 0 maps the models together.
      mesh: the devices that divide the chunks; None for one device.
    """

    loss: Loss
    loss_numbers: Any
    logits: Logits
    output_shape: tuple[int, ...]
    tile: int
    in_turn: int
    mesh: Mesh | None

    @property
    def at_once(self) -> int:
        """The samples that are computed together where models are computed in groups."""
        return max(4 * self.tile, _AT_ONCE)

    def score(self, data: Any, client_params: ClientParams) -> Score:
        """Compute the accuracy and loss of M models on all test samples.

        On one device, more than `MANY_MODELS` models are computed in groups. So there are activations of at most
        `at_once` samples, and no array has both an axis of all models and an axis of all test samples.

        Args:
          data: the data of the task, with ``x_test`` and ``y_test``.
          client_params: [M, ...] the models.

        Returns:
          The accuracies and the mean losses, [M] each.
        """

        def tally(y_test: jax.Array, outputs: jax.Array, sample: jax.Array, mask: jax.Array) -> tuple[Any, jax.Array]:
            targets = y_test[sample]
            losses = self.loss.losses(self.loss_numbers, outputs, targets)
            contract.arrays(self.loss.losses, losses, (outputs.shape[0], *mask.shape), float)
            marks = jax.tree.map(lambda mark: masked_sum(mark, mask[None]), self.loss.marks(outputs, targets))
            return marks, jnp.sum(jnp.where(mask, losses, 0.0), axis=1)

        num_models = jax.tree.leaves(client_params)[0].shape[0]
        marks, losses = self.over_models(data, client_params, tally, grouped=num_models > MANY_MODELS)
        accuracy = self.loss.accuracy(marks, data.y_test, None)
        return Score(contract.arrays(self.loss.accuracy, accuracy, (num_models,), float), losses / data.y_test.shape[0])

    def over_models(self, data: Any, client_params: ClientParams, tally: Summed, grouped: bool) -> Any:
        """Add up a function of the outputs of M models over all test samples, for sums that all have the axis M.

        Args:
          data, client_params, tally: as for `over_samples`. ``tally`` gets the targets as its first argument.
          grouped: whether models that would be mapped together on one device are computed in groups.

        Returns:
          The sums over all test samples, with the leading axis M.
        """
        sums = lambda models, chunk: self.over_samples(data, models, tally, data.y_test, chunk)  # noqa: E731
        if not grouped or self.in_turn or self.mesh is not None:
            return sums(client_params, 0)
        return map_groups(lambda models: sums(models, _CHUNK), client_params, self.at_once // _CHUNK)

    def over_samples(self, data: Any, client_params: ClientParams, tally: Summed, shared: Any, chunk: int = 0) -> Any:
        """Add up a function of the outputs of M models over all test samples, chunk by chunk.

        Args:
          data: the data of the task, with ``x_test`` and ``y_test``.
          client_params: [M, ...] the models.
          tally: makes a tree of sums over the samples of a chunk whose mask is True.
          shared: the arrays that ``tally`` gets as its first argument. All devices of a mesh have them.
          chunk: the samples of a chunk; 0: chosen by the number of models. The outputs of all models for a chunk are in
            memory together, the activations of more than `MANY_MODELS` models only in groups.

        Returns:
          The sums over all test samples.
        """
        mesh, in_turn = self.mesh, self.in_turn
        num_models = jax.tree.leaves(client_params)[0].shape[0]
        total, devices = data.y_test.shape[0], sharding.size(mesh)
        clients = max(num_models - 1, 1)  # beside the judged model, so that a chunk has an even number of samples
        chunk = min(in_turn or chunk or max(4 * self.tile // clients, 16), -(-total // devices))
        size = num_models if num_models <= MANY_MODELS else max(self.at_once // chunk, 1)
        together = lambda of_model, models: map_groups(jax.vmap(of_model), models, size)  # noqa: E731
        mapped = jax.lax.map if in_turn else together
        chunks = -(-total // (chunk * devices)) * devices
        places = jnp.arange(chunks * chunk).reshape(chunks, chunk)

        def sums(held: tuple[Any, ClientParams, Any], places: jax.Array) -> Any:
            data, client_params, shared = held

            def of_chunk(place: jax.Array) -> Any:
                sample, mask = jnp.minimum(place, total - 1), place < total
                x = data.x_test[sample]
                outputs = mapped(lambda params: self.logits(params, data, x), client_params)
                return tally(shared, outputs, sample, mask)

            def add(sums: Any, place: jax.Array) -> tuple[Any, None]:
                return jax.tree.map(jnp.add, sums, of_chunk(place)), None

            outputs = jax.ShapeDtypeStruct((num_models, chunk, *self.output_shape), jnp.float32)
            shapes = jax.eval_shape(tally, shared, outputs, places[0], places[0] < total)  # without tracing the models
            start = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
            return jax.lax.scan(add, start, places)[0]

        held = (data, client_params, shared)
        return sharding.split_sum(mesh, sums, held, places) if mesh else sums(held, places)

    def local_accuracy(self, data: Any, held: ClientIndex, num_natural_owners: int, models: ClientParams) -> jax.Array:
        """Compute the accuracy of each client's model on the test samples of its own natural owners.

        A natural owner belongs to the client that holds most of its training samples; of several such clients, to the
        first.

        Args:
          data: the data of the task, with ``natural_owner`` and ``natural_owner_test``.
          held: the samples of each client.
          num_natural_owners: K.
          models: [N, ...] the models of the clients.

        Returns:
          [N] float32; NaN for a client without such test samples.
        """
        num_clients = jax.tree.leaves(models)[0].shape[0]
        belongs = client_of_owner(held, data.natural_owner, num_natural_owners, num_clients)
        owner = data.natural_owner_test
        client = jnp.where(owner >= 0, belongs[jnp.maximum(owner, 0)], -1)  # [m], of each test sample
        mine = client == jnp.arange(num_clients)[:, None]  # [N, m]

        def tally(shared: tuple[jax.Array, jax.Array], outputs: jax.Array, sample: jax.Array, mask: jax.Array) -> Any:
            y_test, mine = shared
            counts = mine[:, sample] & mask
            return jax.tree.map(lambda mark: masked_sum(mark, counts), self.loss.marks(outputs, y_test[sample]))

        sums = self.over_samples(data, models, tally, (data.y_test, mine))
        accuracy = jax.vmap(self.loss.accuracy, (0, None, 0))(sums, data.y_test, mine)
        return jnp.where(jnp.any(mine, axis=1), accuracy, jnp.nan)

    def score_of_part(self, data: Any, client_params: ClientParams, sample: jax.Array) -> tuple[Score, jax.Array]:
        """Compute the scores of M models on a part of the test samples, as a whole and without each group of it.

        Sample k of the part is in group k modulo `SAMPLE_GROUPS`. Since the part is in the order of the labels, all
        groups have nearly the same labels.

        Args:
          data, client_params: as for `score`.
          sample: [m] the indices of the part, from `draw_part`.

        Returns:
          (the accuracies and mean losses on the part, [M] each; [`SAMPLE_GROUPS`, M] the accuracies without each
          group).
        """
        part = data._replace(x_test=data.x_test[sample], y_test=data.y_test[sample])
        group = jnp.arange(sample.shape[0]) % SAMPLE_GROUPS
        groups = jnp.arange(SAMPLE_GROUPS)

        def tally(y_test: jax.Array, outputs: jax.Array, place: jax.Array, mask: jax.Array) -> tuple[Any, jax.Array]:
            targets, mine = y_test[place], (group[place] == groups[:, None]) & mask  # [GROUPS, B]
            marks = self.loss.marks(outputs, targets)
            of_groups = jax.tree.map(lambda mark: jax.vmap(lambda of: masked_sum(mark, of[None]), 0, 1)(mine), marks)
            losses = self.loss.losses(self.loss_numbers, outputs, targets)
            return of_groups, jnp.sum(jnp.where(mask, losses, 0.0), axis=1)

        by_group, losses = self.over_models(part, client_params, tally, grouped=True)  # [M, GROUPS, ...], [M]
        total = jax.tree.map(lambda sums: jnp.sum(sums, axis=1), by_group)
        accuracy = self.loss.accuracy(total, part.y_test, None)

        def without(g: jax.Array) -> jax.Array:
            rest = jax.tree.map(lambda whole, sums: whole - sums[:, g], total, by_group)
            return self.loss.accuracy(rest, part.y_test, group != g)

        return Score(accuracy, losses / sample.shape[0]), jax.vmap(without)(groups)


def client_of_owner(held: ClientIndex, natural_owner: jax.Array, num_owners: int, num_clients: int) -> jax.Array:
    """Return the client that holds most training samples of each natural owner, the first of several.

    Args:
      held: the samples of each client.
      natural_owner: [n] int in 0..K-1, of each training sample.
      num_owners: K.
      num_clients: N.

    Returns:
      [K] int32 in -1..N-1; -1 for an owner of whom no client holds a sample.
    """
    ends = held.first + held.num_samples
    client = jnp.searchsorted(ends, jnp.arange(held.sample.shape[0]), side="right")  # of held.sample; N: nobody
    owner = natural_owner[held.sample]
    order = jnp.argsort(owner, stable=True)  # the samples of an owner together, and of these those of a client
    owner, client = owner[order], client[order]
    begins = jnp.append(True, (owner[1:] != owner[:-1]) | (client[1:] != client[:-1]))
    run = jnp.cumsum(begins) - 1
    count = jnp.where(client < num_clients, jnp.bincount(run, length=len(run))[run], 0)
    most = jnp.zeros(num_owners, jnp.int32).at[owner].max(count.astype(jnp.int32))
    is_most = (count > 0) & (count == most[owner])
    first = jnp.full(num_owners, num_clients).at[owner].min(jnp.where(is_most, client, num_clients))
    return jnp.where(most > 0, first, -1).astype(jnp.int32)


class ScoredPart(NamedTuple):
    """How a task evaluates models on a part of its test samples (`mdfl_jax.core.types.Task`).

    Attributes:
      num_samples: the number of all test samples, T.
      evaluate: (data, clients, client_params [M, ...], key, count) -> (the `Score` of M models on ``count`` test
        samples that the key draws, [`SAMPLE_GROUPS`, M] their accuracies on these samples without each group of them).
    """

    num_samples: int
    evaluate: Callable[[Any, Any, ClientParams, jax.Array, int], tuple[Score, jax.Array]]


def draw_part(key: jax.Array, stratum: jax.Array, count: int) -> jax.Array:
    """Draw some of the test samples, in proportion to the labels.

    Args:
      key: the key of the draw.
      stratum: [T] the label of each test sample; all equal where samples have no label.
      count: the samples to draw, M, at most T.

    Returns:
      [M] int32, different indices of test samples, in the order of their labels.
    """
    total = stratum.shape[0]
    key_order, key_start = jax.random.split(key)
    order = jax.random.permutation(key_order, total)
    order = order[jnp.argsort(stratum[order], stable=True)]
    start = jax.random.randint(key_start, (), 0, total)
    # Place (i T + start) // M of the list. The product may be beyond 32 bits, so its two parts are computed here.
    whole, rest = np.divmod(np.arange(count, dtype=np.int64) * total, count)
    places = jnp.asarray(whole, jnp.int32) + (jnp.asarray(rest, jnp.int32) + start) // count
    return order[places].astype(jnp.int32)
