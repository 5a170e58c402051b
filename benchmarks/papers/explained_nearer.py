"""Claims that differ, with settings nearer to the papers': the item explained:nearer.

`small` cuts what two cores cannot run in an hour. Each row takes back the cut that may explain a difference, for those
sweep points alone that the claim needs, and measures the claim once more.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from ml_collections import ConfigDict

from benchmarks.papers import page, records
from benchmarks.papers.cells import points
from benchmarks.papers.clipped_gossip import LEARNT
from benchmarks.papers.curves import Curves
from benchmarks.papers.explained import MANY_ROUNDS
from benchmarks.papers.items import ITEMS, Claim, Outcome, item
from benchmarks.papers.mobility import shrinks, world
from benchmarks.papers.rivals import FINAL, ROUNDS, best, plain, values
from benchmarks.papers.studies import Studies, Study
from configs import clipped_gossip, fedmobile, madfl, pame
from mdfl_jax.config.presets import shrink
from mdfl_jax.core.outcomes import VALIDATION_LOSS, interval


def _study(studies: Studies, name: str, config: ConfigDict, change: dict[str, Any]) -> Study:
    """Run or read the study of a configuration with other values of some fields."""
    config.update_from_flattened_dict({"baseline": "", "select": "", **change})
    config.name = f"explained_nearer_{name}_{studies.scale}"
    return studies.of(shrink(config) if studies.scale == "smoke" else config)


def _lead(studies: Studies, text: str) -> Claim:
    few, many = (1, 3, 5), (9, 3, 5)
    change = MANY_ROUNDS | {"sweep": f"{madfl.worlds([few, many])}; {madfl.RIVALS}", "seeds": 8}
    return shrinks(_study(studies, "lead", madfl.get_config("f3,scale=small"), change), text, world(*many), world(*few))


class _Given(Studies):
    """Studies of which one is given, and stands for all."""

    def __init__(self, studies: Studies, study: Study):
        super().__init__(studies.scale, study.workdir.parent)
        self.study = study

    def __call__(self, preset: str) -> Study:
        return self.study


def _iterations(studies: Studies, text: str) -> Claim:
    study = _study(studies, "iterations", pame.get_config("f7,scale=small"), {"data.samples_per_client": 1200})
    return next(claim for claim in ITEMS["pame:f7"].make(_Given(studies, study)).claims if claim.text == text)


def _rounds(studies: Studies, text: str) -> Claim:
    sweep = pame.compared(pame.REGRESSION, pame.NAMES, [("pame",), ("dpsgd",)])
    study = _study(studies, "rounds", pame.get_config("f9_1000"), {"sweep": f"{pame.NODES}; {sweep}"})
    chosen = [best(study, ROUNDS, plain, num_clients=m) for m in (32, 64, 128)]
    fewer = [values(of.get("dpsgd"), ROUNDS) - values(of.get("pame"), ROUNDS) for of in chosen]
    return Claim(text, interval(np.mean(fewer, axis=0)), sign=1, unit="rounds")


def _accuracy(studies: Studies, text: str) -> Claim:
    grid: pame.Grid = {"pame": ((0.2,), (0.4,), (0.1,)), "dpsgd": ((0.05, 0.2), (0.4,), (0.1,))}  # of `IMAGES`
    change = {"sweep": pame.compared(grid, pame.NAMES, [(name,) for name in grid]), "data.classes_per_client": 7}
    change |= {"rounds": 1000, "eval_every": 200, "seeds": 5}
    found = best(_study(studies, "accuracy", pame.get_config("f11,scale=small"), change), VALIDATION_LOSS, plain)
    ahead = values(found.get("pame"), FINAL) - values(found.get("dpsgd"), FINAL)
    return Claim(text, interval(100 * ahead), sign=1)


def _downloads(studies: Studies, text: str) -> Claim:
    change = {"sweep": "algorithm.max_download=1,50", "algorithm.name": "fedmobile_d", "algorithm.batch_size": 128}
    study = _study(studies, "downloads", fedmobile.get_config("f5d,scale=small"), change | {"rounds": 250, "seeds": 5})
    further = Curves.of(study).gain({"max_download": 50}, {"max_download": 1})
    return Claim(text, float(further["mean"]) <= float(further["ci95"] or 0), told=points(further))


def _median(studies: Studies, text: str) -> Claim:
    change = {"sweep": "attack.name=dissensus", "algorithm.aggregation": "geometric_median"}
    found = {
        clients: _study(studies, f"median_{clients}", clipped_gossip.get_config(f"f6_{clients}"), change)
        for clients in (16, 15)
    }
    without, with_it = (study.per_seed(name="dissensus").mean() for study in found.values())
    told = f"{100 * (with_it - without):+.1f} points with a majority"
    return Claim(text, bool(100 * (with_it - without) > LEARNT), told=told)


class Row(NamedTuple):
    """A claim that differs.

    Attributes:
      item: the item that has it.
      text: the claim.
      nearer: what is as in the paper here, and is not in `small`.
      measure: (studies, text) -> the claim as measured there.
    """

    item: str
    text: str
    nearer: str
    measure: Callable[[Studies, str], Claim]


ROWS = (
    Row("madfl:f3", "DCM's lead is larger with M = 9 than with M = 1", "1,000 rounds, learning rate 0.03", _lead),
    Row(
        "pame:f7",
        "iterations from a density of 0.2, mean, full gradients",
        "1,200 samples a node (not given)",
        _iterations,
    ),
    Row(
        "pame:f9",
        "PaME needs fewer rounds to 75 % than dpsgd: how many fewer, mean over all settings",
        "n = 1,000 alone, with 100 samples a node",
        _rounds,
    ),
    Row("pame:f11", "PaME is more accurate than dpsgd, C = 7", "1,000 rounds", _accuracy),
    Row("fedmobile:f5", "several downloads by relay do not help further (7)", "batches of 128, 250 slots", _downloads),
    Row(
        "clipped_gossip:f6",
        "the geometric median needs a majority under dissensus",
        "a CNN, all images, 900 rounds",
        _median,
    ),
)


@item("explained:nearer", "Claims that differ, nearer to the papers' settings", "madfl:f3")
def nearer(studies: Studies) -> Outcome:
    """Measure claims that differ at the scale `small` with what is cut there taken back."""
    rows = []
    for row in ROWS:
        kept = (records.kept(row.item) or {"claims": []})["claims"]
        small = next((page.ours(claim) for claim in kept if claim["text"] == row.text), "-")
        again, seeds = row.measure(studies, row.text), list(studies.used.values())[-1]["seeds"]
        told = f"{page.ours(again.as_json())} ({seeds} seeds)"
        rows.append([ITEMS[row.item].title, row.text, small, row.nearer, told, again.verdict])
    header = ["item", "the paper's claim", "`small`", "as in the paper", "ours then", "verdict then"]
    return Outcome([("claims that differ, once more", header, rows)], [])
