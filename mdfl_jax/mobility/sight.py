"""What a client knows when it chooses where to go under a strategy (`mdfl_jax.mobility.strategy`), and its choice."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.core.geometry import within
from mdfl_jax.mobility.discs import summed_at, sums_in_range
from mdfl_jax.mobility.grid import GridClient, GridWorld, grid_size
from mdfl_jax.mobility.label_histograms import SMALLEST_DISTANCE, distances, histograms
from mdfl_jax.mobility.many import is_dense

NEVER = -1


class Sites(NamedTuple):
    """Candidate places.

    Attributes:
      place: [K] int32 grid points. For cluster centres K is the number of clients, and only the first entries are
        valid; where every grid point is a candidate, K is their number L.
      valid: [K] bool.
    """

    place: jax.Array
    valid: jax.Array


class Sight(NamedTuple):
    """What ONE client knows when it chooses: of each candidate in arrays of [K], of each client in arrays of [N].

    Attributes:
      valid: [K] bool, the candidates.
      here: [K] bool, true at the client's own place.
      distance: [K] float32, the distance of the label histogram there from the one here (MADFL eq. 10).
      travel: [K] float32, the fewest rounds to go there.
      rivals: [K] float32, how many other mobile clients are heading for the place or stand there; without an oracle,
        of those in range.
      place: [K, 2] float32, the places, in grid units.
      own_place: [2] float32, the client's place.
      age: [N] float32, rounds since the client was last in range of each static client, or, with ``tell_met``, since
        the latest visit that it was told of; one more than all rounds if there was none; 0 for clients that move or are
        not known.
      ages: [N, N] float32, the same of each client; only an oracle knows those of others, which else are as if they
        had never met anybody.
      samples: [N] float32, samples of the static clients; 0 for the others.
      known: [N] bool, the static clients that the client knows.
      me: [] int32, the client's number.
      rank: [] int32, its number among the mobile clients.
      num_mobile: [] int32, M.
      round: [] int32, rounds moved so far.
      world: the grid world; to read more of it than is told here is to know more than is told here.
      unknown: [] float32, how many static clients the client does not know.
      ground: [L] int32, rounds since each grid point was in range of the client; `NEVER` if it never was. None unless
        the strategy explores.
      near: [N] -> [K], sums values of clients over the known static ones in range of each candidate.
      around: [L] -> [K], sums values of grid points over those in range of each candidate.
      difference: [N] float32, the distance between the client's own model and that of each static client that it knows,
        when it last heard that client (the norm of the difference of all parameters); `NEVER` if it never did. None
        unless the strategy compares.
      plan: what the strategy prepared; None if it prepares nothing.
      numbers: the numbers of the strategy.
    """

    valid: jax.Array
    here: jax.Array
    distance: jax.Array
    travel: jax.Array
    rivals: jax.Array
    place: jax.Array
    own_place: jax.Array
    age: jax.Array
    ages: jax.Array
    samples: jax.Array
    known: jax.Array
    me: jax.Array
    rank: jax.Array
    num_mobile: jax.Array
    round: jax.Array
    unknown: jax.Array
    ground: jax.Array | None
    world: GridWorld
    near: Callable[[jax.Array], jax.Array]
    around: Callable[[jax.Array], jax.Array]
    difference: jax.Array | None
    plan: Any
    numbers: Any


class Memory(NamedTuple):
    """The clients, and when each of them was last in range of each static client.

    Attributes:
      clients: the clients, as under every rule of the grid.
      round: [] int32, rounds moved so far.
      last: [N, N] int32, the round after whose movement client i was last in range of client j; `NEVER`.
      ties: data of the key that breaks ties among cluster centres; all clients share it.
      sites: the candidates, if they are the same for all clients and rounds.
      plan: what the strategy prepared for them.
      ground: [N, L] int32, the round after whose movement each grid point was last in range of each client; `NEVER`.
        None unless the strategy explores.
      differs: [N, N] float32, the distance of client i's model from that of static client j when i last heard it;
        `NEVER`. None unless the strategy compares.
    """

    clients: GridClient
    round: jax.Array
    last: jax.Array
    ties: jax.Array
    sites: Sites | None
    plan: Any
    ground: jax.Array | None = None
    differs: jax.Array | None = None


def best(key: jax.Array, score: jax.Array, sight: Sight) -> jax.Array:
    """Choose the candidate of the highest score, and not the client's own place unless there is no other.

    Args:
      key: typed key of the draw that breaks ties, uniformly.
      score: [K] scores.
      sight: what the client knows.

    Returns:
      [] int32, the index of the candidate.
    """
    others = sight.valid & ~sight.here
    score = jnp.where(others, score, -jnp.inf)
    first = jnp.where(others & (score == jnp.max(score)), jax.random.uniform(key, score.shape), -1.0)
    return jnp.where(jnp.any(others), jnp.argmax(first), jnp.argmax(sight.here)).astype(jnp.int32)


def drawn(key: jax.Array, weight: jax.Array, sight: Sight) -> jax.Array:
    """Draw a candidate with probability proportional to its weight; uniformly, if all weights are zero.

    Args:
      key: typed key of the draw.
      weight: [K] weights, at least 0.
      sight: what the client knows.

    Returns:
      [] int32, the index of the candidate.
    """
    weight = jnp.where(sight.valid, weight, 0.0)
    weight = jnp.where(jnp.any(weight > 0), weight, sight.valid)
    return jax.random.categorical(key, jnp.log(weight)).astype(jnp.int32)


def _sums_near(world: GridWorld, known: jax.Array, place: jax.Array, values: jax.Array) -> jax.Array:
    """Sum values [N, F] over the known static clients in range of places [K]: [K, F]."""
    values = jnp.where(known[:, None], values, 0.0)
    if is_dense(world.start.shape[0], world.grid.shape[0]):
        near = within(world.grid[place], world.grid[world.start], world.radius).astype(jnp.float32)
        return jnp.matmul(near, values, precision="highest")
    size = grid_size(world)
    return sums_in_range(summed_at(world.start, values, size), world.radius).reshape(size * size, -1)[place]


def _sums_around(world: GridWorld, values: jax.Array) -> jax.Array:
    """Sum values of grid points [L] over those in range of every grid point: [L]."""
    size = grid_size(world)
    return sums_in_range(values.reshape(size, size, 1), world.radius).reshape(-1)


def _rounds(way: jax.Array, max_step: jax.Array) -> jax.Array:
    """Return the fewest rounds for ways [K, 2]: steps may be shorter, since they end at grid points."""
    length = jnp.sqrt(jnp.sum(jnp.square(way), axis=1))
    steps = jnp.maximum(jnp.ceil(length / max_step * (1 - 1e-6)), 1.0)  # a step may be as long as sqrt(2), rounded
    return jnp.where(length > 0, steps, 0.0)


def look(
    world: GridWorld, memory: Memory, index: jax.Array, destination: jax.Array, sites: Sites, known: jax.Array
) -> Sight:
    """Return what a client knows, given the destinations [N] of all clients and the static clients [N] it knows."""
    clients, numbers = memory.clients, jnp.arange(world.start.shape[0])
    here, near = clients.location[index], partial(_sums_near, world, known)
    counts = world.label_counts.astype(jnp.float32)
    there = histograms(near(sites.place, counts), world.label_counts[index])
    own = histograms(near(here[None], counts), world.label_counts[index])[0]
    place, own_place = world.grid[sites.place], world.grid[here]
    away, oracle = distances(there, own), memory.sites is not None
    in_range = oracle | within(world.grid[clients.location], own_place[None], world.radius)[:, 0]
    others = world.is_mobile & (numbers != index) & in_range
    told = oracle | (numbers == index)  # an oracle tells what the others have seen
    ages = (memory.round - jnp.where(told[:, None], memory.last, NEVER)).astype(jnp.float32)
    ground = None if memory.ground is None else memory.ground[index]
    return Sight(
        valid=sites.valid,
        here=sites.place == here,
        distance=jnp.where(away > SMALLEST_DISTANCE, away, 0.0),
        travel=_rounds(place - own_place, world.max_step),
        rivals=jnp.sum((sites.place[:, None] == destination) & others, axis=1).astype(jnp.float32),
        place=place,
        own_place=own_place,
        age=jnp.where(known, ages[index], 0.0),
        ages=ages,
        samples=jnp.where(known, jnp.sum(counts, axis=1), 0.0),
        known=known,
        me=index,
        rank=jnp.cumsum(world.is_mobile)[index] - 1,
        num_mobile=jnp.sum(world.is_mobile),
        round=memory.round,
        unknown=jnp.sum(~world.is_mobile & ~known).astype(jnp.float32),
        ground=None if ground is None else jnp.where(ground == NEVER, NEVER, memory.round - ground),
        world=world,
        near=lambda values: near(sites.place, values[:, None])[:, 0],
        around=lambda values: _sums_around(world, values)[sites.place],
        difference=None if memory.differs is None else jnp.where(known, memory.differs[index], NEVER),
        plan=memory.plan,
        numbers=world.numbers,
    )
