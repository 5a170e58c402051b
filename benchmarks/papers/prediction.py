"""Which numbers of theory, computed without training, rank settings and mobility rules as training does?

python -m benchmarks.papers.prediction --figure=f3 [--scale=small|paper] [--workdir=runs/papers] [--json=FILE]

`f3`: MADFL's figure 3, accuracy against the number of mobile clients, the radius and the largest step, for random
movement, DAM and DCM. `rules`: all rules of the grid, and of the plane. `smoke`: six points in seconds, which only
shows that everything runs. `small` trains on digits for 200 rounds, `paper` on MNIST with the paper's numbers.

For each quantity of `launch.theory`: Spearman's rank correlation with the final accuracy over the sweep points, of
means over the seeds, with the 95 % interval of a bootstrap over the points; the same over the points of each part; and
the share of pairs of rules, at the same setting, that it puts into the right order, given the sign of the correlation.
"""

import dataclasses
import itertools
from collections.abc import Callable, Sequence

import numpy as np
from ml_collections import ConfigDict

from benchmarks.papers.figures import Figures, Table, run, small, study
from configs import digits, mnist_mobility, waypoint_digits
from mdfl_jax.mobility import MOBILITIES

MOBILITY = "network.mobility"
RULES = "network.mobility=random_movement,dam,dcm"
AXES = {
    "M": "network.num_mobile=1,3,5,8,10",
    "Rc": "network.radius=1,2,3,4,5",
    "Rm": "network.max_step=1,3,5,9,inf",
}
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


def known_of(part: str, config: ConfigDict) -> list[Known]:
    """Train a study, or read it, and compute the theory of its networks."""
    from mdfl_jax.experiments.config.points import points
    from mdfl_jax.experiments.config.resolve import resolve
    from mdfl_jax.theory import network

    trained = {point["id"]: point for point in study(config)}
    alone = network.alone(config, THEORY_SEEDS, 0)
    all_points = points(resolve(alone))
    found = []
    for point, observed in zip(all_points, network.of_config(alone, all_points)):
        assert observed is not None
        others = [f"{path.split('.')[-1]}={value:g}" for path, value in point.overrides.items() if path != MOBILITY]
        theory = {name: centre(values) for name, values in observed.values.items()}
        accuracy = float(trained[point.id]["final_accuracy"]["mean"])
        found.append(Known(part, " ".join([part, *others]), point.overrides[MOBILITY], accuracy, theory))
    return found


def rho(x: np.ndarray, y: np.ndarray) -> float:
    """Compute Spearman's rank correlation of two arrays; NaN where one of them is constant."""
    from scipy.stats import rankdata

    a, b = (rankdata(values) - (len(values) + 1) / 2 for values in (x, y))
    size = np.sqrt((a @ a) * (b @ b))
    return float(a @ b / size) if size > 0 else float("nan")


def bootstrap(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Compute the 95 % percentile interval of `rho` over samples of the points with replacement."""
    rng = np.random.default_rng(0)
    drawn = (rng.integers(0, len(x), len(x)) for _ in range(RESAMPLES))
    found = np.array([rho(x[chosen], y[chosen]) for chosen in drawn])
    low, high = np.nanquantile(found, [0.025, 0.975])
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
    from mdfl_jax.theory.quantities import QUANTITIES

    parts = list(dict.fromkeys(point.part for point in points))
    accuracy, rows = np.array([point.accuracy for point in points]), []
    for name in QUANTITIES.as_registered():
        values = np.array([point.theory.get(name, np.nan) for point in points])
        if np.isnan(values).any() or len(set(values)) < 2:
            continue  # unknown at some point, or the same at all
        whole, (low, high) = rho(values, accuracy), bootstrap(values, accuracy)
        of_parts = [rho(*(x[[p.part == part for p in points]] for x in (values, accuracy))) for part in parts]
        cells = [f"{whole:+.2f}", f"{low:+.2f} to {high:+.2f}", *(f"{r:+.2f}" for r in of_parts)]
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


def _base() -> ConfigDict:
    config = digits.get_config() if small() else mnist_mobility.get_config("madfl_f2")
    config.baseline = ""
    if small():
        config.rounds = 200
    else:
        config.data.alpha = 0.05
    return config


def _f3(axes: dict[str, str], change: Callable[[ConfigDict], None] = lambda config: None) -> list[Table]:
    points = []
    for part, axis in axes.items():
        config = _base()
        config.name = f"prediction_{'small' if small() else 'paper'}_{part}"
        config.sweep = f"{axis}; {RULES}"
        change(config)
        points += known_of(part, config)
    return [ranking(points), accuracies(points)]


def figure_3() -> list[Table]:
    """Compare theory with training over the sweep of MADFL's figure 3."""
    return _f3(AXES)


def smoke() -> list[Table]:
    """Compare them at six points with little training."""

    def shorten(config: ConfigDict) -> None:
        config.name += "_smoke"
        config.seeds, config.rounds, config.eval_every = 2, 20, 20
        config.data.limit_train, config.data.limit_test, config.model.name = 400, 200, "linear"

    return _f3({"Rc": "network.radius=1,3"}, shorten)


def rules() -> list[Table]:
    """Compare them over the mobility rules: those of the grid at the demo's setting, and those of the plane."""
    on_grid, in_plane = _base(), waypoint_digits.get_config()
    on_grid.name = f"prediction_{'small' if small() else 'paper'}_grid"
    on_grid.sweep = f"{MOBILITY}=" + ",".join(name for name in MOBILITIES if MOBILITIES[name]().world == "grid")
    in_plane.name, in_plane.baseline, in_plane.seeds = "prediction_plane", "", on_grid.seeds
    points = known_of("grid", on_grid) + known_of("plane", in_plane)
    return [ranking(points), accuracies(points)]


FIGURES: Figures = {
    "f3": (figure_3, "accuracy grows with M, Rc and Rm, and saturates; DCM above DAM above random movement"),
    "rules": (rules, "DCM above DAM above random movement above nobody moving"),
    "smoke": (smoke, "as f3"),
}


if __name__ == "__main__":
    run(FIGURES)
