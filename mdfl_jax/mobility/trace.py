"""Movement along a trace: places, presence and paths by round, of a table made by `mdfl_jax.traces.resample`."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.errors import UserError, unknown_name
from mdfl_jax.traces.types import TraceTable

AT_END = ("hold", "repeat")


class TraceMobility(NamedTuple):
    """Where the clients are, as pure functions of the round [] int32, counted from 0.

    Attributes:
      num_clients: N.
      rounds: R rounds of the table.
      is_mobile: [N] bool, who ever moves.
      position: (round) -> [N, 2] float32 places when the round begins, in metres.
      present: (round) -> [N] bool, who is there then.
      path: (round) -> (times [N, K], points [N, K, 2]), the way during the round: straight between the points, at times
        from 0 to 1. A client that is absent when the round begins or ends has its place at the beginning throughout.
    """

    num_clients: int
    rounds: int
    is_mobile: np.ndarray
    position: Callable[[jax.Array], jax.Array]
    present: Callable[[jax.Array], jax.Array]
    path: Callable[[jax.Array], tuple[jax.Array, jax.Array]]


def table_index(round_index: jax.Array, length: int, at_end: str) -> jax.Array:
    """The row of a table of a round, where the study is longer than the table.

    ``hold`` stays at the last row, ``repeat`` begins again with the first.

    >>> [int(table_index(jnp.int32(5), 3, rule)) for rule in AT_END]
    [2, 2]
    >>> [int(table_index(jnp.int32(6), 3, rule)) for rule in AT_END]
    [2, 0]
    """
    return jnp.minimum(round_index, length - 1) if at_end == "hold" else jnp.mod(round_index, length)


def check_at_end(at_end: str) -> None:
    """Refuses an unknown rule for the end of a table.

    Raises:
      UserError: one that is not in `AT_END`.
    """
    if at_end not in AT_END:
        raise UserError(unknown_name("rule for the end of a trace", at_end, AT_END))


def trace_mobility(table: TraceTable, at_end: str = "hold", substeps: int = 1) -> TraceMobility:
    """The movement of a table of places.

    The table lies on the device once, as a constant of the compiled program, R x N x 9 bytes.

    Args:
      table: places at the beginnings of R rounds and after the last, or of R x ``substeps`` rows of dt / substeps each.
      at_end: what follows the last round: ``hold``, everybody stays as after it; ``repeat``, the trace begins again,
        and the leap back to its start takes no time (what round R begins with is what round 0 began with).
      substeps: rows of the table a round; with several the path of a round has that many straight pieces.

    Raises:
      UserError: an unknown rule; substeps that do not divide the table; a table of no round.
    """
    check_at_end(at_end)
    rows, num_clients = table.present.shape
    if substeps < 1 or rows < 2 or (rows - 1) % substeps:
        raise UserError(f"substeps is {substeps}; it must divide the {rows - 1} rows of the table after its first")
    rounds = (rows - 1) // substeps
    position, present = jnp.asarray(table.position, jnp.float32), jnp.asarray(table.present, bool)
    is_mobile = np.asarray((table.position != table.position[:1]).any(axis=(0, 2)))
    # Held, the last row is a round of its own; repeated, it is only where the last round's path ends.
    num_begins = rounds + 1 if at_end == "hold" else rounds

    def begin(round_index: jax.Array) -> jax.Array:
        return substeps * table_index(round_index, num_begins, at_end)

    def path(round_index: jax.Array) -> tuple[jax.Array, jax.Array]:
        index = jnp.minimum(begin(round_index) + jnp.arange(substeps + 1), rows - 1)
        there = present[index[0]] & present[index[-1]]
        points = jnp.where(there[None, :, None], position[index], position[index[0]])
        times = jnp.broadcast_to(jnp.linspace(0.0, 1.0, substeps + 1), (num_clients, substeps + 1))
        return times, jnp.swapaxes(points, 0, 1)

    return TraceMobility(
        num_clients=num_clients,
        rounds=rounds,
        is_mobile=is_mobile,
        position=lambda round_index: position[begin(round_index)],
        present=lambda round_index: present[begin(round_index)],
        path=path,
    )
