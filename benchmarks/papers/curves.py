"""Claims and tables that FedMobile's items share: how soon the server's model learns, over the slots of a study."""

from typing import Any

import numpy as np

from benchmarks.papers.cells import cell, points
from benchmarks.papers.items import Claim, Table
from benchmarks.papers.studies import Setting, Statistic, Study, setting_of
from mdfl_jax.core.outcomes import interval

ASYNC = "async_fl"
NAMED = {
    **{"async_fl": "ASYNC", "fedmobile": "FedMobile", "fedmobile_u": "FedMobile-U", "fedmobile_d": "FedMobile-D"},
    **{"fedmobile_auto": "FedMobile, automatic search (ours)", "fedmobile_local": "FedMobile, local models"},
    **{"virtual_upload": "Virtual-U", "virtual_download": "Virtual-D", "virtual_download_once": "one virtual download"},
}


class Curves:
    """The accuracy of the server's model over the slots of a finished study.

    Attributes:
      study: the study.
      slots: [E] int, the slots of the evaluations; the first one is 0, before the first slot.
      accuracy: [P, S, E] in per cent, for each sweep point and seed.
    """

    def __init__(self, study: Study, slots: np.ndarray, accuracy: np.ndarray):
        self.study, self.slots, self.accuracy = study, slots, accuracy

    @classmethod
    def of(cls, study: Study) -> "Curves":
        """Read the curves of a study that judges the server's model."""
        found = study.results()["mean_model_accuracy"]
        return cls(study, found.coords["round"].values, 100 * found.transpose("point", "seed", "round").values)

    def at(self, **settings: Any) -> np.ndarray:
        """Return the accuracy [S, E] of the one sweep point with these values."""
        return self.accuracy[self.study.points.index(self.study.point(**settings))]

    def mean(self, first: float = 0, last: float = np.inf, **settings: Any) -> np.ndarray:
        """Return the mean accuracy over the evaluations in the slots first < t <= last, [S]."""
        return self.at(**settings)[:, (self.slots > first) & (self.slots <= last)].mean(axis=1)

    def gain(self, better: Setting, than: Setting, first: float = 0, last: float = np.inf) -> Statistic:
        """Return the paired difference of `mean` between two sweep points over the seeds, in points."""
        return interval(self.mean(first, last, **better) - self.mean(first, last, **than))

    def reached(self, level: float, **settings: Any) -> np.ndarray:
        """Return the first evaluated slot with at least ``level`` per cent, [S]; NaN for seeds that never have it."""
        above = self.at(**settings) >= level
        return np.where(above.any(axis=1), self.slots[above.argmax(axis=1)], np.nan)


def sooner(curves: Curves, better: Setting, than: Setting, text: str, sign: int = 1) -> Claim:
    """Return the claim that one sweep point learns sooner (sign -1: later) than another: its mean over the slots."""
    return Claim(text, curves.gain(better, than), sign=sign)


def _of_known(values: np.ndarray) -> tuple[Statistic | None, str]:
    """Return the interval over the seeds that are not NaN, and how many they are if some are."""
    known = values[~np.isnan(values)]
    told = "" if len(known) == len(values) else f"{len(known)} of {len(values)} seeds"
    return (interval(known) if len(known) else None), told


def slots_to(curves: Curves, level: float, setting: Setting, text: str, paper: float | None = None) -> Claim:
    """Return the claim about the slots that a sweep point needs to an accuracy; seeds without it are left out."""
    ours, told = _of_known(curves.reached(level, **setting))
    return Claim(text, ours, paper, sign=1, unit="slots", told=told, level=True)


def saved(curves: Curves, level: float, better: Setting, than: Setting, text: str, paper: float | None = None) -> Claim:
    """Return the claim that a sweep point needs so much less slots to an accuracy, in per cent, paired by seed."""
    share = 100 * (1 - curves.reached(level, **better) / curves.reached(level, **than))
    ours, told = _of_known(share)
    return Claim(text, ours, paper, sign=1, unit="%", told=told)


def label(setting: Setting) -> str:
    """Return the name of a setting, as in 'FedMobile-U, max_upload=2', without numbers that it does not use."""
    words = [NAMED.get(value, value) for value in setting.values() if isinstance(value, str) and value]
    if setting.get("name") != ASYNC and setting.get("compressor") != "":
        words += [f"{name}={_text(value)}" for name, value in setting.items() if isinstance(value, int | float)]
    return ", ".join(words)


def _text(value: float) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}"


def over_async(compared: Study | Curves, study: Study, setting: Setting) -> str:
    """Return the difference to the ASYNC point of the same server, for a table; empty for ASYNC, and without such."""
    server = {name: setting[name] for name in ("pattern", "known_next") if name in setting}
    found = study.matching(name=ASYNC, **server)
    if not found or setting.get("name") == ASYNC:
        return ""
    return points(compared.gain(setting, setting_of(found[0])))


def table(curves: Curves, title: str, level: float) -> Table:
    """Return the table of a study: a row for each sweep point, compared with ASYNC."""
    rows = []
    for point in curves.study.points:
        setting = setting_of(point)
        slots = curves.reached(level, **setting)
        known = slots[~np.isnan(slots)]
        told = f"{known.mean():.0f}" if len(known) else "-"
        told += "" if len(known) in (0, len(slots)) else f" ({len(known)} of {len(slots)} seeds)"
        mean, over = cell(interval(curves.mean(**setting)), 1, 4), over_async(curves, curves.study, setting)
        final, bits = cell(point["final_accuracy"], 100, 4), f"{point['bits_sent_per_client'] / 1e6:.3g}"
        rows.append([label(setting), mean, over, told, final, bits])
    header = ["mean over the slots (%)", "over ASYNC (points)", f"slots to {level:g} %", "at the end (%)"]
    return title, ["", *header, "Mbit a client"], rows
