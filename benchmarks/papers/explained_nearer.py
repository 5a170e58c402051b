"""Claims that differ, with settings nearer to the papers': the item explained:nearer.

`small` cuts what two CPU cores cannot run soon. A row takes back the cut that may explain a difference, for the sweep
points that its claim needs, and measures the claim once more by the rule of its item. Of the other items with claims
that differ, explained:periods has PaME's figures 5 and 6, figure 8 has the n of figures 9 and 10 in full, thesis.md has
the digits for the thesis's table 1, and for PaME's figure 12 two cores are not enough.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ml_collections import ConfigDict

from benchmarks.papers import page, records
from benchmarks.papers.clipped_gossip import needs_majority
from benchmarks.papers.curves import Curves, sooner
from benchmarks.papers.explained import MANY_ROUNDS
from benchmarks.papers.fedmobile import NO_FURTHER
from benchmarks.papers.items import Claim, Outcome, item
from benchmarks.papers.mobility import shrinks, world
from benchmarks.papers.rivals import FINAL, M, ahead, best, plain
from benchmarks.papers.studies import Setting, Studies, Study, mean_of, setting_of
from configs import clipped_gossip, fedmobile, madfl, pame
from mdfl_jax.config.presets import shrink
from mdfl_jax.core.outcomes import VALIDATION_LOSS

LEAD = "DCM's lead is larger with M = 9 than with M = 1"
ITERATIONS = "iterations from a density of 0.2, mean, full gradients"
MORE_ACCURATE = "PaME is more accurate than {}"


def _study(studies: Studies, name: str, config: ConfigDict, change: Setting) -> Study:
    """Run or read the study of a configuration with other values of some fields."""
    config.update_from_flattened_dict({"baseline": "", "select": "", **change})
    config.name = f"explained_nearer_{name}_{studies.scale}"
    return studies.of(shrink(config) if studies.scale == "smoke" else config)


def _lead(studies: Studies) -> Claim:
    few, many = (1, 3, 5), (9, 3, 5)
    change = MANY_ROUNDS | {"sweep": f"{madfl.worlds([few, many])}; {madfl.RIVALS}", "seeds": 8}
    return shrinks(_study(studies, "lead", madfl.get_config("f3,scale=small"), change), LEAD, world(*many), world(*few))


def _iterations(studies: Studies) -> Claim:
    shares = ",".join(map(str, pame.RATES))
    change = {
        "sweep": f"graph.probability=0.2,0.4,0.6,0.8,1; algorithm.transmission={shares}",
        "algorithm.batch_size": 0,
    }
    study = _study(studies, "iterations", pame.get_config("f7"), change | {"data.samples_per_client": 1200})
    per_point = [study.per_seed("rounds_done", **setting_of(point)) for point in study.points]
    return Claim(ITERATIONS, mean_of(per_point), 200, unit="iterations", level=True)


def _regression(studies: Studies) -> Claim:
    grid = {name: pame.REGRESSION[name] for name in ("pame", "dpsgd")}
    sweep = f"{pame.NODES}; {pame.compared(grid, pame.NAMES, [(name,) for name in grid])}"
    study = _study(studies, "regression", pame.get_config("f8"), {"sweep": sweep, "algorithm.batch_size": 0})
    found = [best(study, VALIDATION_LOSS, plain, num_clients=m) for m in M]
    return ahead(f"{MORE_ACCURATE}, mean over m, full gradients", found, FINAL, "points", 1, 100, names=["dpsgd"])[0]


def _images(studies: Studies) -> Claim:
    grid: pame.Grid = {"pame": ((0.2,), (0.4,), (0.1,)), "dpsgd": ((0.05, 0.2), (0.4,), (0.1,))}  # of `IMAGES`
    change = {"sweep": pame.compared(grid, pame.NAMES, [(name,) for name in grid]), "data.classes_per_client": 7}
    change |= {"rounds": 1000, "eval_every": 200, "seeds": 5}
    found = best(_study(studies, "images", pame.get_config("f11,scale=small"), change), VALIDATION_LOSS, plain)
    return ahead(f"{MORE_ACCURATE}, C = 7", [found], FINAL, "points", 1, 100, names=["dpsgd"])[0]


def _downloads(studies: Studies) -> Claim:
    change = {"sweep": "algorithm.max_download=1,50", "algorithm.name": "fedmobile_d", "algorithm.batch_size": 128}
    change |= {"rounds": 250, "seeds": 6}
    curves = Curves.of(_study(studies, "downloads", fedmobile.get_config("f5d,scale=small"), change))
    return sooner(curves, {"max_download": 50}, {"max_download": 1}, NO_FURTHER, sign=-1)


def _majority(studies: Studies) -> Claim:
    rule, found = "geometric_median", []
    for clients in (16, 15):
        change = {"sweep": "attack.name=dissensus", "algorithm.aggregation": rule, "seeds": 2}
        study = _study(studies, f"median_{clients}", clipped_gossip.get_config(f"f6_{clients}"), change)
        found.append(study.per_seed(name="dissensus"))
    return needs_majority(rule, *found)


class Row(NamedTuple):
    """A claim that differs.

    Attributes:
      item: the item that has it.
      nearer: what differs from `small`, and is as in the paper, or is not said there.
      measure: measures the claim so.
    """

    item: str
    nearer: str
    measure: Callable[[Studies], Claim]


ROWS = (
    Row("madfl:f3", "1,000 rounds, learning rate 0.03", _lead),
    Row("pame:f7", "1,200 samples a node (the paper does not say; 600 in `small`)", _iterations),
    Row("pame:f8", "600 rounds", _regression),
    Row("pame:f11", "1,000 rounds, PaME with lr 0.2, D-PSGD with 0.05 and 0.2", _images),
    Row("fedmobile:f5", "batches of 128, 250 slots", _downloads),
    Row("clipped_gossip:f6", "a CNN, all images, 900 rounds", _majority),
)


@item("explained:nearer", "Claims that differ, nearer to the papers' settings", "madfl:f3")
def nearer(studies: Studies) -> Outcome:
    """Measure claims that differ at the scale `small` with some of what is cut there taken back."""
    rows = []
    for row in ROWS:
        kept, again = records.kept(row.item) or {}, row.measure(studies)
        before = next(claim for claim in kept["claims"] if claim["text"] == again.text)
        cells = [_told(before, kept["studies"]), row.nearer, _told(again.as_json(), studies.used), again.verdict]
        rows.append([f"`{row.item}`", again.text, *cells])
    header = ["item", "the paper's claim", "`small`", "what is changed", "ours then", "verdict then"]
    return Outcome([("claims that differ, once more", header, rows)], [])


def _told(claim: Mapping[str, Any], studies: Mapping[str, Mapping[str, Any]]) -> str:
    """Return what was measured, with the seeds of the last study, which is the claim's."""
    return f"{page.ours(claim)} ({list(studies.values())[-1]['seeds']} seeds)"
