"""Computes the gradients of all clients over blocks of their samples, some blocks at a time, on one or more devices.

A block holds samples of one client. A client with many samples has many blocks, and only its last block is padded. The
mapping determines how many blocks are computed together; memory grows only with that number and with the models.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from mdfl_jax.core import contract, devices, sharding
from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.core.types import ClientParams, Params
from mdfl_jax.data.batching import Blocks, default_block_size

MAPPINGS = ("chunk", "scan", "vmap")
_SHARE = 0.25  # the share of an accelerator's memory for the activations of a tile
LARGEST_TILE = 16_384
WHOLE_BLOCK = 32  # samples that keep a CPU busy; with smaller blocks, two or more at once are faster
SMALLEST_BLOCK, LARGEST_BLOCK = {"tpu": 128, "gpu": 32}, 1024  # samples, in full-batch rounds; a TPU has 128 lanes
ENOUGH = 2_000_000_000  # FLOPs: about 10 us of a TPU v5e at its peak, compared with 2 us for starting each operation
# (params of one model, data, one block: leaves [B]) -> the sums over its samples of the loss, [], and of the gradient
BlockGradient = Callable[[Params, Any, Blocks], tuple[jax.Array, Params]]
PerSample = Callable[[Params], Params]  # (gradient of one sample) -> gradient, such as a clip


class Tiling(NamedTuple):
    """The user's settings for cutting the samples of a round into blocks.

    The settings change the speed and the memory, and the results only by rounding. Batch normalisation and random
    draws, such as dropout, are exceptions: they treat a block as a batch. With full-batch rounds, or with
    ``block_size`` set, their results depend on the block size.

    Attributes:
      block_size: samples of a block, all of one client; 0: chosen from the tile and a client's minibatch or mean share.
      tile: samples computed at the same time; 0: as many as fit a CPU's cache, or a share of an accelerator's memory.
      mapping: the blocks that are computed together: all ('vmap'), those of one tile ('chunk') or one ('scan').
    """

    block_size: int = 0
    tile: int = 0
    mapping: str = "chunk"


class Cut(NamedTuple):
    """The tiling of a task, with all sizes chosen.

    Attributes:
      block_size: samples of a block.
      at_once: blocks that a device computes together; 0: all.
      tile: samples that are evaluated together where models are mapped together.
      alone: whether one block keeps the device busy, so that mapping models or runs together gains nothing.
      chunk: samples that are evaluated together where models are evaluated one after another; 0: models are mapped
        together.
    """

    block_size: int
    at_once: int
    tile: int
    alone: bool = False
    chunk: int = 0


class SampleWork(NamedTuple):
    """The work of a device for the gradient of one sample.

    Attributes:
      flops: FLOPs of the forward and the backward pass.
      bytes: twice the bytes that are kept for the backward pass; the second half is for values in computation.
    """

    flops: float
    bytes: float


def default_tile(sample_shape: tuple[int, ...]) -> int:
    """Return the number of samples that a CPU computes at the same time.

    The transformed inputs of a tile should fit the cache. The result is 32 for MNIST and CIFAR-10 and 160 for the 8 x 8
    digits, which were the fastest sizes measured (benchmarks/tried.md).
    """
    return min(max(25088 // max(math.prod(sample_shape), 1), WHOLE_BLOCK), 160)


def cut(
    tiling: Tiling,
    sample_shape: tuple[int, ...],
    batch_size: int,
    num_samples: int,
    num_clients: int,
    work: SampleWork | None = None,
) -> Cut:
    """Choose the block size and the number of blocks that are computed together for a task.

    Args:
      tiling: the user's settings.
      sample_shape: the shape of one sample.
      batch_size: samples of a client's minibatch; 0 is full batch.
      num_samples: the number of training samples, n.
      num_clients: N.
      work: the work for one sample, which determines the sizes for an accelerator; None: sizes for a CPU.

    Raises:
      UserError: for an unknown mapping.
    """
    if tiling.mapping not in MAPPINGS:
        raise UserError(unknown_name("mapping", tiling.mapping, MAPPINGS))
    if work and devices.backend() != "cpu":
        return _cut_for_accelerator(tiling, batch_size, -(-num_samples // num_clients), work)
    tile = tiling.tile or default_tile(sample_shape)
    half = max(tile // 2, WHOLE_BLOCK if tile >= WHOLE_BLOCK else 1)
    block_size = tiling.block_size or (tile if tiling.mapping == "scan" else half)
    if batch_size:
        block_size = -(-batch_size // -(-batch_size // block_size))  # the same number of blocks, of equal size
    elif not tiling.block_size:
        block_size = min(block_size, default_block_size(num_samples, num_clients))
    least = 2 if block_size < WHOLE_BLOCK <= tile else 1
    return Cut(block_size, {"vmap": 0, "scan": 1, "chunk": max(tile // block_size, least)}[tiling.mapping], tile)


def _cut_for_accelerator(tiling: Tiling, batch_size: int, share: int, work: SampleWork) -> Cut:
    """Choose large blocks that fit the memory and need little padding, and just enough at once to fill the device.

    Convolutions of models that are mapped together become grouped ones, which run at half the rate of plain ones or
    less. Therefore one block is computed at a time where it is enough work (`ENOUGH`).
    """
    tile = tiling.tile or max(min(int(devices.current().memory * _SHARE // work.bytes), LARGEST_TILE), 1)
    if batch_size:
        block_size = tiling.block_size or tile
        block_size = -(-batch_size // -(-batch_size // block_size))
    else:
        quarter = 1 << max((share // 4).bit_length() - 1, 0)  # so that the last block has little padding
        block_size = tiling.block_size or min(
            max(quarter, SMALLEST_BLOCK.get(devices.backend(), 32)), LARGEST_BLOCK, tile
        )
    of_block = work.flops * block_size
    together = min(-(-ENOUGH // max(int(of_block), 1)), max(tile // block_size, 1))
    at_once = {"vmap": 0, "scan": 1, "chunk": together}[tiling.mapping]
    alone = of_block >= ENOUGH
    forward, chunk = work.flops / 3, min(tile, LARGEST_BLOCK)
    if not (alone or tiling.tile):  # runs are mapped together too, so limit an evaluation's memory
        chunk = min(chunk, max(int(8 * ENOUGH // forward), 1))
        tile = min(tile, max(int(4 * ENOUGH // work.flops), block_size))
    chunk = 1 << (chunk.bit_length() - 1)  # a power of two fits the device's units
    return Cut(block_size, at_once, tile, alone, chunk if alone or chunk * forward >= ENOUGH else 0)


def pad_blocks(blocks: Blocks, multiple: int) -> Blocks:
    """Append masked blocks until the number of blocks is a multiple of ``multiple``."""
    extra = -blocks.client.shape[0] % multiple
    pad = lambda a: jnp.pad(a, [(0, extra)] + [(0, 0)] * (a.ndim - 1))  # noqa: E731
    return jax.tree.map(pad, blocks)


def by_sample(of_block: BlockGradient, change: PerSample) -> BlockGradient:
    """Make a block gradient that changes the gradient of each sample before it adds them up.

    Each sample is computed as a block of its own, so this takes the memory of one gradient for each sample of a block.

    Args:
      of_block: computes the loss and gradient of one block.
      change: the transformation of one sample's gradient.

    Raises:
      UserError: if the transformation returns a tree of other shapes (when the gradient is traced).
    """

    def of_samples(params: Params, data: Any, block: Blocks) -> tuple[jax.Array, Params]:
        def of_one(place: jax.Array) -> tuple[jax.Array, Params]:
            view, draws = block.view, block.draws
            if draws is not None:
                draws = jax.random.bits(jax.random.fold_in(jax.random.key(draws), place), (), jnp.uint32)
            one = block._replace(sample=block.sample[place][None], mask=block.mask[place][None], draws=draws)
            loss, found = of_block(params, data, one._replace(view=None if view is None else view[place][None]))
            changed = change(found)
            contract.like(change, changed, found)
            return loss, jax.tree.map(lambda g: jnp.where(block.mask[place], g, 0), changed)

        return jax.tree.map(lambda x: jnp.sum(x, axis=0), jax.vmap(of_one)(jnp.arange(block.mask.shape[0])))

    return of_samples


def block_gradients(
    of_block: BlockGradient,
    data: Any,
    client_params: ClientParams,
    blocks: Blocks,
    at_once: int,
    one_each: bool = False,
    some: bool = False,
) -> tuple[jax.Array, ClientParams]:
    """Compute the losses and gradients of blocks, ``at_once`` at a time, and sum them for each client.

    Args:
      of_block: computes the loss and gradient of one block.
      data: the arrays from which ``of_block`` reads samples.
      client_params: [N, ...].
      blocks: K blocks.
      at_once: blocks that are mapped together, 0 for all; a scan goes over the rest, so memory does not grow with K.
      one_each: whether there is exactly one block for each client, in the order of clients.
      some: whether many blocks may have no sample. Such blocks are then put last, and a loop ends before them.

    Returns:
      (loss [N], gradients [N, ...]), the sums over each client's samples.
    """
    at_once = min(at_once or blocks.client.shape[0], blocks.client.shape[0])
    if at_once == 1 and one_each and not some and devices.backend() != "cpu":  # nothing to sum, and no vmap over one
        # Mixing prefers the client axis next to the last axis. If the compiler chose that order already here, it would
        # write each client's gradient in rows of a single client. To change the order once, at the end, is faster.
        return sharding.in_axis_order(jax.lax.map(lambda own: of_block(own[0], data, own[1]), (client_params, blocks)))
    blocks = pad_blocks(blocks, at_once)

    def of_blocks(params: ClientParams, data: Any, part: Blocks) -> tuple[jax.Array, ClientParams]:
        if at_once > 1 or devices.backend() == "cpu":
            return jax.vmap(of_block, in_axes=(0, None, 0))(params, data, part)
        # A vmap over one block would turn convolutions into grouped ones with a single group.
        params, part = jax.tree.map(lambda x: x[0], (params, part))
        return jax.tree.map(lambda x: x[None], of_block(params, data, part))

    def add(sums: tuple[jax.Array, ClientParams], part: Blocks) -> tuple[tuple[jax.Array, ClientParams], None]:
        found = of_blocks(jax.tree.map(lambda p: p[part.client], client_params), data, part)
        return jax.tree.map(lambda s, g: s.at[part.client].add(g), sums, found), None

    num_clients = jax.tree.leaves(client_params)[0].shape[0]
    zeros = (jnp.zeros(num_clients), jax.tree.map(jnp.zeros_like, client_params))
    in_parts = lambda blocks: jax.tree.map(lambda a: a.reshape(-1, at_once, *a.shape[1:]), blocks)  # noqa: E731
    if not some:
        return jax.lax.scan(add, zeros, in_parts(blocks))[0]
    has_samples = jnp.any(blocks.mask, axis=1)
    order = jnp.argsort(~has_samples, stable=True)
    parts = in_parts(jax.tree.map(lambda a: a[order], blocks))
    needed, bound = sharding.largest_of_runs(-(-jnp.sum(has_samples) // at_once)), parts.client.shape[0]

    def more(state: tuple[jax.Array, Any]) -> jax.Array:
        return (state[0] < needed) & (state[0] < bound)  # the bound is for `mdfl_jax.contrib.estimates.meters`

    def step(state: tuple[jax.Array, Any]) -> tuple[jax.Array, Any]:
        k, sums = state
        return k + 1, add(sums, jax.tree.map(lambda a: a[k], parts))[0]

    return jax.lax.while_loop(more, step, (jnp.int32(0), zeros))[1]


def client_gradients(
    of_block: BlockGradient,
    data: Any,
    client_params: ClientParams,
    blocks: Blocks,
    at_once: int,
    mesh: Mesh | None,
    equal_shares: bool,
    some: bool = False,
) -> tuple[jax.Array, ClientParams]:
    """Compute the same sums as `block_gradients`, but on all devices of a mesh, if there is one.

    With equal shares, and N a multiple of the number of devices, each device computes the blocks of its own clients.
    Otherwise the blocks are divided evenly, whatever their clients, and the sums of the devices are added. So no device
    waits for a device whose clients hold more samples.

    Args:
      of_block, data, client_params, blocks, at_once: as in `block_gradients`; ``at_once`` is for each device.
      mesh: from `mdfl_jax.core.sharding.client_mesh`, or None.
      equal_shares: whether every client has the same number of blocks, ordered by client.
      some: as in `block_gradients`; on a mesh all blocks are computed.
    """
    num_clients = jax.tree.leaves(client_params)[0].shape[0]
    one_each = equal_shares and blocks.client.shape[0] == num_clients
    if mesh is None:
        return block_gradients(of_block, data, client_params, blocks, at_once, one_each, some)
    devices = sharding.size(mesh)
    if equal_shares and num_clients % devices == 0:
        per_client = blocks.client.shape[0] // num_clients
        by_client = jax.tree.map(lambda a: a.reshape(num_clients, per_client, *a.shape[1:]), blocks)

        def own_clients(data: Any, own: tuple[ClientParams, Blocks], first: jax.Array) -> Any:
            params, mine = own[0], jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), own[1])
            return block_gradients(of_block, data, params, mine._replace(client=mine.client - first), at_once, one_each)

        return sharding.split_map(mesh, own_clients, data, (client_params, by_client))

    def own_blocks(shared: tuple[Any, ClientParams], mine: Blocks) -> Any:
        return block_gradients(of_block, *shared, mine, at_once)

    return sharding.split_sum(mesh, own_blocks, (data, client_params), pad_blocks(blocks, devices))
