"""Why common periods are slower than drawn ones in our runs of PaME's figures 5 and 6: the item explained:periods.

The stop rule compares the objectives of three rounds in a row. So the item records the objective of every round,
without the rule, and measures how much three in a row differ, and when the rule would have ended the runs, also with a
penalty that grows faster.
"""

import numpy as np
from ml_collections import ConfigDict

from benchmarks.papers.cells import cell
from benchmarks.papers.items import Outcome, item
from benchmarks.papers.studies import Studies
from configs.pame import PERIODS, linear
from mdfl_jax.config.presets import shrink
from mdfl_jax.core.outcomes import interval

PAIRS = ((1, 1), (2, 2), (1, 3), (4, 4), (2, 6), (8, 8), (4, 12), (16, 16), (8, 24))
GROWTH = (1.005, 1.02)  # table II's gamma first
TOLERANCE = 1e-3  # of the stop rule
WINDOWS = ((25, 48), (89, 112), (185, 208), (377, 400), (577, 600))


def _study(scale: str) -> ConfigDict:
    axes = f"{PERIODS}=" + ",".join(f"{low}+{high}" for low, high in PAIRS)
    config = linear("")
    config.name, config.network.num_clients = f"explained_periods_{scale}", 32
    config.sweep = f"algorithm.penalty_growth={','.join(map(str, GROWTH))}; {axes}"  # with full gradients alone
    config.algorithm.batch_size, config.stop_std, config.eval_every = 0, 0.0, 1
    return shrink(config) if scale == "smoke" else config


def unrest(objective: np.ndarray) -> np.ndarray:
    """Return the standard deviation of each round's objective and the two before it; [..., E] gives [..., E - 2]."""
    return np.lib.stride_tricks.sliding_window_view(objective, 3, axis=-1).std(axis=-1)


def first_rest(deviation: np.ndarray) -> np.ndarray:
    """Return the first round at which the stop rule would end a run, NaN if it never would; [S, E - 2] gives [S]."""
    rests = deviation < TOLERANCE
    return np.where(rests.any(axis=-1), rests.argmax(axis=-1) + 2.0, np.nan)


@item("explained:periods", "Why common periods of PaME are slower than drawn ones", "pame:f5")
def periods(studies: Studies) -> Outcome:
    """Measure how much three objectives in a row differ, by periods and by the growth of the penalty."""
    study = studies.of(_study(studies.scale))
    objective = study.results()["objective"].transpose("point", "seed", "round").values
    last = objective.shape[-1] - 1
    windows = [(first, end) for first, end in WINDOWS if end <= last]
    deviations, rests = list[list[str]](), list[list[str]]()
    for low, high in PAIRS:
        named = f"common, {low}" if low == high else f"drawn, {low} to {high}"
        cells, stops = [], []
        for growth in GROWTH:
            at = study.points.index(study.point(period_min=low, period_max=high, penalty_growth=growth))
            found = unrest(objective[at])
            if growth == GROWTH[0]:
                # The median over two dozen rounds, so that a rest within a period does not stand for the whole.
                cells = [cell(interval(1e3 * np.median(found[:, a - 2 : b - 1], axis=1)), 1, 2) for a, b in windows]
            ends = first_rest(found)
            stops.append(cell(interval(ends)) if not np.isnan(ends).any() else f"more than {last}")
        deviations.append([named, *cells])
        rests.append([named, *stops])
    title = "standard deviation of three objectives in a row, in thousandths, median over the rounds; m = 32"
    spans = [f"rounds {first} to {end}" for first, end in windows]
    tables = [
        (title, ["periods", *spans], deviations),
        ("iterations to the stop by gamma, m = 32", ["periods", *(f"gamma = {growth}" for growth in GROWTH)], rests),
    ]
    return Outcome(tables, [])
