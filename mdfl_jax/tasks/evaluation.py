"""Accuracy and loss of many models on the test samples."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh

from mdfl_jax import sharding
from mdfl_jax.types import ClientParams, Params, Score


def score_of(
    logits: Callable[[Params, Any, jax.Array], jax.Array],
    data: Any,
    client_params: ClientParams,
    tile: int,
    in_turn: int,
    mesh: Mesh | None,
) -> Score:
    """Compute the accuracy and loss of M models on all test samples, chunk by chunk.

    Args:
      logits: (params of one model, data, images [B, ...]) -> [B, C].
      data: the data of the task, with ``x_test`` and ``y_test``.
      client_params: [M, ...] the models.
      tile: the samples computed at once, by which the chunks are chosen where models are mapped together.
      in_turn: samples of a chunk where the models are evaluated one after the other, because a chunk is enough work
        for the device; 0 maps the models together.
      mesh: the devices that divide the chunks; None for one device.

    Returns:
      The accuracies and the mean losses, [M] each.
    """
    num_models = jax.tree.leaves(client_params)[0].shape[0]
    total, devices = data.y_test.shape[0], sharding.size(mesh)
    chunk = min(in_turn or max(4 * tile // num_models, 16), -(-total // devices))
    over_models = jax.lax.map if in_turn else lambda of_model, models: jax.vmap(of_model)(models)
    chunks = -(-total // (chunk * devices)) * devices
    places = jnp.arange(chunks * chunk).reshape(chunks, chunk)

    def sums(shared: tuple[Any, ClientParams], places: jax.Array) -> tuple[jax.Array, jax.Array]:
        data, client_params = shared

        def add(sums: tuple[jax.Array, jax.Array], place: jax.Array) -> tuple[tuple[jax.Array, jax.Array], None]:
            sample, mask = jnp.minimum(place, total - 1), place < total
            images, labels = data.x_test[sample], data.y_test[sample]
            outputs = over_models(lambda params: logits(params, data, images), client_params)
            labels_of_all = jnp.broadcast_to(labels, (num_models, chunk))
            losses = optax.softmax_cross_entropy_with_integer_labels(outputs, labels_of_all)
            right = (jnp.argmax(outputs, axis=-1) == labels) & mask
            loss = jnp.sum(jnp.where(mask, losses, 0.0), axis=1)
            return (sums[0] + jnp.sum(right, axis=1), sums[1] + loss), None

        zeros = (jnp.zeros(num_models, jnp.int32), jnp.zeros(num_models))
        return jax.lax.scan(add, zeros, places)[0]

    shared = (data, client_params)
    correct, loss = sharding.split_sum(mesh, sums, shared, places) if mesh else sums(shared, places)
    return Score(correct / total, loss / total)
