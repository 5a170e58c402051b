"""Greedy cluster centres of the static clients. They are the destinations of DCM movement."""

import jax
import jax.numpy as jnp

from mdfl_jax.geometry import within
from mdfl_jax.mobility.grid import GridWorld


def uniform_choice(key: jax.Array, candidates: jax.Array) -> jax.Array:
    """Draws the index of one candidate, each with the same probability.

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
    """Chooses grid points that together cover every static client (MADFL algorithm 3, DADFL algorithm 1).

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


def centre_places(world: GridWorld, votes: jax.Array) -> jax.Array:
    """Finds the places of cluster centres, for the record of a map.

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
