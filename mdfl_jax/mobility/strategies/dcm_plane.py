"""DCM in the plane: cluster centres drawn in proportion to label distance, as MADFL's rule of the grid (eqs. 10 to 13).

The baseline of the strategies in the plane. On the grid ``dcm`` is a rule of its own, and draws other numbers.

It must know the places and labels of the static clients.
"""

import jax

from mdfl_jax.mobility.plane_strategy import register_in_plane
from mdfl_jax.mobility.sight import Sight, drawn
from mdfl_jax.mobility.strategy import StrategyNumbers


def dcm(key: jax.Array, sight: Sight) -> jax.Array:
    """Draw a cluster centre, by the distance of its label histogram from the one here."""
    return drawn(key, sight.distance, sight)


register_in_plane(
    "dcm", dcm, StrategyNumbers, "DCM: to cluster centres, by label distance (MADFL eqs. 10 to 13)", True, None
)
