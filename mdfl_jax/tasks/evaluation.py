"""Accuracy and loss of many models on the test samples, and other sums over these samples."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from mdfl_jax import contract, sharding
from mdfl_jax.data.batching import ClientIndex
from mdfl_jax.losses import Loss
from mdfl_jax.types import ClientParams, Params, Score

Logits = Callable[[Params, Any, jax.Array], jax.Array]
# (shared, outputs [M, B, ...], test samples [B] int32, mask [B]) -> sums over the samples whose mask is True
Summed = Callable[[Any, jax.Array, jax.Array, jax.Array], Any]


class Evaluator(NamedTuple):
    """How models are evaluated.

    Attributes:
      logits: (params of one model, data, samples [B, ...]) -> its outputs [B, *output_shape] float32.
      output_shape: (C,), or (T, C) with an output for each position.
      tile: the samples computed at once, by which the chunks are chosen where models are mapped together.
      in_turn: samples of a chunk where the models are evaluated one after the other, because a chunk is enough work
        for the device; 0 maps the models together.
      mesh: the devices that divide the chunks; None for one device.
    """

    logits: Logits
    output_shape: tuple[int, ...]
    tile: int
    in_turn: int
    mesh: Mesh | None


def score_of(evaluator: Evaluator, loss: Loss, numbers: Any, data: Any, client_params: ClientParams) -> Score:
    """Compute the accuracy and loss of M models on all test samples.

    Args:
      evaluator: how models are evaluated.
      loss: the loss.
      numbers: its numbers.
      data: the data of the task, with ``x_test`` and ``y_test``.
      client_params: [M, ...] the models.

    Returns:
      The accuracies and the mean losses, [M] each.
    """

    def tally(y_test: jax.Array, outputs: jax.Array, sample: jax.Array, mask: jax.Array) -> tuple[Any, jax.Array]:
        targets = y_test[sample]
        losses = loss.losses(numbers, outputs, targets)
        contract.arrays(loss.losses, losses, (outputs.shape[0], *mask.shape), float)
        marks = jax.tree.map(lambda mark: masked_sum(mark, mask[None]), loss.marks(outputs, targets))
        return marks, jnp.sum(jnp.where(mask, losses, 0.0), axis=1)

    marks, losses = over_samples(evaluator, data, client_params, tally, data.y_test)
    num_models = jax.tree.leaves(client_params)[0].shape[0]
    accuracy = loss.accuracy(marks, data.y_test, None)
    return Score(contract.arrays(loss.accuracy, accuracy, (num_models,), float), losses / data.y_test.shape[0])


def masked_sum(values: jax.Array, mask: jax.Array) -> jax.Array:
    """Add up the values [M, B, ...] of the samples whose mask [M or 1, B] is True: [M, ...]."""
    counts = mask.reshape(*mask.shape, *[1] * (values.ndim - 2))
    return jnp.sum(values & counts if values.dtype == bool else jnp.where(counts, values, 0), axis=1)


def over_samples(evaluator: Evaluator, data: Any, client_params: ClientParams, tally: Summed, shared: Any) -> Any:
    """Add up a function of the outputs of M models over all test samples, chunk by chunk.

    Args:
      evaluator: how models are evaluated.
      data: the data of the task, with ``x_test`` and ``y_test``.
      client_params: [M, ...] the models.
      tally: makes a tree of sums over the samples of a chunk whose mask is True.
      shared: the arrays that ``tally`` gets as its first argument. All devices of a mesh have them.

    Returns:
      The sums over all test samples.
    """
    mesh, in_turn = evaluator.mesh, evaluator.in_turn
    num_models = jax.tree.leaves(client_params)[0].shape[0]
    total, devices = data.y_test.shape[0], sharding.size(mesh)
    chunk = min(in_turn or max(4 * evaluator.tile // num_models, 16), -(-total // devices))
    over_models = jax.lax.map if in_turn else lambda of_model, models: jax.vmap(of_model)(models)
    chunks = -(-total // (chunk * devices)) * devices
    places = jnp.arange(chunks * chunk).reshape(chunks, chunk)

    def sums(held: tuple[Any, ClientParams, Any], places: jax.Array) -> Any:
        data, client_params, shared = held

        def of_chunk(place: jax.Array) -> Any:
            sample, mask = jnp.minimum(place, total - 1), place < total
            x = data.x_test[sample]
            outputs = over_models(lambda params: evaluator.logits(params, data, x), client_params)
            return tally(shared, outputs, sample, mask)

        def add(sums: Any, place: jax.Array) -> tuple[Any, None]:
            return jax.tree.map(jnp.add, sums, of_chunk(place)), None

        outputs = jax.ShapeDtypeStruct((num_models, chunk, *evaluator.output_shape), jnp.float32)
        shapes = jax.eval_shape(tally, shared, outputs, places[0], places[0] < total)  # without tracing the models
        start = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        return jax.lax.scan(add, start, places)[0]

    held = (data, client_params, shared)
    return sharding.split_sum(mesh, sums, held, places) if mesh else sums(held, places)


def local_accuracy_of(
    evaluator: Evaluator, loss: Loss, data: Any, held: ClientIndex, num_natural_owners: int, models: ClientParams
) -> jax.Array:
    """Compute the accuracy of each client's model on the test samples of its own natural owners.

    A natural owner belongs to the client that holds most of its training samples; of several such clients, to the
    first.

    Args:
      evaluator: how models are evaluated.
      loss: the loss, whose accuracy is computed.
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
        return jax.tree.map(lambda mark: masked_sum(mark, counts), loss.marks(outputs, y_test[sample]))

    sums = over_samples(evaluator, data, models, tally, (data.y_test, mine))
    accuracy = jax.vmap(loss.accuracy, (0, None, 0))(sums, data.y_test, mine)
    return jnp.where(jnp.any(mine, axis=1), accuracy, jnp.nan)


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
    counts = jnp.zeros((len(ends) + 1, num_owners), jnp.int32).at[client, natural_owner[held.sample]].add(1)
    counts = counts[:num_clients]
    return jnp.where(jnp.any(counts > 0, axis=0), jnp.argmax(counts, axis=0), -1).astype(jnp.int32)
