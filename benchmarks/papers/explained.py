"""Why our numbers for MADFL have other sizes than the paper's: the same study with one thing changed at a time.

The items explained:t2, of the leads in table II, and explained:f4, of the radius that figure 4 asks for. `small` has
fewer images, a smaller CNN and, in figures 2 to 8, fewer but longer steps. Each of these is changed towards the
paper's, and the length of all steps is cut besides. The item explained:rate has DADFL's learning rate and lower ones.
"""

from collections.abc import Callable
from typing import Any

from ml_collections import ConfigDict

from benchmarks.papers.cells import cell, points
from benchmarks.papers.items import Outcome, item
from benchmarks.papers.madfl import TABLE_2
from benchmarks.papers.mobility import BEST, world
from benchmarks.papers.studies import Studies, Study
from configs import dadfl, madfl
from mdfl_jax.config.presets import Preset, preset_config
from mdfl_jax.core.outcomes import interval

RULES = ("static", "random_movement", "dcm")
LEADS = (("random_movement", "static"), ("dcm", "random_movement"))
MANY_ROUNDS = {"rounds": 1000, "algorithm.lr": 0.03, "eval_every": 100}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "base": ("1,000 images, CNN of 4 and 8 channels, 300 rounds, learning rate 0.1", {}),
    "images": ("3,000 images", {"data.limit_train": 3000}),
    "model": (
        "CNN of 8 and 16 channels, 5 x 5, 64 hidden units",
        {"model.widths": (8, 16), "model.kernel": 5, "model.hidden": 64},
    ),
    "rounds": ("1,000 rounds, learning rate 0.03", MANY_ROUNDS),
    "short": ("300 rounds, learning rate 0.03", {"algorithm.lr": 0.03}),
}


def _table_2() -> ConfigDict:
    config = madfl.mnist(3)
    config.sweep = "network.mobility=" + ",".join(RULES)
    return config


def study_of(studies: Studies, name: str, make: Callable[[], ConfigDict], change: dict[str, Any]) -> Study:
    """Run or read the study of a variant."""
    presets = {name: Preset(make, madfl.POINTS | {"seeds": 4} | change)}
    return studies.of(preset_config("explained", presets, f"{name},scale={studies.scale}"))


NEAR = (madfl.FULL, (3, 4, 5), (3, 5, 5))  # M, Rc, Rm: the thresholds of figure 4 with M = 3
RATES = (0.03, 0.1, 0.3)
SIZES: dict[str, dict[str, Any]] = {  # what of the paper's numbers is cut
    "`small`": dadfl.CUT,
    "the paper's CNN, 2,000 images": dadfl.SHORT | {"data.limit_train": 2000, "rounds": 30, "eval_every": 10},
}
STEPS: dict[str, dict[str, Any]] = {  # of the same length in all
    "300 rounds, learning rate 0.1": {},
    "1,000 rounds, learning rate 0.03": MANY_ROUNDS,
}


def _figure_4() -> ConfigDict:
    config = madfl.mnist()
    config.sweep = f"{madfl.worlds(NEAR)}; {madfl.RIVALS}"
    return config


@item("explained:t2", "What changes the leads in MADFL's table II", "madfl:t2")
def table_2(studies: Studies) -> Outcome:
    """Measure the accuracies and the leads with one thing changed at a time."""
    rows = []
    for name, (told, change) in VARIANTS.items():
        study = study_of(studies, f"t2_{name}", _table_2, change)
        means = [cell(study.mean(mobility=rule), 1, 4) for rule in RULES]
        gains = [points(study.gain({"mobility": better}, {"mobility": than})) for better, than in LEADS]
        rows.append([told, *means, *gains])
    paper = TABLE_2[0.05]
    gains = [f"{paper[better] - paper[than]:+.2f}" for better, than in LEADS]
    rows.append(["the paper: 60,000 images, 1,000 rounds, 0.03", *(f"{paper[rule]:.2f}" for rule in RULES), *gains])
    header = ["", "static (%)", "random (%)", "DCM (%)", "random - static", "DCM - random"]
    return Outcome([("alpha 0.05, M = 3, one thing changed at a time", header, rows)], [])


@item("explained:f4", "What changes the radius that figure 4 asks for", "madfl:f4")
def figure_4(studies: Studies) -> Outcome:
    """Measure the share of the fully connected accuracy at the paper's radii, with fewer and with more rounds."""
    rows = []
    for number, (told, change) in enumerate(STEPS.items()):
        study = study_of(studies, f"f4_{number}", _figure_4, change)
        best = {
            (rule, rc): 100 * study.per_seed(BEST, mobility=rule, **world(m, rc, rm))
            for rule in ("random_movement", "dcm")
            for m, rc, rm in NEAR
        }
        shares = [
            cell(interval(100 * best[rule, rc] / best[rule, "inf"]), 1, 3)
            for rule, rc in (("dcm", 4), ("random_movement", 4), ("dcm", 5), ("random_movement", 5))
        ]
        rows.append([told, cell(interval(best["dcm", "inf"]), 1, 3), *shares])
    header = ["", "connected (%)", "DCM, Rc = 4", "random, Rc = 4", "DCM, Rc = 5", "random, Rc = 5"]
    return Outcome([("M = 3: accuracy of a connected network, and shares of it in %", header, rows)], [])


def _rates() -> ConfigDict:
    config = dadfl.mnist()
    config.network.mobility, config.data.alpha = "dcm", 0.05
    config.sweep = "algorithm.lr=" + ",".join(map(str, RATES))
    return config


@item("explained:rate", "The learning rate of DADFL", "dadfl:f2")
def rate(studies: Studies) -> Outcome:
    """Measure how many seeds diverge, and the accuracy of all, by the learning rate."""
    rows = []
    for number, (told, cut) in enumerate(SIZES.items()):
        presets = {f"rate_{number}": Preset(_rates, cut | {"seeds": 4})}
        config = preset_config("explained", presets, f"rate_{number},scale={studies.scale}")
        study = studies.of(config)
        for lr in RATES:
            lost = sorted(study.point(lr=lr)["diverged"].values())
            accuracies = ", ".join("-" if value != value else f"{100 * value:.1f}" for value in study.per_seed(lr=lr))
            rows.append([f"{told}, {config.rounds} rounds", f"{lr:g}", f"{len(lost)} of {config.seeds}"])
            rows[-1] += [", ".join(map(str, lost)) or "-", accuracies]
    header = ["", "learning rate", "diverged", "in rounds", "final accuracy of each seed (%)"]
    return Outcome([("DCM, M = 5, alpha 0.05, momentum 0.9", header, rows)], [])
