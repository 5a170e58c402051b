"""Reports of shipped studies, each run for some rounds, in a browser: they open, draw, and have the right numbers."""

import json
import re

import pytest

import mdfl_jax
from mdfl_jax.config import config_files
from mdfl_jax.config.config_files import as_config
from mdfl_jax.report.compare import read_studies
from mdfl_jax.report.page import write, write_report

pytestmark = pytest.mark.long
LENGTH = {"rounds": 4, "eval_every": 2, "seeds": 2, "engine.runs_per_batch": 0}
SMALL = {"sweep": "algorithm.transmission=0.2,0.6", "network.num_clients": 8, "data.dimension": 20}
AXES = {"sweep": "network.mobility=static,dcm; network.radius=2,3,4"}
STUDIES = {
    "demo": ("digits", {}, {"map", "contacts", "groups", "consensus"}),
    "two axes": ("digits", AXES, {"heat_map", "response", "map"}),
    "trace": ("trace_digits", {}, {"map", "contacts"}),
    "fedmobile": ("fedmobile:f3_variants", {"sweep": "algorithm.name=async_fl,fedmobile"}, {"map", "traffic"}),
    "pame": ("pame:f3", SMALL, {"accuracy", "final_accuracy"}),
}


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory):
    """Returns folder_of(name): the workdir of a study with its report. Each study is run once."""
    made = {}

    def folder(name):
        if name not in made:
            config, changes, _ = STUDIES[name]
            wanted = as_config(config_files.find(config))
            wanted.update_from_flattened_dict(LENGTH | changes)
            made[name] = tmp_path_factory.mktemp("studies") / name.replace(" ", "_")
            mdfl_jax.run(wanted, made[name], progress=False)
            write_report(made[name])
        return made[name]

    return folder


@pytest.mark.parametrize("name", STUDIES)
def test_the_report_of_a_shipped_study_opens_and_has_its_numbers(open_report, show_all, folder_of, name):
    folder = folder_of(name)
    page = open_report(folder, 800)
    assert STUDIES[name][2] <= show_all(page)
    best = max(point["final_accuracy"]["mean"] for point in json.loads((folder / "summary.json").read_text())["points"])
    shown = [float(x) for x in re.findall(r"(-?\d+\.\d+) ±", page.locator("table").first.inner_text())]
    assert any(value == pytest.approx(100 * best, abs=0.0051) for value in shown)


def test_the_map_of_a_real_study_plays(open_report, show_panel, folder_of):
    page = open_report(folder_of("demo"))
    section = show_panel(page, "map")
    section.get_by_role("button", name="Play").click()
    page.wait_for_function("() => document.querySelector('#map .chart').map.round >= 4")


def test_a_comparison_of_two_real_studies_opens(open_report, show_all, folder_of, tmp_path):
    path = write(read_studies([folder_of("demo"), folder_of("trace")], tmp_path))
    assert {"final_accuracy", "accuracy"} <= show_all(open_report(path, 800, "dark"))
