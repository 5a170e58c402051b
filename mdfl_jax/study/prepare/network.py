"""Builds the network of a configuration (clients in space, on a graph or with a server), and its traced numbers."""

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from mdfl_jax.config.families import is_partial, participation_of, traced_numbers
from mdfl_jax.config.sections import Experiment, MotionConfig
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.types import Network
from mdfl_jax.mobility import BOUNDARIES, MOBILITIES, Motion
from mdfl_jax.mobility.trace import Tracks
from mdfl_jax.networks.contact_list import ContactList
from mdfl_jax.networks.costs import SHORT_CONTACTS, CostParams
from mdfl_jax.networks.fixed import fixed_graph, given
from mdfl_jax.networks.graph_files import read_matrices
from mdfl_jax.networks.graphs import GRAPHS, GraphParams
from mdfl_jax.networks.link_filter import LinkFilter
from mdfl_jax.networks.mixing import MIXINGS
from mdfl_jax.networks.movers import MOVERS
from mdfl_jax.networks.relays import RELAY_PLACES
from mdfl_jax.networks.spatial import SpatialParams, spatial
from mdfl_jax.networks.wrappers.order import ORDERS
from mdfl_jax.networks.wrappers.participation import ParticipationParams
from mdfl_jax.study.prepare.server import server_network, server_params


def described(experiment: Experiment, rules: list[str]) -> str:
    """Describe the network of a group of points, for error messages."""
    network = experiment.network
    if network.graph:
        where = f"network.graph={network.graph}"
        where += f" with graph.file={experiment.graph.file}" if network.graph == "file" else ""
    else:
        where = f"network.mobility={','.join(rules)} with network.contact={network.contact}"
    if experiment.server.pattern:
        over = f" over {where}" if experiment.server.pattern == "roadside" else ""
        where = f"server.pattern={experiment.server.pattern}{over}"
    where += " and failing links" if network.link_failure > 0 or network.link_fading > 0 else ""
    rule = experiment.cost.short_contact
    where += f" and cost.short_contact={rule}" if rule in SHORT_CONTACTS else ""
    return f"{where}, network.mixing={network.mixing},"


def network_of(
    experiment: Experiment, rules: list[str], link_filter: LinkFilter | None = None, max_neighbours: int = 0
) -> Network:
    """Return the network of a group of points, before it is thinned.

    Args:
      experiment: The configuration of any point of the group.
      rules: The mobility rules that the points use. They have no effect with a graph.
      link_filter: A rule that removes links, from `mdfl_jax.networks.costs.link_filter`.
      max_neighbours: The neighbours that a neighbour list can hold; 0 if links are matrices.

    Raises:
      UserError: If a file cannot be used.
    """
    network = experiment.network
    if network.graph:
        return graph_network(experiment, link_filter, max_neighbours > 0)
    world = spatial(
        network.num_clients,
        network.grid_size,
        rules,
        mixing=network.mixing,
        contact=network.contact,
        links_fail=network.link_failure > 0 or network.link_fading > 0,
        link_filter=link_filter,
        max_neighbours=max_neighbours,
        num_relays=network.relays,
    )
    world = ORDERS[network.order](world)
    return server_network(experiment, world) if experiment.server.pattern else world


def network_params(
    experiment: Experiment, rules: list[str], trace: Tracks | ContactList | None = None, cost: CostParams | None = None
) -> Any:
    """Return the traced numbers of `network_of`, or those of the thinned network if it must be thinned.

    Args:
      experiment: The configuration of the point.
      rules: The mobility rules that the points of the program use.
      trace: The trace from `mdfl_jax.study.prepare.traces.TraceFiles`, if a rule needs one.
      cost: The numbers of the link filter, if the network has one.
    """
    network: Any = graph_params(experiment) if experiment.network.graph else _in_space(experiment, rules, trace)
    network = network._replace(link_filter=cost)
    if experiment.server.pattern:
        network = server_params(experiment, network)
    if is_partial(experiment):
        participation, period = participation_of(experiment)
        network = ParticipationParams(network, np.float32(participation), np.int32(period))
    return network


def _motion(config: MotionConfig) -> Motion:
    """Return the numbers of the plane as NumPy scalars of fixed type."""
    number: Any = np.float32
    return Motion(
        width=number(config.width),
        height=number(config.height),
        dt=number(config.dt),
        boundary=np.int32(BOUNDARIES.index(config.boundary)),
        warm_up=np.int32(config.warm_up),
    )


def _in_space(experiment: Experiment, rules: list[str], trace: Tracks | ContactList | None) -> SpatialParams:
    number: Any = np.float32
    network = experiment.network
    return SpatialParams(
        num_mobile=np.int32(network.num_mobile),
        movers=np.int32(MOVERS.index(network.movers)),
        relay_places=np.int32(RELAY_PLACES.index(network.relay_places)),
        radius=number(network.radius),
        max_step=number(network.max_step),
        mobility=np.int32(rules.index(network.mobility)),
        radius_spread=number(network.radius_spread),
        link_failure=number(network.link_failure),
        link_fading=number(network.link_fading),
        mixing=traced_numbers(experiment, MIXINGS, network.mixing),
        motion=_motion(experiment.motion),
        rules=tuple(traced_numbers(experiment, MOBILITIES, rule) for rule in rules),
        trace=trace,
    )


@lru_cache(maxsize=8)
def _read(file: str, num_clients: int, directed: bool, allow_disconnected: bool, changed: float) -> np.ndarray:
    """Read a file once for the network and for its numbers, and again if its time of change ``changed`` is another."""
    return read_matrices(file, num_clients, directed, allow_disconnected)


def _from_file(experiment: Experiment) -> np.ndarray:
    config = experiment.graph
    changed = Path(config.file).stat().st_mtime if Path(config.file).is_file() else 0.0
    try:
        return _read(config.file, experiment.network.num_clients, config.directed, config.allow_disconnected, changed)
    except UserError as error:
        raise UserError(f"graph.file: {error}") from None


def graph_network(experiment: Experiment, link_filter: LinkFilter | None = None, lists: bool = False) -> Network:
    """Return the network of a point whose clients are connected by a graph.

    Raises a `UserError` if the file of the graph cannot be used, or if it holds weights and there is a link filter.
    """
    network = experiment.network
    fails = network.link_failure > 0
    if network.graph != "file":
        return fixed_graph(network.num_clients, network.graph, network.mixing, fails, link_filter, lists)
    return given(_from_file(experiment), network.mixing, fails, link_filter)


def graph_params(experiment: Experiment) -> GraphParams:
    """Return the traced numbers of `graph_network` as NumPy scalars of fixed type, with the matrices of a file."""
    config, number = experiment.graph, np.float32
    matrices: Any = _from_file(experiment) if experiment.network.graph == "file" else None
    return GraphParams(
        numbers=traced_numbers(experiment, GRAPHS, experiment.network.graph),
        mixing=traced_numbers(experiment, MIXINGS, experiment.network.mixing),
        allow_disconnected=np.bool_(config.allow_disconnected),
        link_failure=number(experiment.network.link_failure),
        matrices=matrices if matrices is None or matrices.dtype == bool else matrices.astype(number),
    )
