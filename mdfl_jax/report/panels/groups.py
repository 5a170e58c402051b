"""The figure of two groups, mobile clients and all others: accuracy, its difference and contacts against rounds."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from mdfl_jax.report.read import Curve, ReportData
from mdfl_jax.report.registry import Chart, figure
from mdfl_jax.report.style import for_plotly, has_intervals, looks, main_axis, make_panels
from mdfl_jax.results.statistics import band

MAX_POINTS = 7  # the number of colours of the palette
NAMED = 4  # of more sweep points that are left out for one reason, only their number is given
INK, KEY = "#333333", "#808080"  # the page shows the grey in both of its themes
OTHERS_DASHES = (0, (4, 1.8))


def shown_points(study: ReportData) -> list[int]:
    """Return the indices of the sweep points to draw, at most `MAX_POINTS`.

    In these sweep points both groups have clients and the mobile clients move. If several settings vary, only the main
    one (the mobility, if it varies, else the first) differs between them; all others are as in the first sweep point.
    """
    return [p for p, why in enumerate(_why_left_out(study)) if not why]


def _why_left_out(study: ReportData) -> list[str]:
    """Return for each sweep point why it is not drawn; an empty text for those that are drawn."""
    main = main_axis(study)
    others = [axis for axis in study.axes if axis != main]
    found: list[str] = []
    for p, point in enumerate(study.points):
        distance = point.get("distance_moved_per_mobile_client")
        if not np.isfinite(_of(study, p, "accuracy_mobile") - _of(study, p, "accuracy_other")).any():
            found.append("without accuracies of both groups")
        elif distance is None:
            found.append("no distance moved is known")
        elif not distance:
            found.append("nobody moves")
        elif any(axis.texts[p] != axis.texts[0] for axis in others):
            found.append("other settings than the first point")
        else:
            found.append("" if found.count("") < MAX_POINTS else "no colour is left")
    return found


def _left_out(study: ReportData) -> str:
    """Return the caption's sentence that names the sweep points which are not drawn, and why, or an empty text."""
    names: dict[str, list[str]] = {}
    for look, why in zip(looks(study), _why_left_out(study)):
        names.setdefault(why, []).append(look.label)
    names.pop("", None)
    reasons = [f"{', '.join(of) if len(of) <= NAMED else f'{len(of)} points'} ({why})" for why, of in names.items()]
    return f" Not drawn: {'; '.join(reasons)}." if reasons else ""


def contacts(curve: Curve, name: str) -> np.ndarray:
    """Return the mean number of contacts since the start of a client of a group, "mobile" or "other": [S, E].

    It is the sum over the evaluations of the mean per round times the number of rounds since the last evaluation.
    """
    met = curve.groups[f"num_neighbours_{name}"][:, 1:] * np.diff(curve.rounds)
    return np.pad(np.cumsum(met, axis=1), ((0, 0), (1, 0)))


def _leads(curve: Curve) -> np.ndarray:
    """Return by how many percentage points the mobile clients lead, [S, E]."""
    return 100 * (curve.groups["accuracy_mobile"] - curve.groups["accuracy_other"])


def caption(study: ReportData, shown: list[int]) -> str:
    """Return the caption, with the mean lead of the mobile clients in each sweep point."""
    fast = all(study.value(p, "network.mobility") == "random_walk" for p in shown)
    who = "Mobile (fast, solid) and other (slow, dashed)" if fast else "Mobile (solid) and other (dashed)"
    styles, leads = looks(study), []
    for p in shown:
        lead = study.points[p].get("group_gap", {}).get("mean", {})
        if lead.get("mean") is not None:
            half = "" if lead.get("ci95") is None else f" ± {100 * lead['ci95']:.2f}"
            leads.append(f"{styles[p].label}: {100 * lead['mean']:+.2f}{half}")
    means = f" Mean lead through the run, in points: {'; '.join(leads)}." if leads else ""
    band = " (band: 95 % Student-t interval)" if has_intervals(study) else ""
    return (
        f"{who} clients: their test accuracy, the mobile ones' lead{band}, and how many neighbours a client has met"
        f" since the start, those met again counted again; means over the seeds.{means}{_left_out(study)}"
    )


def _chart(study: ReportData, shown: list[int]) -> Chart:
    """Return three panels: accuracy of both groups, lead of the mobile clients, and contacts since the start."""
    accuracy: list[dict[str, Any]] = []
    lead: list[dict[str, Any]] = []
    met: list[dict[str, Any]] = []
    styles = looks(study)
    for p in shown:
        curve, colour = study.curves[study.points[p]["id"]].of_results, styles[p].colour
        label = for_plotly(styles[p].label)
        of_point = {"type": "scatter", "mode": "lines", "legendgroup": label, "x": curve.rounds}
        for name, who, dash in (("mobile", "mobile clients", "solid"), ("other", "other clients", "dash")):
            of_group = {**of_point, "name": f"{label}, {who}", "showlegend": False}
            of_group |= {"line": {"color": colour, "width": 2, "dash": dash}}
            accuracy.append({**of_group, "y": 100 * curve.groups[f"accuracy_{name}"].mean(0)})
            met.append({**of_group, "y": contacts(curve, name).mean(0)})
        gap, half = band(_leads(curve))
        lead.append({**of_point, "name": label, "y": gap, "line": {"color": colour, "width": 2}})
        if half is not None:
            edge = {"x": [*curve.rounds, *curve.rounds[::-1]], "y": [*(gap + half), *(gap - half)[::-1]]}
            fill = {"fill": "toself", "fillcolor": f"rgba{(*_parts(colour), 0.14)}", "line": {"width": 0}}
            lead.append({**of_point, **edge, **fill, "hoverinfo": "skip", "showlegend": False})
    empty = {"type": "scatter", "mode": "lines", "x": [None], "y": [None]}
    keys = [
        empty | {"name": name, "line": {"color": KEY, "dash": dash}}
        for name, dash in (("mobile clients", "solid"), ("the others", "dash"))
    ]
    panels = (
        ("test accuracy (%)", [*accuracy, *keys]),
        ("lead of the mobile clients (points)", lead),
        ("contacts of a client since the start", met),
    )
    return Chart("multiples", {"panels": [{"title": title, "x": "round", "traces": of} for title, of in panels]})


def _parts(colour: str) -> tuple[int, ...]:
    """Return red, green and blue of a colour '#rrggbb', from 0 to 255."""
    return tuple(bytes.fromhex(colour.removeprefix("#")))


@figure("groups", of=shown_points, caption=caption, place=30, title="Mobile and other clients", chart=_chart)
def groups(study: ReportData, shown: list[int]) -> Figure:
    """Draw the accuracy of both groups, the mobile clients' lead with its 95 % interval, and contacts since the start.

    The lead is the mean accuracy of the mobile clients minus that of the others, in percentage points.
    """
    styles = looks(study)
    drawn, (accuracy, lead, met) = make_panels(3, 3, 3.2, 3.6)
    lead.axhline(0, color=INK, linewidth=0.9)
    handles: list[Any] = []
    for p in shown:
        look, curve = styles[p], study.curves[study.points[p]["id"]].of_results
        for name, dashes in (("mobile", "-"), ("other", OTHERS_DASHES)):
            style: dict[str, Any] = {"color": look.colour, "linestyle": dashes, "linewidth": 1.4}
            accuracy.plot(curve.rounds, 100 * curve.groups[f"accuracy_{name}"].mean(0), **style)
            met.plot(curve.rounds, contacts(curve, name).mean(0), **style)
        gap, half = band(_leads(curve))
        handles += lead.plot(curve.rounds, gap, color=look.colour, label=look.label)
        if half is not None:
            lead.fill_between(curve.rounds, gap - half, gap + half, color=look.colour, alpha=0.13, linewidth=0)
    accuracy.set_ylabel("test accuracy (%)")
    lead.set_ylabel("lead of the mobile clients (points)")
    met.set_ylabel("contacts of a client since the start")
    for axes in (accuracy, lead, met):
        axes.set_xlabel("round")
        axes.margins(x=0.01)
    handles += [
        Line2D([], [], color=INK, label="mobile clients"),
        Line2D([], [], color=INK, linestyle=OTHERS_DASHES, label="the others"),
    ]
    drawn.legend(handles=handles, loc="outside upper center", ncols=min(len(handles), 5))
    return drawn


def _of(study: ReportData, p: int, key: str) -> np.ndarray:
    """Return the values of a group at the end, [S], or NaN if they were not recorded."""
    values = study.curves[study.points[p]["id"]].groups.get(key)
    return np.array([np.nan]) if values is None else values[:, -1]
