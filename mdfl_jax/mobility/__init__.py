"""Movement: worlds, rules and strategies by which clients move in them, and the parts from which a new rule is built.

Three independent settings say how clients move: the rule (`network.mobility`, a name of `MOBILITIES`), what mobile
clients know of the static ones (`motion.knowledge`), and the world (`network.world`). Each file of `rules` and
`strategies` registers its own rules.
"""

from mdfl_jax.mobility.choosing import Sight, best, drawn
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
from mdfl_jax.mobility.registry import MOBILITIES, Movement, rule_numbers, strategy
from mdfl_jax.mobility.rule import KNOWLEDGE, WORLDS, Form, Mobility, Path

__all__ = [
    "BOUNDARIES",
    "KNOWLEDGE",
    "MOBILITIES",
    "WORLDS",
    "Form",
    "GridClient",
    "GridWorld",
    "Mobility",
    "Motion",
    "Movement",
    "Path",
    "PlaneClient",
    "PlaneWorld",
    "Sight",
    "best",
    "drawn",
    "grid_mobility",
    "nearest_within",
    "plane_mobility",
    "reachable",
    "rule_numbers",
    "sample_index",
    "strategy",
    "uniform_within",
]
