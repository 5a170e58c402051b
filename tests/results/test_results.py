"""The results of a study: views, made of its records by anybody, as docs/outputs.md promises, and what Python gives."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from made_study import made
from small import told

from mdfl_jax import Results
from mdfl_jax.core.errors import UserError
from mdfl_jax.report import figures
from mdfl_jax.report.registry import FIGURES
from mdfl_jax.results.records import read_study
from mdfl_jax.results.results import write_views
from mdfl_jax.storage.study_files import CONFIG, locked, read_config, run_path

SWEEP = {
    "sweep": "network.mobility=static,dcm; network.radius=2,inf",
    "baseline": "network.mobility=static",
    "seeds": 3,
}
OUTPUTS = (Path(__file__).parents[2] / "docs" / "outputs.md").read_text()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    made(folder, **SWEEP)
    return folder


@pytest.fixture(scope="module")
def results(whole):
    return Results.load(whole)


@pytest.fixture
def folder(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "run")


def section(title):
    return re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", OUTPUTS, re.DOTALL | re.MULTILINE)[1]


def test_the_files_have_the_keys_that_the_documentation_promises(whole):
    """Each key that is written stands in the section of its file, and each key that is promised for all is written."""
    line = json.loads((whole / "metrics.jsonl").read_text().splitlines()[0])
    summary, config = (json.loads((whole / name).read_text()) for name in ("summary.json", "config.json"))
    history = {key.partition("/")[2] for key in np.load(whole / "history.npz").files} - {""}
    written = {
        "metrics.jsonl": {*line},
        "summary.json": {*summary, *summary["points"][0], *summary["power"], *summary["power"]["points"][0]},
        "config.json": {*config, *(key for point in config["points"] for key in point)},
        "history.npz": {f"p/{key}" for key in history},
    }
    for name, keys in written.items():
        said = set(re.findall(r"`([\w/]+)`", section(name)))
        assert keys <= said | {"schema"}, (name, keys - said)
    always = section("metrics.jsonl").split("Two metrics need a field")[0]
    rows = re.findall(r"^\| (`.*?) \|", always, re.M)
    table = {key for row in rows for key in re.findall(r"`(\w+)`", row)}
    assert table - {"list_places"} <= written["metrics.jsonl"]


def test_a_study_without_a_run_is_not_finished(folder):
    """That views are made again, whatever has become of them, is in tests/study/test_store.py and tests/attack."""
    next((folder / "runs").iterdir()).unlink()
    with pytest.raises(UserError, match="the study there is not finished: 1 of its 12 runs are not there"):
        Results.load(folder)


def test_a_folder_of_records_alone_is_a_study(whole, tmp_path):
    shutil.copytree(whole / "runs", tmp_path / "runs")
    one, other = Results.open(whole), Results.open(tmp_path)
    place = {point["runs"][0]: p for p, point in enumerate(other.manifest["points"])}
    for p, point in enumerate(one.manifest["points"]):
        q = place[point["runs"][0]]
        assert other.manifest["points"][q]["overrides"] == point["overrides"]
        assert other.seeds_of(q) == one.seeds_of(p) == [0, 1, 2]
        for key in one.keys():  # noqa: SIM118
            np.testing.assert_array_equal(one.array(key, p), other.array(key, q))
        assert one.summary["points"][p]["final_accuracy"] == other.summary["points"][q]["final_accuracy"]
    write_views(tmp_path, read_study(tmp_path))
    assert Results.open(tmp_path).points == other.points
    kept = other.array("accuracy", 1)[[0, 2]]
    (tmp_path / CONFIG).unlink()
    run_path(tmp_path, other.manifest["points"][1]["runs"][1]).unlink()
    lacking = Results.open(tmp_path)
    of = other.points[1]
    assert (lacking.seeds, lacking.seeds_of(of)) == ([0, 1, 2], [0, 2])
    np.testing.assert_array_equal(lacking.array("accuracy", of), kept)
    run = lacking.only([1]).run_of(of, 2)
    np.testing.assert_array_equal(run.array("accuracy"), kept[1:])
    assert run.manifest["points"][0]["runs"] == other.manifest["points"][1]["runs"][2:]
    with pytest.raises(UserError, match="it holds no study: there is no config"):
        Results.load(tmp_path / "runs")


FILES = ("metrics.jsonl", "summary.json", "history.npz", "config.json", "report.html", "tables/summary.csv")


def test_the_files_of_a_report_are_listed_and_nothing_is_written_through_a_link(folder, tmp_path, monkeypatch):
    """A file is replaced; a folder that is a link, and a lock, are refused."""
    monkeypatch.setattr(figures, "drawn_panels", lambda: {"accuracy": FIGURES["accuracy"]})  # the others take seconds
    for name in FILES:
        outside = tmp_path / name
        for place in (outside, folder / name):
            place.parent.mkdir(exist_ok=True)
        shutil.copy(folder / name, outside) if name == "config.json" else outside.write_text("mine")
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(outside)
    before = {name: (tmp_path / name).read_bytes() for name in FILES}
    with locked(folder):
        write_views(folder, read_config(folder))
    Results.read(folder).report()
    assert {name: (tmp_path / name).read_bytes() for name in FILES} == before
    assert not [name for name in FILES if (folder / name).is_symlink()]
    written = [path for name in ("tables", "figures") for path in (folder / name).iterdir()]
    assert {path.suffix for path in written} == {".md", ".csv", ".tex", ".png", ".pdf"}
    named = {*(str(path.relative_to(folder)) for path in written), "report.html"}
    assert {*json.loads((folder / "config.json").read_text())["files"]} == named
    for name in ("tables", "figures", ".mdfl_jax.lock"):
        outside = tmp_path / f"outside {name}"
        outside.mkdir() if name != ".mdfl_jax.lock" else outside.write_text("mine")
        shutil.rmtree(folder / name) if (folder / name).is_dir() else (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(outside)
        with pytest.raises(UserError, match=re.escape(str(folder / name))), locked(folder):
            Results.read(folder).report()
        assert outside.read_text() == "mine" if outside.is_file() else not list(outside.iterdir())
        (folder / name).unlink()


def test_a_row_a_client_of_an_evaluation(results):
    frame = results.to_dataframe(per_client=True)
    assert len(frame) == 4 * 3 * 3 * 6
    assert {"accuracy", "loss", "messages", "bits_sent", "is_mobile"} < set(frame.columns)
    assert not {"consensus_distance", "position", "label_counts"} & set(frame.columns)
    for row in frame.sample(40, random_state=0).itertuples():
        p, s, e = results.points.index(row.point), results.seeds.index(row.seed), row.round // 2
        assert row.bits_sent == results.array("bits_sent", p)[s, e, row.client]
        assert row.is_mobile == results.array("is_mobile", p)[s, row.client]
        np.testing.assert_array_equal(row.accuracy, results.array("accuracy", p)[s, e, row.client])
    means = frame.groupby(["point", "seed", "round"])["accuracy"].mean()
    runs = results.to_dataframe().set_index(["point", "seed", "round"])["accuracy"]
    pd.testing.assert_series_equal(means.sort_index(), runs.sort_index(), check_dtype=False, rtol=1e-6)


def test_the_report_is_that_of_the_command(results, tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "drawn_panels", lambda: {"accuracy": FIGURES["accuracy"]})  # the others take seconds
    page = Results.read(results.workdir).report().read_bytes()
    tables = {file.name: file.read_bytes() for file in (results.workdir / "tables").iterdir()}
    elsewhere = results.without_workdir().report(tmp_path / "new" / "folder")
    assert elsewhere.read_bytes() == page
    assert {file.name: file.read_bytes() for file in (elsewhere.parent / "tables").iterdir()} == tables
    ours, theirs = (folder / "figures" / "accuracy.png" for folder in (results.workdir, elsewhere.parent))
    assert theirs.read_bytes() == ours.read_bytes()


def test_arrays_by_point_and_metric(results):
    assert results.array("accuracy", 2).shape == (3, 3, 6)
    np.testing.assert_array_equal(results.array("accuracy", 2), results.array("accuracy", "dcm, radius=2"))
    np.testing.assert_array_equal(results.array("bits", -1), results["bits"].isel(point=3))  # the declaration's name


def test_mistakes_are_one_line(results, tmp_path):
    alone, broken = results.without_workdir(), tmp_path / "broken"
    broken.mkdir()
    (broken / "config.json").write_text("{")
    for line, do in {
        "report: the study has no workdir; give a folder": lambda: alone.report(),
        "which holds another study; choose another folder": lambda: alone.report(results.workdir),
        "it cannot be made": lambda: alone.report(results.workdir / "config.json" / "report"),
        "the x axis is 'bit'; this study has rounds, messages, bits": lambda: alone.plot.accuracy(x="bit"),
        "unknown metric 'los' (did you mean 'loss'?)": lambda: alone.plot.curves("los"),
        "unknown figure 'mapp' (did you mean 'map'?)": lambda: alone.plot.mapp(),
        "figure 'rivals': the study has not recorded what it shows; there are accuracy": alone.plot.rivals,
        "the point is 4; the study has 4 sweep points, ": lambda: alone.array("accuracy", 4),
        "the point is -5; the study has 4 sweep points, ": lambda: alone.array("accuracy", -5),
        "unknown point 'dcn'": lambda: alone.array("accuracy", "dcn"),
        "unknown metric 'acuracy'": lambda: alone.array("acuracy"),
        "it holds no study: there is no config.json": lambda: Results.load(tmp_path),
        "config.json: not valid JSON": lambda: Results.load(broken),
    }.items():
        assert line in told(do)
