"""The grid world of MADFL and DADFL, and the functions that apply a rule for one client to all clients.

A rule is a function ``move(key, client, world, plan) -> client`` of ONE client. `grid_mobility` applies it to the
mobile clients and leaves the others where they are. ``plan`` is the result of the rule's ``prepare(key, world)``, which
is called once before the first round. It is the same for all clients; DCM's cluster centres are an example.

A draw among all L grid points makes an array of L numbers, and N clients that are moved together make N x L numbers. So
many clients on a large grid are moved in chunks by a quick form of the rule, which makes no such array. The quick form
may leave some clients unsettled; the rule itself then moves these clients one by one.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.core import contract
from mdfl_jax.core.devices import backend
from mdfl_jax.core.geometry import squared_reach, within
from mdfl_jax.core.rng import per_client
from mdfl_jax.core.trees import where_rows
from mdfl_jax.mobility.rule import Mobility

Move = Callable[[jax.Array, "GridClient", "GridWorld", Any], "GridClient"]
Quick = Callable[["GridWorld", Any], Callable[[jax.Array, "GridClient", jax.Array], tuple["GridClient", jax.Array]]]

LARGEST_AT_ONCE = 2**18  # clients times grid points that a CPU computes together
LARGEST_DENSE = 2**22  # clients times grid points beyond which no array of all of them is made, on any device
TRIES = 128  # how often the quick form of a rule may try to draw, for one client in one round


class GridWorld(NamedTuple):
    """The grid world as a rule may use it. A place is an index into ``grid``, a distance is in grid units.

    Attributes:
      grid: [L, 2] float32 grid points (p, q), p and q in 1..G, row-major.
      start: [N] int32, the first place of each client.
      is_mobile: [N] bool, true for the clients that move.
      label_counts: [N, C] int32, how many samples of each label each client holds.
      radius: communication radius Rc.
      max_step: largest distance moved in a round, Rm; ``inf`` sets no limit.
      numbers: the numbers of the rule that reads this world, as typed arrays, in the class that the rule is registered
        with.
    """

    grid: jax.Array
    start: jax.Array
    is_mobile: jax.Array
    label_counts: jax.Array
    radius: jax.Array
    max_step: jax.Array
    numbers: Any = None


class GridClient(NamedTuple):
    """One client, as its rule sees it. Stacked over all clients, every field has a leading axis N.

    Attributes:
      location: int32 index of the client's place.
      destination: int32 index of the place that the client is heading for. It equals ``location`` where the client has
        no destination.
      label_counts: [C] int32, the label counts of the client.
    """

    location: jax.Array
    destination: jax.Array
    label_counts: jax.Array


def grid_points(size: int) -> jax.Array:
    """Return the G x G grid points (p, q), p and q in 1..G, in row-major order: [G * G, 2] float32."""
    index = jnp.arange(size * size)
    return jnp.stack([index // size + 1, index % size + 1], axis=1).astype(jnp.float32)


def reachable(world: GridWorld, location: jax.Array) -> jax.Array:
    """Find the grid points within ``max_step`` of a place.

    Args:
      world: the grid world.
      location: [] int32 index of the place.

    Returns:
      [L] bool, true at these grid points. The place itself is one of them.
    """
    return within(world.grid[location][None], world.grid, world.max_step)[0]


class _Rows(NamedTuple):
    """The grid points within ``max_step`` of a place, row by row. A search over them costs G steps instead of G * G.

    Attributes:
      first: [G] float32, the column (from 0) of the first reachable point of each row.
      last: [G] float32, the column of the last one. It is less than ``first`` in a row without reachable points.
    """

    first: jax.Array
    last: jax.Array


def grid_size(world: GridWorld) -> int:
    """Return G, the number of grid points along one side."""
    return math.isqrt(world.grid.shape[0])


def reachable_rows(world: GridWorld, location: jax.Array) -> _Rows:
    """Find the points of `reachable`, as the columns from ``first`` to ``last`` of each row.

    Args:
      world: the grid world.
      location: [] int32 index of the place.
    """
    size = grid_size(world)
    row, column = (location // size).astype(jnp.float32), (location % size).astype(jnp.float32)
    squared = jnp.square(jnp.arange(size, dtype=jnp.float32) - row)
    limit = squared_reach(world.max_step, squared.dtype)
    # The width is the largest whole number whose square fits. A rounded root may be wrong by one, but whole numbers and
    # their squares are exact in float32, so the next two lines correct it.
    width = jnp.minimum(jnp.floor(jnp.sqrt(jnp.maximum(limit - squared, 0.0))), float(size))
    width = jnp.where(jnp.square(width + 1) + squared <= limit, width + 1, width)
    width = jnp.where(jnp.square(width) + squared > limit, width - 1, width)  # -1 where the row is out of reach
    return _Rows(jnp.maximum(column - width, 0.0), jnp.minimum(column + width, size - 1.0))


def nearest_within(world: GridWorld, location: jax.Array, destination: jax.Array) -> jax.Array:
    """Find the reachable grid point that is nearest to the destination (MADFL eq. 12).

    Args:
      world: the grid world.
      location: [] int32 index of the client's place.
      destination: [] int32 index of its destination.

    Returns:
      [] int32 index of the nearest point. Of several equally near points it is the first in row-major order.
    """
    size = grid_size(world)
    rows = reachable_rows(world, location)
    target_row, target_column = (destination // size).astype(jnp.float32), (destination % size).astype(jnp.float32)
    column = jnp.clip(target_column, rows.first, rows.last)  # each row has exactly one nearest point
    distance = jnp.square(jnp.arange(size, dtype=jnp.float32) - target_row) + jnp.square(column - target_column)
    row = jnp.argmin(jnp.where(rows.first <= rows.last, distance, jnp.inf))
    return (row * size + column[row].astype(jnp.int32)).astype(jnp.int32)


def uniform_within(key: jax.Array, world: GridWorld, location: jax.Array) -> jax.Array:
    """Draw a grid point uniformly from those that are `reachable`.

    The draw is the same as that of `sample_index` with equal weights at the reachable points.

    Args:
      key: typed key of the draw.
      world: the grid world.
      location: [] int32 index of the client's place.

    Returns:
      [] int32 index of the drawn point.
    """
    rows = reachable_rows(world, location)
    running = jnp.cumsum(jnp.maximum(rows.last - rows.first + 1, 0.0))
    drawn = jnp.floor(jax.random.uniform(key, (), running.dtype) * running[-1])
    drawn = jnp.minimum(drawn, running[-1] - 1)  # rounding may reach the total
    row = jnp.argmax(running > drawn)
    from_end = running[row] - drawn  # 1 at the last column of the row
    return (row * grid_size(world) + (rows.last[row] + 1 - from_end).astype(jnp.int32)).astype(jnp.int32)


def random_step(key: jax.Array, client: GridClient, world: GridWorld) -> GridClient:
    """Move one client to a grid point drawn uniformly within Rm of its place. It has no destination afterwards.

    Args:
      key: typed key of this client in this round.
      client: the client that moves.
      world: the grid world.
    """
    place = uniform_within(key, world, client.location)
    return client._replace(location=place, destination=place)


def sample_index(key: jax.Array, weight: jax.Array) -> jax.Array:
    """Draw an index with probability proportional to its weight, by inversion: one random number instead of L.

    An entry of weight zero is never drawn. The running sum of floats may grow at such an entry by rounding, so the
    search skips these entries. Where rounding leaves no entry at the end, the last one with a positive weight is taken.

    Args:
      key: typed key of the draw.
      weight: [L] weights, at least 0.

    Returns:
      [] int32, the index drawn.
    """
    running = jnp.cumsum(weight)
    threshold = jax.random.uniform(key, (), weight.dtype) * running[-1]
    last = weight.shape[0] - 1 - jnp.argmax((weight > 0)[::-1])
    beyond = (running > threshold) & (weight > 0)
    return jnp.where(jnp.any(beyond), jnp.argmax(beyond), last).astype(jnp.int32)


def only_mobile(world: GridWorld, before: GridClient, moved: GridClient) -> GridClient:
    """Return all clients after a round: the mobile ones from ``moved``, the others from ``before``."""
    return where_rows(world.is_mobile, moved, before)


def heading(world: GridWorld, clients: GridClient) -> jax.Array:
    """Return the places for which clients are heading, [N, 2]; NaN for clients that stay or stand at them."""
    under_way = world.is_mobile & (clients.destination != clients.location)
    return jnp.where(under_way[:, None], world.grid[clients.destination], jnp.nan)


def mobility_of(
    init: Callable[..., Any], step: Callable[..., Any], clients_of: Callable[[Any], GridClient], **told: Any
) -> Mobility:
    """Make a rule of the grid whose state holds the clients.

    Args:
      init, step: as in `mdfl_jax.mobility.rule.Mobility`.
      clients_of: state -> the clients in it.
      **told: further fields of the rule.
    """

    def position(world: GridWorld, state: Any) -> jax.Array:
        return world.grid[clients_of(state).location]

    def destination(world: GridWorld, state: Any) -> jax.Array:
        return heading(world, clients_of(state))

    return Mobility(init, step, position, world="grid", destination=destination, **told)


def is_dense(num_clients: int, points: int) -> bool:
    """Return whether arrays of all clients and all grid points, N x L numbers, may be made."""
    return num_clients * points <= LARGEST_DENSE


def map_chunks(function: Callable[..., Any], rows: tuple[Any, ...], size: int) -> Any:
    """Map a function over rows, so many rows at once, and one chunk after another.

    Args:
      function: takes one row of each of the trees.
      rows: trees whose leaves have the rows as their first axis, N of them.
      size: how many rows are mapped together, at least 1.

    Returns:
      The results of all rows, stacked: leaves [N, ...].

    >>> map_chunks(lambda x: x + 1, (jnp.arange(5),), 2).tolist()
    [1, 2, 3, 4, 5]
    """
    count = jax.tree.leaves(rows)[0].shape[0]
    if size == 1:  # Rows are not mapped together, so that a ``cond`` skips what it need not do.
        return jax.lax.map(lambda row: function(*row), rows)
    size = min(size, count)
    chunks = -(-count // size)
    index = jnp.minimum(jnp.arange(chunks * size), count - 1)  # the last chunk is filled with copies of the last row
    cut = jax.tree.map(lambda leaf: leaf[index].reshape(chunks, size, *leaf.shape[1:]), rows)
    found = jax.lax.map(lambda chunk: jax.vmap(function)(*chunk), cut)
    return jax.tree.map(lambda leaf: leaf.reshape(chunks * size, *leaf.shape[2:])[:count], found)


def one_by_one(function: Callable[..., Any], rows: tuple[Any, ...], state: Any, due: jax.Array) -> Any:
    """Replace the rows of a state that are due, one after another. The others cost nothing.

    Args:
      function: (the row's place [] int32, one row of each of the trees, the row of the state) -> the new row.
      rows: trees that are only read, leaves [N, ...].
      state: the tree whose rows are replaced, leaves [N, ...].
      due: [N] bool, the rows that are replaced.

    Returns:
      The state with the new rows.

    >>> one_by_one(lambda i, x: x + 10 * i, (), jnp.arange(4), jnp.array([False, True, False, True])).tolist()
    [0, 11, 2, 33]
    """
    (order,) = jnp.nonzero(due, size=due.shape[0], fill_value=0)

    def replace(k: jax.Array, state: Any) -> Any:
        i = order[k].astype(jnp.int32)
        old, given = jax.tree.map(lambda leaf: leaf[i], (state, rows))
        return jax.tree.map(lambda leaf, new: leaf.at[i].set(new), state, function(i, *given, old))

    return jax.lax.fori_loop(0, jnp.sum(due), replace, state)


def always_settled(move: Move) -> Quick:
    """Make the quick form of a rule that itself makes no array of L numbers: the rule, which settles every client."""

    def quick(world: GridWorld, plan: Any) -> Callable[..., tuple[GridClient, jax.Array]]:
        return lambda key, client, tries: (move(key, client, world, plan), jnp.bool_(True))

    return quick


def _over_clients(
    move: Move, quick: Quick | None, world: GridWorld, plan: Any, keys: jax.Array, clients: GridClient
) -> GridClient:
    """Move all clients for one round.

    They are moved together, as long as this does not need too many numbers at once. Else a CPU moves them one after
    the other, so that a client that has not yet reached its destination skips the draw in its ``cond``. Where the rule
    has a quick form, this form settles most of them beforehand.

    Args:
      move, quick: as for `grid_mobility`.
      world: the grid world.
      plan: the plan of the rule.
      keys: [N] typed keys, one for each client.
      clients: the clients, stacked.

    Returns:
      The clients after the round. Only the rows of mobile clients are meant to be used.
    """
    one = lambda key, client: move(key, client, world, plan)  # noqa: E731
    num_clients, points, on_cpu = world.start.shape[0], world.grid.shape[0], backend() == "cpu"
    at_once = LARGEST_AT_ONCE if on_cpu else LARGEST_DENSE
    if num_clients * points <= at_once:
        return jax.vmap(one)(keys, clients)
    if quick is None:
        return map_chunks(one, (keys, clients), 1 if on_cpu else max(1, at_once // points))
    draws = world.is_mobile & (clients.location == clients.destination)
    tries = jnp.where(draws, 0 if is_dense(num_clients, points) else TRIES, 0)
    order = jnp.argsort(~draws, stable=True)  # those that draw share their chunks, since a chunk waits for its last try
    rows = jax.tree.map(lambda leaf: leaf[order], (keys, clients, tries))
    found = map_chunks(quick(world, plan), rows, max(1, at_once // math.isqrt(points)))
    moved, settled = jax.tree.map(lambda leaf: leaf[jnp.argsort(order)], found)
    due = world.is_mobile & ~settled
    return one_by_one(lambda _, key, client: one(key, client), (keys,), where_rows(due, clients, moved), due)


def grid_mobility(
    move: Move,
    prepare: Callable[[jax.Array, GridWorld], Any] = lambda key, world: None,
    centres: Callable[[GridWorld, Any], jax.Array] | None = None,
    quick: Quick | None = None,
) -> Mobility:
    """Make the movement of all clients from a rule for one client.

    Args:
      move: (key, client, world, plan) -> client, for ONE client. Only mobile clients are moved.
      prepare: (key, world) -> plan, called once before the first round.
      centres: (world, plan) -> the cluster centres [N, 2], as in `mdfl_jax.mobility.rule.Mobility`.
      quick: (world, plan) -> (key, client, tries) -> (client, settled), a form of ``move`` for ONE client that makes no
        array of L numbers, for worlds of many clients. It may leave a client unsettled, and ``move`` then moves this
        client from where it was. Given that it settles a client, its draw must have the law of ``move``. Where
        ``tries`` is 0 it must not draw in another way than ``move``. None: the rule has no such form.

    Returns:
      The mobility rule, in the world ``grid``.
    """

    def init(key: jax.Array, world: GridWorld) -> tuple[GridClient, Any]:
        start = GridClient(location=world.start, destination=world.start, label_counts=world.label_counts)
        return start, prepare(key, world)

    def step(key: jax.Array, world: GridWorld, state: tuple[GridClient, Any]) -> tuple[GridClient, Any]:
        clients, plan = state
        keys = per_client(key, world.start.shape[0])
        moved = _over_clients(move, quick, world, plan, keys, clients)
        contract.like(move, moved, clients)
        return only_mobile(world, clients, moved), plan

    told = None if centres is None else lambda world, state: centres(world, state[1])
    return mobility_of(init, step, lambda state: state[0], centres=told)
