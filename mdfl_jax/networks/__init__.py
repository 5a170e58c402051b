"""Who can talk, when: every network by its name, with the traced numbers that it takes. Every graph is registered."""

from mdfl_jax.networks import random_graphs  # registers its graphs
from mdfl_jax.networks.fixed import fixed_graph, given
from mdfl_jax.networks.graphs import GRAPHS, GraphParams
from mdfl_jax.networks.meetings import PATTERNS, MeetingsParams, meetings
from mdfl_jax.networks.mixing import MIXINGS
from mdfl_jax.networks.participation import ThinnedParams, thinned
from mdfl_jax.networks.roadside import roadside
from mdfl_jax.networks.spatial import SpatialParams, rule_numbers, spatial

__all__ = [
    "GRAPHS",
    "MIXINGS",
    "PATTERNS",
    "GraphParams",
    "MeetingsParams",
    "SpatialParams",
    "ThinnedParams",
    "fixed_graph",
    "given",
    "meetings",
    "random_graphs",
    "roadside",
    "rule_numbers",
    "spatial",
    "thinned",
]
