"""How clients move. Importing the package registers every rule."""

from mdfl_jax.mobility import distribution_aware, random_movement, static
from mdfl_jax.mobility.grid import (
    GridClient,
    GridWorld,
    Mobility,
    grid_mobility,
    nearest_within,
    reachable,
    sample_index,
)
from mdfl_jax.mobility.registry import MOBILITIES

__all__ = [
    "MOBILITIES",
    "GridClient",
    "GridWorld",
    "Mobility",
    "distribution_aware",
    "grid_mobility",
    "nearest_within",
    "random_movement",
    "reachable",
    "sample_index",
    "static",
]
