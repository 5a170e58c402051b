"""Movement along a trace: the clients are where a table, made by `mdfl_jax.traces.resample`, says.

The table is an argument of the compiled program (`SpatialParams.trace`) and not a constant in it, so that points with
other traces, or other choices from one, share the program; each run has a copy, N x (8 substeps + 2) bytes a round.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.errors import UserError, unknown_name
from mdfl_jax.mobility.plane import PlaneWorld
from mdfl_jax.mobility.registry import MOBILITIES
from mdfl_jax.mobility.rule import Mobility, Path, Presence
from mdfl_jax.traces.types import TraceTable

AT_END = ("hold", "repeat")


class Tracks(NamedTuple):
    """A table of places laid out by rounds, of R rounds and what follows them.

    Attributes:
      position: [R + 1, substeps, N, 2] float32 metres: where the clients are when a round begins, and at the
        ``substeps`` - 1 even steps after that. The last row, where round R - 1 ends, is one place.
      present: [R + 1, N] bool, who is there when a round begins.
      goes: [R + 1, N] bool, whose way in the round is known; the others stand, and leap at its end.
      rounds: [] int32, rounds that the trace lasts, at most R; ``repeats`` says what follows.
      repeats: [] bool: the trace begins again, else everybody stays where it ends.
    """

    position: Any
    present: Any
    goes: Any
    rounds: Any
    repeats: Any


def check_at_end(at_end: str) -> None:
    """Refuses an unknown rule for the end of a table.

    Raises:
      UserError: one that is not in `AT_END`.
    """
    if at_end not in AT_END:
        raise UserError(unknown_name("rule for the end of a trace", at_end, AT_END))


def table_row(round_index: jax.Array, rounds: Any, repeats: Any) -> jax.Array:
    """The row of a table in which a round begins, where a study may be longer than the table's rounds.

    >>> [int(table_row(jnp.int32(r), 3, False)) for r in (2, 3, 5)], [int(table_row(r, 3, True)) for r in (2, 3, 5)]
    ([2, 3, 3], [2, 0, 2])
    """
    return jnp.where(repeats, jnp.mod(round_index, rounds), jnp.minimum(round_index, rounds))


def tracks(table: TraceTable, at_end: str = "hold", substeps: int = 1, rounds: int = 0) -> Tracks:
    """The data of the rule ``trace``, as NumPy arrays.

    Args:
      table: places at the beginnings of rounds and after the last, or of ``substeps`` rows a round.
      at_end: what follows the last round: ``hold``, everybody stays as after it; ``repeat``, the trace begins again,
        and the leap back to its start takes no time (what round R begins with is what round 0 began with).
      substeps: rows of the table a round; the path of a round has that many straight pieces.
      rounds: rows are filled up to so many rounds, so that tables of one study have one shape; 0: the table's.

    Raises:
      UserError: an unknown rule; substeps that do not divide the table; a table of no round.
    """
    check_at_end(at_end)
    rows, num_clients = table.present.shape
    if substeps < 1 or rows < 2 or (rows - 1) % substeps:
        raise UserError(f"substeps is {substeps}; it must divide the {rows - 1} rows of the table after its first")
    own = (rows - 1) // substeps
    rounds = max(rounds, own)
    filled = np.minimum(np.arange((rounds + 1) * substeps), rows - 1)
    position = np.asarray(table.position, np.float32)[filled].reshape(rounds + 1, substeps, num_clients, 2)
    present = np.asarray(table.present, bool)
    known = present[1:] & present[:-1] if table.goes is None else np.asarray(table.goes, bool)
    goes = np.zeros((rounds + 1, num_clients), bool)
    goes[:own] = known.reshape(own, substeps, num_clients).all(axis=1)
    begins = np.minimum(np.arange(rounds + 1), own) * substeps
    return Tracks(position, present[begins], goes, np.int32(own), np.bool_(at_end == "repeat"))


def no_tracks(num_clients: int, substeps: int, rounds: int) -> Tracks:
    """Tracks of one shape with others, for points of their program that follow no trace."""
    empty = np.zeros((substeps * rounds + 1, num_clients, 2), np.float32)
    return tracks(TraceTable(empty, np.ones(empty.shape[:2], bool), 0.0, 1.0), "hold", substeps)


def _tracks_of(world: PlaneWorld) -> Tracks:
    if world.trace is None:
        raise UserError("the mobility rule trace needs places: give SpatialParams.trace, see mobility.trace.tracks")
    return Tracks(*map(jnp.asarray, world.trace))


def _path(world: PlaneWorld, moved: jax.Array) -> Path:
    """The way of the last of some rounds, straight between the places of the table."""
    table = _tracks_of(world)
    row = table_row(jnp.maximum(moved - 1, 0), table.rounds, table.repeats)
    after = jnp.minimum(row + 1, table.rounds)
    places = jnp.concatenate([table.position[row], table.position[after, :1]])
    places = jnp.where(table.goes[row][:, None], places, places[0])
    times = jnp.broadcast_to(jnp.linspace(0.0, 1.0, len(places)), (places.shape[1], len(places)))
    return Path(times, jnp.swapaxes(places, 0, 1))


@MOBILITIES.register("trace")
def trace() -> Mobility:
    """All clients go as a trace says. Its state is how many rounds have been moved."""

    def now(world: PlaneWorld, moved: jax.Array) -> jax.Array:
        table = _tracks_of(world)
        return table_row(moved, table.rounds, table.repeats)

    def presence(world: PlaneWorld, moved: jax.Array) -> Presence:
        table = _tracks_of(world)
        before = table_row(jnp.maximum(moved - 1, 0), table.rounds, table.repeats)
        after = jnp.minimum(before + 1, table.rounds)
        return Presence(table.present[now(world, moved)], table.present[before] & table.present[after])

    def is_mobile(world: PlaneWorld) -> jax.Array:
        places = _tracks_of(world).position
        return jnp.any(places != places[0, 0], axis=(0, 1, 3))

    return Mobility(
        init=lambda key, world: jnp.int32(0),
        step=lambda key, world, moved: moved + 1,
        position=lambda world, moved: _tracks_of(world).position[now(world, moved), 0],
        world="plane",
        path=_path,
        presence=presence,
        is_mobile=is_mobile,
    )


@MOBILITIES.register("static_trace")
def static_trace() -> Mobility:
    """Clients that stay where the trace has them first; who is ever there is there always."""

    def presence(world: PlaneWorld, state: None) -> Presence:
        ever = jnp.any(_tracks_of(world).present, axis=0)
        return Presence(ever, ever)

    return Mobility(
        init=lambda key, world: None,
        step=lambda key, world, state: state,
        position=lambda world, state: _tracks_of(world).position[0, 0],
        world="plane",
        presence=presence,
        is_mobile=lambda world: jnp.zeros_like(world.is_mobile),
    )
