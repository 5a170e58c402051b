"""Claims and tables that the items of MADFL and DADFL share: rules compared over M, Rc and Rm, and thresholds."""

from typing import NamedTuple

from benchmarks.papers.cells import cell, pivot
from benchmarks.papers.items import Claim, Table
from benchmarks.papers.studies import Setting, Study, mean_of
from mdfl_jax.core.outcomes import interval

NAMED = {"dcm": "DCM", "dam": "DAM", "random_movement": "random movement", "static": "static clients"}
BEST = "best_accuracy"  # MADFL V-A: figures over a parameter show the largest accuracy of a run
SHARE = 0.9  # of the fully connected network's accuracy, V-B5
NEVER = float("inf")


def over(study: Study, better: str, than: str, paper: float | None, where: str = "", **setting: object) -> Claim:
    """Return the claim that one rule is more accurate than another at a setting, in points."""
    ours = study.gain({"mobility": better, **setting}, {"mobility": than, **setting})
    return Claim(f"{NAMED[better]} over {NAMED[than]}{where and ', '}{where}", ours, paper, sign=1)


def accuracies(study: Study, title: str, across: str, key: str = "final_accuracy") -> Table:
    """Return the table of the accuracies in per cent: the mobility rules by another swept field."""
    header, rows = pivot(study.points, "network.mobility", across, lambda p: cell(p[key], 100, 4))
    return (title, header, rows)


def by_world(study: Study, title: str, name: str, settings: list[Setting], key: str = BEST) -> Table:
    """Return the table of the accuracies in per cent: the mobility rules over settings of M, Rc and Rm."""
    rules = list(dict.fromkeys(p["overrides"]["network.mobility"] for p in study.points))
    rows = [
        [rule, *(cell(study.point(mobility=rule, **setting)[key], 100, 4) for setting in settings)] for rule in rules
    ]
    columns = ["connected" if setting["radius"] == "inf" else str(setting[name]) for setting in settings]
    return (title, [f"mobility \\ {name}", *columns], rows)


def world(num_mobile: object, radius: object, max_step: object) -> Setting:
    """Return a setting of M, Rc and Rm."""
    return {"num_mobile": num_mobile, "radius": radius, "max_step": max_step}


def change(study: Study, text: str, more: Setting, less: Setting, rule: str) -> Claim:
    """Return the claim that a rule is more accurate at one setting than at another."""
    return Claim(text, study.gain({"mobility": rule, **more}, {"mobility": rule, **less}, BEST), sign=1)


def mean_gain(study: Study, text: str, better: str, settings: list[Setting], paper: float | None = None) -> Claim:
    """Return the claim that a rule is above random movement on average over settings."""
    gains = [
        study.per_seed(BEST, mobility=better, **s) - study.per_seed(BEST, mobility="random_movement", **s)
        for s in settings
    ]
    return Claim(text, mean_of([100 * gain for gain in gains]), paper, sign=1)


def shrinks(study: Study, text: str, more: Setting, less: Setting, better: str = "dcm") -> Claim:
    """Return the claim that the lead over random movement is larger at one setting than at another."""
    leads = [
        study.per_seed(BEST, mobility=better, **s) - study.per_seed(BEST, mobility="random_movement", **s)
        for s in (more, less)
    ]
    return Claim(text, interval(100 * (leads[0] - leads[1])), sign=1)


class Needed(NamedTuple):
    """The smallest value of a field that is enough, infinity if none is.

    Attributes:
      value: that at which the mean over the seeds is enough.
      least: the first one that the 95 % interval over the seeds does not exclude.
      most: the first one whose whole interval is enough.
    """

    value: float
    least: float
    most: float

    def __str__(self) -> str:
        if self.least == self.most:
            return _value(self.value)
        return f"{_value(self.value)} ({_value(self.least)} to {_value(self.most)})"


def threshold(study: Study, rule: str, name: str, settings: list[Setting], full: Setting) -> Needed:
    """Return the smallest value of a field at which the accuracy reaches 90 % of the fully connected network's.

    Args:
      study: the study; best accuracies are compared (MADFL V-A, V-B5).
      rule: the mobility rule.
      name: the field, one of num_mobile and radius.
      settings: the settings in the order of the field's values.
      full: the setting of the fully connected network.

    Returns:
      The values, whose intervals are of differences paired by seed.
    """
    enough = SHARE * study.per_seed(BEST, mobility=rule, **full)
    over = [interval(study.per_seed(BEST, mobility=rule, **s) - enough) for s in settings]
    found = []
    for side in (0, 1, -1):
        above = [float(it["mean"]) + side * float(it["ci95"] or 0) >= 0 for it in over]
        found.append(float(str(settings[above.index(True)][name])) if any(above) else NEVER)
    return Needed(*found)


def thresholds(
    study: Study, where: str, name: str, settings: list[Setting], full: Setting, paper: tuple[float, float] | None
) -> list[Claim]:
    """Return the claims about what DCM and random movement need for 90 % of the fully connected network's accuracy.

    Args:
      study, name, settings, full: as in `threshold`.
      where: the setting in words.
      paper: the values that the paper gives for DCM and random movement, or None.
    """
    sign = {"num_mobile": "M", "radius": "Rc"}[name]
    rules = ("dcm", "random_movement")
    dcm, random = needed = [threshold(study, rule, name, settings, full) for rule in rules]
    told = f"DCM {dcm}, random movement {random}"
    less = None if dcm.value == random.value == NEVER else dcm.value < random.value
    overlap = dcm.most >= random.least and dcm.least < random.most  # some of the seeds' values have either order
    text = f"DCM needs a smaller {sign} than random movement for 90 %, {where}"
    claims = [Claim(text, less, told=told, unsure=overlap)]
    for rule, found, given in zip(rules, needed, paper or ()):
        text = f"{sign} needed, {where}: {NAMED[rule]} {_value(given)}"
        unsure = found.least <= given <= found.most and found.least < found.most
        claims.append(Claim(text, found.value == given, told=str(found), unsure=unsure))
    return claims


def _value(needed: float) -> str:
    return "never" if needed == NEVER else f"{needed:g}"
