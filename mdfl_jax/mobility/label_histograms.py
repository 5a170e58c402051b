"""Label counts of the static clients near each grid point, and the label histograms and distances made of them."""

import jax
import jax.numpy as jnp

from mdfl_jax.core.geometry import within
from mdfl_jax.mobility.discs import summed_at, sums_in_range
from mdfl_jax.mobility.grid import GridWorld, grid_size
from mdfl_jax.mobility.many import is_dense

# Equal histograms of unequal counts may differ by rounding (1/1 and 3/3 do, once compiled). Their distance is zero.
SMALLEST_DISTANCE = 1e-6


def counts_in_range(
    static_position: jax.Array, static_counts: jax.Array, grid: jax.Array, radius: jax.Array | float
) -> jax.Array:
    """Sum the label counts of the static clients within range of each grid point (numerator of MADFL eq. 9).

    Args:
      static_position: [Ns, 2] places of the static clients, in grid units.
      static_counts: [Ns, C] label counts of the static clients.
      grid: [L, 2] grid points.
      radius: communication radius Rc, in grid units.

    Returns:
      [L, C] float32 label counts.
    """
    near = within(grid, static_position, radius)
    return jnp.matmul(near.astype(jnp.float32), static_counts.astype(jnp.float32), precision="highest")


def counts_of(world: GridWorld, known: jax.Array) -> jax.Array:
    """Sum the label counts of some clients at their first places, near each grid point.

    Sums of whole numbers are exact, so both ways to compute them give the same numbers.

    Args:
      world: the grid world.
      known: [N] bool, the clients that count.

    Returns:
      [L, C] float32 label counts.
    """
    counts, size = jnp.where(known[:, None], world.label_counts, 0), grid_size(world)
    if is_dense(world.start.shape[0], world.grid.shape[0]):
        return counts_in_range(world.grid[world.start], counts, world.grid, world.radius)
    near = sums_in_range(summed_at(world.start, counts, size), world.radius)
    return near.reshape(size * size, -1).astype(jnp.float32)


def histograms(counts_near: jax.Array, own_counts: jax.Array) -> jax.Array:
    """Compute a client's label histograms at grid points, [L, C] (MADFL eq. 9).

    Args:
      counts_near: [L, C] label counts of the static clients near the points.
      own_counts: [C] label counts of the client itself.
    """
    counts = counts_near + own_counts.astype(jnp.float32)
    total = jnp.sum(counts, axis=1, keepdims=True)
    return counts / jnp.maximum(total, 1.0)  # counts are whole numbers, so an empty histogram stays zero


def distances(histogram: jax.Array, reference: jax.Array) -> jax.Array:
    """Compute the Euclidean distances [L] of histograms [L, C] from a reference [C] (MADFL eq. 10)."""
    difference = histogram - reference
    return jnp.sqrt(jnp.sum(difference * difference, axis=1))
