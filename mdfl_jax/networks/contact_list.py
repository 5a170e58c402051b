"""The network of a contact list: who met whom is known, where is not."""

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.errors import UserError
from mdfl_jax.mobility.trace import check_at_end, table_index
from mdfl_jax.networks.mixing import MIXINGS
from mdfl_jax.traces.types import ContactTable
from mdfl_jax.types import Clients, Links, Network, Places


def contact_network(table: ContactTable, mixing: str = "metropolis_hastings", at_end: str = "hold") -> Network:
    """Clients that hear each other as a list says, round by round.

    The links lie on the device once, as a constant of the compiled program, 8 bytes each. Places, for maps, are on the
    unit circle, and nobody moves. The network has no numbers to vary: ``hparams.network`` is not read.

    Args:
      table: of `mdfl_jax.traces.contact_table`.
      mixing: a name of `mdfl_jax.networks.mixing.MIXINGS`.
      at_end: what follows the table's last round: ``hold``, its links stay; ``repeat``, the list begins again.

    Raises:
      UserError: an unknown name; a table of no round.
    """
    check_at_end(at_end)
    num_clients, rounds = table.num_clients, len(table.offsets) - 1
    if rounds < 1:
        raise UserError("the contact list has no rounds")
    weigh = MIXINGS[mixing]
    most = max(int(np.diff(table.offsets).max()), 1)
    # A round's links are a slice of fixed length; what follows them in it is masked, and padding keeps it in range.
    padded = np.concatenate([table.edges, np.full((most, 2), num_clients, np.int32)])
    edges, offsets = jnp.asarray(padded, jnp.int32), jnp.asarray(table.offsets, jnp.int32)

    def adjacency_of(round_index: jax.Array) -> jax.Array:
        k = table_index(round_index, rounds, at_end)
        pair = jax.lax.dynamic_slice(edges, (offsets[k], jnp.int32(0)), (most, 2))
        mine = jnp.arange(most) < offsets[k + 1] - offsets[k]
        receiver = jnp.where(mine, pair[:, 0], num_clients)  # an index out of range, which the scatter drops
        return jnp.zeros((num_clients, num_clients), bool).at[receiver, pair[:, 1]].set(True, mode="drop")

    def init(params: object, key: jax.Array, clients: Clients) -> Places:
        del params, key, clients
        angle = 2 * jnp.pi * jnp.arange(num_clients) / num_clients
        circle = jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1).astype(jnp.float32)
        return Places(circle, jnp.zeros(num_clients), jnp.zeros(num_clients, bool))

    def step(
        params: object, key: jax.Array, round_index: jax.Array, state: Places, clients: Clients
    ) -> tuple[Places, Links]:
        del params, key
        adjacency = adjacency_of(round_index)
        return state, Links(adjacency, weigh(adjacency, clients.num_samples))

    return Network(
        num_clients=num_clients,
        gives=frozenset({"adjacency", "mix"}),
        init=init,
        step=step,
        places=lambda state: state,
    )
