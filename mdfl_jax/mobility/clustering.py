"""Greedy cluster centres of the static clients. They are the destinations of DCM movement."""

from typing import Any

import jax
import jax.numpy as jnp

from mdfl_jax.core.geometry import squared_reach, within
from mdfl_jax.mobility.discs import half_widths, summed_at, sums_in_range
from mdfl_jax.mobility.grid import GridWorld, grid_size, is_dense


def uniform_choice(key: jax.Array, candidates: jax.Array) -> jax.Array:
    """Draw the index of one candidate, each with the same probability.

    Args:
      key: typed key of the draw.
      candidates: [L] bool, at least one of them true.

    Returns:
      [] int32, an index at which ``candidates`` is true.
    """
    rank = jnp.cumsum(candidates)
    drawn = jax.random.randint(key, (), 1, jnp.maximum(rank[-1], 1) + 1)
    return jnp.argmax(rank == drawn)


def cluster_centres(
    key: jax.Array,
    grid: jax.Array,
    static_position: jax.Array,
    radius: jax.Array | float,
    present: jax.Array | None = None,
) -> jax.Array:
    """Choose grid points that together cover every static client (MADFL algorithm 3, DADFL algorithm 1).

    Each next centre is the grid point that covers the most clients not yet covered. From the second centre on, a tie
    goes to the point that covers the most static clients in all. A remaining tie is broken uniformly at random. The
    search ends when all clients are covered.

    Args:
      key: typed key of the draws that break ties.
      grid: [L, 2] grid points.
      static_position: [Ns, 2] places of the static clients, each a grid point.
      radius: communication radius Rc, in grid units; ``inf`` makes one centre.
      present: [Ns] bool, the rows that count; None counts all of them.

    Returns:
      [L] bool, true at the centres. Without static clients there are no centres.

    >>> grid = jnp.array([[1.0, 1.0], [2.0, 1.0], [3.0, 1.0]])
    >>> cluster_centres(jax.random.key(0), grid, grid[jnp.array([0, 2])], 1.0).tolist()
    [False, True, False]
    """
    num_static = static_position.shape[0]
    counted = jnp.ones(num_static, bool) if present is None else present
    covers = within(grid, static_position, radius) & counted[None, :]
    covers_of_all = jnp.sum(covers, axis=1)

    def unfinished(state: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        return jnp.any(state[1])

    def add_centre(state: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
        centres, uncovered, step = state
        gain = jnp.sum(covers & uncovered[None, :], axis=1)
        tied = gain == jnp.max(gain)
        rank = jnp.where(tied, covers_of_all, -1)
        tied = jnp.where(step > 0, rank == jnp.max(rank), tied)
        centre = uniform_choice(jax.random.fold_in(key, step), tied)
        return centres.at[centre].set(True), uncovered & ~covers[centre], step + 1

    # A static client stands on a grid point, so each step covers at least one. A client that is farther than the radius
    # from every grid point can never be covered, and must not make the loop endless.
    coverable = counted & jnp.any(covers, axis=0)
    start = (jnp.zeros(grid.shape[0], bool), coverable, jnp.int32(0))
    return jax.lax.while_loop(unfinished, add_centre, start)[0]


def choice_by_rows(key: jax.Array, candidates: jax.Array) -> jax.Array:
    """Draw what `uniform_choice` draws from the same key, with running sums over rows only, which are faster.

    Args:
      key: typed key of the draw.
      candidates: [G, G] bool, at least one of them true.

    Returns:
      [] int32, an index in row-major order.
    """
    ends = jnp.cumsum(jnp.sum(candidates, axis=1))
    drawn = jax.random.randint(key, (), 1, jnp.maximum(ends[-1], 1) + 1)
    row = jnp.argmax(ends >= drawn)
    in_row = jnp.cumsum(candidates[row])
    return row * candidates.shape[1] + jnp.argmax(in_row == drawn - (ends[row] - in_row[-1]))


def cluster_centres_by_place(key: jax.Array, clients_at: jax.Array, radius: jax.Array | float) -> jax.Array:
    """Choose the centres of `cluster_centres`, the same for the same key, from the numbers of clients at the points.

    The memory is linear in the number of grid points. A new centre changes how many uncovered clients the points cover
    only around the clients that it covers first, so only these are visited.

    Args:
      key: typed key of the draws that break ties.
      clients_at: [G, G] int32, how many static clients stand at each grid point.
      radius: communication radius Rc, in grid units.

    Returns:
      [G * G] bool, true at the centres.
    """
    size = clients_at.shape[0]
    row, column = jnp.arange(size, dtype=jnp.float32)[:, None], jnp.arange(size, dtype=jnp.float32)[None, :]
    covers_of_all = sums_in_range(clients_at[..., None], radius)[..., 0]
    widths = half_widths(size, radius)
    reach = jnp.sum(widths >= 0) - 1

    def disc(at_row: jax.Array, at_column: jax.Array) -> jax.Array:
        squared = jnp.square(row - at_row) + jnp.square(column - at_column)
        return squared <= squared_reach(radius, squared.dtype)

    def cover_row(at: jax.Array, centre: tuple[jax.Array, jax.Array], state: tuple[jax.Array, jax.Array]) -> Any:
        gain, uncovered = state
        is_near = jnp.abs(jnp.arange(size) - centre[1]) <= widths[jnp.abs(at - centre[0])]
        newly = jnp.where(is_near, uncovered[at], 0)

        def cover(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            gain, newly = state
            there = jnp.argmax(newly)  # each point of the row is taken once, in any order
            return gain - newly[there] * disc(at, there), newly.at[there].set(0)

        gain, _ = jax.lax.while_loop(lambda state: jnp.any(state[1] > 0), cover, (gain, newly))
        return gain, uncovered.at[at].set(uncovered[at] - newly)

    def add_centre(
        state: tuple[jax.Array, jax.Array, jax.Array, jax.Array],
    ) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        centres, uncovered, gain, step = state
        rank = jnp.where(gain == jnp.max(gain), jnp.where(step > 0, covers_of_all, 0), -1)
        chosen = choice_by_rows(jax.random.fold_in(key, step), rank == jnp.max(rank))
        centre = chosen // size, chosen % size
        first, last = jnp.maximum(centre[0] - reach, 0), jnp.minimum(centre[0] + reach, size - 1)
        cover_rows = lambda at, state: cover_row(at, centre, state)  # noqa: E731
        gain, uncovered = jax.lax.fori_loop(first, last + 1, cover_rows, (gain, uncovered))
        return centres.at[chosen].set(True), uncovered, gain, step + 1

    start = (jnp.zeros(size * size, bool), clients_at, covers_of_all, jnp.int32(0))
    return jax.lax.while_loop(lambda state: jnp.any(state[2] > 0), add_centre, start)[0]


def centres_of(world: GridWorld, key: jax.Array, known: jax.Array) -> jax.Array:
    """Choose the cluster centres of some static clients.

    Args:
      world: the grid world.
      key: typed key of the draws that break ties.
      known: [N] bool, the static clients that are to be covered.

    Returns:
      [L] bool, true at the centres. They do not depend on how they are computed.
    """
    if is_dense(world.start.shape[0], world.grid.shape[0]):
        return cluster_centres(key, world.grid, world.grid[world.start], world.radius, present=known)
    clients_at = summed_at(world.start, known.astype(jnp.int32)[:, None], grid_size(world))
    return cluster_centres_by_place(key, clients_at[..., 0], world.radius)


def centre_places(world: GridWorld, votes: jax.Array) -> jax.Array:
    """Find the places of cluster centres, for the record of a map.

    Args:
      world: the grid world.
      votes: [L] int32, how many clients have each grid point as a centre; 0 where it is none.

    Returns:
      [N, 2] float32 places of the centres, those of most clients first and equals in row-major order; NaN in the rows
      that are left. Centres beyond N, which only clients that know different static clients can have, are left out.
    """
    num_clients, points = world.start.shape[0], world.grid.shape[0]
    most, index = jax.lax.top_k(votes, min(num_clients, points))
    places = jnp.where((most > 0)[:, None], world.grid[index], jnp.nan)
    return jnp.full((num_clients, 2), jnp.nan).at[: len(index)].set(places)
