"""The blocks in which the images of a round are taken, and what each of them draws."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from mdfl_jax import target
from mdfl_jax.data.batching import Blocks, ClientIndex, draw_minibatch
from mdfl_jax.flops import products
from mdfl_jax.gradients import Cut, Tiling, Work, cut
from mdfl_jax.statistics import STATISTICS


def cut_for(
    model: nn.Module,
    shapes: Any,
    image_shape: tuple[int, ...],
    batch_size: int,
    num_samples: int,
    num_clients: int,
    tiling: Tiling = Tiling(),
    dtype: Any = jnp.float32,
) -> Cut:
    """Blocks for a model: `mdfl_jax.gradients.cut` by its work; a minibatch under batch normalisation is one block.

    Args:
      model: from images [B, H, W, channels].
      shapes: of its variables.
      image_shape, batch_size, num_samples, num_clients, tiling: as `mdfl_jax.gradients.cut`.
      dtype: of the activations.
    """
    if STATISTICS in shapes and batch_size and not tiling.block_size:
        tiling = tiling._replace(block_size=batch_size)
    work = None if target.backend() == "cpu" else _work(model, shapes, image_shape, dtype)
    return cut(tiling, image_shape, batch_size, num_samples, num_clients, work)


def _work(model: nn.Module, shapes: Any, image_shape: tuple[int, ...], dtype: Any) -> Work:
    """What a sample asks of a device: three times the products of its forward pass, twice their results in memory."""
    image = jax.ShapeDtypeStruct((1, *image_shape), jnp.float32)
    forward = products(jax.make_jaxpr(model.apply)(shapes, image))
    return Work(3 * forward.flops, 2 * forward.outputs * jnp.dtype(dtype).itemsize)


def minibatch_blocks(key: jax.Array, held: ClientIndex, batch_size: int, block_size: int) -> Blocks:
    """Freshly drawn minibatches, cut into blocks; those of a client without samples are masked."""
    num_clients, per_client = held.first.shape[0], -(-batch_size // block_size)
    draw = lambda i: draw_minibatch(jax.random.fold_in(key, i), held, i, batch_size)  # noqa: E731
    sample = jax.vmap(draw)(jnp.arange(num_clients))
    sample = jnp.pad(sample, [(0, 0), (0, per_client * block_size - batch_size)]).reshape(-1, block_size)
    client = jnp.repeat(jnp.arange(num_clients, dtype=jnp.int32), per_client)
    drawn = jnp.tile(jnp.arange(per_client * block_size).reshape(per_client, block_size) < batch_size, (num_clients, 1))
    return Blocks(client, sample, drawn & (held.num_samples > 0)[client][:, None])


def seed_of_block(key: jax.Array, client: jax.Array, place: jax.Array) -> jax.Array:
    """[] uint32 for what a model draws for a block; it does not depend on other clients."""
    return jax.random.bits(jax.random.fold_in(jax.random.fold_in(key, client), place), (), jnp.uint32)
