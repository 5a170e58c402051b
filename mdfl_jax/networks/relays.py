"""Standing relays: clients without data that never move, and the rules by which their places are chosen.

The last K clients of a network may be relays. They exchange models as all clients do, and have nothing to train on.
Where they stand is drawn at random, as the places of all others, or chosen from these one relay after another:

- ``gaps``: farthest from all others that stand, so that whoever moves is seldom out of range of everybody (the greedy
  rule of Gonzalez, "Clustering to minimize the maximum intercluster distance", 1985);
- ``hubs``: in range of the most clients that are not yet in range of a relay (the greedy rule of maximum coverage);
- ``bridges``: in range of the most groups of clients that hear one another in no number of steps, and of these places
  one in range of the most clients.

Of equal places one is taken at random.
"""

import jax
import jax.numpy as jnp

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.geometry import squared_distance, squared_reach

RELAY_PLACES = ("random", "gaps", "hubs", "bridges")
LARGEST = 2**24  # places times clients


def components(linked: jax.Array) -> jax.Array:
    """Label the connected components of a graph: [N, N] bool, symmetric -> [N] int32, the smallest member's index."""
    count = linked.shape[0]
    own = jnp.arange(count, dtype=jnp.int32)

    def spread(found: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        group, _ = found
        lower = jnp.minimum(group, jnp.min(jnp.where(linked, group, count), axis=1))
        return lower, jnp.any(lower != group)

    return jax.lax.while_loop(lambda found: found[1], spread, (own, jnp.bool_(count > 0)))[0]


def places_of_relays(
    choice: jax.Array,
    key: jax.Array,
    place: jax.Array,
    stands: jax.Array,
    num_relays: int,
    candidates: jax.Array,
    radius: jax.Array,
) -> jax.Array:
    """Choose the places of relays, by a rule other than ``random``.

    Args:
      choice: [] int32, an index of `RELAY_PLACES`, from 1.
      key: typed key for equal places.
      place: [N - K, 2] float32, the first places of the other clients.
      stands: [N - K] bool, which of them do not move; those that move are not where they began, and do not count.
      num_relays: K >= 1.
      candidates: [P, 2] float32, the places that relays may have.
      radius: [] float32, the communication radius.

    Returns:
      [K] int32, indices of candidates.

    Raises:
      UserError: for more than `LARGEST` places times clients.
    """
    count, points = place.shape[0] + num_relays, candidates.shape[0]
    if count * points > LARGEST:
        raise UserError(
            f"network.relays is {num_relays}; with {count:,} clients and {points:,} places it must be 0: at most "
            f"{LARGEST:,} places times clients are looked at"
        )
    everywhere = jnp.concatenate([place, jnp.zeros((num_relays, 2), place.dtype)])
    standing = jnp.concatenate([stands, jnp.zeros(num_relays, bool)])
    is_relay = jnp.arange(count) >= place.shape[0]
    reach = squared_reach(radius)

    def add(k: int, now: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
        chosen, where, there = now
        away = squared_distance(candidates, where)
        near = (away <= reach) & there
        linked = (squared_distance(where, where) <= reach) & there & there[:, None]
        of_group = jax.nn.one_hot(components(linked), count)  # [N, N]
        served = jnp.any(linked & is_relay, axis=1)
        heard = jnp.sum(near, axis=1)
        joined = jnp.sum(near.astype(jnp.float32) @ of_group > 0, axis=1)
        scores = jnp.stack(
            [
                jnp.min(jnp.where(there, away, jnp.inf), axis=1),
                jnp.sum(near & ~served & ~is_relay, axis=1).astype(jnp.float32),
                joined + heard / (count + 1),
            ]
        )[choice - 1]
        ties = jax.random.uniform(jax.random.fold_in(key, k), (points,))
        best = jnp.argmax(jnp.where(scores == jnp.max(scores), ties, -1)).astype(jnp.int32)
        at = place.shape[0] + k
        return chosen.at[k].set(best), where.at[at].set(candidates[best]), there.at[at].set(True)

    return jax.lax.fori_loop(0, num_relays, add, (jnp.zeros(num_relays, jnp.int32), everywhere, standing))[0]
