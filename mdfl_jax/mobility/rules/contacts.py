"""Clients whose contacts a list gives (`mdfl_jax.mobility.trace`)."""

from mdfl_jax.mobility.registry import MOBILITIES
from mdfl_jax.mobility.rule import Mobility


@MOBILITIES.register("contacts", formula="links(r) = those of the list in round r; places do not matter")
def _contacts() -> Mobility:
    """Nobody moves, and a contact list gives the links of each round.

    The list is `SpatialParams.trace`, a `mdfl_jax.networks.contact.ContactList`.
    """
    return Mobility(
        init=lambda key, world: None,
        step=lambda key, world, state: state,
        position=lambda world, state: world.start,
        world="contacts",
        relays=False,
    )
