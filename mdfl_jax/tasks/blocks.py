"""The blocks of images that a round computes together: their size, their minibatches and their random seeds."""

from typing import Any

import jax
import jax.numpy as jnp

from mdfl_jax.core import devices
from mdfl_jax.core.batch_statistics import STATISTICS
from mdfl_jax.core.flops import products
from mdfl_jax.data.batching import Blocks, ClientIndex, draw_minibatch
from mdfl_jax.models.adapters import draws
from mdfl_jax.models.registry import SampleSpec
from mdfl_jax.tasks.gradients import Cut, Tiling, Work, cut


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
