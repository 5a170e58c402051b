"""Checks the fields of standing relays against the others."""

from mdfl_jax.config.families import movement_of, task_of
from mdfl_jax.config.sections import Experiment
from mdfl_jax.core.errors import UserError
from mdfl_jax.mobility import MOBILITIES


def check_relays(experiment: Experiment) -> None:
    """Check that relays have places of their own, that somebody has data, and that mixing heeds relays.

    Raises:
      UserError: If not. The message names the field and its value.
    """
    network, count = experiment.network, experiment.network.relays
    if not count:
        return
    needs: dict[str, bool] = {
        f"at most {network.num_clients - 1}: network.num_clients is {network.num_clients}": count < network.num_clients,
        f"0 with network.graph {network.graph}: its clients have no places": not network.graph,
        f"0 with network.mobility {network.mobility}: its clients all move or have places": bool(network.graph)
        or MOBILITIES.form(movement_of(experiment)).make().relays,
        f"0 with server.pattern {experiment.server.pattern}: pairs are drawn": experiment.server.pattern
        in ("", "roadside"),
        f"0 with data.name {experiment.data.name}: each seed draws every client's data": task_of(
            experiment
        ).of_datasets,
        "0 with network.mixing fedavg: it weighs clients by their samples, and relays have none": network.mixing
        != "fedavg",
    }
    for must, holds in needs.items():
        if not holds:
            raise UserError(f"network.relays is {count}; it must be {must}")
    if network.num_mobile > network.num_clients - count:
        raise UserError(
            f"network.num_mobile is {network.num_mobile}; it must be at most network.num_clients - network.relays, "
            f"which is {network.num_clients - count}"
        )
