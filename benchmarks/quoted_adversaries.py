"""The tables and the picture of the studies of attackers (`benchmarks/adversaries.py`).

All intervals of a table hold together (95 %), except those of the worst cases, which are single.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmarks.quoted import markdown, results
from configs.attacked import (
    ATTACK,
    ATTACKS,
    BEST_RULES,
    FEW_ATTACKS,
    FEW_RULES,
    MORE_ATTACKS,
    NUMBERS,
    PLACES,
    RULE,
    RULES,
    SETTING,
    WHO,
)
from mdfl_jax.report.picture import DIAMOND, DISC, Picture, Plot, Scale, Series
from mdfl_jax.report.style import PALETTE
from mdfl_jax.results.statistics import band, simultaneous

REFERENCE = "random_movement"
TWO = (2, "random")  # how many attack, and who, where this is not compared
COLLAPSED = 60.0  # a seed collapses if its accuracy (%) is below this under some attack

Values = dict[tuple[Any, ...], np.ndarray]  # of each seed, [S], by the values of the swept fields


def of_study(name: str, key: str, fields: Sequence[str]) -> Values:
    """Return the values of each seed by the values of some fields; NaN where a run has diverged."""
    return {
        tuple(row["at"][field] for field in fields): np.array(row[key], float)
        for row in results(f"adversaries_{name}")["rows"]
        if key in row
    }


def _level(values: np.ndarray) -> str:
    """Return the mean over the seeds, or how many of them have diverged."""
    lost = int(np.isnan(values).sum())
    return f"{lost} of {len(values)} diverged" if lost else f"{values.mean():.1f}"


def _signed(mean: float, half: float, is_median: bool = False) -> str:
    told = f"{mean:+.1f} ± {half:.1f}{' (median)' if is_median else ''}"
    return f"**{told}**" if abs(mean) > half else told


def _differences(columns: Sequence[np.ndarray], width: int) -> list[list[str]]:
    """Return rows of cells of the means of differences, [S] each, whose intervals all hold together."""
    found = simultaneous(np.stack(columns, axis=1))
    cells = [_signed(*cell) for cell in zip(found.mean, found.half, found.is_median)]
    return [cells[first : first + width] for first in range(0, len(cells), width)]


def rules(name: str, chosen: Sequence[str], attacks: Sequence[str]) -> list[str]:
    """Return rules by attacks: accuracies, and where they differ from the mean's; the rules have their own numbers."""
    accuracy, columns = of_study(name, "accuracy", (RULE, ATTACK)), ("", *attacks)
    pairs = [(rule, attack) for rule in chosen if rule != "mean" for attack in columns]
    found = simultaneous(np.stack([accuracy[rule, at] - accuracy["mean", at] for rule, at in pairs], axis=1))
    signs = {pair: " +" if mean > half else " -" if mean < -half else "" for pair, mean, half in zip(pairs, *found[:2])}
    differ = zip(pairs, found.mean, found.half, found.is_median)
    paid = {pair[0]: _signed(*cell) for pair, *cell in differ if not pair[1]}
    lines = []
    for rule in chosen:
        cells = [_level(accuracy[rule, at]) + signs.get((rule, at), "") for at in columns]
        lines.append([f"`{rule}`", cells[0], paid.get(rule, ""), *cells[1:]])
    return markdown(["rule", "no attack", "over the mean", *(f"`{attack}`" for attack in attacks)], lines)


def worst_mean(accuracy: np.ndarray, resamples: int = 10_000) -> tuple[float, float, float]:
    """Return the least of the attacks' mean accuracies, and the ends of its 95 % bootstrap interval over the seeds.

    Args:
      accuracy: of each attack and seed, [A, S].
      resamples: how often the seeds are drawn with replacement, the same for all attacks.
    """
    seeds = accuracy.shape[1]
    drawn = np.random.default_rng(0).integers(seeds, size=(resamples, seeds))
    low, high = np.quantile(accuracy[:, drawn].mean(axis=-1).min(axis=0), (0.025, 0.975))
    return float(accuracy.mean(axis=1).min()), float(low), float(high)


def worst() -> list[str]:
    """Return the worst attack of each rule without a diverged run, and how many seeds collapse; the best come first."""
    of, attacks = of_study("rules", "accuracy", (RULE, ATTACK)), (*ATTACKS, *MORE_ATTACKS)
    found = {rule: np.stack([of[rule, attack] for attack in attacks]) for rule in RULES}
    found = {rule: values for rule, values in found.items() if np.isfinite(values).all()}
    lines = []
    for rule, values in sorted(found.items(), key=lambda pair: -worst_mean(pair[1])[0]):
        mean, low, high = worst_mean(values)
        attack, collapsed = attacks[values.mean(axis=1).argmin()], int((values.min(axis=0) < COLLAPSED).sum())
        told = [f"{mean:.1f} ({low:.1f} to {high:.1f})", f"`{attack}`", f"{values.min():.1f}"]
        lines.append([f"`{rule}`", *told, f"{collapsed} of {values.shape[1]}"])
    return markdown(["rule", "worst mean (%)", "under", "worst seed (%)", f"seeds below {COLLAPSED:g} %"], lines)


def differences() -> list[str]:
    """Return what other movements add to contamination, and to what sign flips take, beside random movement."""
    accuracy = of_study("movement", "accuracy", (RULE, *SETTING))
    early = of_study("movement", "early", (RULE, *SETTING))

    def taken(rule: str, move: str, radius: int) -> np.ndarray:
        return accuracy[rule, move, radius, "", *TWO] - accuracy[rule, move, radius, "sign_flip", *TWO]

    places = [place for place in PLACES if place[0] != REFERENCE]
    columns = []
    for move, radius in places:
        spread = [early["mean", at, radius, "sign_flip", *TWO] for at in (move, REFERENCE)]
        columns.append(spread[0] - spread[1])
        columns += [taken(rule, move, radius) - taken(rule, REFERENCE, radius) for rule in FEW_RULES]
    cells = _differences(columns, 1 + len(FEW_RULES))
    header = [
        "over random movement",
        "Rc",
        "within reach, first 20 rounds",
        *(f"taken, `{rule}`" for rule in FEW_RULES),
    ]
    return markdown(header, [[f"`{move}`", str(radius), *row] for (move, radius), row in zip(places, cells)])


def who() -> list[str]:
    """Return what mobile attackers leave beside static ones: accuracies, and the difference."""
    accuracy = of_study("movement", "accuracy", (RULE, *SETTING))
    early = of_study("movement", "early", (RULE, *SETTING))
    kinds = [("sign_flip", count) for count in NUMBERS] + [("dissensus", 2)]
    places = [(move, *kind) for move in (REFERENCE, "dcm") for kind in kinds]
    columns, levels = [], []
    for move, attack, count in places:
        at = [(move, 3, attack, count, kind) for kind in WHO]
        columns.append(early["mean", *at[0]] - early["mean", *at[1]])
        columns += [accuracy[rule, *at[0]] - accuracy[rule, *at[1]] for rule in FEW_RULES]
        levels.append([""] + [f"{_level(accuracy[rule, *at[1]])}: " for rule in FEW_RULES])
    cells = _differences(columns, 1 + len(FEW_RULES))
    lines = [
        [f"`{move}`", f"`{attack}`", str(count), *(level + cell for level, cell in zip(of, row))]
        for (move, attack, count), of, row in zip(places, levels, cells)
    ]
    header = ["movement", "attack", "attackers", "within reach, first 20 rounds", *(f"`{rule}`" for rule in FEW_RULES)]
    return markdown(header, lines)


TABLES: dict[str, Callable[[], list[str]]] = {
    "adversaries_rules": lambda: rules("rules", RULES, ATTACKS),
    "adversaries_worst": worst,
    "adversaries_skewed": lambda: rules("skewed", BEST_RULES, FEW_ATTACKS),
    "adversaries_differences": differences,
    "adversaries_who": who,
}


def picture() -> Figure:
    """Draw the accuracies under each rule, movement and radius, without an attack and with two attackers."""
    accuracy = of_study("movement", "accuracy", (RULE, *SETTING))
    rows = [f"{move.replace('_', ' ')}, Rc {radius}" for move, radius in PLACES]
    shown = (("", "no attack", PALETTE[0], DIAMOND), ("sign_flip", "two attackers flip signs", PALETTE[1], DISC))
    plots = []
    for rule in FEW_RULES:
        series = []
        for attack, name, colour, mark in shown:
            mean, half = band(np.stack([accuracy[rule, *place, attack, *TWO] for place in PLACES], axis=1))
            series.append(Series(name, colour, range(len(rows)), mean, mean - half, mean + half, None, mark, name))
        scale = Scale("accuracy of honest clients (%)", ends=(40, 100))
        plots.append(Plot(rule.replace("_", " "), Scale(""), scale, series, rows=rows))
    return Picture(plots, (3.6, 2.6)).figure()
