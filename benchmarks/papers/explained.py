"""Why our leads in MADFL's table II have other sizes than the paper's: the same study with one thing changed at a time.

The item explained:t2. `small` has fewer images, a smaller CNN and, in figures 2 to 8, fewer but longer steps. Each of
these is changed towards the paper's, and the length of all steps is cut besides.
"""

from typing import Any

from ml_collections import ConfigDict

from benchmarks.papers.cells import cell, points
from benchmarks.papers.items import Outcome, item
from benchmarks.papers.madfl import TABLE_2
from benchmarks.papers.studies import Studies
from configs import madfl
from mdfl_jax.presets import Preset, preset_config

RULES = ("static", "random_movement", "dcm")
LEADS = (("random_movement", "static"), ("dcm", "random_movement"))
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "base": ("1,000 images, CNN of 4 and 8 channels, 300 rounds, learning rate 0.1", {}),
    "images": ("3,000 images", {"data.limit_train": 3000}),
    "model": (
        "CNN of 8 and 16 channels, 5 x 5, 64 hidden units",
        {"model.widths": (8, 16), "model.kernel": 5, "model.hidden": 64},
    ),
    "rounds": ("1,000 rounds, learning rate 0.03", {"rounds": 1000, "algorithm.lr": 0.03, "eval_every": 100}),
    "short": ("300 rounds, learning rate 0.03", {"algorithm.lr": 0.03}),
}


def _table_2() -> ConfigDict:
    config = madfl.mnist(3)
    config.sweep = "network.mobility=" + ",".join(RULES)
    return config


def preset(change: dict[str, Any]) -> Preset:
    """Return the preset of a variant; the paper's size has no variants."""
    return Preset(_table_2, madfl.POINTS | {"seeds": 4} | change)


@item("explained:t2", "What changes the leads in MADFL's table II", "madfl:t2")
def table_2(studies: Studies) -> Outcome:
    """Measure the accuracies and the leads with one thing changed at a time."""
    rows = []
    for name, (told, change) in VARIANTS.items():
        study = studies.of(preset_config("explained", {name: preset(change)}, f"{name},scale={studies.scale}"))
        means = [cell(study.mean(mobility=rule), 1, 4) for rule in RULES]
        gains = [points(study.gain({"mobility": better}, {"mobility": than})) for better, than in LEADS]
        rows.append([told, *means, *gains])
    paper = TABLE_2[0.05]
    gains = [f"{paper[better] - paper[than]:+.2f}" for better, than in LEADS]
    rows.append(["the paper: 60,000 images, 1,000 rounds, 0.03", *(f"{paper[rule]:.2f}" for rule in RULES), *gains])
    header = ["", "static (%)", "random (%)", "DCM (%)", "random - static", "DCM - random"]
    return Outcome([("alpha 0.05, M = 3, one thing changed at a time", header, rows)], [])
