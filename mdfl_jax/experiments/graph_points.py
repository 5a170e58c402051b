"""What a study says of graphs: checks of its fields, the network of a point, and the network's numbers."""

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from mdfl_jax.errors import UserError
from mdfl_jax.experiments.sections import Experiment
from mdfl_jax.networks.fixed import fixed_graph, given
from mdfl_jax.networks.graph_files import read_matrices
from mdfl_jax.networks.graphs import GRAPHS, GraphParams
from mdfl_jax.types import Network


@lru_cache(maxsize=8)
def _read(file: str, num_clients: int, directed: bool, allow_disconnected: bool, changed: float) -> np.ndarray:
    """Once for the network and for its numbers; ``changed`` tells apart the contents that a file has had."""
    return read_matrices(file, num_clients, directed, allow_disconnected)


def _from_file(experiment: Experiment) -> np.ndarray:
    config = experiment.graph
    changed = Path(config.file).stat().st_mtime if Path(config.file).is_file() else 0.0
    try:
        return _read(config.file, experiment.network.num_clients, config.directed, config.allow_disconnected, changed)
    except UserError as error:
        raise UserError(f"graph.file: {error}") from None


def check_graph(experiment: Experiment) -> None:
    """Checks the fields of a graph, without reading its file.

    Raises:
      UserError: naming the fields and their values.
    """
    network, config = experiment.network, experiment.graph
    if network.link_fading > 0:
        raise UserError(f"network.link_fading is {network.link_fading}; a graph knows no distances")
    if network.mixing.startswith("speed_aware"):
        raise UserError(f"network.mixing is {network.mixing}; a graph knows no speeds")
    if network.graph == "file":
        if not config.file:
            raise UserError("graph.file is ''; network.graph file needs one")
        return
    rule = GRAPHS[network.graph]
    rule.check_size(network.num_clients)
    numbers = GraphParams(config.degree, config.probability, config.rewire, config.allow_disconnected)
    rule.check_numbers(network.num_clients, numbers)


def check_graph_used(experiments: list[Experiment]) -> None:
    """Checks that a study that names a file of links has a point that takes it.

    Raises:
      UserError: where none does.
    """
    named = next((experiment for experiment in experiments if experiment.graph.file), None)
    if named and all(experiment.network.graph != "file" for experiment in experiments):
        raise UserError(
            f"graph.file is {named.graph.file!r}; network.graph is {named.network.graph!r}, and it must be file"
        )


def graph_network(experiment: Experiment) -> Network:
    """The network of a point whose clients are tied by a graph.

    Raises:
      UserError: for a file that cannot be used.
    """
    network = experiment.network
    fails = network.link_failure > 0
    if network.graph != "file":
        return fixed_graph(network.num_clients, network.graph, network.mixing, fails)
    return given(_from_file(experiment), network.mixing, fails)


def graph_params(experiment: Experiment) -> GraphParams:
    """Its traced numbers, as NumPy scalars of fixed type; the matrices of a file among them."""
    config, number = experiment.graph, np.float32
    matrices: Any = _from_file(experiment) if experiment.network.graph == "file" else None
    return GraphParams(
        degree=np.int32(config.degree),
        probability=number(config.probability),
        rewire=number(config.rewire),
        allow_disconnected=np.bool_(config.allow_disconnected),
        link_failure=number(experiment.network.link_failure),
        matrices=matrices if matrices is None or matrices.dtype == bool else matrices.astype(number),
    )
