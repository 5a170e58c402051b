"""The network of clients that follow a trace: who is there and in range hears each other."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.mobility.trace import trace_mobility
from mdfl_jax.networks.contact import disc
from mdfl_jax.networks.mixing import MIXINGS
from mdfl_jax.traces.types import TraceTable
from mdfl_jax.types import Clients, Links, Network, Places


class TraceParams(NamedTuple):
    """Traced numbers of a trace network.

    Attributes:
      radius: metres within which two clients are in contact; ``inf`` connects all that are there.
    """

    radius: Any = 100.0


class TraceState(NamedTuple):
    """The world between two rounds.

    Attributes:
      places: where the clients are, or were last seen; distances count where a client is there at both ends of a round.
      present: [N] bool, who is there.
    """

    places: Places
    present: jax.Array


def trace_network(
    table: TraceTable, mixing: str = "metropolis_hastings", at_end: str = "hold", substeps: int = 1
) -> Network:
    """Clients that move as a trace says and hear each other within a disc; the absent hear nobody and are not heard.

    Args:
      table: of `mdfl_jax.traces.resample`.
      mixing: a name of `mdfl_jax.networks.mixing.MIXINGS`.
      at_end: what follows the table's last round, see `mdfl_jax.mobility.trace.trace_mobility`.
      substeps: rows of the table a round; distances are measured along them.

    Raises:
      UserError: an unknown name; a table that does not fit.
    """
    move = trace_mobility(table, at_end, substeps)
    weigh = MIXINGS[mixing]

    def init(params: TraceParams, key: jax.Array, clients: Clients) -> TraceState:
        del params, key, clients
        start = jnp.int32(0)
        places = Places(move.position(start), jnp.zeros(move.num_clients), jnp.asarray(move.is_mobile))
        return TraceState(places, move.present(start))

    def step(
        params: TraceParams, key: jax.Array, round_index: jax.Array, state: TraceState, clients: Clients
    ) -> tuple[TraceState, Links]:
        del key
        there = state.present
        adjacency = disc(state.places.position, params.radius) & there[:, None] & there[None, :]
        links = Links(adjacency, weigh(adjacency, clients.num_samples))
        _, points = move.path(round_index)
        moved = jnp.sum(jnp.sqrt(jnp.sum(jnp.square(jnp.diff(points, axis=1)), axis=-1)), axis=-1)
        after = round_index + 1
        places = state.places._replace(
            position=move.position(after), distance_moved=state.places.distance_moved + moved
        )
        return TraceState(places, move.present(after)), links

    return Network(
        num_clients=move.num_clients,
        gives=frozenset({"adjacency", "mix"}),
        init=init,
        step=step,
        places=lambda state: state.places,
    )
