"""A network whose clients live on batteries: what a client uses it must have, and an empty client stands still.

The joules are those that `mdfl_jax.networks.costs` counts, so batteries have no costs of their own. A client begins a
round if it has energy left, and a round that it begins it also ends. So its last round may take the battery below zero,
by less than what the round takes, and it is silent until harvest has paid this back. Energy is conserved:

    left = start + harvested - used, for each client, after every round.
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.metric import CURVE, HOLDS, TABLE, Metric
from mdfl_jax.core.numbers import of_fixed_types
from mdfl_jax.core.rng import number_of, stream
from mdfl_jax.core.section import Built, Rule, Section, field, section
from mdfl_jax.core.totals import Total, add, no_total
from mdfl_jax.core.types import FIXED, Clients, Links, Network, Observed
from mdfl_jax.exchange.active import leave_out
from mdfl_jax.mobility.area import check_inside, parse_places
from mdfl_jax.mobility.registry import world_in
from mdfl_jax.networks.costs import varies_costs
from mdfl_jax.networks.spatial import PRESENT
from mdfl_jax.networks.wrappers.roadside import at_units
from mdfl_jax.networks.wrappers.wrapper import wrap

_OWN = number_of("battery")  # folded into the key, since the costs draw from the same stream
_of_chargers = partial(field, part="chargers")


class BatteryParams(NamedTuple):
    """Traced numbers of a network with batteries. Energy is in joules.

    Attributes:
      inner: the numbers of the network.
      capacity: the mean capacity of a battery.
      spread: capacities are drawn in [1 - spread, 1 + spread] times the mean, once for a seed.
      start: the charge before the first round, as a share of the capacity.
      harvest: the energy that each client gathers in a round, wherever it is.
      chargers: [U, 2] places of chargers, in the unit of length of the world; None: there are none.
      charger_range: the distance from a charger within which a client charges.
      charge: the energy that a client gets in a round at whose end it is there.
    """

    inner: Any
    capacity: Any
    spread: Any = 0.0
    start: Any = 1.0
    harvest: Any = 0.0
    chargers: Any = None
    charger_range: Any = 0.0
    charge: Any = 0.0


class BatteryState(NamedTuple):
    """The state of a network with batteries.

    Attributes:
      inner: the state of the inner network.
      capacity: [N] joules that each battery holds.
      harvested: [N] joules that each client has gathered since the start.
      left: [N] float32, the joules in the battery. A client with none takes no part in the coming round.
    """

    inner: Any
    capacity: jax.Array
    harvested: Total
    left: jax.Array


def powered(network: Network) -> Network:
    """Make a network whose clients have batteries. ``hparams.network`` becomes a `BatteryParams`.

    A client without energy has no links, takes no part in the round (`Links.active`), and stands still
    (`NetworkHooks.hold`), unless a trace or a contact list moves it. It goes on charging. Links are no longer the same
    in every round, so the promise FIXED is gone.

    Args:
      network: the inner network. Somewhere around the result there must be `mdfl_jax.networks.costs.counted`, which
        says what a round has used.
    """
    hold = network.hooks.hold or (lambda state, stands: state)

    def init(params: BatteryParams, key: jax.Array, clients: Clients) -> BatteryState:
        drawn = jax.random.uniform(jax.random.fold_in(stream(key, "cost"), _OWN), (network.num_clients,), minval=-1)
        capacity = params.capacity * (1 + params.spread * drawn)
        left, inner = params.start * capacity, network.init(params.inner, key, clients)
        return BatteryState(hold(inner, left <= 0), capacity, no_total(network.num_clients), left)

    def there(state: BatteryState) -> jax.Array:
        alive = state.left > 0
        return alive & network.hooks.there(state.inner) if network.hooks.there else alive

    def step(
        params: BatteryParams, key: jax.Array, round_index: jax.Array, state: BatteryState, clients: Clients
    ) -> tuple[BatteryState, Links]:
        inner, links = network.step(params.inner, key, round_index, state.inner, clients)
        return state._replace(inner=inner), leave_out(links, state.left <= 0)

    own = (PRESENT, SURVIVORS, ENERGY_LEFT, HARVESTED)
    inner = network._replace(metrics=tuple(metric for metric in network.metrics if metric is not PRESENT))
    passed = wrap(inner, init=init, step=step, there=there, gives=network.gives - {FIXED}, metrics=own)

    def observe(params: BatteryParams, state: BatteryState, seen: Observed) -> BatteryState:
        if seen.joules is None:
            raise UserError("a network with batteries needs counted costs around it (networks.costs.counted)")
        state = passed.hooks.observe(params, state, seen) if passed.hooks.observe else state
        start = params.start * state.capacity
        due = start + state.harvested.value - seen.joules
        gathered = jnp.broadcast_to(params.harvest, due.shape)
        if params.chargers is not None:
            here = at_units(passed.places(state).position, params.chargers, params.charger_range)
            gathered = gathered + jnp.where(here, params.charge, 0)
        harvested = add(state.harvested, jnp.clip(gathered, 0, jnp.maximum(state.capacity - due, 0)))
        left = start + harvested.value - seen.joules
        return state._replace(inner=hold(state.inner, left <= 0), harvested=harvested, left=left)

    return passed._replace(hooks=passed.hooks._replace(observe=observe))


@section("energy", order=20, switch="capacity")
@dataclass(frozen=True)
class EnergyConfig(Section):
    """Batteries, from which clients take the joules that the section cost counts. Who has none left is silent."""

    capacity: float = field(
        0.0, "joules that a client's battery holds; 0: energy never ends", at_least=0, finite=True, traced=True
    )
    spread: float = field(
        0.0, "capacities are drawn in [1 - spread, 1 + spread] times the capacity", at_least=0, below=1, traced=True
    )
    start: float = field(
        1.0, "charge before the first round, as a share of the capacity", above=0, at_most=1, traced=True
    )
    harvest: float = field(
        0.0, "joules that each client gathers in a round, up to its capacity", at_least=0, finite=True, traced=True
    )
    chargers: str = field("", "places of chargers 'x,y; x,y; ...' in the world's unit; empty: none")
    charger_range: float = _of_chargers(
        0.0, "distance within which clients are at a charger", at_least=0, finite=True, traced=True
    )
    charge: float = _of_chargers(
        0.0,
        "joules that a client gets in a round that it ends at a charger",
        at_least=0,
        finite=True,
        traced=True,
    )

    def in_use(self, whole: Any) -> bool:
        """Tell whether the clients' energy may end."""
        return self.capacity > 0

    def counts(self, whole: Any) -> bool:
        """Tell whether there are batteries: they need the joules."""
        return self.capacity > 0

    def rules(self, whole: Any) -> Iterator[Rule]:
        """Yield the rules: nobody misses meetings, chargers are somewhere, and who has no energy stands still."""
        network, pattern = whole.network, whole.server.pattern
        if not self.capacity:
            return
        misses = f"0 with server.pattern {pattern}: who has no energy would miss meetings that the pattern has"
        yield "energy.capacity", pattern, misses
        nowhere = f"network.graph {network.graph}" if network.graph else ""
        world = "" if nowhere else world_in(whole)
        nowhere = f"network.mobility {network.mobility}" if world == "contacts" else nowhere
        yield "energy.chargers", self.chargers and nowhere, f"empty with {nowhere}, which knows no places"
        goes_on = "0 with energy.capacity and a trace, which moves clients whether they have energy or not"
        yield "cost.joules_per_metre", world == "trace" and whole.cost.joules_per_metre > 0, goes_on
        if self.chargers:
            check_inside(whole, "energy.chargers", parse_places(self.chargers, "energy.chargers"))

    def ignored(self, whole: Any) -> Iterator[Rule]:
        """Yield batteries that nothing empties, chargers that give nothing, and what describes chargers if none is."""
        uses = any(value > 0 for name, value in vars(whole.cost).items() if name.startswith("joules"))
        unused = "nothing takes energy, since all cost.joules_per_... are 0"
        yield "energy.capacity", not uses and not varies_costs(whole), unused
        charges = not self.capacity or self.charge or "energy.charge" in whole.sweep
        yield "energy.chargers", not charges, "energy.charge is 0"
        yield "chargers", not self.chargers, "energy.chargers is empty"

    def describe(self, whole: Any) -> str:
        """Return the capacity."""
        return f"energy.capacity={self.capacity:g}"

    def wrap(self, network: Network, whole: Any, built: Built) -> Network:
        """Return the network with batteries."""
        return powered(network)

    def params(self, inner: Any, whole: Any, cost: Any) -> BatteryParams:
        """Return the numbers of the batteries."""
        numbers = dataclasses.asdict(self)
        places = parse_places(self.chargers, "energy.chargers") if self.chargers else None
        numbers["chargers"] = None if places is None else np.array(places, np.float32)
        return of_fixed_types(BatteryParams(inner, **numbers))


SURVIVORS = Metric(
    "survivors",
    lambda at: jnp.mean((at.network_state.left > 0).astype(jnp.float32)),
    HOLDS,
    shape=(),
    label="clients with energy (%)",
    scale=0.01,
    shown={TABLE, CURVE},
)
"""[] float32, the share of the clients that have energy for the coming round."""
ENERGY_LEFT = Metric(
    "energy_left", lambda at: at.network_state.left, HOLDS, unit="J", label="energy left (J)", shown={TABLE, CURVE}
)
"""[N] float32, the joules in each client's battery; below zero where a last round took more than there was."""
HARVESTED = Metric("harvested", lambda at: at.network_state.harvested.value, HOLDS, unit="J")
"""[N] float32, the joules that each client has gathered since the start."""
