"""The setting of a study in words, for every kind of study that is shipped."""

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
digits grid => 20 clients, 5 of them mobile, | on a grid of 18 x 18, with a contact radius of 3 and steps of at
trace_digits plane => 20 clients, all of them mobile, | with a contact radius of 100 m; the trace is town.fcd.xml.gz.
graphs_digits grid => 16 clients train | tied by a graph: ring, torus, | no mobile | no radius
fedmobile_digits nowhere => Clients meet a server by the pattern fixed, and each other in random pairs, 0.5 of the
fedmobile_roadside plane => Mobility is manhattan in a plane of 1000 m x 1000 m | no grid | no mixing weights
fedmobile_roadside plane => a server at road-side units of range 80 m.
fedmobile:f3_variants nowhere => Each draws 40 samples of 200 features. | no train | no split by
attacked:rules grid => Clients combine the models that they receive by mean, norm clipping, | no mixing weights
attacked:rules grid => 2 of the clients (random) attack or not (no attack, sign flip, dissensus, | those of the honest
pame:f3 nowhere => 32, 64 or 128 clients learn synthetic:linear | varies batch size: 0 or 200; transmission: 0.1,
"""  # a shipped study, where its positions are => what is said of it, and what is not
TOLD: dict[tuple[str, ...], list[str]] = {}
for line in STUDIES.strip().splitlines():
    study, parts = line.split(" => ")
    TOLD.setdefault(tuple(study.split()), []).extend(parts.split(" | "))


def assert_told(words, parts):
    for part in parts:
        assert (part.removeprefix("no ") in words) != part.startswith("no "), (part, words)
    assert ".." not in words


@pytest.mark.few(2)
@pytest.mark.parametrize(("name", "where"), TOLD)
def test_each_shipped_kind_of_study_is_described_as_what_it_is(name, where):
    assert_told(setting_of(shipped(name), POSITIONS[where]), TOLD[name, where])
