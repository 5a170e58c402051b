"""The network of clients in space: mobility, contact and mixing (MADFL II, DADFL III and IV)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.mobility.grid import GridWorld, Mobility, grid_points
from mdfl_jax.mobility.registry import MOBILITIES
from mdfl_jax.networks.contact import disc
from mdfl_jax.networks.mixing import MIXINGS
from mdfl_jax.rng import stream, stream_at
from mdfl_jax.types import Clients, Links, Network, Places


class SpatialParams(NamedTuple):
    """Traced numbers of a spatial network.

    Attributes:
      num_mobile: how many clients move, M; they are the first M.
      radius: communication radius Rc, in grid units; ``inf`` connects everybody.
      max_step: largest distance moved in a round, Rm; ``inf`` is unconstrained.
      pattern: which of the network's mobility rules moves them.
    """

    num_mobile: Any = 5
    radius: Any = 3.0
    max_step: Any = 5.0
    pattern: Any = 0


class SpatialState(NamedTuple):
    """The world between two rounds.

    Attributes:
      world: what the mobility rules know.
      rules: the state of each mobility rule; the one in use moves, the others stand by.
      places: where the clients are, and how far they have moved.
    """

    world: GridWorld
    rules: tuple[Any, ...]
    places: Places


def spatial(
    num_clients: int,
    grid_size: int = 18,
    mobility: Sequence[str] = ("random_movement",),
    mixing: str = "metropolis_hastings",
) -> Network:
    """Clients on a G x G grid that hear each other within a disc.

    Several mobility rules make ONE program: ``hparams.network.pattern`` says which of them moves a run.

    Args:
      num_clients: N >= 1.
      grid_size: G >= 1.
      mobility: names of `mdfl_jax.mobility.MOBILITIES`.
      mixing: a name of `mdfl_jax.networks.mixing.MIXINGS`.

    Raises:
      UserError: for an unknown name.
    """
    rules: list[Mobility] = [MOBILITIES[name]() for name in mobility]
    weigh = MIXINGS[mixing]

    def init(params: SpatialParams, key: jax.Array, clients: Clients) -> SpatialState:
        grid = grid_points(grid_size)
        key_start, key_plan = jax.random.split(stream(key, "placement"))
        start = jax.random.randint(key_start, (num_clients,), 0, grid.shape[0], jnp.int32)
        world = GridWorld(
            grid=grid,
            start=start,
            is_mobile=jnp.arange(num_clients) < params.num_mobile,
            label_counts=clients.label_counts,
            radius=jnp.asarray(params.radius, jnp.float32),
            max_step=jnp.asarray(params.max_step, jnp.float32),
        )
        states = tuple(rule.init(key_plan, world) for rule in rules)
        return SpatialState(world, states, Places(grid[start], jnp.zeros(num_clients), world.is_mobile))

    def move(params: SpatialParams, key: jax.Array, state: SpatialState) -> SpatialState:
        def use(k: int) -> Any:
            def step(states: tuple[Any, ...]) -> tuple[tuple[Any, ...], jax.Array]:
                moved = rules[k].step(key, state.world, states[k])
                return (*states[:k], moved, *states[k + 1 :]), rules[k].position(state.world, moved)

            return step

        states, position = jax.lax.switch(params.pattern, [use(k) for k in range(len(rules))], state.rules)
        moved = jnp.sqrt(jnp.sum(jnp.square(position - state.places.position), axis=-1))
        places = state.places._replace(position=position, distance_moved=state.places.distance_moved + moved)
        return state._replace(rules=states, places=places)

    def step(
        params: SpatialParams, key: jax.Array, round_index: jax.Array, state: SpatialState, clients: Clients
    ) -> tuple[SpatialState, Links]:
        adjacency = disc(state.places.position, state.world.radius)
        links = Links(adjacency, weigh(adjacency, clients.num_samples))
        return move(params, stream_at(key, "mobility", round_index), state), links

    return Network(
        num_clients=num_clients,
        gives=frozenset({"adjacency", "mix"}),
        init=init,
        step=step,
        places=lambda state: state.places,
    )
