"""What is measured at an evaluation, inside the scan."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.statistics import trained
from mdfl_jax.types import Array, ClientParams, Links


class Metrics(NamedTuple):
    """One evaluation of one run; a history stacks them, [E, ...]. Counts are since the start of the run.

    Attributes:
      round: [] int32 rounds done.
      accuracy: [N] float32 test accuracy of each client's model, in [0, 1].
      loss: [N] float32 test loss.
      train_loss: [N] float32 mean over the rounds since the last evaluation (NaN before the first round, and
        for a client without samples).
      mean_model_accuracy: [] float32 accuracy of the mean of all models.
      mean_model_loss: [] float32.
      validation_loss: [] float32 loss of the mean of all models on the validation samples; NaN where there are none.
      objective: [] float objective of the mean of all models; NaN where the task has none.
      rounds_done: [] int32 rounds that were run: fewer than ``round`` where the stop rule has ended the run.
      consensus_distance: [] float32 root mean square distance of the models from their mean.
      messages: [N] int32 messages sent.
      bits: [N, 2] uint32 bits sent, a count of two words (`mdfl_jax.exchange.meter.total_bits`).
      distance_moved: [N] float32 in the units of the world.
      num_neighbours: [N] float32 mean number of senders heard, over the rounds since the last evaluation.
      lambda_2: [] float32 second largest eigenvalue of W^T W in the last round (MADFL: p = 1 - lambda_2); NaN before
        the first round or where N is too large for it.
      position: [rounds since the last evaluation, N, 2] float32 places after each round, or [0, N, 2].
    """

    round: Array
    accuracy: Array
    loss: Array
    train_loss: Array
    mean_model_accuracy: Array
    mean_model_loss: Array
    validation_loss: Array
    objective: Array
    rounds_done: Array
    consensus_distance: Array
    messages: Array
    bits: Array
    distance_moved: Array
    num_neighbours: Array
    lambda_2: Array
    position: Array


def as_history(metrics: Metrics, axis: int) -> Metrics:
    """One evaluation as a history of one: a new evaluation axis on every field but ``position``, which has its own."""
    new = lambda leaf: leaf[(slice(None),) * axis + (None,)]  # noqa: E731
    return jax.tree.map(new, metrics._replace(position=None))._replace(position=metrics.position)


LAMBDA_2_LIMIT = 256  # clients; an eigenvalue problem of that size takes some milliseconds on a CPU


def mean_model(client_params: ClientParams) -> ClientParams:
    """The mean over clients, with a leading axis of one."""
    return jax.tree.map(lambda p: jnp.mean(p, axis=0, keepdims=True), client_params)


def consensus_distance(client_params: ClientParams) -> jax.Array:
    """sqrt((1/N) sum_i ||x_i - mean||^2) over stacked trees, batch statistics left out."""
    client_params = trained(client_params)
    mean = mean_model(client_params)
    squares = jax.tree.map(lambda p, m: jnp.sum(jnp.square(p - m)), client_params, mean)
    num_clients = jax.tree.leaves(client_params)[0].shape[0]
    return jnp.sqrt(sum(jax.tree.leaves(squares)) / num_clients)


def num_neighbours(links: Links) -> jax.Array:
    """[N] int32 senders that each client hears; of pairs without the matrix."""
    if links.partner is None:
        return jnp.sum(links.adjacency, axis=1, dtype=jnp.int32)
    return (links.partner != jnp.arange(links.partner.shape[0])).astype(jnp.int32)


def lambda_2(mix: jax.Array) -> jax.Array:
    """Second largest eigenvalue of W^T W (MADFL III-A); 1 on a disconnected graph, NaN for N above `LAMBDA_2_LIMIT`.

    >>> float(lambda_2(jnp.eye(3)))
    1.0
    """
    num_clients = mix.shape[0]
    if not 0 < num_clients <= LAMBDA_2_LIMIT:
        return jnp.float32(jnp.nan)
    if num_clients == 1:
        return jnp.float32(0.0)
    return jnp.linalg.eigvalsh(jnp.matmul(mix.T, mix, precision="highest"))[-2]
