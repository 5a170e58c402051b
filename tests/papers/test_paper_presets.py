"""The presets of the papers: every one resolves at every scale, its docstring counts its runs, and its items run."""

import importlib
import re

import pytest

from benchmarks.papers import catalogue
from mdfl_jax.config.points import points
from mdfl_jax.config.presets import SCALES
from mdfl_jax.config.resolve import resolve

catalogue.load()


@pytest.mark.long
@pytest.mark.parametrize("paper", catalogue.PAPERS)
def test_presets_resolve_at_every_scale_and_have_nothing_that_the_paper_has_not(paper):
    """A row `| t2, t3 | ... | 48 x 1,000 |` of the docstring tells the runs and the rounds of each preset it names."""
    module, found = importlib.import_module(f"configs.{paper}"), {}
    for name in module.PRESETS:
        configs = [module.get_config(f"{name},scale={scale}") for scale in SCALES]
        runs = [len(points(resolve(config))) * config.seeds for config in configs]
        smoke, small, whole = (number * config.rounds for number, config in zip(runs, configs))
        assert 0 < smoke <= small <= whole, name
        config = configs[-1]
        found[name] = [f"{runs[-1]:,}", f"{config.rounds:,}"]
        # Crops, flips and reduced precision belong to configs/cifar_resnet.py.
        assert (config.data.crop, config.data.flip, config.engine.precision) == (0, False, "float32"), name
    rows = re.findall(r"^\| ([\w, ]+?) +\|.*\| ([\d,]+) x ([\d,]+) +\|$", module.__doc__, re.M)
    assert {name: counts for names, *counts in rows for name in names.split(", ")} == found
