"""The main settings of a study, for every kind of study that is shipped."""

import importlib
import json

import numpy as np
import pytest

from mdfl_jax.report.setting import describe_setting
from mdfl_jax.results.results import Results
from mdfl_jax.study.study import make_study
from mdfl_jax.study.workdir import manifest_of

POSITIONS = {"grid": np.ones((2, 3, 2)), "plane": np.full((2, 3, 2), 1.5), "nowhere": None}  # as they are recorded


def setting_of(config, path):
    """The setting of a study, finished or not, whose first seed has recorded these positions."""
    manifest = json.loads(json.dumps(manifest_of(make_study(config), {}), default=str))
    points = [{"id": p["id"], "overrides": p["overrides"], "final_accuracy": {}} for p in manifest["points"]]
    arrays = {} if path is None else {f"{p}/position": path[None] for p in range(len(points))}
    return describe_setting(Results(manifest, {"points": points, "baseline": ""}, [], arrays, None))


def shipped(name):
    name, _, argument = name.partition(":")
    get_config = importlib.import_module(f"configs.{name}").get_config
    return get_config(argument) if argument else get_config()


STUDIES = """
digits grid => clients: 20; mobile clients: 5 | side of the grid: 18; contact radius: 3 | no trace
trace_digits plane => trace: town.fcd.xml.gz | contact radius: 100 | no side of the grid
graphs_digits grid => clients: 16 | graph: ring, torus, | no mobility: | no radius
fedmobile_digits nowhere => meetings with a server: fixed | no mobility: | no mixing
fedmobile_roadside plane => mobility: manhattan | meetings with a server: roadside | no side of the grid
fedmobile:f3_variants nowhere => data: synthetic:linear | no model | no partition
attacked:rules grid => aggregation: mean, norm clipping, | attack: no attack, sign flip, dissensus,
pame:f3 nowhere => clients: 32, 64, 128 | batch size: 0, 200; transmission: 0.1, | no model
"""  # a shipped study, where its positions are => what is said of it, and what is not
TOLD: dict[tuple[str, ...], list[str]] = {}
for line in STUDIES.strip().splitlines():
    study, parts = line.split(" => ")
    TOLD.setdefault(tuple(study.split()), []).extend(parts.split(" | "))


def assert_told(setting, parts):
    words = "; ".join(f"{name}: {values}" for name, values in setting)
    for part in parts:
        assert (part.removeprefix("no ") in words) != part.startswith("no "), (part, words)


@pytest.mark.few(2)
@pytest.mark.parametrize(("name", "where"), TOLD)
def test_each_shipped_kind_of_study_is_described_as_what_it_is(name, where):
    assert_told(setting_of(shipped(name), POSITIONS[where]), TOLD[name, where])
