"""Clients that stay where they are: the reference of MADFL II-C."""

import jax
import jax.numpy as jnp

from mdfl_jax.mobility.grid import GridClient, GridWorld, always_settled, grid_mobility
from mdfl_jax.mobility.plane import PlaneClient, PlaneWorld, plane_mobility
from mdfl_jax.mobility.registry import MOBILITIES
from mdfl_jax.mobility.rule import Form, Mobility, Presence
from mdfl_jax.mobility.trace import tracks_of


def on_grid() -> Mobility:
    """Nobody moves on the grid, not even the mobile clients."""

    def move(key: jax.Array, client: GridClient, world: GridWorld, plan: None) -> GridClient:
        del key, world, plan
        return client

    nobody = grid_mobility(move, quick=always_settled(move))
    return nobody._replace(destination=None, still=True)  # nobody is heading anywhere


def _in_plane() -> Mobility:
    """Nobody moves in the plane, where all clients have uniform places."""

    def turn(key: jax.Array, client: PlaneClient, world: PlaneWorld, plan: None) -> PlaneClient:
        del key, world, plan
        return client

    return plane_mobility(turn, each_round=True, max_events=1)._replace(still=True)


def in_trace() -> Mobility:
    """All clients stay at their first place in the trace's table. A client that is ever present is always present."""

    def presence(world: PlaneWorld, state: None) -> Presence:
        ever = jnp.any(tracks_of(world).present, axis=0)
        return Presence(ever, ever)

    return Mobility(
        init=lambda key, world: None,
        step=lambda key, world, state: state,
        position=lambda world, state: tracks_of(world).position[0, 0],
        world="trace",
        presence=presence,
        is_mobile=lambda world: jnp.zeros_like(world.is_mobile),
        height=lambda world, state: tracks_of(world).height[0],
        still=True,
        relays=False,
    )


MOBILITIES.register_forms(
    "static",
    [Form(on_grid, "grid"), Form(_in_plane, "plane"), Form(in_trace, "trace")],
    "Nobody moves, not even the mobile clients. With a trace all stay at their first place in it.",
    formula="place+ = place",
    cite="madfl: II-C",
)
