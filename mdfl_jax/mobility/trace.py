"""The worlds of files: a trace's table gives the places of the clients; a contact list says who meets whom, not where.

The table, made by `mdfl_jax.traces.resample`, is an argument of the compiled program (`SpatialParams.trace`) and not a
constant in it. Sweep points with different traces, or with different choices from one trace, therefore share the
program. Each run has its own copy of the table, which takes N x (8 substeps + 2) bytes per round.

The clients of a contact list are drawn on the unit circle of maps.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.mobility.plane import PlaneWorld
from mdfl_jax.traces.trace import TraceTable

AT_END = ("hold", "repeat")


class Tracks(NamedTuple):
    """A table of places, arranged by rounds: R rounds and the end of the last one.

    Attributes:
      position: [R + 1, substeps, N, 2] float32 places in metres, at the beginning of each round and at the
        ``substeps`` - 1 equally spaced times after it. The last row repeats the places where round R - 1 ends.
      present: [R + 1, N] bool, true for clients that are present when a round begins.
      goes: [R + 1, N] bool, true where a client's path in the round is known. Else the client stands still in the round
        and jumps to its next place at the end.
      rounds: [] int32, how many rounds the trace lasts, at most R. ``repeats`` says what follows.
      repeats: [] bool, true where the trace then begins again. Else all clients stay where the trace ends.
      height: [R + 1, N] float32 heights in metres when a round begins, NaN where nothing says them; None: there are
        none, or nobody reads them.
    """

    position: Any
    present: Any
    goes: Any
    rounds: Any
    repeats: Any
    height: Any = None


def check_at_end(at_end: str) -> None:
    """Check the name of the rule for the end of a table.

    Raises:
      UserError: for a name that is not in `AT_END`.
    """
    if at_end not in AT_END:
        raise UserError(unknown_name("rule for the end of a trace", at_end, AT_END))


def table_row(round_index: jax.Array, rounds: Any, repeats: Any) -> jax.Array:
    """Find the row of a table at which a round begins. The round may come after the end of the table.

    Args:
      round_index: [] int32 index of the round.
      rounds: how many rounds the table lasts.
      repeats: whether the table then begins again. Else its last row, with index ``rounds``, is kept.

    Returns:
      [] int32 index of the row.

    >>> [int(table_row(jnp.int32(r), 3, False)) for r in (2, 3, 5)], [int(table_row(r, 3, True)) for r in (2, 3, 5)]
    ([2, 3, 3], [2, 0, 2])
    """
    return jnp.where(repeats, jnp.mod(round_index, rounds), jnp.minimum(round_index, rounds))


def tracks(table: TraceTable, at_end: str = "hold", substeps: int = 1, rounds: int = 0) -> Tracks:
    """Arrange a table by rounds, as NumPy arrays. This is the data of the rule ``trace``.

    Args:
      table: the places, in ``substeps`` rows per round and one last row where the last round ends.
      at_end: what follows the last round. ``hold``: all clients stay where they are then. ``repeat``: the trace begins
        again; the jump back to its start takes no time, so that round R begins as round 0 began.
      substeps: rows of the table per round. The path of a round has this many straight pieces.
      rounds: the table is padded to this many rounds, so that all tables of a study have one shape. 0 pads nothing.

    Returns:
      The table by rounds.

    Raises:
      UserError: for an unknown ``at_end``, ``substeps`` that do not divide the rows, or a table without rounds.
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
    height = None if table.height is None else np.asarray(table.height, np.float32)[begins]
    return Tracks(position, present[begins], goes, np.int32(own), np.bool_(at_end == "repeat"), height)


def no_tracks(num_clients: int, substeps: int, rounds: int) -> Tracks:
    """Make tracks of zeros, for sweep points without a trace that share a program with points that follow one.

    Args:
      num_clients: N.
      substeps: rows per round, as in the other tracks.
      rounds: R, as in the other tracks.
    """
    empty = np.zeros((substeps * rounds + 1, num_clients, 2), np.float32)
    return tracks(TraceTable(empty, np.ones(empty.shape[:2], bool), 0.0, 1.0), "hold", substeps)


def of_one_form(found: Sequence[Any]) -> list[Any]:
    """Return the data of the points of a program: if some tracks have heights, the others get those of NaN."""
    if all(getattr(one, "height", None) is None for one in found):
        return list(found)
    unknown = [np.full(one.present.shape, np.nan, np.float32) for one in found]
    return [one._replace(height=own) if one.height is None else one for one, own in zip(found, unknown)]


def tracks_of(world: PlaneWorld) -> Tracks:
    """Return the table of a world in which a trace moves clients.

    Raises:
      UserError: if the network has been given none.
    """
    if world.trace is None:
        raise UserError("the world trace needs places: give SpatialParams.trace, see mdfl_jax.mobility.trace.tracks")
    return jax.tree.map(jnp.asarray, world.trace)


class ListWorld(NamedTuple):
    """The world of clients whose contacts are given by a list.

    Attributes:
      start: [N, 2] places of the clients on the unit circle.
      is_mobile: [N] bool, all false.
    """

    start: jax.Array
    is_mobile: jax.Array


def on_circle(num_clients: int) -> ListWorld:
    """Place ``num_clients`` clients at equal distances on the unit circle, counterclockwise from east."""
    angle = 2 * jnp.pi * jnp.arange(num_clients) / num_clients
    return ListWorld(jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1), jnp.zeros(num_clients, bool))
