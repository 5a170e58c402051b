"""The data of the curves of the page: those of metrics.jsonl and history.npz, and nothing that says nothing."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdfl_jax.report.panels.curves import CLIENT_NUMBERS, explorer, short, stored
from mdfl_jax.report.read import read_workdir, recorded
from tests.report.made_report import change


def titles(run):
    return {quantity.key: quantity.title for quantity in recorded(run).quantities}


def test_values_are_those_of_the_lines(reported):
    run = read_workdir(reported)
    found = recorded(run)
    assert (found.rounds.tolist(), found.seeds.tolist()) == ([0, 10, 20, 30, 40], [0, 1, 2])
    with np.load(reported / "history.npz") as history:
        expected = [history[f"{p}/accuracy"].mean(2) for p in range(4)]
    np.testing.assert_allclose(found.values["accuracy"], expected)
    assert np.isnan(found.values["train_loss"][:, :, 0]).all()  # null before the first round
    assert "lambda_2" not in found.values  # null everywhere
    assert explorer(run)["start"] == "accuracy"


def test_numbers_have_titles_in_the_unit_in_which_they_are_shown(make_workdir):
    def more(row):
        spread = {"accuracy_worst_decile": 0.1, "accuracy_jain": 0.5, "own_thing": 3.0}
        counts = {"bits_sent": 1e6 * row["round"], "double_bits": 1e6 * row["round"], "distance_moved": 0.0}
        return row | spread | counts | {"rounds_done": row["round"]}

    run = read_workdir(change(make_workdir(seeds=2), more))
    found = titles(run)
    assert found["accuracy"] == "test accuracy (%)"
    assert found["accuracy_worst_decile"] == "test accuracy, worst tenth of the clients (%)"
    assert found["accuracy_jain"] == "test accuracy, Jain's fairness index"
    assert found["bits_sent"] == "megabits sent by a client"
    assert found["own_thing"] == "own thing"
    # Always 0, the rounds again, another key again: nothing to draw.
    assert not {"distance_moved", "rounds_done", "double_bits"} & set(found)


def test_only_counts_since_the_start_can_be_the_x_axis(make_workdir):
    def more(row):
        grown = {"distance_moved": row["round"] / 7, "messages": row["round"] * 2, "loss": row["round"] + 0.5}
        return row | grown | {"num_neighbours": None if row["round"] == 0 else row["round"], "accuracy": 0.0}

    def moved_back(row):
        row = more(row)
        return row | {"distance_moved": 0.5} if row["round"] == 40 else row

    folder = change(make_workdir(seeds=2), more)
    axes = {quantity.key for quantity in recorded(read_workdir(folder)).quantities if quantity.grows}
    assert axes == {"messages", "distance_moved"}  # the loss grows in this study, but not from 0
    change(folder, moved_back)
    axes = {quantity.key for quantity in recorded(read_workdir(folder)).quantities if quantity.grows}
    assert axes == {"messages"}


def test_points_with_other_rounds_and_seeds_have_gaps(make_workdir):
    def cut(row):
        return None if row["point"] == "dcm" and (row["seed"] == 2 or row["round"] == 40) else row

    run = read_workdir(change(make_workdir(), cut))
    found = recorded(run)
    known = np.isfinite(found.values["accuracy"])
    assert known[:3].all()
    assert known[3, :2, :4].all()
    assert not known[3, 2].any()
    assert not known[3, :, 4].any()
    assert [list(point["seeds"]) for point in explorer(run)["points"]] == [[0, 1, 2]] * 3 + [[0, 1]]


def client_numbers(packed, p):
    """The numbers of the single clients of a sweep point, [N, evaluations], as the script of the page unpacks them."""
    starts = np.cumsum([0, *(0 if of is None else of["clients"] * len(of["at"]) for of in packed["points"])])
    how = packed["points"][p]
    levels = packed["values"][starts[p] : starts[p + 1]].reshape(how["clients"], -1)
    values = how["low"] + how["step"] * levels.astype(float)
    return how["at"], np.where(levels == 0xFFFF, np.nan, np.exp(values) if how["log"] else values)


def test_single_clients_are_those_of_the_first_seed(reported):
    packed = explorer(read_workdir(reported))["clients"]
    assert packed["every"] == 1
    with np.load(reported / "history.npz") as history:
        for p in range(4):
            at, values = client_numbers(packed["of"]["accuracy"], p)
            assert at.tolist() == [0, 1, 2, 3, 4]
            np.testing.assert_allclose(values, history[f"{p}/accuracy"][0].T, atol=1e-5)


def test_too_many_numbers_of_clients_leave_evaluations_out_evenly(reported, monkeypatch):
    monkeypatch.setattr(
        "mdfl_jax.report.panels.curves.CLIENT_NUMBERS", 4 * 8 * 2
    )  # of 4 points, 8 clients, 5 evaluations
    assert CLIENT_NUMBERS >= 1_000_000
    packed = explorer(read_workdir(reported))["clients"]
    assert packed["every"] == 3
    assert [of["at"].tolist() for of in packed["of"]["accuracy"]["points"]] == [[1, 4]] * 4  # the last one stays


@pytest.mark.parametrize("many", [1, 4])
def test_runs_without_numbers_at_the_kept_evaluations_are_left_out(make_workdir, monkeypatch, many):
    """The first ``many`` points have diverged after the first evaluation, which is left out."""
    monkeypatch.setattr(
        "mdfl_jax.report.panels.curves.CLIENT_NUMBERS", 2 * 4 * 8 * 2
    )  # of 2 metrics: 2 of 5 evaluations

    def diverged(arrays):
        loss = np.ones((3, 5, 8), np.float32)
        loss[:, 1:] = np.nan
        return arrays | {f"{p}/loss": loss if p < many else np.ones_like(loss) for p in range(4)}

    packed = explorer(read_workdir(change(make_workdir(), lambda row: row | {"loss": 1.0}, diverged)))["clients"]
    assert set(packed["of"]) == ({"accuracy", "loss"} if many < 4 else {"accuracy"})
    if many < 4:
        assert [of and of["at"].tolist() for of in packed["of"]["loss"]["points"]] == [None, *[[1, 4]] * 3]
        assert len(packed["of"]["loss"]["values"]) == 3 * 8 * 2


def test_lowest_and_highest_clients_of_a_metric_without_such_lines(make_workdir):
    loss = np.random.default_rng(0).random((3, 5, 8))
    loss[1, 2] = np.nan

    def add(arrays):
        return arrays | {f"{p}/loss": loss + p for p in range(4)}

    folder = change(make_workdir(), lambda row: row | {"loss": 1.0, "accuracy_min": 0.1, "accuracy_max": 0.9}, add)
    data = explorer(read_workdir(folder))
    described = {metric["key"]: metric for metric in data["metrics"]}
    assert (described["accuracy"]["lowest"], described["accuracy"]["highest"]) == ("accuracy_min", "accuracy_max")
    assert (described["loss"]["lowest"], described["loss"]["highest"]) == ("loss:lowest", "loss:highest")
    np.testing.assert_allclose(data["values"]["loss:lowest"][2], loss.min(2) + 2, rtol=1e-5)
    np.testing.assert_allclose(data["values"]["loss:highest"][2], loss.max(2) + 2, rtol=1e-5)


def test_quantiles_of_student_t(reported):
    table = [None, None, 12.7062, 4.30265]  # of 0.975, for 2 and 3 seeds: tables of the distribution
    assert explorer(read_workdir(reported))["quantile"][:2] == table[:2]
    np.testing.assert_allclose(explorer(read_workdir(reported))["quantile"][2:], table[2:], rtol=1e-5)


numbers = st.floats(-1e6, 1e6, width=32) | st.just(float("nan")) | st.just(float("inf"))


@given(st.lists(numbers, min_size=1, max_size=30).filter(lambda of: np.isfinite(of).any()))
def test_stored_numbers_are_within_half_a_step(listed):
    values = np.array(listed)
    levels, how = stored(values)
    known = np.isfinite(values)
    assert ((levels == 0xFFFF) == ~known).all()
    found = how["low"] + how["step"] * levels[known].astype(float)
    expected = np.log(values[known]) if how["log"] else values[known]
    assert np.abs(found - expected).max() <= 0.5 * how["step"] * (1 + 1e-6)
    assert how["step"] <= max(np.ptp(expected) / 65534 * (1 + 1e-9), 1.0)


def test_counts_are_stored_exactly_and_wide_ranges_by_logarithm():
    levels, how = stored(np.array([[0, 3], [60000, 7]]))
    assert (how["low"] + how["step"] * levels).tolist() == [[0, 3], [60000, 7]]
    values = np.geomspace(1e-6, 1e6, 50)
    levels, how = stored(values)
    np.testing.assert_allclose(np.exp(how["low"] + how["step"] * levels), values, rtol=3e-4)


@given(st.floats(-(2.0**100), 2.0**100, width=32))
def test_short_numbers_have_five_digits(value):
    assert abs(float(short(np.array([value]))[0]) - value) <= 8e-6 * abs(value) + 1e-37
    assert np.isnan(short(np.array([np.nan]))[0])


def test_a_study_that_is_judged_by_its_global_model_starts_with_it(make_workdir):
    folder = change(make_workdir(seeds=2), lambda row: row | {"mean_model_accuracy": row["accuracy"], "accuracy": None})
    made = json.loads((folder / "config.json").read_text())
    made["config"]["judged"] = "global"
    (folder / "config.json").write_text(json.dumps(made))
    run = read_workdir(folder)
    assert explorer(run)["start"] == "mean_model_accuracy"
    assert titles(run)["mean_model_accuracy"] == "test accuracy of the global model (%)"
    assert "accuracy" not in explorer(run)["values"]


@pytest.mark.parametrize("x_axis", ["", "bits"])
def test_the_first_view_is_against_the_x_axis_of_the_study(make_workdir, x_axis):
    folder = change(make_workdir(seeds=2), lambda row: row | {"bits_sent": 1e6 * row["round"]})
    data = explorer(read_workdir(folder, x_axis))
    assert data["axis"] == ("bits_sent" if x_axis else "")
    assert [metric["key"] for metric in data["metrics"] if metric["axis"]] == ["bits_sent"]
