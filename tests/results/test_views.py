"""The views of a study are made of its records, at any time and by anybody, and say what docs/outputs.md promises."""

import json
import re
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
from made_study import made
from tiny import run_study, tiny_config

from mdfl_jax import Results
from mdfl_jax.core.errors import UserError
from mdfl_jax.report import figures
from mdfl_jax.report.page import write_report
from mdfl_jax.report.registry import FIGURES
from mdfl_jax.results.records import read_study
from mdfl_jax.results.results import StudyResults, write_views
from mdfl_jax.results.summary import baselines
from mdfl_jax.storage.disk import plain
from mdfl_jax.storage.study_files import VIEWS, locked, read_config
from mdfl_jax.study import make_study

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


@pytest.fixture
def folder(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "run")


def assert_whole(folder):
    """Each view is whole, and holds what the records do."""
    results = StudyResults.open(folder)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert lines == results.lines
    assert json.loads((folder / "summary.json").read_text()) == plain(results.summary)
    with np.load(folder / "history.npz") as found:
        assert found.files == list(results.arrays)
        for key in found.files:
            np.testing.assert_array_equal(found[key], results.arrays[key], err_msg=key)


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
    table = {key for row in re.findall(r"^\| (`.*?) \|", section("metrics.jsonl").split("These are there")[0], re.M)
             for key in re.findall(r"`(\w+)`", row)}  # fmt: skip
    assert table - {"list_places"} <= written["metrics.jsonl"]
    assert [(entry["point"], entry["seed"], entry["round"]) for entry in StudyResults.open(whole).lines] == [
        (point["id"], seed, at) for point in config["points"] for seed in range(3) for at in (0, 2, 4)
    ]


def test_views_are_made_again_whatever_has_become_of_them(folder):
    before = {name: (folder / name).read_bytes() for name in (*VIEWS, "config.json")}
    (folder / "summary.json").unlink()
    (folder / "metrics.jsonl").write_text("{half of")
    (folder / "history.npz").write_bytes(b"\xff")
    assert len(Results.load(folder).lines) == 4 * 3 * 3  # no view is read
    write_views(folder, read_config(folder))
    assert {name: (folder / name).read_bytes() for name in before} == before
    next((folder / "runs").iterdir()).unlink()
    with pytest.raises(UserError, match="the study there is not finished: 1 of its 12 runs are not there"):
        Results.load(folder)


def test_a_folder_of_records_alone_is_a_study(whole, tmp_path):
    shutil.copytree(whole / "runs", tmp_path / "runs")
    one, other = StudyResults.open(whole), StudyResults.open(tmp_path)
    ids = {runs[0]: point["id"] for point in one.manifest["points"] if (runs := point["runs"])}
    place = {point["runs"][0]: p for p, point in enumerate(other.manifest["points"])}
    assert place.keys() == ids.keys()
    for p, point in enumerate(one.manifest["points"]):
        q = place[point["runs"][0]]
        assert other.manifest["points"][q]["overrides"] == point["overrides"]
        assert other.seeds_of(q) == one.seeds_of(p) == [0, 1, 2]
        for key in one.keys():  # noqa: SIM118
            np.testing.assert_array_equal(one.array(key, p), other.array(key, q))
        assert one.summary["points"][p]["final_accuracy"] == other.summary["points"][q]["final_accuracy"]
    write_views(tmp_path, read_study(tmp_path))
    assert_whole(tmp_path)
    assert StudyResults.open(tmp_path).points == other.points
    with pytest.raises(UserError, match="it holds no study: there is no config"):
        Results.load(tmp_path / "runs")


def test_two_that_finish_at_once_leave_whole_views(folder):
    errors = []

    def again():
        try:
            for _ in range(2):
                write_views(folder, read_config(folder))  # even without the lock
                with locked(folder):
                    write_views(folder, read_config(folder))
                    assert_whole(folder)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=again) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert_whole(folder)
    assert not [path for path in folder.iterdir() if path.name.endswith(".part")]


FILES = ("metrics.jsonl", "summary.json", "history.npz", "config.json", "report.html")


def test_the_files_of_a_report_are_listed_and_nothing_is_written_through_a_link(folder, tmp_path, monkeypatch):
    """A file is replaced; a folder that is a link, and a lock, are refused."""
    monkeypatch.setattr(figures, "drawn", lambda: {"accuracy": FIGURES["accuracy"]})  # the others take seconds
    for name in FILES:
        outside = tmp_path / name
        shutil.copy(folder / name, outside) if name == "config.json" else outside.write_text("mine")
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(outside)
    before = {name: (tmp_path / name).read_bytes() for name in FILES}
    with locked(folder):
        write_views(folder, read_config(folder))
    write_report(folder)
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
            write_report(folder)
        assert outside.read_text() == "mine" if outside.is_file() else not list(outside.iterdir())
        (folder / name).unlink()


def test_points_with_other_seeds_are_paired_by_the_common_ones(tmp_path):
    found = made(tmp_path / "run", [(0, 0), (0, 1), (1, 1), (1, 2), (2, 0), (3, 2)], **SWEEP)
    assert [point["seeds"] for point in found.summary["points"]] == [[0, 1], [1, 2], [0], [2]]
    third, first = (found.summary["points"][p]["final_accuracy"]["per_seed"] for p in (2, 0))
    assert found.summary["points"][2]["baseline"] == found.points[0]
    assert found.summary["points"][2]["difference_to_baseline"] == {"mean": third[0] - first[0], "ci95": None}
    assert found.summary["points"][3]["difference_to_baseline"] == pytest.approx(
        {"mean": found.summary["points"][3]["final_accuracy"]["per_seed"][0]
         - found.summary["points"][1]["final_accuracy"]["per_seed"][1], "ci95": None})  # fmt: skip
    apart = made(tmp_path / "apart", [(0, 0), (2, 2)], **SWEEP).summary["points"]
    assert [point["difference_to_baseline"] for point in apart] == [{"mean": 0.0, "ci95": None}, None]


def test_the_baseline_is_found_by_its_text(whole):
    manifest = read_config(whole)
    assert manifest["points"][1]["overrides"]["network.radius"] == "inf"  # JSON has no infinity
    expected = {"network.radius=inf": [1, 1, 3, 3], "network.radius=2": [0, 0, 2, 2], "": [None] * 4}
    for text, found in (expected | {"data.alpha=3": [None] * 4}).items():
        assert baselines(manifest | {"config": {"baseline": text}}) == found


@pytest.mark.long
@pytest.mark.parametrize(
    ("save", "first", "then"), [("every:2", [2, 4], [2, 4, 6, 8]), ("final", [4], [8]), ("best", None, None)]
)
def test_kept_models_are_found_after_more_rounds(tmp_path, save, first, then):
    changes = {"save": save, "seeds": 1, "sweep": "network.mobility=dcm"}
    for rounds, kept in ((4, first), (8, then)):
        run_study(make_study(tiny_config(**changes, rounds=rounds)), tmp_path)
        results = Results.load(tmp_path)
        clients = results.models("dcm")["params"]["Dense_0"]["kernel"]
        np.testing.assert_allclose(results.model("dcm")["params"]["Dense_0"]["kernel"], clients.mean(0), rtol=1e-5)
        with pytest.raises(UserError, match=f"the round is 1; with save={save} those of round .* are kept") as told:
            results.models("dcm", round=1)
        there = [int(text) for text in re.findall(r"\d+", str(told.value).partition("those of round")[2])]
        if save == "best":
            curve = [line["accuracy"] for line in results.lines if line["point"] == "dcm"]
            kept = [2 * int(np.argmax(curve))]
        assert there == kept
        for at in there:
            results.models("dcm", 0, at)
        with pytest.raises(UserError, match="the seed is 9; the study has 0"):
            results.model("dcm", 9)
    np.testing.assert_array_equal(results.models("dcm", round=there[-1])["params"]["Dense_0"]["kernel"], clients)
