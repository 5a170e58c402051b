"""The strategies, a file each: where mobile clients go so that knowledge spreads (`mdfl_jax.mobility.strategy`)."""

from mdfl_jax.mobility.strategies.age_aware import age_aware
from mdfl_jax.mobility.strategies.coordinated import coordinated
from mdfl_jax.mobility.strategies.cover_tour import cover_tour
from mdfl_jax.mobility.strategies.coverage import coverage
from mdfl_jax.mobility.strategies.dcm_plane import dcm as dcm_plane
from mdfl_jax.mobility.strategies.dcm_weighted import dcm_weighted
from mdfl_jax.mobility.strategies.exploring import exploring
from mdfl_jax.mobility.strategies.learnt import learnt
from mdfl_jax.mobility.strategies.spectral import spectral
from mdfl_jax.mobility.strategies.staleness import staleness
from mdfl_jax.mobility.strategies.waiting import waiting

__all__ = [
    "age_aware",
    "coordinated",
    "cover_tour",
    "coverage",
    "dcm_plane",
    "dcm_weighted",
    "exploring",
    "learnt",
    "spectral",
    "staleness",
    "waiting",
]
