"""The panel of the contacts: how the network changes, when contacts begin again, and what windows of rounds connect."""

from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from mdfl_jax.report import contacts as of
from mdfl_jax.report.read import Run, kept
from mdfl_jax.report.recorded import rounds_counted, rounds_done
from mdfl_jax.report.registry import Chart, figure
from mdfl_jax.report.style import end_told, first_seed, for_plotly, looks, make_panels

MOST_POINTS = 12  # sweep points in the panel; others would hide each other
MOST_TIMES, MOST_STEPS = 50, 400  # values of a line over the rounds, steps of a distribution


class View(NamedTuple):
    """One picture of the panel: its name, its axes, what it shows in a sentence, and which axes are logarithmic."""

    key: str
    label: str
    x: str
    y: str
    about: str
    logx: bool = False
    logy: bool = False


VIEWS = (
    View(
        "windows",
        "Rounds that connect everybody",
        "rounds of a window",
        "connected windows (%)",
        "The share of windows of so many rounds whose contacts together are a connected graph.",
        logx=True,
    ),
    View(
        "components",
        "Separate groups",
        "round",
        "connected components",
        "Connected components of a round: a model reaches only clients of its own group. A client alone is a group.",
    ),
    View("degree", "Contacts of a client", "round", "contacts of a client", "In a round, mean over the clients."),
    View(
        "gaps",
        "Inter-contact times",
        "rounds until the next contact",
        "share at least as long",
        "Rounds between two contacts of the same pair; those that the study cuts off are left out.",
        logx=True,
        logy=True,
    ),
    View(
        "durations",
        "Contact durations",
        "rounds of a contact",
        "share at least as long",
        "Rounds in a row in which a pair is in contact; those that the study cuts off are left out.",
        logx=True,
        logy=True,
    ),
    View(
        "lambda_2",
        "Second eigenvalue",
        "round",
        "lambda_2",
        "The second largest eigenvalue of W^T W at the evaluated rounds: 1 if the round's graph is not connected.",
    ),
)


class Lines(NamedTuple):
    """The lines of a sweep point, or of several that have the same contacts.

    Attributes:
      point: the index of the first of these sweep points.
      label: its name, and how many others there are.
      found: (x, y) by the key of the view.
      typical: numbers for the caption: means over the rounds, and the length of which every window connects, or None.
    """

    point: int
    label: str
    found: dict[str, tuple[np.ndarray, np.ndarray]]
    typical: dict[str, float | None]


class Measured(NamedTuple):
    """What was measured of a study: the shown lines, the number of different networks, and whether a run stopped."""

    lines: list[Lines]
    networks: int
    stopped: bool


@kept  # caption, chart and figure need them, and they take seconds for many clients
def measured(run: Run) -> Measured:
    """Measure the contacts of the sweep points that differ in them, at most `MOST_POINTS`."""
    styles, groups, stopped = looks(run), dict[bytes, list[int]](), False
    for p in range(len(run.points)):
        links = run.history(p, "links")
        if links is not None and links[0].size:
            seen, done = links[0, : rounds_counted(run, p)], rounds_done(run, p)
            groups.setdefault(seen.tobytes(), []).append(p)
            stopped |= done is not None and done < links.shape[1]
    chosen = list(groups.values())
    if len(chosen) > MOST_POINTS:
        chosen = [chosen[i] for i in np.linspace(0, len(chosen) - 1, MOST_POINTS).round().astype(int)]
    found = []
    for first, *others in chosen:
        contact = of.recorded_contacts(run, first)
        if contact is not None:
            label = "all sweep points" if len(chosen) == 1 and others else styles[first].label
            label += f" and {len(others)} more" if others and len(chosen) > 1 else ""
            found.append(Lines(first, label, *_statistics(run, first, contact)))
    return Measured(found, len(groups), stopped)


def _statistics(run: Run, p: int, contact: np.ndarray) -> tuple[dict[str, Any], dict[str, float | None]]:
    windows = of.shortest_windows(contact)
    lengths = np.unique(np.geomspace(1, len(contact), 80).round().astype(int))
    groups, degree, seen = of.components(contact), of.degrees(contact), of.spells(contact)
    found = {
        "components": of.in_blocks(groups, MOST_TIMES),
        "degree": of.in_blocks(degree, MOST_TIMES),
        "windows": (lengths, 100 * of.share_connected(windows, lengths)),
        "gaps": _thinned(*of.at_least(seen.gaps)),
        "durations": _thinned(*of.at_least(seen.contacts)),
    }
    eigenvalue = run.history(p, "lambda_2")
    if eigenvalue is not None and np.isfinite(eigenvalue[0]).any():
        rounds = run.curves[run.points[p]["id"]].rounds
        known = np.isfinite(eigenvalue[0]) & (rounds <= len(contact))
        found["lambda_2"] = rounds[known], eigenvalue[0][known].astype(float)
    typical = {
        "groups": float(groups.mean()),
        "degree": float(degree.mean()),
        "window": of.sure_length(windows),
    }
    return {key: xy for key, xy in found.items() if len(xy[0])}, typical


def _views(lines: list[Lines]) -> list[View]:
    """Return the views that say something: an eigenvalue that is always 1 does not."""
    shown = [view for view in VIEWS if any(view.key in of_point.found for of_point in lines)]
    eigenvalues = [of_point.found["lambda_2"][1] for of_point in lines if "lambda_2" in of_point.found]
    tells = any((values < 0.999).any() for values in eigenvalues)
    return [view for view in shown if view.key != "lambda_2" or tells]


def _thinned(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Keep at most `MOST_STEPS` steps of a distribution, at equal ratios, with the first and the last."""
    if not len(x):
        return x, y
    kept = np.unique(np.geomspace(1, len(x), min(len(x), MOST_STEPS)).round().astype(int)) - 1
    return x[kept], y[kept]


def _applies(run: Run) -> bool:
    return any(run.has(p, "links") for p in range(len(run.points)))


def _caption(run: Run) -> str:
    lines, networks, stopped = measured(run)
    told = [
        f"{of_point.label}: {of_point.typical['degree']:.1f} contacts of a client and {of_point.typical['groups']:.1f}"
        f" separate groups in a round; {_connects(of_point.typical['window'])}."
        for of_point in lines[:4]
    ]
    some = [f"Of the {networks} different networks, {len(lines)} are shown."] if networks > len(lines) else []
    some += ["Rounds after the stop rule has ended a run are left out."] if stopped else []
    general = (
        f"Contacts of {first_seed(run)}: two clients are in contact in a round if at least one of them hears the other."
        " A window of rounds connects everybody if all its contacts together are a connected graph; MADFL's analysis"
        " assumes that every window of some length does."
    )
    until = [f"Rounds after {end_told(run)} are not counted."] if "round" in run.summary else []
    return " ".join([general, *until, *some, *told])


def _connects(window: float | None) -> str:
    if window is None:
        return "all rounds together do not connect everybody"
    return f"every window of {window:.0f} round{'s' if window > 1 else ''} connects everybody"


def _chart(run: Run) -> Chart:
    """Return the views with their lines, for assets/contacts.js."""
    lines, styles = measured(run).lines, looks(run)
    views = []
    for view in _views(lines):
        shown = [
            {
                "name": for_plotly(of_point.label),
                "colour": styles[of_point.point].colour,
                "dash": styles[of_point.point].plotly_dash,
                "x": of_point.found[view.key][0].astype(np.float32),
                "y": of_point.found[view.key][1].astype(np.float32),
            }
            for of_point in lines
            if view.key in of_point.found
        ]
        views.append(view._asdict() | {"lines": shown})
    return Chart("contacts", {"views": views})


@figure("contacts", caption=_caption, applies=_applies, place=55, title="Contacts", chart=_chart)
def contacts(run: Run) -> Figure:
    """Draw the statistics of the contacts of the first seed, a line for each sweep point."""
    lines, styles = measured(run).lines, looks(run)
    shown = _views(lines)
    drawn, panels = make_panels(len(shown), 3, 3.1, 2.5)
    handles: dict[str, Any] = {}
    for axes, view in zip(panels, shown):
        for of_point in lines:
            if view.key in of_point.found:
                look = styles[of_point.point]
                style: dict[str, Any] = {"color": look.colour, "linestyle": look.dashes, "linewidth": 1.3}
                (handle,) = axes.plot(*of_point.found[view.key], label=of_point.label, **style)
                handles.setdefault(of_point.label, handle)
        axes.set(title=view.label, xlabel=view.x, ylabel=view.y)
        axes.set(xscale="log" if view.logx else "linear", yscale="log" if view.logy else "linear")
        for axis, logarithmic in ((axes.xaxis, view.logx), (axes.yaxis, view.logy)):
            if logarithmic:
                axis.set_major_formatter("{x:g}")  # not as a formula, which the style turns off
                axis.set_minor_formatter(NullFormatter())
        if not view.logy:
            axes.set_ylim(bottom=0)
    drawn.legend(handles=list(handles.values()), loc="outside lower center", ncols=min(len(handles), 4))
    return drawn
