"""The presets of the papers: every one resolves at every scale, its docstring counts its runs, and its items run."""

import functools
import importlib
import re

import pytest

from benchmarks.papers import catalogue
from benchmarks.papers.items import ITEMS
from mdfl_jax.config.points import points
from mdfl_jax.config.presets import SCALES
from mdfl_jax.config.resolve import resolve

catalogue.load()
PRESETS = [(paper, name) for paper in catalogue.PAPERS for name in importlib.import_module(f"configs.{paper}").PRESETS]


@functools.cache
def sized(paper, name, scale):
    """The configuration of a preset, and its number of runs."""
    config = importlib.import_module(f"configs.{paper}").get_config(f"{name},scale={scale}")
    return config, len(points(resolve(config))) * config.seeds


@pytest.mark.parametrize(("paper", "name"), PRESETS)
def test_a_preset_resolves_at_every_scale(paper, name):
    smoke, small, paper_size = (runs * config.rounds for config, runs in (sized(paper, name, s) for s in SCALES))
    assert 0 < smoke <= small <= paper_size


@pytest.mark.parametrize("paper", catalogue.PAPERS)
def test_the_docstring_counts_the_runs_of_the_papers_scale(paper):
    """A row `| t2, t3 | ... | 48 x 1,000 |` tells the runs and the rounds of each preset that it names."""
    rows = re.findall(
        r"^\| ([\w, ]+?) +\|.*\| ([\d,]+) x ([\d,]+) +\|$", importlib.import_module(f"configs.{paper}").__doc__, re.M
    )
    told = {name: counts for names, *counts in rows for name in names.split(", ")}
    found = {}
    for name in importlib.import_module(f"configs.{paper}").PRESETS:
        config, runs = sized(paper, name, "paper")
        found[name] = [f"{runs:,}", f"{config.rounds:,}"]
    assert told == found


def test_the_items_name_presets_that_exist():
    known = {f"{paper}:{name}" for paper, name in PRESETS}
    for item in ITEMS.values():
        if item.name.partition(":")[0] in catalogue.PAPERS:
            assert set(item.presets) <= known, item.name


def test_nothing_is_added_to_a_paper_that_it_does_not_have():
    """Crops, flips and reduced precision belong to configs/cifar_resnet.py."""
    for paper, name in PRESETS:
        config, _ = sized(paper, name, "paper")
        assert (config.data.crop, config.data.flip, config.engine.precision) == (0, False, "float32"), name
