"""Gradients of all clients over blocks of their samples: how many blocks are in flight, and on which devices.

A block holds samples of one client, so a client with many samples has many blocks and nothing is padded but its last.
The mapping says how many are computed together; memory grows with that number, and with nothing else but the models.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental.layout import Layout, with_layout_constraint
from jax.sharding import Mesh

from mdfl_jax import sharding, target
from mdfl_jax.data.batching import Blocks, default_block_size
from mdfl_jax.errors import UserError, unknown_name
from mdfl_jax.types import ClientParams, Params

MAPPINGS = ("chunk", "scan", "vmap")
SHARE = 0.25  # of an accelerator's memory, for the activations of a tile
LARGEST_TILE = 16_384
WHOLE_BLOCK = 32  # samples that a CPU takes by themselves; of fewer, two blocks or more at once are faster
SMALLEST_BLOCK, LARGEST_BLOCK = {"tpu": 128, "gpu": 32}, 1024  # samples, in full-batch rounds; a TPU has 128 lanes
ENOUGH = 2_000_000_000  # FLOPs: some 10 us of a TPU v5e at its peak, beside the 2 us that each of its operations takes
# (params of one model, data, one block: leaves [B]) -> sums over its samples of the loss, [], and of the gradient
BlockGradient = Callable[[Params, Any, Blocks], tuple[jax.Array, Params]]


class Tiling(NamedTuple):
    """How the samples of a round are cut up; it changes the speed and the memory, and the results by rounding only.

    But batch normalisation sees a block as a batch: with full-batch rounds, or a block size of its own, results depend
    on it.

    Attributes:
      block_size: samples of one client that make a block (0: by the tile, and a full batch's share of a client).
      tile: samples in flight at once; 0: what fits a CPU's cache, or a share of an accelerator's memory.
      mapping: blocks computed together: 'vmap' all, 'chunk' a tile's worth, 'scan' one.
    """

    block_size: int = 0
    tile: int = 0
    mapping: str = "chunk"


class Cut(NamedTuple):
    """A tiling made definite.

    Attributes:
      block_size: samples of a block.
      at_once: blocks in flight on a device; 0: all.
      tile: samples in flight, for evaluation.
      alone: a block is enough for the device, so that nothing is gained by mapping models or runs together.
      chunk: samples that are evaluated together where models follow one another in that; 0: models are mapped together.
    """

    block_size: int
    at_once: int
    tile: int
    alone: bool = False
    chunk: int = 0


class Work(NamedTuple):
    """What one sample asks of a device in a gradient.

    Attributes:
      flops: forward and backward.
      bytes: of what is kept of it for the backward pass, and as much again in flight.
    """

    flops: float
    bytes: float


def default_tile(image_shape: tuple[int, ...]) -> int:
    """Samples at once on a CPU: the transformed inputs of a tile should fit its cache.

    32 of MNIST and CIFAR-10, 160 of the 8 x 8 digits: the fastest found (benchmarks/README.md).
    """
    height, width, channels = image_shape
    return min(max(25088 // (height * width * channels), WHOLE_BLOCK), 160)


def cut(
    tiling: Tiling,
    image_shape: tuple[int, ...],
    batch_size: int,
    num_samples: int,
    num_clients: int,
    work: Work | None = None,
) -> Cut:
    """Block size and blocks at once for a task.

    Args:
      tiling: what the user set.
      image_shape: (height, width, channels).
      batch_size: of a client's minibatch; 0 is full batch.
      num_samples: n of the training set.
      num_clients: N.
      work: of one sample; what an accelerator is given at once goes by it. Left out: as on a CPU.

    Raises:
      UserError: for an unknown mapping.
    """
    if tiling.mapping not in MAPPINGS:
        raise UserError(unknown_name("mapping", tiling.mapping, MAPPINGS))
    if work and target.backend() != "cpu":
        return _cut_for_accelerator(tiling, batch_size, -(-num_samples // num_clients), work)
    tile = tiling.tile or default_tile(image_shape)
    half = max(tile // 2, WHOLE_BLOCK if tile >= WHOLE_BLOCK else 1)
    block_size = tiling.block_size or (tile if tiling.mapping == "scan" else half)
    if batch_size:
        block_size = -(-batch_size // -(-batch_size // block_size))  # as few as would do, of equal size
    elif not tiling.block_size:
        block_size = min(block_size, default_block_size(num_samples, num_clients))
    least = 2 if block_size < WHOLE_BLOCK <= tile else 1
    return Cut(block_size, {"vmap": 0, "scan": 1, "chunk": max(tile // block_size, least)}[tiling.mapping], tile)


def _cut_for_accelerator(tiling: Tiling, batch_size: int, share: int, work: Work) -> Cut:
    """Blocks as large as memory and little padding allow; as many together as fill the device, and no more.

    Models that are mapped together become grouped convolutions, at half the rate of plain ones and less, so one block
    is taken at a time where it is work enough (`ENOUGH`).
    """
    tile = tiling.tile or max(min(int(target.current().memory * SHARE // work.bytes), LARGEST_TILE), 1)
    if batch_size:
        block_size = tiling.block_size or tile
        block_size = -(-batch_size // -(-batch_size // block_size))
    else:
        quarter = 1 << max((share // 4).bit_length() - 1, 0)  # little of the last block is padding
        block_size = tiling.block_size or min(
            max(quarter, SMALLEST_BLOCK.get(target.backend(), 32)), LARGEST_BLOCK, tile
        )
    of_block = work.flops * block_size
    together = min(-(-ENOUGH // max(int(of_block), 1)), max(tile // block_size, 1))
    at_once = {"vmap": 0, "scan": 1, "chunk": together}[tiling.mapping]
    alone = of_block >= ENOUGH
    forward, chunk = work.flops / 3, min(tile, LARGEST_BLOCK)
    if not (alone or tiling.tile):  # runs are mapped together too: an evaluation leaves them room
        chunk = min(chunk, max(int(8 * ENOUGH // forward), 1))
        tile = min(tile, max(int(4 * ENOUGH // work.flops), block_size))
    chunk = 1 << (chunk.bit_length() - 1)  # by which the device's units divide
    return Cut(block_size, at_once, tile, alone, chunk if alone or chunk * forward >= ENOUGH else 0)


def pad_blocks(blocks: Blocks, multiple: int) -> Blocks:
    """Appends masked blocks until their number is a multiple."""
    extra = -blocks.client.shape[0] % multiple
    pad = lambda a: jnp.pad(a, [(0, extra)] + [(0, 0)] * (a.ndim - 1))  # noqa: E731
    return jax.tree.map(pad, blocks)


def block_gradients(
    of_block: BlockGradient,
    data: Any,
    client_params: ClientParams,
    blocks: Blocks,
    at_once: int,
    one_each: bool = False,
) -> tuple[jax.Array, ClientParams]:
    """Losses and gradients of blocks, summed by client, ``at_once`` blocks in flight.

    Args:
      of_block: the loss and gradient of one block.
      data: what ``of_block`` reads samples from.
      client_params: [N, ...].
      blocks: K blocks.
      at_once: how many are mapped together, 0 for all; the others follow in a scan, so memory does not grow with K.
      one_each: there is one block a client, in the order of clients.

    Returns:
      (loss [N], gradients [N, ...]), sums over each client's samples.
    """
    at_once = min(at_once or blocks.client.shape[0], blocks.client.shape[0])
    if at_once == 1 and one_each and target.backend() != "cpu":  # nothing to add up, and no mapping over one
        return _in_order(jax.lax.map(lambda own: of_block(own[0], data, own[1]), (client_params, blocks)))
    blocks = pad_blocks(blocks, at_once)

    def of_blocks(params: ClientParams, data: Any, part: Blocks) -> tuple[jax.Array, ClientParams]:
        if at_once > 1 or target.backend() == "cpu":
            return jax.vmap(of_block, in_axes=(0, None, 0))(params, data, part)
        # Mapped over one, convolutions would be grouped ones of one group.
        params, part = jax.tree.map(lambda x: x[0], (params, part))
        return jax.tree.map(lambda x: x[None], of_block(params, data, part))

    def add(sums: tuple[jax.Array, ClientParams], part: Blocks) -> tuple[tuple[jax.Array, ClientParams], None]:
        found = of_blocks(jax.tree.map(lambda p: p[part.client], client_params), data, part)
        return jax.tree.map(lambda s, g: s.at[part.client].add(g), sums, found), None

    num_clients = jax.tree.leaves(client_params)[0].shape[0]
    zeros = (jnp.zeros(num_clients), jax.tree.map(jnp.zeros_like, client_params))
    parts = jax.tree.map(lambda a: a.reshape(-1, at_once, *a.shape[1:]), blocks)
    return jax.lax.scan(add, zeros, parts)[0]


def _in_order(tree: Any) -> Any:
    """Leaves in memory as their axes stand.

    Mixing would have the clients next to the last axis, and a compiler that gives it that order at once writes each
    client's gradient there by itself, in rows of a single client: slower than all of them together, later.
    """
    return jax.tree.map(lambda x: with_layout_constraint(x, Layout(tuple(range(x.ndim)))), tree)


def client_gradients(
    of_block: BlockGradient,
    data: Any,
    client_params: ClientParams,
    blocks: Blocks,
    at_once: int,
    mesh: Mesh | None,
    equal_shares: bool,
) -> tuple[jax.Array, ClientParams]:
    """`block_gradients`, over the devices of a mesh where there is one.

    Equal shares (minibatches of N clients that the devices divide) stay where their clients are. Otherwise the blocks
    are divided, whoever's they are, so that a device with large clients does not keep the others waiting, and the sums
    of the devices are added.

    Args:
      of_block, data, client_params, blocks, at_once: as `block_gradients`; at_once is a device's.
      mesh: from `mdfl_jax.sharding.client_mesh`.
      equal_shares: every client has the same number of blocks, those of client 0 first.
    """
    num_clients = jax.tree.leaves(client_params)[0].shape[0]
    one_each = equal_shares and blocks.client.shape[0] == num_clients
    if mesh is None:
        return block_gradients(of_block, data, client_params, blocks, at_once, one_each)
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
