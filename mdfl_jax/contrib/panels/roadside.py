"""The figure of road-side units: their positions, the routes of clients, and the meetings of clients with them."""

from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from mdfl_jax.report.panels.map import UNIT, draw_ground, draw_route
from mdfl_jax.report.registry import Chart, figure
from mdfl_jax.report.setting import World, worlds_of
from mdfl_jax.report.style import describe_first_seed, looks
from mdfl_jax.results.results import Results

ROUTES = 6  # the number of clients whose routes are drawn; more would hide the units
MAX_COLUMNS = 1000  # of the raster on the page
INK, FAINT = "#333333", "#c9c9c9"
_COLOURS = ("#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C564B")


def at_unit(path: np.ndarray, units: np.ndarray, unit_range: float) -> np.ndarray:
    """Tell which clients on paths [R + 1, N, 2] are in the range of a road-side unit [U, 2]: [R + 1, N] bool."""
    away = np.linalg.norm(path[:, :, None, :] - units, axis=-1)
    return (away <= unit_range * (1 + 1e-6)).any(axis=-1)


class Meetings(NamedTuple):
    """The clients of the first sweep point and its first seed, and the road-side units.

    Attributes:
      world: the world, which has units.
      path: [R + 1, N, 2] the positions of the clients.
      met: [R, N] bool, in which slots each client meets the server.
      order: [N] the clients, the one with the most such slots first.
    """

    world: World
    path: np.ndarray
    met: np.ndarray
    order: np.ndarray


def meetings(study: Results) -> Meetings | None:
    """Return the meetings of a study; None if it has no road-side units, or if no place was recorded.

    Where the meetings were not recorded, they are in the slots in which the client is in the range of a unit.
    """
    world, path = worlds_of(study).get(0), study.first_seed(0, "position")
    if world is None or path is None or not len(world.units):
        return None
    met = study.first_seed(0, "met_server")  # an absent client meets nobody, wherever it is
    if met is None:  # the meetings of a slot are determined at its beginning
        met = at_unit(path[:-1].astype(float), world.units, world.unit_range)
    return Meetings(world, path.astype(float), met, np.argsort(-met.sum(axis=0), kind="stable"))


def _caption(study: Results, shown: Meetings) -> str:
    met = shown.met
    slots, never = met.sum(axis=0), int((~met.any(axis=0)).sum())
    none = f"; {never} of {len(slots)} clients never" if never else ""
    return (
        "When the clients are in the range of a road-side unit, where they meet the server"
        f" ({describe_first_seed(study)}, {looks(study)[0].label}); the client with the most such slots is at the top."
        f" A client is there in {np.median(slots):.0f} of {len(met)} slots"
        f" (median; from {slots.min()} to {slots.max()}){none}."
    )


def _chart(study: Results, shown: Meetings) -> Chart:
    """Return a raster of slots and clients. If there are many slots, a column is the share of several in a row."""
    met, order = shown.met, shown.order
    wide = -(-len(met) // MAX_COLUMNS)
    share = np.stack([part.mean(axis=0) for part in np.split(met, range(wide, len(met), wide))])  # [columns, N]
    cells = {
        "type": "heatmap",
        "z": np.where(share > 0, share, np.nan).T[order].astype(np.float32),
        "x": (wide * (np.arange(len(share)) + 0.5)).astype(np.float32) if wide > 1 else np.arange(len(share)),
        "customdata": np.broadcast_to(order[:, None], share.T.shape).astype(np.int32),
        "zmin": 0,
        "zmax": 1,
        "colorscale": [[0, "#f6c49b"], [1, UNIT]],
        "showscale": wide > 1,
        "colorbar": {"title": {"text": "share of slots"}, "thickness": 12},
        "hovertemplate": "client %{customdata}, slot %{x}<extra></extra>",
    }
    hidden = {"showgrid": False, "zeroline": False, "showticklabels": False}
    layout = {
        "height": 150 + int(np.clip(9 * met.shape[1], 150, 560)),
        "xaxis": {"title": {"text": "slot"}, "range": [-0.5, len(met) - 0.5], "showgrid": False, "zeroline": False},
        "yaxis": {"title": {"text": "clients, by slots at a unit"}, "autorange": "reversed"} | hidden,
    }
    return Chart("plotly", {"traces": [cells], "layout": layout})


def _numbers(study: Results, shown: Meetings) -> list[tuple[Any, ...]]:
    """Return the slots in which each client is at a unit."""
    return [("client", "slot"), *((client, slot) for client, slot in np.argwhere(shown.met.T).tolist())]


@figure(
    "roadside",
    of=meetings,
    caption=_caption,
    place=50,
    title="Road-side units and their meetings",
    chart=_chart,
    numbers=_numbers,
)
def roadside(study: Results, shown: Meetings) -> Figure:
    """Draw a map of the units with some routes, and a raster of each client's slots in the range of a unit.

    All clients are those of the first sweep point and the first seed. The routes are those of clients at equal steps in
    the order of the number of slots at a unit, from the client with the most slots to the one with the fewest.
    """
    world, path, met, order = shown
    slots, clients = met.shape
    some = order[np.linspace(0, clients - 1, min(ROUTES, clients)).round().astype(int)]
    drawn = Figure(figsize=(9.6, 4.4))
    ground, raster = drawn.subplots(1, 2, width_ratios=[1, 1.15])
    draw_ground(ground, world)
    for client, colour in zip(some, _COLOURS):
        draw_route(ground, world, path[:, client : client + 1], colour)
        ground.scatter(*path[0, client], s=26, color=colour, zorder=4, edgecolors="white", linewidths=0.6)
    ground.set_title(f"units, their range, and {len(some)} of {clients} routes")

    time, client = np.nonzero(met[:, order])
    raster.scatter(time, client, s=5, marker="s", color=FAINT, linewidths=0)
    rank = {int(c): int(np.flatnonzero(order == c)[0]) for c in some}
    for c, colour in zip(some, _COLOURS):
        of_client = np.flatnonzero(met[:, c])
        raster.scatter(of_client, np.full(len(of_client), rank[int(c)]), s=7, marker="s", color=colour, linewidths=0)
    never = int((~met.any(axis=0)).sum())
    raster.set(xlim=(-0.01 * slots, 1.01 * slots), ylim=(clients - 0.2, -0.8), xlabel="slot")
    raster.set_ylabel("client, by slots at a unit")
    raster.yaxis.get_major_locator().set_params(integer=True)
    raster.set_title(f"meetings with the server; {never} of {clients} clients have none")
    dot: dict[str, Any] = {"linestyle": "none"}
    handles = [
        Line2D([], [], marker="^", color=UNIT, markersize=8, label="road-side unit", **dot),
        Line2D([], [], marker="o", color=INK, markersize=5, label="a client's first place", **dot),
        Line2D([], [], color=INK, label="its route"),
    ]
    drawn.legend(handles=handles, loc="outside lower center", ncols=3)
    return drawn
