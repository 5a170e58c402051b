"""Who can talk, when: contact, graphs, mixing and the networks made of them. Importing it registers every graph."""

from mdfl_jax.networks import (
    contact,
    fixed,
    graphs,
    meetings,
    mixing,
    neighbours,
    participation,
    radio,
    random_graphs,
    roadside,
    spatial,
    worlds,
)

__all__ = [
    "contact",
    "fixed",
    "graphs",
    "meetings",
    "mixing",
    "neighbours",
    "participation",
    "radio",
    "random_graphs",
    "roadside",
    "spatial",
    "worlds",
]
