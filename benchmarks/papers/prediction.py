"""Which numbers of theory, computed without training, rank settings and mobility rules as training does?

The items prediction:f3 (the study of MADFL's figure 3: accuracy over M, Rc and Rm under random movement, DAM and DCM)
and prediction:rules (all rules of the grid on digits, 200 rounds, and those of the plane).

For each quantity of `mdfl theory`: Spearman's rank correlation with the final accuracy over the sweep points, of
means over the seeds, with the 95 % interval of a bootstrap over the points; the same over the points of each part; and
the share of pairs of rules, at the same setting, that it puts into the right order, given the sign of the correlation.
"""

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from ml_collections import ConfigDict

from benchmarks.papers.items import Outcome, Table, item
from benchmarks.papers.studies import Studies, Study
from configs import digits, madfl, waypoint_digits
from mdfl_jax.config.presets import shrink
from mdfl_jax.mobility import MOBILITIES
from mdfl_jax.mobility.rule import ORACLE

MOBILITY, KNOWLEDGE = "network.mobility", "motion.knowledge"
THEORY_SEEDS = 30  # networks are cheap; those of the training are among them
RESAMPLES = 2000


@dataclasses.dataclass(frozen=True)
class Known:
    """What is known of one sweep point.

    Attributes:
      part: the part of the study, for example the axis along which it lies.
      setting: all that is set but the mobility rule, as text.
      rule: the mobility rule.
      accuracy: the final accuracy, the mean over the seeds.
      theory: the value of each quantity: the mean over the seeds, the median where some are infinite; NaN if unknown.
    """

    part: str
    setting: str
    rule: str
    accuracy: float
    theory: dict[str, float]


def centre(values: np.ndarray) -> float:
    """Return the mean of the values that are known, or their median if some are infinite; NaN if none is known."""
    known = values[~np.isnan(values)]
    if not len(known):
        return float("nan")
    found = known.mean() if np.isfinite(known).all() else np.quantile(known, 0.5, method="lower")
    return float(f"{found:.9g}")  # rounding errors must not have ranks


def known_of(study: Study, config: ConfigDict, part: Callable[[Mapping[str, object]], str]) -> list[Known]:
    """Compute the theory of the networks of a trained study.

    Args:
      study: the study.
      config: its configuration.
      part: the part of a sweep point, from its overrides.
    """
    from mdfl_jax.config.points import points
    from mdfl_jax.config.resolve import resolve
    from mdfl_jax.contrib.theory import network

    trained = {point["id"]: point for point in study.points}
    alone = network.alone(config, THEORY_SEEDS, 0)
    all_points = points(resolve(alone))
    found = []
    for point, observed in zip(all_points, network.of_config(alone, all_points)):
        assert observed is not None
        swept = {path: value for path, value in point.overrides.items() if path not in (MOBILITY, KNOWLEDGE)}
        others = [f"{path.split('.')[-1]}={value:g}" for path, value in swept.items()]
        theory = {name: centre(values) for name, values in observed.values.items()}
        accuracy = float(trained[point.id]["final_accuracy"]["mean"])
        known = point.experiment.motion.knowledge
        rule, where = point.overrides[MOBILITY] + (f", {known}" if known != ORACLE else ""), part(point.overrides)
        found.append(Known(where, " ".join([where, *others]), rule, accuracy, theory))
    return found


def rho(x: np.ndarray, y: np.ndarray) -> float:
    """Compute Spearman's rank correlation of two arrays; NaN where one of them is constant."""
    from scipy.stats import rankdata

    a, b = (rankdata(values) - (len(values) + 1) / 2 for values in (x, y))
    size = np.sqrt((a @ a) * (b @ b))
    return float(a @ b / size) if size > 0 else float("nan")


def bootstrap(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Compute the 95 % percentile interval of `rho` over samples of the points with replacement.

    A sample in which all values are alike ranks nothing: its correlation counts as 0.
    """
    rng = np.random.default_rng(0)
    drawn = (rng.integers(0, len(x), len(x)) for _ in range(RESAMPLES))
    found = np.array([rho(x[chosen], y[chosen]) for chosen in drawn])
    low, high = np.quantile(np.nan_to_num(found), [0.025, 0.975])
    return float(low), float(high)


def ordered(points: Sequence[Known], name: str, sign: float) -> float:
    """Compute the share of pairs of points at one setting that a quantity orders as the accuracy does; ties are half.

    Args:
      points: the sweep points.
      name: the quantity.
      sign: 1 if more of it is better, -1 if less is.
    """
    shares = []
    for a, b in itertools.combinations(points, 2):
        if a.setting == b.setting and a.accuracy != b.accuracy:
            x, y = a.theory[name], b.theory[name]
            shares.append(0.5 if x == y else float((x < y) == (sign * (b.accuracy - a.accuracy) > 0)))
    return float(np.mean(shares)) if shares else float("nan")


def ranking(points: Sequence[Known]) -> Table:
    """Make the table of all quantities that differ between the points, the best predictor first."""
    from mdfl_jax.contrib.theory.quantities import QUANTITIES

    parts = list(dict.fromkeys(point.part for point in points))
    accuracy, rows = np.array([point.accuracy for point in points]), []
    for name in QUANTITIES.as_registered():
        values = np.array([point.theory.get(name, np.nan) for point in points])
        if np.isnan(values).any() or len(set(values)) < 2:
            continue  # unknown at some point, or the same at all
        whole, (low, high) = rho(values, accuracy), bootstrap(values, accuracy)
        of_parts = [rho(*(x[[p.part == part for p in points]] for x in (values, accuracy))) for part in parts]
        cells = [
            f"{whole:+.2f}",
            f"{low:+.2f} to {high:+.2f}",
            *("-" if np.isnan(r) else f"{r:+.2f}" for r in of_parts),
        ]
        share = ordered(points, name, np.sign(whole))
        rows.append((abs(whole), [QUANTITIES[name].label, *cells, f"{100 * share:.0f}"]))
    rows.sort(key=lambda row: -row[0])
    header = ["quantity", "Spearman", "95 % interval", *parts, "rules in order (%)"]
    return (f"rank correlation with the final accuracy, {len(points)} points", header, [cells for _, cells in rows])


def accuracies(points: Sequence[Known]) -> Table:
    """Make the table of the sweep points, with the accuracy and some of the theory."""
    shown = ("effective_b", "halving", "drift", "label_drift", "meeting")
    rows = [
        [p.setting, p.rule, f"{100 * p.accuracy:.1f}", *(f"{p.theory.get(name, np.nan):.3g}" for name in shown)]
        for p in sorted(points, key=lambda p: -p.accuracy)
    ]
    return ("the points, the most accurate first", ["setting", "rule", "accuracy (%)", *shown], rows)


def _axis(overrides: Mapping[str, object]) -> str:
    """Return the axis of figure 3 on which a sweep point lies; the point that all axes share counts to M."""
    rest = {path.split(".")[-1]: float(str(value)) for path, value in overrides.items() if path != MOBILITY}
    return "Rc" if rest["radius"] != 3 else "Rm" if rest["max_step"] != 5 else "M"


@item("prediction:f3", "Which numbers of theory predict MADFL's figure 3?", "madfl:f3")
def figure_3(studies: Studies) -> Outcome:
    """Compare theory with training over the sweep of MADFL's figure 3."""
    config = madfl.get_config(f"f3,scale={studies.scale}")
    points = known_of(studies("madfl:f3"), config, _axis)
    return Outcome([ranking(points), accuracies(points)], [])


@item(
    "prediction:rules", "Which numbers of theory predict the order of the mobility rules?", "digits", "waypoint_digits"
)
def rules(studies: Studies) -> Outcome:
    """Compare them over the mobility rules: those of the grid at the demo's setting, and those of the plane."""
    on_grid, in_plane = digits.get_config(), waypoint_digits.get_config()
    forms = [(name, form) for name in MOBILITIES for form in MOBILITIES.forms(name) if form.world == "grid"]
    usable = [  # theory has no models
        (name, form.knowledge or ORACLE) for name, form in forms if not form.make().compare
    ]
    on_grid.sweep = f"{MOBILITY}+{KNOWLEDGE}=" + ",".join(map("+".join, usable))
    points = []
    for part, config in (("grid", on_grid), ("plane", in_plane)):
        config.name, config.baseline, config.seeds = f"prediction_{part}_{studies.scale}", "", 6
        config.rounds = 200
        if studies.scale == "smoke":
            shrink(config)
        points += known_of(studies.of(config), config, lambda overrides, part=part: part)  # type: ignore[misc]
    return Outcome([ranking(points), accuracies(points)], [])
