"""Distribution-aware movement (MADFL IV-B, DADFL IV-B): DAM and DCM.

Under DAM every point may be a destination, under DCM only the cluster centres of the static clients. A client that has
reached its destination draws a new one in proportion to the label distance there (MADFL eqs. 9 to 13), and moves
towards it. On the grid with ``oracle`` the rules are the papers'; with ``met`` a client knows those that it has met
(`mdfl_jax.mobility.meeting`). In the plane the same draw is made among the points of a lattice, as strategies choose.
"""

import jax
import jax.numpy as jnp

from mdfl_jax.mobility.choosing import Sight, Strategy, StrategyNumbers, drawn, forms_of
from mdfl_jax.mobility.clustering import centre_places, centres_of
from mdfl_jax.mobility.grid import GridWorld, grid_mobility
from mdfl_jax.mobility.label_distances import counts_of, move_by_distribution, quickly
from mdfl_jax.mobility.meeting import MetNumbers, met_mobility
from mdfl_jax.mobility.registry import MOBILITIES
from mdfl_jax.mobility.rule import MET, ORACLE, Form, Mobility


def by_label_distance(key: jax.Array, sight: Sight) -> jax.Array:
    """Draw a candidate by the distance of its label histogram from the one here (MADFL eqs. 11 and 13)."""
    return drawn(key, sight.distance, sight)


def _dam() -> Mobility:
    def prepare(key: jax.Array, world: GridWorld) -> tuple[jax.Array, jax.Array]:
        del key
        return counts_of(world, ~world.is_mobile), jnp.ones(world.grid.shape[0], bool)

    return grid_mobility(move_by_distribution, prepare, quick=quickly)


def _dcm() -> Mobility:
    def prepare(key: jax.Array, world: GridWorld) -> tuple[jax.Array, jax.Array]:
        return counts_of(world, ~world.is_mobile), centres_of(world, key, ~world.is_mobile)

    def centres(world: GridWorld, plan: tuple[jax.Array, jax.Array]) -> jax.Array:
        return centre_places(world, plan[1].astype(jnp.int32))

    return grid_mobility(move_by_distribution, prepare, centres, quickly)


def _register(name: str, doc: str, by_centres: bool, formula: str, cite: str) -> None:
    on_grid = [
        Form(_dcm if by_centres else _dam, "grid", ORACLE),
        Form(lambda: met_mobility(by_centres), "grid", MET, MetNumbers),
    ]
    anywhere = Strategy(by_label_distance, everywhere=not by_centres)
    in_plane = forms_of(anywhere, StrategyNumbers, ("plane",), (ORACLE, MET))
    MOBILITIES.register_forms(name, [*on_grid, *in_plane], doc, formula=formula, cite=cite)


_register(
    "dam",
    "Distribution-aware movement (DAM): all points may be destinations.",
    by_centres=False,
    formula="p(L) ~ d(L) over all points",
    cite="madfl: eqs. 9 to 12; dadfl",
)
_register(
    "dcm",
    "Distribution-aware cluster-centre movement (DCM): to cluster centres of the static clients.",
    by_centres=True,
    formula="p(L) ~ d(L) over the cluster centres: greedily, the point in range of most static clients not yet covered",
    cite="madfl: eq. 13; dadfl",
)
