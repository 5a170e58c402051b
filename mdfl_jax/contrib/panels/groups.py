"""The figure of two groups, mobile clients and all others: accuracy, its difference and contacts against rounds."""

import numpy as np

from mdfl_jax.report.picture import Level, Picture, Plot, Scale, Series, mean_line
from mdfl_jax.report.registry import figure
from mdfl_jax.report.sheet import percent_cell
from mdfl_jax.report.style import has_intervals, looks, main_axis
from mdfl_jax.results.evaluations import Curve
from mdfl_jax.results.results import Results

MAX_POINTS = 7  # the number of colours of the palette
_GROUPS = (("mobile", 0), ("other", 1))  # with their dashes


def _shown_points(study: Results) -> list[int]:
    """Return the indices of the sweep points to draw, at most `MAX_POINTS`.

    In these sweep points both groups have clients and the mobile clients move. If several settings vary, only the main
    one (the mobility, if it varies, else the first) differs between them; all others are as in the first sweep point.
    """
    main = main_axis(study)
    others = [axis for axis in study.axes if axis != main]
    found = []
    for p, point in enumerate(study.outcomes):
        both = np.isfinite(_of(study, p, "accuracy_mobile") - _of(study, p, "accuracy_other")).any()
        alike = all(axis.texts[p] == axis.texts[0] for axis in others)
        if both and alike and point.get("distance_moved_per_mobile_client"):
            found.append(p)
    return found[:MAX_POINTS]


def _contacts(curve: Curve, name: str) -> np.ndarray:
    """Return the mean number of contacts since the start of a client of a group, "mobile" or "other": [S, E].

    It is the sum over the evaluations of the mean per round times the number of rounds since the last evaluation.
    """
    met = curve.values[f"num_neighbours_{name}"][:, 1:] * np.diff(curve.rounds)
    return np.pad(np.cumsum(met, axis=1), ((0, 0), (1, 0)))


def _leads(curve: Curve) -> np.ndarray:
    """Return by how many percentage points the mobile clients lead, [S, E]."""
    return 100 * (curve.values["accuracy_mobile"] - curve.values["accuracy_other"])


def caption(study: Results, shown: list[int]) -> str:
    """Return the caption, with the mean lead of the mobile clients in each sweep point."""
    fast = all(study.value(p, "network.mobility") == "random_walk" for p in shown)
    who = "Mobile (fast, solid) and other (slow, dashed)" if fast else "Mobile (solid) and other (dashed)"
    styles, leads = looks(study), []
    for p in shown:
        lead = percent_cell(study.outcomes[p].get("group_gap", {}).get("mean"), "+")
        leads += [f"{styles[p].label}: {lead.text}"] if lead.number is not None else []
    means = f" Mean lead through the run, in points: {'; '.join(leads)}." if leads else ""
    band = " (band: 95 % Student-t interval)" if has_intervals(study) else ""
    return (
        f"{who} clients: their test accuracy, the mobile ones' lead{band}, and how many neighbours a client has met"
        f" since the start, those met again counted again; means over the seeds.{means}"
        + f" Drawn are {len(shown)} of {len(styles)} points."
        * (len(shown) < len(styles))
    )


@figure("groups", of=_shown_points, caption=caption, place=30, title="Mobile and other clients")
def groups(study: Results, shown: list[int]) -> Picture:
    """Draw the accuracy of both groups, the mobile clients' lead with its 95 % interval, and contacts since the start.

    The lead is the mean accuracy of the mobile clients minus that of the others, in percentage points.
    """
    accuracy, lead, met = list[Series](), list[Series](), list[Series]()
    for look, curve in ((looks(study)[p], study.curve(p).of_results) for p in shown):
        for name, dash in _GROUPS:
            whose, mean = f"{look.label}, {name} clients", 100 * curve.values[f"accuracy_{name}"].mean(0)
            accuracy.append(Series(whose, look.colour, curve.rounds, mean, dash=dash))
            met.append(accuracy[-1]._replace(y=_contacts(curve, name).mean(0)))
        lead.append(mean_line(look.label, (look.colour, 0), curve.rounds, _leads(curve), legend=look.label))
    keys = [Series("", "soft", [], [], dash=dash, legend=f"{name} clients") for name, dash in _GROUPS]
    panels = {
        "test accuracy (%)": [*accuracy, *keys],
        "lead of the mobile clients (points)": lead,
        "contacts of a client since the start": met,
    }
    plots = [Plot("", Scale("round"), Scale(title), series) for title, series in panels.items()]
    return Picture([plots[0], plots[1]._replace(levels=[Level(0, "soft")]), plots[2]], size=(3.2, 3.0))


def _of(study: Results, p: int, key: str) -> np.ndarray:
    """Return the values of a group at the end, [S], or NaN if they were not recorded."""
    values = study.curve(p).values.get(key)
    return np.array([np.nan]) if values is None else values[:, -1]
