"""Movement along a trace (`mdfl_jax.mobility.trace`)."""

import jax
import jax.numpy as jnp

from mdfl_jax.mobility.plane import PlaneWorld
from mdfl_jax.mobility.registry import MOBILITIES
from mdfl_jax.mobility.rule import Mobility, Path, Presence
from mdfl_jax.mobility.trace import table_row, tracks_of


def _path(world: PlaneWorld, moved: jax.Array) -> Path:
    """Return the paths of the last of ``moved`` rounds, straight between the places of the table."""
    table = tracks_of(world)
    row = table_row(jnp.maximum(moved - 1, 0), table.rounds, table.repeats)
    after = jnp.minimum(row + 1, table.rounds)
    places = jnp.concatenate([table.position[row], table.position[after, :1]])
    places = jnp.where(table.goes[row][:, None], places, places[0])
    times = jnp.broadcast_to(jnp.linspace(0.0, 1.0, len(places)), (places.shape[1], len(places)))
    return Path(times, jnp.swapaxes(places, 0, 1))


@MOBILITIES.register("trace", formula="place(r) = that of the trace at the time r dt, straight between its samples")
def trace() -> Mobility:
    """All clients move as a trace says. The state of this rule is the number of rounds moved so far."""

    def now(world: PlaneWorld, moved: jax.Array) -> jax.Array:
        table = tracks_of(world)
        return table_row(moved, table.rounds, table.repeats)

    def presence(world: PlaneWorld, moved: jax.Array) -> Presence:
        table = tracks_of(world)
        before = table_row(jnp.maximum(moved - 1, 0), table.rounds, table.repeats)
        after = jnp.minimum(before + 1, table.rounds)
        return Presence(table.present[now(world, moved)], table.present[before] & table.present[after])

    def is_mobile(world: PlaneWorld) -> jax.Array:
        places = tracks_of(world).position
        return jnp.any(places != places[0, 0], axis=(0, 1, 3))

    return Mobility(
        init=lambda key, world: jnp.int32(0),
        step=lambda key, world, moved: moved + 1,
        position=lambda world, moved: tracks_of(world).position[now(world, moved), 0],
        world="trace",
        path=_path,
        presence=presence,
        is_mobile=is_mobile,
        height=lambda world, moved: tracks_of(world).height[now(world, moved)],
        relays=False,
    )
