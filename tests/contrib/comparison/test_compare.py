"""Comparisons of several studies: which runs are paired, at which round, and what is said of it."""

import functools
import json

import numpy as np
import pytest
from scipy import stats

from mdfl_jax.contrib.comparison.compare import names_of, read_studies
from mdfl_jax.contrib.comparison.pairing import why_unpaired
from mdfl_jax.core.errors import UserError
from mdfl_jax.report.page import write_files
from mdfl_jax.report.registry import panels_in_order
from mdfl_jax.report.verdict import verdict
from mdfl_jax.results.results import Results
from tests.report.conftest import write_workdir
from tests.report.made_report import change, edit

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

    def worse(entry):
        values = [value * (0.9 if seed else 0.95) for seed, value in enumerate(entry["per_seed"])]
        return entry | {"mean": np.mean(values), "per_seed": values}

    edit(folders[1], points=lambda of: [p | {"final_accuracy": worse(p["final_accuracy"])} for p in of])
    change(folders[1], lambda row: row | {"accuracy": row["accuracy"] * (0.9 if row["seed"] else 0.95)})
    return folders


def test_points_of_all_studies_stand_together_and_are_paired_where_data_and_places_agree(two):
    run = read_studies(two)
    assert run.points == ["first: static", "first: dcm", "second: static", "second: dcm"]
    for p, (folder, point) in enumerate([(two[0], "static"), (two[0], "dcm"), (two[1], "static"), (two[1], "dcm")]):
        own = np.load(folder / "history.npz")
        assert np.array_equal(run.history(p, "accuracy"), own[f"{p % 2}/accuracy"])
        assert run.curves[run.points[p]].accuracy[:, -1] == pytest.approx(seeds_of(folder, point))
    gap = seeds_of(two[1], "dcm") - seeds_of(two[0], "static")
    found = run.outcomes[3]["difference_to_baseline"]
    assert found["mean"] == pytest.approx(gap.mean())
    assert found["ci95"] == pytest.approx(stats.t.ppf(0.975, 2) * stats.sem(gap))
    assert (found["paired"], found["seeds"], run.outcomes[3]["baseline"]) == (True, 3, "first: static")
    other = read_studies(two, baseline="second: dcm")
    gap = seeds_of(two[0], "static") - seeds_of(two[1], "dcm")
    assert other.outcomes[0]["difference_to_baseline"]["mean"] == pytest.approx(gap.mean())


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
    ],
)
def test_what_differs_prevents_pairs_and_welch_is_used(two, make, why):
    make(two[1])
    run = read_studies(two)
    assert why_unpaired(run.studies[1], 0, run.studies[0], 0) == why
    ours, theirs = (seeds_of(folder, "static") for folder in two)
    low, high = stats.ttest_ind(theirs, ours, equal_var=False).confidence_interval()
    found = run.outcomes[2]["difference_to_baseline"]
    assert (found["paired"], found["why"], found["ci95"]) == (False, why, pytest.approx((high - low) / 2))


def test_common_seeds_are_paired_point_by_point(tmp_path):
    a, b = write_workdir(tmp_path / "a", TWO, seeds=3), write_workdir(tmp_path / "b", TWO, seeds=5)
    for folder in (a, b):  # label counts of the synthetic study depend on the number of seeds
        change(folder, arrays=lambda arrays: {key: array for key, array in arrays.items() if "label" not in key})
    assert read_studies([a, b]).outcomes[2]["difference_to_baseline"]["seeds"] == 3
    one = write_workdir(tmp_path / "c", [{"data.alpha": 0.1}, {"data.alpha": 1.0}])
    run = read_studies([one, write_workdir(tmp_path / "d", [{"data.alpha": 10.0}, {"data.alpha": 0.1}])])
    paired, ids = run.pairing, run.points
    found = {(mine, other) for mine in ids[:2] for other in ids[2:] if paired(mine, other) and paired(other, mine)}
    assert found == {("c: 0.1", "d: 0.1")}
    assert paired(*ids[:2])  # one study
    assert "paired" not in verdict(run)[0]  # the interval of some of them is Welch's
    assert "(paired 95 %" in verdict(run.only([0, 3]))[0]


def test_studies_of_different_length_are_compared_in_all_panels_at_the_last_common_round(tmp_path):
    def moved(arrays):
        """A mobile client sends three times what another sends, and moves 7 m in 20 rounds."""
        for p in range(2):
            mobile, evaluations = arrays[f"{p}/is_mobile"], arrays[f"{p}/accuracy"].shape[1]
            grown = np.arange(evaluations)[None, :, None] * np.where(mobile, 3.0, 1.0)[:, None]  # [S, E, N]
            arrays |= {f"{p}/bits_sent": 1e6 * grown, f"{p}/distance_moved": 7.0 * grown * mobile[:, None]}
        return arrays

    folders = [write_workdir(tmp_path / f"r{rounds}", TWO, rounds=rounds, every=20) for rounds in (40, 80)]
    run = read_studies([change(folder, arrays=moved) for folder in folders])
    long = Results.read(folders[1]).shown().curves["dcm"]
    assert run.summary["round"] == 40
    at = dict(zip(long.seeds, long.accuracy[:, long.rounds.tolist().index(40)]))
    assert run.outcomes[3]["final_accuracy"]["per_seed"] == pytest.approx([at[seed] for seed in (0, 1, 2)])
    assert run.curves["r80: dcm"].rounds.tolist() == [0, 20, 40, 60, 80]  # the curves show all
    assert "The studies end at different rounds (r40 at round 40, r80 at round 80)" in run.remarks[0]
    assert [point["distance_moved_per_mobile_client"] for point in run.outcomes[2:]] == [42.0, 42.0]
    said = {name: panel.caption(run) for name, panel in panels_in_order().items() if panel.applies(run)}
    assert all("round 40" in said[name] for name in ("accuracy", "final_accuracy"))


def test_an_axis_that_one_of_them_lacks_is_refused_and_studies_of_the_same_name_are_told_apart(two, tmp_path):
    change(two[1], lambda row: row | {"consensus_distance": 0.5, "messages": 1.0})
    with pytest.raises(UserError, match="which first has not recorded"):
        read_studies(two, x_axis="messages")
    folders = [write_workdir(tmp_path / name, TWO) for name in ("one/run", "two/run", "three")]
    assert names_of([Results.read(folder).shown() for folder in folders]) == ["one/run", "two/run", "three"]


@pytest.mark.long
def test_a_comparison_writes_into_its_own_folder_only(two, tmp_path):
    before = {path: path.stat().st_mtime_ns for folder in two for path in folder.rglob("*")}
    folder = tmp_path / "both"
    folder.mkdir()
    run = read_studies(two)
    assert write_files(run, folder) == folder / "report.html"
    assert before == {path: path.stat().st_mtime_ns for folder in two for path in folder.rglob("*")}
