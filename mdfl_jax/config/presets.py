"""Presets: the studies of a paper at three scales, as `configs/madfl.py` and its neighbours offer them.

``paper`` is what the paper did. ``small`` cuts it so that two CPU cores can run it; every preset says what it cuts, and
`cuts` puts this into words. ``smoke`` cuts ``small`` once more, by one rule for all, to see within seconds that
everything runs. A config file of presets has a dictionary of them:

    PRESETS = {"t2": Preset(_table_2, small={"data.limit_train": 2000}), ...}

    def get_config(argument="t2"):
        return preset_config("madfl", PRESETS, argument)

The command ``mdfl sweep madfl:t2 --scale=small`` calls ``get_config("t2,scale=small")``.
"""

from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

from ml_collections import ConfigDict

from mdfl_jax.core.errors import UserError, unknown_name

SCALES = ("smoke", "small", "paper")
SMOKE = {
    "seeds": 2,
    "rounds": 4,
    "eval_every": 2,
    "data.limit_train": 400,
    "data.limit_test": 100,
    "data.validation": 50,
    "data.samples_per_client": 4,
}
"""The largest values at the scale ``smoke``."""
QUICK = {"seeds": 1, "rounds": 20, "data.limit_train": 2000, "data.limit_test": 500, "data.validation": 200}
"""The largest values of a first look at any study (`quick`)."""
ALL_AT_0 = ("data.limit_train", "data.limit_test")
_NAMES = ("name", "title")


class Preset(NamedTuple):
    """A study of a paper.

    Attributes:
      paper: makes the configuration of the paper's size.
      small: the fields that ``small`` changes, with their values; none, if two cores can run the paper's size.
      study: the name of the study, which several presets may share; '' for the preset's own.
    """

    paper: Callable[[], ConfigDict]
    small: Mapping[str, Any] = {}
    study: str = ""


def preset_config(stem: str, presets: Mapping[str, Preset], argument: str) -> ConfigDict:
    """Return the configuration of a preset at a scale.

    Args:
      stem: the name of the config file, for the name of the study.
      presets: the presets by their names.
      argument: ITEM or ITEM,scale=SCALE. The scale is ``paper`` if none is given, and the item is the first one.

    Raises:
      UserError: for an unknown item or scale; the known ones are listed, or the parts that the item is in.
    """
    item, _, scale = argument.partition(",scale=")
    item, scale = item or next(iter(presets)), scale or "paper"
    if item not in presets:
        parts = [name for name in presets if name.startswith(item) and not name.removeprefix(item)[0].isdigit()]
        if item and parts:
            raise UserError(f"argument {item!r} is in parts here: {', '.join(parts)}")
        raise UserError(unknown_name("argument", item, presets))
    if scale not in SCALES:
        raise UserError(unknown_name("scale", scale, SCALES))
    config = presets[item].paper()
    config.name = f"{stem}_{presets[item].study or item}" + ("" if scale == "paper" else f"_{scale}")
    if scale != "paper":
        config.title += f" ({scale})"
        config.update_from_flattened_dict(presets[item].small)
    return shrink(config) if scale == "smoke" else config


def quick(config: ConfigDict) -> ConfigDict:
    """Cut any configuration to a first look of seconds: `QUICK`, and a linear model where it takes the samples.

    The study has a name of its own. Its four evaluations or more are enough for curves.
    """
    from mdfl_jax.models import MODELS
    from mdfl_jax.models.model import FloatModelNumbers, ImageModelNumbers

    if config.rounds > QUICK["rounds"]:
        config.eval_every = QUICK["rounds"] // 4
    config.name, config.title = f"{config.name}_quick", f"{config.title} (quick)".strip()
    if issubclass(MODELS.numbers(config.model.name), FloatModelNumbers | ImageModelNumbers):
        config.model.name = "linear"
    return shrink(config, QUICK)


def shrink(config: ConfigDict, rule: Mapping[str, int] = SMOKE) -> ConfigDict:
    """Cut a configuration to the largest values of a rule, by default to what takes seconds, and return it."""
    for path, most in rule.items():
        now = attrgetter(path)(config)
        if (now or 0) > most or (path in ALL_AT_0 and not now):  # None is a member's default
            config.update_from_flattened_dict({path: most})
    return config


def cuts(small: ConfigDict, paper: ConfigDict) -> Iterator[tuple[str, Any, Any]]:
    """Yield what a scale changes: the path of a field, its value at this scale, and the paper's value."""
    from mdfl_jax.config.sections import flat

    now, full = flat(small.to_dict()), flat(paper.to_dict())
    for path, value in now.items():
        if path not in _NAMES and value != full[path]:
            yield path, value, full[path]
