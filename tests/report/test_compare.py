"""Comparisons of several studies: which runs are paired, at which round, and what is said of it."""

import csv
import functools
import json

import numpy as np
import pytest
from scipy import stats

from mdfl_jax.core.errors import UserError
from mdfl_jax.report.compare import (
    describe_pairing,
    names_of,
    pairs_of,
    read_studies,
    same_settings,
    why_unpaired,
    write_differences,
)
from mdfl_jax.report.page import render, write
from mdfl_jax.report.panels import contacts, traffic
from mdfl_jax.report.read import read_workdir
from mdfl_jax.report.registry import in_order
from mdfl_jax.report.verdict import verdict
from tests.report.conftest import write_workdir
from tests.report.made_report import change, edit, unfinish

TWO = [{"network.mobility": "static"}, {"network.mobility": "dcm"}]


def set_config(folder, **values):
    """Sets values of config.json by their dotted paths, written with __ for the dots."""

    def changed(config):
        for path, value in values.items():
            *parts, last = path.split("__")
            functools.reduce(dict.__getitem__, parts, config)[last] = value
        return config

    return edit(folder, "config", config=changed)


def seeds_of(folder, point):
    """The final accuracy of each seed of a point, from summary.json."""
    summary = json.loads((folder / "summary.json").read_text())
    entry = next(of for of in summary["points"] if of["id"] == point)
    return np.array(entry["final_accuracy"]["per_seed"])


@pytest.fixture
def two(tmp_path):
    """Two studies of the same data and places, the second with other accuracies."""
    folders = [write_workdir(tmp_path / name, TWO) for name in ("a", "b")]
    for folder, name in zip(folders, ("first", "second")):
        edit(folder, "config", name=name)

    def better(row):
        return row | {"accuracy": row["accuracy"] * (0.9 if row["seed"] else 0.95)}

    rows = [json.loads(line) for line in (change(folders[1], better) / "metrics.jsonl").read_text().splitlines()]
    final = {(row["point"], row["seed"]): row["accuracy"] for row in rows}  # of the last round

    def entry(point):
        values = [final[point["id"], seed] for seed in range(3)]
        return point | {"final_accuracy": point["final_accuracy"] | {"mean": np.mean(values), "per_seed": values}}

    edit(folders[1], points=lambda points: [entry(point) for point in points])
    return folders


def test_points_of_all_studies_with_the_studys_name_in_front(two):
    run = read_studies(two)
    assert [point["id"] for point in run.points] == ["first: static", "first: dcm", "second: static", "second: dcm"]
    assert [axis.path for axis in run.axes] == ["study", "network.mobility"]
    assert run.value(3, "network.mobility") == "dcm"
    assert run.value(3, "network.radius") == 3.0  # from the configuration of its own study
    for p, (folder, point) in enumerate([(two[0], "static"), (two[0], "dcm"), (two[1], "static"), (two[1], "dcm")]):
        assert run.points[p]["final_accuracy"]["per_seed"] == seeds_of(folder, point).tolist()
        own = np.load(folder / "history.npz")
        assert np.array_equal(run.history(p, "accuracy"), own[f"{p % 2}/accuracy"])
        assert np.array_equal(run.array(p, "position"), own[f"{p % 2}/position"][0])
        assert run.curves[run.points[p]["id"]].accuracy[:, -1] == pytest.approx(seeds_of(folder, point))
    assert {line["point"] for line in run.lines} == {point["id"] for point in run.points}


def test_differences_are_paired_where_data_and_places_agree(two):
    run = read_studies(two)
    gap = seeds_of(two[1], "dcm") - seeds_of(two[0], "static")
    found = run.points[3]["difference_to_baseline"]
    assert found["mean"] == pytest.approx(gap.mean())
    assert found["ci95"] == pytest.approx(stats.t.ppf(0.975, 2) * stats.sem(gap))
    assert (found["paired"], found["seeds"]) == (True, 3)
    assert run.points[3]["baseline"] == "first: static"
    assert list(describe_pairing(run)) == [
        "“second” is paired with “first” by seed: the data, their partition and the first places agree under 3 common"
        " seeds."
    ]
    (same_static, same_dcm) = same_settings(run)
    assert same_dcm.kind == "3 seeds in pairs"
    apart = 100 * (seeds_of(two[1], "dcm") - seeds_of(two[0], "dcm")).mean()
    assert same_dcm.difference.text.startswith(f"{apart:+.2f} ± ")
    assert same_dcm.difference.number == pytest.approx(apart)  # by which the page sorts
    assert same_static.label == "second, static"


def changed_array(key):
    """Returns a function that changes one number of the first point's array of this name."""

    def changed(arrays):
        arrays[f"0/{key}"][0, 0, 0] += 1
        return arrays

    return lambda folder: change(folder, arrays=changed)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (changed_array("label_counts"), "under the same seed the clients hold other data"),
        (changed_array("position"), "under the same seed the clients start elsewhere"),
        (lambda folder: set_config(folder, inputs={"data.name=x": "0"}), "the input data.name=x is not the same"),
        (lambda folder: set_config(folder, data__alpha=0.5), "data.alpha is 0.5 and 0.05"),
        (lambda folder: set_config(folder, network__num_clients=9), "network.num_clients is 9 and 8"),
    ],
)
def test_what_differs_prevents_pairs_and_welch_is_used(two, make, why):
    make(two[1])
    run = read_studies(two)
    assert why_unpaired(run.studies[1], 0, run.studies[0], 0) == why
    ours, theirs = (seeds_of(folder, "static") for folder in two)
    low, high = stats.ttest_ind(theirs, ours, equal_var=False).confidence_interval()
    found = run.points[2]["difference_to_baseline"]
    assert (found["paired"], found["why"]) == (False, why)
    assert found["ci95"] == pytest.approx((high - low) / 2)
    lines = (f"“second” is not paired with “first”: {why}", f"({why})")
    assert any(line in said for said in describe_pairing(run) for line in lines)
    assert why.split(" ")[0] in render(run)


def test_only_common_seeds_are_paired(tmp_path):
    a, b = write_workdir(tmp_path / "a", TWO, seeds=3), write_workdir(tmp_path / "b", TWO, seeds=5)
    for folder in (a, b):  # label counts of the synthetic study depend on the number of seeds
        change(folder, arrays=lambda arrays: {key: array for key, array in arrays.items() if "label" not in key})
    run = read_studies([a, b])
    assert run.points[2]["difference_to_baseline"]["seeds"] == 3
    assert run.manifest["seeds"] == [0, 1, 2, 3, 4]
    assert run.seeds(0) == (0, 1, 2)


def test_points_are_paired_each_by_itself(tmp_path):
    a = write_workdir(tmp_path / "a", [{"data.alpha": 0.1}, {"data.alpha": 1.0}])
    b = write_workdir(tmp_path / "b", [{"data.alpha": 10.0}, {"data.alpha": 0.1}])
    run = read_studies([a, b])
    paired = pairs_of(run)
    ids = [point["id"] for point in run.points]
    assert ids == ["a: 0.1", "a: 1.0", "b: 10.0", "b: 0.1"]
    pairs = {(one, two) for one in ids[:2] for two in ids[2:] if paired(one, two) and paired(two, one)}
    assert pairs == {("a: 0.1", "b: 0.1")}
    assert paired(*ids[:2])  # one study
    said = verdict(run.summary, run.config, paired)[0]
    assert said.startswith("“a, alpha = 1” has") or said.startswith("“b, alpha = 0.1” has")
    assert "paired" not in said  # the interval of some of them is Welch's
    assert "(paired 95 %" in verdict(run.only([0, 3]).summary, run.config, pairs_of(run.only([0, 3])))[0]


def test_studies_of_different_length_are_compared_at_the_last_common_round(tmp_path):
    a, b = write_workdir(tmp_path / "a", TWO, rounds=40), write_workdir(tmp_path / "b", TWO, rounds=60, every=20)
    run = read_studies([a, b])
    assert run.summary["round"] == 40
    long = read_workdir(b).curves["dcm"]
    at = dict(zip(long.seeds, long.accuracy[:, long.rounds.tolist().index(40)]))
    assert run.points[3]["final_accuracy"]["per_seed"] == pytest.approx([at[seed] for seed in (0, 1, 2)])
    assert run.points[0]["final_accuracy"]["per_seed"] == seeds_of(a, "static").tolist()
    assert run.curves["b: dcm"].rounds.tolist() == [0, 20, 40, 60]  # the curves show all
    assert "The studies end at different rounds (a at round 40, b at round 60)" in run.remarks[0]


@pytest.fixture
def lengths(tmp_path):
    """One study of 40 rounds and one of 80 with the same contacts, traffic and movement until then."""

    def with_records(arrays, evaluations):
        heard = np.packbits(np.random.default_rng(5).random((80, 3, 8, 8)) < 0.1, axis=-1).swapaxes(0, 1)
        for p in range(2):
            mobile = arrays[f"{p}/is_mobile"]
            grown = np.arange(evaluations)[None, :, None] * np.where(mobile, 3.0, 1.0)[:, None]  # [S, E, N]
            new = {"bits_sent": 1e6 * grown, "distance_moved": 7.0 * grown * mobile[:, None]}
            new |= {"links": heard[:, : 20 * (evaluations - 1)]}
            arrays |= {f"{p}/{key}": array for key, array in new.items()}
        return arrays

    folders = [write_workdir(tmp_path / f"r{rounds}", TWO, rounds=rounds, every=20) for rounds in (40, 80)]
    for folder, evaluations in zip(folders, (3, 5)):
        change(folder, arrays=lambda arrays, evaluations=evaluations: with_records(arrays, evaluations))
    return folders


def test_all_panels_of_studies_of_different_length_are_of_the_common_round(lengths):
    run = read_studies(lengths)
    assert [point["distance_moved_per_mobile_client"] for point in run.points[2:]] == [42.0, 42.0]
    (block,) = traffic.blocks(run)
    sent = {"mobile clients": [6.0] * 4, "other clients": [2.0] * 4}
    assert {name: bars.tolist() for name, bars in block.bars.items()} == sent
    assert contacts.measured(run).networks == 1  # until round 40 all networks are the same
    assert len(contacts.measured(run).lines[0].found["windows"][0]) <= 40
    said = {name: panel.caption(run) for name, panel in in_order().items() if panel.applies(run)}
    assert "Highest at round 40: " in said["accuracy"]
    assert said["final_accuracy"].startswith("Test accuracy at round 40: mean over 3 seeds")
    assert said["traffic"].startswith("What a client has sent until round 40, by group of clients")
    assert ", until round 40;" in said["contacts"]
    chart = in_order()["final_accuracy"].chart(run)
    assert chart.data["panels"][0]["xaxis"]["title"]["text"] == "test accuracy at round 40 (%)"
    alone = read_workdir(lengths[1])
    assert in_order()["final_accuracy"].caption(alone).startswith("Final test accuracy: ")
    assert traffic.blocks(alone)[0].bars["mobile clients"].tolist() == [12.0, 12.0]


def test_without_a_common_round_each_study_has_its_own_end(tmp_path):
    a, b = write_workdir(tmp_path / "a", TWO, rounds=30, every=30), write_workdir(tmp_path / "b", TWO, every=20)
    run = read_studies([a, b])
    assert "round" not in run.summary
    assert run.points[3]["final_accuracy"]["per_seed"] == seeds_of(b, "dcm").tolist()
    assert "evaluated no round in common" in run.remarks[0]
    gap = seeds_of(b, "dcm").mean() - seeds_of(a, "static").mean()
    assert run.points[3]["difference_to_baseline"]["mean"] == pytest.approx(gap)


def test_an_unfinished_study_is_compared_at_the_round_that_both_have(two):
    set_config(unfinish(two[1], lambda row: row["round"] <= 20), baseline="")
    run = read_studies(two)
    assert run.summary["round"] == 20
    assert run.remarks[0].startswith("second: This study is unfinished")
    assert run.points[2]["difference_to_baseline"]["paired"] is True  # by the settings, without arrays


def test_a_baseline_can_be_chosen_and_is_checked(two):
    run = read_studies(two, baseline="second: dcm")
    assert {point["baseline"] for point in run.points} == {"second: dcm"}
    gap = seeds_of(two[0], "static") - seeds_of(two[1], "dcm")
    assert run.points[0]["difference_to_baseline"]["mean"] == pytest.approx(gap.mean())
    assert read_studies(two, baseline="dcm").points[0]["baseline"] == "first: dcm"
    with pytest.raises(UserError, match=r"unknown baseline 'dmc' \(did you mean 'dcm'\?\); known: dcm, first: dcm"):
        read_studies(two, baseline="dmc")
    with pytest.raises(UserError, match="only a comparison of several studies takes it"):
        read_studies(two[:1], baseline="dcm")
    with pytest.raises(UserError, match="given twice"):
        read_studies([two[0], two[0] / ".." / "a"])


def test_a_metric_that_one_study_lacks_is_told(two):
    change(two[1], lambda row: row | {"consensus_distance": 0.5, "messages": 1.0})
    text = render(read_studies(two))
    assert "first has not recorded consensus distance, messages sent by a client." in text
    with pytest.raises(UserError, match="which first has not recorded"):
        read_studies(two, x_axis="messages")
    set_config(two[0], x_axis="messages")
    assert read_studies(two).x_axis == "rounds"


def test_names_tell_studies_of_the_same_name_apart(tmp_path):
    folders = [write_workdir(tmp_path / name, TWO) for name in ("one/run", "two/run", "three")]
    assert names_of([read_workdir(folder) for folder in folders]) == ["one/run", "two/run", "three"]


@pytest.mark.long
def test_a_comparison_writes_into_its_own_folder_only(two, tmp_path):
    before = {path: path.stat().st_mtime_ns for folder in two for path in folder.rglob("*")}
    folder = tmp_path / "both"
    folder.mkdir()
    run = read_studies(two, folder)
    assert write(run) == folder / "report.html"
    path = write_differences(run, folder / "tables")
    assert before == {path: path.stat().st_mtime_ns for folder in two for path in folder.rglob("*")}
    rows = list(csv.DictReader(path.open()))
    assert [row["point"] for row in rows] == [point["id"] for point in run.points]
    assert float(rows[3]["difference_mean"]) == run.points[3]["difference_to_baseline"]["mean"]
    assert rows[3]["paired"] == "True"
