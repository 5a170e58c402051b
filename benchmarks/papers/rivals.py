"""PaME against its rivals: figures 8, 11 and 12. Every algorithm is at its best point, by what is judged."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from benchmarks.papers.cells import cell
from benchmarks.papers.items import Claim, Outcome, Table
from benchmarks.papers.studies import Studies, Study, setting_of
from configs.pame import FIGURE_8, RIVALS, TUNED
from mdfl_jax.core.outcomes import SELECT_BY, VALIDATION_LOSS, interval
from mdfl_jax.results.summary import select

M = (32, 64, 128)
ALGORITHMS = ("pame", *RIVALS)
OF_FIGURE_8 = tuple(FIGURE_8)[1:]  # the rivals, with the one that only table I names
ROUNDS, BITS, FINAL = "rounds_to_target", "bits_to_target", "final_accuracy"
Best = dict[str, dict[str, Any]]  # the chosen sweep point of each algorithm
Variant = dict[str, object]  # values of swept fields, by the last parts of their names

BOTH_WAYS: Variant = {"batch_size": 0, "picks": "both_ways", "participation": 0.2}
MINIBATCHES: Variant = {**BOTH_WAYS, "batch_size": 25}
AS_MANY: dict[str, Variant] = {
    "pame": BOTH_WAYS,
    **{name: {**BOTH_WAYS, "picks": "one_way"} for name in OF_FIGURE_8[:2]},
    **{name: {**BOTH_WAYS, "participation": 0.1} for name in OF_FIGURE_8[2:]},
}
VIEWS: dict[str, Callable[[str], Variant]] = {
    "full gradients": lambda name: BOTH_WAYS,
    "minibatches": lambda name: MINIBATCHES,
    "full gradients, as many messages as PaME": lambda name: AS_MANY[name],
}


def best(study: Study, by: str, variant: Callable[[str], Variant], **settings: object) -> Best:
    """Return the chosen point of each algorithm that a study has, at a setting and in a variant.

    Args:
      study: a study of algorithms with grids.
      by: what the chosen point has the least of, as the field ``select_by``.
      variant: (algorithm) -> the variant of it.
      settings: values of further swept fields.
    """
    found = {}
    for name in FIGURE_8:
        points = study.matching(name=name, **settings, **variant(name))
        by_id = {point["id"]: point for point in points}
        chosen = [entry["id"] for entry in select(points, TUNED, by) if entry["id"]]
        if chosen:
            found[name] = by_id[chosen[0]]
    return found


def config_of(study: Study) -> dict[str, Any]:
    """Return the resolved configuration of a study, without the overrides of its points."""
    return json.loads((study.workdir / "config.json").read_text())["config"]


def values(point: dict[str, Any] | None, key: str) -> np.ndarray:
    """Return a value for each seed, [S]; NaN where it is unknown, as of a target that was not reached."""
    if point is None:
        return np.array([np.nan])
    found = point[f"{key}_per_seed"] if key in (ROUNDS, BITS) else point[key]["per_seed"]
    return np.array([np.nan if value is None else float(value) for value in found])


def plain(name: str) -> Variant:
    """Return the variant of an algorithm in a study without variants."""
    return {}


def table(title: str, found: Best) -> Table:
    """Return the table of chosen points: numbers, accuracy, rounds and bits to the target, bits in all."""
    header = ["algorithm", "lr", "gossip step", "ANQ's error", "accuracy (%)", "rounds to the target"]
    header += ["Mbit to the target", "Mbit in all", "as the paper counts", "messages a node"]
    rows = []
    for name, point in found.items():
        numbers = setting_of(point)
        paper = point["double_bits_per_client"]
        own = [
            *(f"{numbers['lr']:g}", f"{numbers['consensus_lr']:g}" if name == "beer" else ""),
            f"{numbers['eta']:g}" if name == "anq_nids" else "",
        ]
        sent = [
            *(f"{point['bits_sent_per_client'] / 1e6:.3g}", "-" if paper is None else f"{paper / 1e6:.3g}"),
            f"{point['messages_per_client']:.4g}",
        ]
        rows.append([name, *own, cell(point[FINAL], 100, 4), reached(point, ROUNDS), reached(point, BITS), *sent])
    return (title, header, rows)


def reached(point: dict[str, Any], key: str) -> str:
    """Format what the mean over the seeds needed to the target."""
    if point[key] is None:
        return "-"
    return f"{point[key]:g}" if key == ROUNDS else f"{point[key] / 1e6:.3g}"


def ahead(
    text: str,
    found: Iterable[Best],
    key: str,
    unit: str,
    sign: int,
    scale: float = 1.0,
    horizon: float = np.nan,
    names: Iterable[str] = RIVALS,
    every: int = 0,
    own: bool = False,
) -> list[Claim]:
    """Return the claims that PaME is ahead of each rival, as the mean difference over several settings.

    Args:
      text: the claim, in which {} stands for the rival.
      found: the chosen points at each setting.
      key: the entry that is compared; with ``sign`` 1 PaME should have more of it, with -1 the rival.
      unit: the unit of the difference.
      sign: 1 or -1.
      scale: the factor from the entry to the unit.
      horizon: what stands for a value that is unknown, if the other one of the pair is known: the number of rounds for
        a target that was not reached in them, which makes the difference too small in size. Pairs of which both are
        unknown are left out.
      names: the rivals.
      every: as of a `Claim`.
      own: whether the paper does not compare this; what it does not say of DMGT-SVRG is our own anyway.
    """
    claims, pairs = [], [(values(of.get("pame"), key), of) for of in found]
    for rival in names:
        gaps = [sign * np.subtract(*_known(ours, values(of.get(rival), key), horizon)) for ours, of in pairs]
        known = np.isfinite(gaps)
        means = np.sum(np.where(known, gaps, 0.0), axis=0) / np.maximum(known.sum(axis=0), 1)
        whole = interval(scale * np.where(known.any(axis=0), means, np.nan))
        ours = own or rival not in RIVALS
        claims.append(Claim(text.format(rival), whole, sign=1, unit=unit, own=ours, every=every))
    return claims


def _known(ours: np.ndarray, theirs: np.ndarray, horizon: float) -> tuple[np.ndarray, np.ndarray]:
    """Replace unknown values of one side by the horizon where the other side is known."""
    one = np.where(np.isnan(ours) & ~np.isnan(theirs), horizon, ours)
    return one, np.where(np.isnan(theirs) & ~np.isnan(ours), horizon, theirs)


def figure_8(studies: Studies) -> Outcome:
    """Compare rounds to 75 %, and accuracies, for three numbers of nodes, and in three variants."""
    study, tables, claims = studies("pame:f8"), list[Table](), list[Claim]()
    config = config_of(study)
    horizon, every = config["rounds"], config["eval_every"]
    for view, variant in VIEWS.items():
        as_many = variant(OF_FIGURE_8[0]) == AS_MANY[OF_FIGURE_8[0]]  # the paper has one participation for all
        by_rounds = [best(study, ROUNDS, variant, num_clients=m) for m in M]
        by_loss = [best(study, VALIDATION_LOSS, variant, num_clients=m) for m in M]
        text = f"PaME needs fewer rounds to 75 % than {{}}: how many fewer, mean over m, {view}"
        claims += ahead(text, by_rounds, ROUNDS, "rounds", -1, 1, horizon, OF_FIGURE_8, every, own=True)
        text = f"PaME is more accurate than {{}}, mean over m, {view}"
        claims += ahead(text, by_loss, FINAL, "points", 1, 100, names=OF_FIGURE_8, own=as_many)
        for by in (BITS, VALIDATION_LOSS):
            chosen = by_loss if by == VALIDATION_LOSS else [best(study, by, variant, num_clients=m) for m in M]
            tables += [table(f"m = {m}, {view}, chosen by {SELECT_BY[by]}", of) for m, of in zip(M, chosen)]
    few, many = (best(study, ROUNDS, VIEWS["full gradients"], num_clients=m).get("pame") for m in (32, 128))
    faster = interval(values(few, ROUNDS) - values(many, ROUNDS))
    text = "PaME is faster with more nodes: m = 32 minus 128"
    claims.append(Claim(text, faster, sign=1, unit="rounds", every=every))
    return Outcome(tables, claims)


def least(
    text: str, found: Mapping[Any, Best], take: Callable[[dict[str, Any]], float | None], own: bool = False
) -> Claim:
    """Return the claim that PaME has the least of something, alone, at every setting in which an algorithm has it."""
    reached = settings = 0
    for of in found.values():
        taken = {name: take(point) for name, point in of.items()}
        known = {name: value for name, value in taken.items() if value is not None}
        settings += bool(known)
        reached += "pame" in known and all(known["pame"] < known[rival] for rival in RIVALS if rival in known)
    told = f"in {reached} of {settings} settings"
    return Claim(text, reached == settings if settings else None, told=told, own=own)


def _images(studies: Studies, preset: str, settings: dict[str, dict[str, object]]) -> Outcome:
    """Compare rounds to the target, and accuracies, at several partitions of images."""
    study, tables, claims = studies(preset), list[Table](), list[Claim]()
    for told, setting in settings.items():
        by_rounds = best(study, ROUNDS, plain, **setting)
        by_loss = best(study, VALIDATION_LOSS, plain, **setting)
        text = f"PaME reaches the target first, {told}"
        claims.append(least(text, {told: by_rounds}, lambda p: p[ROUNDS], own=True))
        claims += ahead(f"PaME is more accurate than {{}}, {told}", [by_loss], FINAL, "points", 1, 100)
        tables.append(table(f"{told}, chosen by {SELECT_BY[VALIDATION_LOSS]}", by_loss))
        tables.append(table(f"{told}, chosen by {SELECT_BY[ROUNDS]}", by_rounds))
    return Outcome(tables, claims)


def figure_11(studies: Studies) -> Outcome:
    """Compare on Fashion-MNIST with 1, 7 and 10 classes a node."""
    return _images(studies, "pame:f11", {f"C = {c}": {"classes_per_client": c} for c in (1, 7, 10)})


def figure_12(studies: Studies) -> Outcome:
    """Compare on CIFAR-10 with equal and with unequal nodes."""
    settings: dict[str, dict[str, object]] = {"IID": {"partition": "iid"}}
    settings |= {f"Dirichlet {beta}": {"partition": "dirichlet", "alpha": beta} for beta in (0.6, 0.3)}
    return _images(studies, "pame:f12", settings)
