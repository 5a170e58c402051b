"""Accuracy and loss of many models on the test samples, and other sums over these samples."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh

from mdfl_jax import sharding
from mdfl_jax.types import ClientParams, Params, Score, Tally

Logits = Callable[[Params, Any, jax.Array], jax.Array]


def score_of(
    logits: Logits, data: Any, client_params: ClientParams, tile: int, in_turn: int, mesh: Mesh | None
) -> Score:
    """Compute the accuracy and loss of M models on all test samples. The arguments are those of `over_test`.

    Returns:
      The accuracies and the mean losses, [M] each.
    """
    num_models, total = jax.tree.leaves(client_params)[0].shape[0], data.y_test.shape[0]

    def tally(outputs: jax.Array, labels: jax.Array, mask: jax.Array) -> tuple[jax.Array, jax.Array]:
        labels_of_all = jnp.broadcast_to(labels, outputs.shape[:2])
        losses = optax.softmax_cross_entropy_with_integer_labels(outputs, labels_of_all)
        right = (jnp.argmax(outputs, axis=-1) == labels) & mask
        return jnp.sum(right, axis=1), jnp.sum(jnp.where(mask, losses, 0.0), axis=1)

    zeros = (jnp.zeros(num_models, jnp.int32), jnp.zeros(num_models))
    correct, loss = over_test(logits, data, client_params, tally, tile, in_turn, mesh, zeros)
    return Score(correct / total, loss / total)


def over_test(
    logits: Logits,
    data: Any,
    client_params: ClientParams,
    tally: Tally,
    tile: int,
    in_turn: int,
    mesh: Mesh | None,
    zeros: Any = None,
) -> Any:
    """Add up a function of the outputs of M models over all test samples, chunk by chunk.

    Args:
      logits: (params of one model, data, images [B, ...]) -> [B, C].
      data: the data of the task, with ``x_test`` and ``y_test``.
      client_params: [M, ...] the models.
      tally: (logits [M, B, C], labels [B], mask [B]) -> a tree of sums over the samples whose mask is True.
      tile: the samples computed at once, by which the chunks are chosen where models are mapped together.
      in_turn: samples of a chunk where the models are evaluated one after the other, because a chunk is enough work
        for the device; 0 maps the models together.
      mesh: the devices that divide the chunks; None for one device.
      zeros: the sums of no samples. If they are left out, they are found from the shapes of ``tally``, which traces the
        model once more.

    Returns:
      The sums over all test samples.
    """
    num_models = jax.tree.leaves(client_params)[0].shape[0]
    total, devices = data.y_test.shape[0], sharding.size(mesh)
    chunk = min(in_turn or max(4 * tile // num_models, 16), -(-total // devices))
    over_models = jax.lax.map if in_turn else lambda of_model, models: jax.vmap(of_model)(models)
    chunks = -(-total // (chunk * devices)) * devices
    places = jnp.arange(chunks * chunk).reshape(chunks, chunk)

    def sums(shared: tuple[Any, ClientParams], places: jax.Array) -> Any:
        data, client_params = shared

        def of_chunk(place: jax.Array) -> Any:
            sample, mask = jnp.minimum(place, total - 1), place < total
            images, labels = data.x_test[sample], data.y_test[sample]
            outputs = over_models(lambda params: logits(params, data, images), client_params)
            return tally(outputs, labels, mask)

        def add(sums: Any, place: jax.Array) -> tuple[Any, None]:
            return jax.tree.map(jnp.add, sums, of_chunk(place)), None

        shapes = zeros if zeros is not None else jax.eval_shape(of_chunk, places[0])
        start = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        return jax.lax.scan(add, start, places)[0]

    shared = (data, client_params)
    return sharding.split_sum(mesh, sums, shared, places) if mesh else sums(shared, places)
