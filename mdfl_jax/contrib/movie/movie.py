"""Writes the map of one or two sweep points as a moving picture, a GIF, for pages and talks.

What stays is drawn once, as the ground of all pictures.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.style
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from PIL import Image
from scipy.spatial import cKDTree

from mdfl_jax.core.errors import UserError
from mdfl_jax.report.panels.map import (
    MANY,
    UNIT,
    attackers_of,
    clients_of,
    coloured_by,
    discs,
    draw_ground,
    first_pair,
    mark_attackers,
    shown_points,
)
from mdfl_jax.report.registry import MOVIES
from mdfl_jax.report.setting import CIRCLE, World, circle, worlds_of
from mdfl_jax.report.style import INSIDE, STYLE, looks
from mdfl_jax.results.results import Results, rounds_done

_DPI = 100
PER_ROUND = 3  # pictures from one round to the next
LAST_ROUNDS = 5  # the length of the paths
LINK, CLIENT = "#3a3f45", "#1d2126"


class _View:
    """The map of one sweep point: what stays, and the artists that change from picture to picture."""

    def __init__(
        self, axes: Any, study: Results, p: int, world: World, metric: str | None, norm: Normalize | None
    ) -> None:
        path, mobile = study.first_seed(p, "position"), study.first_seed(p, "is_mobile")
        self.axes, self.world, self.colour = axes, world, looks(study)[p].colour
        self.path = circle(clients_of(study, p))[None] if path is None or world.kind == CIRCLE else path.astype(float)
        some = np.ones(self.path.shape[1], bool) if mobile is None else mobile.astype(bool)
        self.moves = some & np.any(self.path != self.path[:1])
        self.recorded = study.heard(p)
        self.met, self.present = (study.first_seed(p, name) for name in ("met_server", "present"))
        self.stop = rounds_done(study, p)
        self.total = len(self.path) - 1 if self.recorded is None else self.recorded.shape[1]
        self.values, self.norm = study.first_seed(p, metric) if metric else None, norm
        self.rounds = study.curve(p).rounds
        draw_ground(axes, world)
        stops = self.stop is not None and self.stop < self.total
        axes.set_title(looks(study)[p].label + (f", stopped at round {self.stop}" if stops else ""))
        axes.spines[:].set_visible(False)
        axes.tick_params(labelbottom=False, labelleft=False, length=0)
        fresh: dict[str, Any] = {"animated": True}
        still = self.path[0, ~self.moves]
        axes.add_collection(discs(axes, still, world.radius, "#7f7f7f0c", "#7f7f7f40"))
        self.trail: Any = axes.add_collection(LineCollection([], colors=self.colour, linewidths=1.4, zorder=2, **fresh))
        self.links: Any = axes.add_collection(LineCollection([], colors=LINK, linewidths=1.1, zorder=3, **fresh))
        size = 95 if len(self.moves) <= 40 else 16 if len(self.moves) <= MANY else 3
        rim: dict[str, Any] = {"edgecolors": CLIENT, "linewidths": 0.7, "zorder": 4, "s": size} | fresh
        self.marks: list[Any] = [
            axes.scatter(*self.path[0, of].T, marker=mark, **rim)
            for of, mark in ((~self.moves, "s"), (self.moves, "o"))
        ]
        self.attack = attackers_of(study, p)
        self.diamonds = mark_attackers(axes, self.path[0], self.attack)
        self.diamonds.set_animated(True)
        numbers = range(len(self.moves)) if len(self.moves) <= 40 else ()
        self.numbers = [axes.text(0, 0, str(i), fontsize=6, zorder=5, **INSIDE, **fresh) for i in numbers]

    def at(self, time: float) -> list[Any]:
        """Set the artists for a time in rounds, and return them in the order of drawing."""
        last = len(self.path) - 1
        before = min(int(time), last)
        after, share = min(before + 1, last), time - int(time)
        near = before if share < 0.5 else after
        places = self.path[before] + share * (self.path[after] - self.path[before])
        leaps = self.world.leaps(self.path[before], self.path[after])
        places = np.where(leaps[:, None], self.path[near], places)
        begins = int(time + 0.5)
        over = self.stop is not None and begins >= self.stop
        pairs = links_at(self.path, self.recorded, self.world, self.total if over else begins)
        if self.present is not None and self.recorded is None:  # the absent are in contact with nobody
            pairs = pairs[self.present[min(begins, len(self.present) - 1)][pairs].all(axis=1)]
        self.links.set_segments(list(places[pairs]))
        past = np.concatenate([self.path[max(0, before - LAST_ROUNDS) : before + 1], places[None]])[:, self.moves]
        steps = np.stack([past[:-1], past[1:]], axis=2)  # [K, M, 2, 2]
        alphas = np.broadcast_to(np.linspace(0.15, 0.8, len(steps))[:, None], steps.shape[:2])
        alphas = np.where(self.world.leaps(steps[:, :, 0], steps[:, :, 1]), 0, alphas)
        self.trail.set_segments(list(steps.reshape(-1, 2, 2)))
        self.trail.set_alpha(alphas.ravel() if alphas.size else None)
        self._colour(time, places)
        return [self.trail, self.links, *self.marks, self.diamonds, *self.numbers]

    def _colour(self, time: float, places: np.ndarray) -> None:
        """Move the clients to their places, and give them the colour of their last evaluation.

        Those that meet the server have an edge in the colour of the server, and those that are absent are pale.
        """
        fills = np.tile(np.array([0.42, 0.42, 0.42, 1.0]), (len(places), 1))
        if self.values is not None and self.norm is not None:
            row = max(0, int(np.searchsorted(self.rounds, time, side="right")) - 1)
            known = np.isfinite(self.values[row])  # a client that was not evaluated has no colour
            fills[known] = matplotlib.colormaps["viridis"](self.norm(self.values[row][known]))
        at, edges = int(time + 0.5), np.array([CLIENT] * len(places), object)
        if self.met is not None and at < len(self.met):
            edges[self.met[at]] = UNIT
        if self.present is not None:
            fills[~self.present[min(at, len(self.present) - 1)], 3] = 0.2
        for of, mark in zip((~self.moves, self.moves), self.marks):
            mark.set_offsets(places[of])
            mark.set_facecolor(fills[of])
            mark.set_edgecolor(list(edges[of]))
            mark.set_linewidth(np.where(edges[of] == UNIT, 2.5, 0.7) if len(places) <= MANY else 0)
        if self.attack is not None:
            self.diamonds.set_offsets(places[self.attack])
        for number, place, fill in zip(self.numbers, places, fills):
            number.set_position(place)
            number.set_color("#10131a" if fill[:3] @ (0.299, 0.587, 0.114) > 0.55 else "white")


def links_at(path: np.ndarray, recorded: np.ndarray | None, world: World, at: int) -> np.ndarray:
    """Return who heard the other in the round that begins at a row of the positions, [K, 2] pairs of clients i < j.

    Args:
      path: [R + 1, N, 2] positions.
      recorded: [S, R, N, ceil(N/8)] who heard whom, of which the first seed's are taken. None: they are computed
        from the places and the radius.
      world: the world, with the radius.
      at: the row. After the last round there are no links.
    """
    clients = path.shape[1]
    if recorded is not None:
        if at >= recorded.shape[1]:
            return np.zeros((0, 2), int)
        hears = np.unpackbits(recorded[0, at], axis=1, count=clients).astype(bool)
        return np.argwhere(np.triu(hears | hears.T, 1))
    if world.kind == CIRCLE or not np.isfinite(world.radius) or at >= len(path) - 1 or (world.swept and not at):
        return np.zeros((0, 2), int)
    now, before = path[at], path[at - 1] if world.swept else path[at]
    placed = np.flatnonzero(np.isfinite(now + before).all(axis=1))
    reach, way = world.radius * (1 + 1e-6), np.hypot(*(now - before)[placed].T).max(initial=0.0)
    near = placed[cKDTree(before[placed]).query_pairs(reach + 2 * way, output_type="ndarray").reshape(-1, 2)]
    apart = before[near[:, 0]] - before[near[:, 1]]
    shift = now[near[:, 0]] - now[near[:, 1]] - apart
    speed = (shift**2).sum(-1)
    nearest = np.clip(-(apart * shift).sum(-1) / np.where(speed > 0, speed, 1), 0, 1)[:, None]
    return near[((apart + nearest * shift) ** 2).sum(-1) <= reach**2]


def _scale(study: Results, points: Sequence[int], metric: str, rounds: int) -> Normalize | None:
    """Return the scale of the colours: from the smallest to the largest value of the rounds that are drawn."""
    found = []
    for p in points:
        values, at = study.first_seed(p, metric), study.curve(p).rounds
        if values is not None:
            shown = values[at <= max(rounds, at[0])]
            found.append(shown[np.isfinite(shown)])
    every = np.concatenate(found)
    return Normalize(every.min(), every.max()) if every.size else None


def draw_pictures(study: Results, points: Sequence[int], rounds: int, width: float) -> Iterator[np.ndarray]:
    """Draw the pictures, each [height, width, 3] uint8. What stays is drawn once."""
    worlds = [worlds_of(study)[p] for p in points]
    extent = worlds[0].high - worlds[0].low
    each = width / len(points)
    drawn = Figure(figsize=(width, min(2.2 * each, each * float(extent[1] / extent[0]) + 0.75)), dpi=_DPI)
    canvas = FigureCanvasAgg(drawn)
    metric = coloured_by(study, points)
    norm = _scale(study, points, metric, rounds) if metric else None
    top = 1 - 0.3 / drawn.get_figheight()
    many = drawn.subplots(1, len(points), squeeze=False, gridspec_kw={"wspace": 0.06})[0]
    drawn.subplots_adjust(left=0.01, right=0.99, top=top, bottom=0.42 / drawn.get_figheight())
    views = [_View(axes, study, p, world, metric, norm) for axes, p, world in zip(many, points, worlds)]
    line = drawn.text(0.02, 0.1 / drawn.get_figheight(), "", fontsize=10, animated=True)
    if norm:
        low = 0.14 / drawn.get_figheight()
        bar = drawn.add_axes((0.62, low, 0.22, 0.1 / drawn.get_figheight()))
        drawn.colorbar(matplotlib.cm.ScalarMappable(norm, "viridis"), cax=bar, orientation="horizontal", ticks=[])
        ends = (norm.vmin, 0.61, "right"), (norm.vmax, 0.85, "left")
        for value, at, side in ends:
            text = f"{value:.0%}" if metric == "accuracy" else f"{value:.3g}"
            drawn.text(at, low, f"{metric} {text}" if side == "right" else text, ha=side, fontsize=8)
    canvas.draw()
    ground = canvas.copy_from_bbox(drawn.bbox)
    total = max(view.total for view in views)
    last, meets = min(rounds, total), "; orange: meets the server" if any(v.met is not None for v in views) else ""
    for k in range(last * PER_ROUND + 1):
        canvas.restore_region(ground)
        time = k / PER_ROUND
        line.set_text(f"round {int(time + 0.5)} of {total}{meets}")
        for view in views:
            for artist in view.at(time):
                view.axes.draw_artist(artist)
        drawn.draw_artist(line)
        yield np.asarray(canvas.buffer_rgba())[..., :3].copy()


DEFAULT_ROUNDS, DEFAULT_FPS, DEFAULT_WIDTH = 40, 12, 7.2


@MOVIES.register(".gif")
def save_movie(
    study: Results,
    path: Path,
    points: Sequence[int] | None = None,
    rounds: int | None = None,
    fps: int = DEFAULT_FPS,
    width: float = DEFAULT_WIDTH,
) -> Path:
    """Write the map of one or two sweep points as a GIF file, and return its path.

    Two files of one study have the same bytes.

    Args:
      study: the study.
      path: the file, which ends in .gif.
      points: the indices of one or two sweep points; None: the baseline and the best of the others.
      rounds: the number of rounds from the start; None: `DEFAULT_ROUNDS`, or all if they are fewer.
      fps: pictures a second. From one round to the next there are `PER_ROUND` pictures.
      width: the width in inches, at 100 pixels an inch.

    Raises:
      UserError: for another ending, for points that have no map, for numbers out of bounds, or if the file cannot be
        written.
    """
    path = Path(path)
    if path.suffix != ".gif":
        raise UserError(f"{path}: a movie ends in .gif")
    chosen = first_pair(study, shown_points(study) or [0]) if points is None else list(points)
    _check(study, chosen, rounds, fps, width)
    with matplotlib.style.context(["default", STYLE, {"figure.constrained_layout.use": False}]):
        drawn = list(draw_pictures(study, chosen, DEFAULT_ROUNDS if rounds is None else rounds, width))
    try:
        first, *others = map(Image.fromarray, drawn)
        first.save(path, save_all=True, append_images=others, duration=round(1000 / fps), loop=0)
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror or error})") from None
    return path


def _check(study: Results, points: Sequence[int], rounds: int | None, fps: int, width: float) -> None:
    if len(points) not in (1, 2):
        ids = "; ".join(study.points[p] for p in points)
        raise UserError(f"--points={ids}: a movie has one or two sweep points")
    for p in points:
        if p not in worlds_of(study):
            raise UserError(f"point {study.outcomes[p]['id']!r}: it has no map; neither places nor links were recorded")
    for name, value, low, high in (("rounds", rounds, 1, 10_000), ("fps", fps, 1, 50), ("width", width, 1, 20)):
        if value is not None and not low <= value <= high:
            raise UserError(f"--{name}={value}: it must be between {low} and {high}")
