"""The setting of a study in words, for every kind of study that is shipped."""

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

from mdfl_jax.config import default_config
from mdfl_jax.report.read import ReportData, read_workdir
from mdfl_jax.report.setting import describe_setting
from mdfl_jax.study.study import make_study
from mdfl_jax.study.workdir import manifest_of

POSITIONS = {"grid": np.ones((2, 3, 2)), "plane": np.full((2, 3, 2), 1.5), "nowhere": None}  # as they are recorded


def setting_of(config, path):
    """The setting of a study, finished or not, whose first seed has recorded these positions."""
    manifest = json.loads(json.dumps(manifest_of(make_study(config), {}), default=str))
    points = [{"id": p["id"], "overrides": p["overrides"], "final_accuracy": {}} for p in manifest["points"]]
    arrays = {} if path is None else {f"{p}/position": path[None] for p in range(len(points))}
    summary, places = {"points": points, "baseline": ""}, tuple(range(len(points)))
    return describe_setting(ReportData(Path("run"), manifest, summary, {}, arrays=arrays, places=places))


def shipped(name):
    name, _, argument = name.partition(":")
    get_config = importlib.import_module(f"configs.{name}").get_config
    return get_config(argument) if argument else get_config()


STUDIES = """
digits grid => 20 clients, 5 of them mobile, | on a grid of 18 x 18, with a contact radius of 3 and steps of at
digits grid => no server | no graph | no plane
trace_digits plane => 20 clients, all of them mobile, | with a contact radius of 100 m; the trace is town.fcd.xml.gz.
trace_digits plane => no grid | no steps of | no a plane of
waypoint_digits plane => in a plane of 500 m x 500 m, with a contact radius of 50 m. | no grid
graphs_digits grid => 16 clients train | tied by a graph: ring, torus, | no mobile | no radius
fedmobile_digits nowhere => Clients meet a server by the pattern fixed, and each other in random pairs, 0.5 of the
fedmobile_digits nowhere => no grid | no radius | no of them mobile | no Models are mixed
fedmobile_roadside plane => Mobility is manhattan in a plane of 1000 m x 1000 m | no grid | no Models are mixed
fedmobile_roadside plane => a server at road-side units of range 80 m.
fedmobile_roadside:town plane => the trace is town.fcd.xml.gz. Clients meet a | no plane
fedmobile:f3_variants nowhere => Each draws 40 samples of 200 features. | no train | no split by
pame:f3 nowhere => 32, 64 or 128 clients learn synthetic:linear
pame:f3 nowhere => The sweep varies batch size: 0 or 200; transmission: 0.1,
thesis_digits plane => 0, 2, 10, 19, 29, 38 or 48 of them mobile, | uniform or speed aware auto.
text_transformer grid => The data are split by owner. | no by by
costs grid => The sweep varies bandwidth: infinity, 12000 or 8000.
"""  # a shipped study, where its positions are => what is said of it, and what is not
TOLD: dict[tuple[str, ...], list[str]] = {}
for line in STUDIES.strip().splitlines():
    study, parts = line.split(" => ")
    TOLD.setdefault(tuple(study.split()), []).extend(parts.split(" | "))


@pytest.mark.few(2)
@pytest.mark.parametrize(("name", "where"), TOLD)
def test_each_shipped_kind_of_study_is_described_as_what_it_is(name, where):
    words = setting_of(shipped(name), POSITIONS[where])
    for part in TOLD[name, where]:
        assert (part.removeprefix("no ") in words) != part.startswith("no "), (part, words)
    assert ".." not in words


@pytest.mark.long
def test_a_contact_list_has_no_radius_and_no_places(tmp_path):
    (tmp_path / "met.csv").write_text("round,i,j\n" + "".join(f"{t},{t % 3},{(t + 1) % 3}\n" for t in range(9)))
    config = default_config()
    config.network.mobility, config.trace.file = "contacts", str(tmp_path / "met.csv")
    config.network.num_clients = config.network.num_mobile = 3
    config.rounds = config.eval_every = 5
    words = setting_of(config, None)
    assert "The contacts are those of the list met.csv." in words
    assert not any(part in words for part in ("radius", "grid", "plane", "mobile", "Mobility"))


def test_an_infinite_radius_and_settings_of_no_sentence_are_told(make_workdir):
    sweep = [{"algorithm.lr": 0.01, "network.radius": float("inf")}, {"algorithm.lr": 0.1, "network.radius": 3.0}]
    run = read_workdir(make_workdir(sweep, rounds=10))
    assert "with a contact radius of infinity or 3 and steps" in describe_setting(run)
    assert describe_setting(run).endswith("; 3 seeds. The sweep varies lr: 0.01 or 0.1.")
    alone = describe_setting(read_workdir(make_workdir([{"network.radius": float("inf")}], rounds=10, seeds=1)))
    assert "on a grid of 10 x 10, with all clients in contact and steps of at most 3 a round." in alone
    assert alone.endswith("; one seed.")


def test_of_many_numbers_only_the_range_is_told(make_workdir):
    run = read_workdir(make_workdir([{"algorithm.lr": (20 - i) / 100} for i in range(20)], rounds=10, seeds=1))
    assert describe_setting(run).endswith("The sweep varies lr: 20 values from 0.01 to 0.2.")


def test_attackers_their_rule_and_of_whom_the_results_are_is_told():
    config = default_config()
    config.attack.name, config.attack.number, config.attack.who = "sign_flip", 2, "mobile"
    config.sweep = "algorithm.aggregation=median,krum"
    words = setting_of(config, POSITIONS["grid"])
    assert "Clients combine the models that they hear by median or krum." in words
    attacked = "2 of the clients (mobile) attack by sign flip; accuracies and losses are those of the honest clients."
    assert attacked in words
    assert "Models are mixed" not in words
    config.sweep = "attack.name=,sign_flip"
    assert "2 of the clients (mobile) attack or not (no attack or sign flip); acc" in setting_of(
        config, POSITIONS["grid"]
    )
    config.attack.name = ""
    config.sweep = ""
    assert "attack" not in setting_of(config, POSITIONS["grid"])
