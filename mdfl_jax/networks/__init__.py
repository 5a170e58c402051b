"""Networks: they say which clients can talk to each other in each round.

This package exports every network and the class of the traced numbers that it takes. A file in it that registers a
graph, a mixing rule or a server pattern is found by itself.
"""

from mdfl_jax.mobility.registry import rule_numbers
from mdfl_jax.networks.fixed import fixed_graph, given
from mdfl_jax.networks.graphs import GRAPHS, GraphParams
from mdfl_jax.networks.meetings import PATTERNS, MeetingsParams, meetings
from mdfl_jax.networks.mixing import MIXINGS
from mdfl_jax.networks.spatial import ORDERS, SpatialParams, move_first, spatial
from mdfl_jax.networks.wrappers.participation import ParticipationParams, partial_participation
from mdfl_jax.networks.wrappers.roadside import roadside

__all__ = [
    "GRAPHS",
    "MIXINGS",
    "ORDERS",
    "PATTERNS",
    "GraphParams",
    "MeetingsParams",
    "ParticipationParams",
    "SpatialParams",
    "fixed_graph",
    "given",
    "meetings",
    "move_first",
    "partial_participation",
    "roadside",
    "rule_numbers",
    "spatial",
]
