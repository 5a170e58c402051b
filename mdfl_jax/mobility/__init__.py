"""How clients move. Importing the package registers every rule."""

from mdfl_jax.mobility import (
    contact_list,
    distribution_aware,
    gauss_markov,
    group,
    levy_walk,
    manhattan,
    met,
    patrol,
    random_direction,
    random_movement,
    random_walk,
    random_waypoint,
    static,
    trace,
)
from mdfl_jax.mobility.grid import (
    GridClient,
    GridWorld,
    grid_mobility,
    nearest_within,
    reachable,
    sample_index,
    uniform_within,
)
from mdfl_jax.mobility.plane import BOUNDARIES, Motion, PlaneClient, PlaneWorld, plane_mobility
from mdfl_jax.mobility.registry import MOBILITIES
from mdfl_jax.mobility.rule import Mobility, Path

__all__ = [
    "BOUNDARIES",
    "MOBILITIES",
    "GridClient",
    "GridWorld",
    "Mobility",
    "Motion",
    "Path",
    "PlaneClient",
    "PlaneWorld",
    "contact_list",
    "distribution_aware",
    "gauss_markov",
    "grid_mobility",
    "group",
    "levy_walk",
    "manhattan",
    "met",
    "nearest_within",
    "patrol",
    "plane_mobility",
    "random_direction",
    "random_movement",
    "random_walk",
    "random_waypoint",
    "reachable",
    "sample_index",
    "static",
    "trace",
    "uniform_within",
]
