"""The mobility rules, which say how clients move, and the parts from which a new rule is built."""

from mdfl_jax.mobility import strategies
from mdfl_jax.mobility.contact_list import contacts
from mdfl_jax.mobility.grid import (
    GridClient,
    GridWorld,
    grid_mobility,
    nearest_within,
    reachable,
    sample_index,
    uniform_within,
)
from mdfl_jax.mobility.met import dam_met, dcm_met
from mdfl_jax.mobility.plane import BOUNDARIES, Motion, PlaneClient, PlaneWorld, plane_mobility
from mdfl_jax.mobility.registry import MOBILITIES
from mdfl_jax.mobility.rule import Mobility, Path
from mdfl_jax.mobility.rules.distribution_aware import dam, dcm
from mdfl_jax.mobility.rules.gauss_markov import gauss_markov
from mdfl_jax.mobility.rules.group import group
from mdfl_jax.mobility.rules.levy_walk import levy_walk
from mdfl_jax.mobility.rules.manhattan import manhattan
from mdfl_jax.mobility.rules.patrol import patrol
from mdfl_jax.mobility.rules.random_direction import random_direction
from mdfl_jax.mobility.rules.random_movement import random_movement
from mdfl_jax.mobility.rules.random_walk import random_walk
from mdfl_jax.mobility.rules.random_waypoint import random_waypoint
from mdfl_jax.mobility.rules.static import static, static_plane
from mdfl_jax.mobility.rules.waypoint import waypoint
from mdfl_jax.mobility.sight import Sight, best, drawn
from mdfl_jax.mobility.strategy import strategy
from mdfl_jax.mobility.trace import static_trace, trace

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
    "Sight",
    "best",
    "contacts",
    "dam",
    "dam_met",
    "dcm",
    "dcm_met",
    "drawn",
    "gauss_markov",
    "grid_mobility",
    "group",
    "levy_walk",
    "manhattan",
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
    "static_plane",
    "static_trace",
    "strategies",
    "strategy",
    "trace",
    "uniform_within",
    "waypoint",
]
