"""The panels of curves and of traffic, and the data of the curves that the reader of the page explores."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdfl_jax.report import style
from mdfl_jax.report.panels import curves, traffic
from mdfl_jax.report.panels.curves import CLIENT_NUMBERS, explorer, stored
from mdfl_jax.report.read import read_workdir, recorded
from mdfl_jax.report.registry import FIGURES
from tests.report.made_report import change, declare, edit

RADII = [{"network.radius": float(r)} for r in range(1, 201)]


@pytest.mark.parametrize("count", [1, 4, 16, 200])
def test_final_accuracies_have_a_row_for_each_point_in_the_order_of_the_study(make_workdir, count):
    run = read_workdir(make_workdir(RADII[:count], seeds=2, rounds=10, positions=False))
    panels = FIGURES["final_accuracy"].chart(run).data["panels"]
    seeds, means = ([of["traces"][k::2] for of in panels] for k in (0, 1))
    found = [trace["x"][0] for of in means for trace in of]
    np.testing.assert_allclose(found, [100 * point["final_accuracy"]["mean"] for point in run.points])
    assert {len(trace["x"]) for of in seeds for trace in of} == {2}
    labels = [text.replace("<br>", " ") for panel in panels for text in panel["yaxis"]["ticktext"]]
    assert labels == [look.label for look in style.looks(run)]
    assert sum(panel["height"] for panel in panels) / count >= 15  # pixels a row
    assert max(panel["height"] for panel in panels) < 800
    rows = FIGURES["final_accuracy"].numbers(run)[1:]  # of each point the two seeds, then the mean
    assert [row[5] for row in rows[2::3]] == found
    assert [row[3] for row in rows[2::3]] == labels


def test_captions_tell_the_true_x_axis(make_workdir):
    folder = change(make_workdir(seeds=2), lambda row: row | {"bits_sent": 1e6 * row["round"]})
    panel = FIGURES["accuracy"]
    assert "against rounds:" in panel.caption(read_workdir(folder))
    run = read_workdir(folder, "bits")
    assert "against megabits sent by a client:" in panel.caption(run)
    assert (explorer(run)["axis"], explorer(read_workdir(folder))["axis"]) == ("bits_sent", "")
    assert curves.accuracy(run).get_supxlabel() == "megabits sent by a client"
    np.testing.assert_allclose(curves.accuracy(run).axes[0].lines[0].get_xdata(), [0, 10, 20, 30, 40])


def test_consensus_is_on_a_logarithmic_axis_without_rounding_errors(make_workdir, reported):
    assert not FIGURES["consensus"].applies(read_workdir(reported))
    distance = {0: 1e-8, 10: 4.0, 20: 2.0, 30: 1.0, 40: 0.5}
    folder = change(make_workdir(seeds=2), lambda row: row | {"consensus_distance": distance[row["round"]]})
    run = read_workdir(folder)
    axes = curves.consensus(run).axes[0]
    assert axes.get_yscale() == "log"
    np.testing.assert_allclose(axes.lines[0].get_xdata(), [10, 20, 30, 40])
    np.testing.assert_allclose(axes.lines[0].get_ydata(), [4, 2, 1, 0.5])
    axes.figure.canvas.draw()
    labels = [text.get_text() for of in (False, True) for text in axes.get_yticklabels(minor=of)]
    assert {"1", "2", "5", ""} <= set(labels) <= {"0.1", "0.2", "0.5", "1", "2", "5", "10", ""}  # and no formulas
    chart = FIGURES["consensus"].chart(run)
    assert chart.kind == "curves"  # another view of the numbers of the first panel
    assert chart.data["start_with"] == {"metric": "consensus_distance", "x": "", "logy": True}


def with_traffic(folder, up, down):
    sent = {"ups": up, "downs": down, "messages": 11.0}
    change(folder, lambda row: row | {key: value * row["round"] / 40 for key, value in sent.items()})
    return read_workdir(declare(declare(folder, "ups", "messages"), "downs", "messages"))


def test_kinds_of_traffic_are_shown_if_they_add_up(make_workdir):
    run = with_traffic(make_workdir(seeds=2), 4.0, 7.0)
    (block,) = traffic.blocks(run)
    assert block.stacked
    assert block.title == "messages by kind"
    assert {name: values.tolist() for name, values in block.bars.items()} == {"ups": [4.0] * 4, "downs": [7.0] * 4}
    assert FIGURES["traffic"].caption(run).startswith("What a client has sent until the end, by kind of")
    bars = FIGURES["traffic"].chart(run).data["panels"][0]["traces"]
    assert [(bar["name"], bar["x"].tolist()) for bar in bars] == [("ups", [4.0] * 4), ("downs", [7.0] * 4)]
    assert bars[1]["base"].tolist() == [4.0] * 4
    assert FIGURES["traffic"].numbers(run)[1] == ["", "ups", "point", "static", "messages by kind", 4.0, None, None]


def test_traffic_of_mobile_and_other_clients_is_compared(make_workdir):
    def add(arrays):
        for p in range(4):
            mobile = arrays[f"{p}/is_mobile"]
            bits = np.where(mobile, 3e6, 1e6) + 1e6 * np.arange(len(mobile))[:, None]
            arrays[f"{p}/bits_sent"] = np.stack([0 * bits] * 4 + [bits], axis=1)
        return arrays

    run = read_workdir(change(make_workdir(), arrays=add))
    (block,) = traffic.blocks(run)
    np.testing.assert_allclose(block.bars["mobile clients"], [4.0] * 4)  # seeds: 3, 4, 5
    np.testing.assert_allclose(block.bars["other clients"], [2.0] * 4)
    np.testing.assert_allclose(block.halves["mobile clients"], 4.302653 / np.sqrt(3), rtol=1e-5)
    figure = traffic.traffic(run)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["mobile clients", "other clients"]
    assert figure.axes[0].get_xlim()[0] == 0
    mobile, others = FIGURES["traffic"].chart(run).data["panels"][0]["traces"]
    assert [bar["marker"]["color"] for bar in (mobile, others)] == ["mobile/8c", "static/8c"]  # the theme's greys
    np.testing.assert_allclose(others["error_x"]["arrayminus"], [2.0] * 4)  # nobody sends less than nothing
    np.testing.assert_allclose(others["error_x"]["array"], 4.302653 / np.sqrt(3), rtol=1e-5)
    assert "8 megabits are 1 MB" in FIGURES["traffic"].caption(run)


def titles(run):
    return {quantity.key: quantity.title for quantity in recorded(run).quantities}


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


def test_too_many_numbers_of_clients_leave_evaluations_out_evenly(reported, monkeypatch):
    monkeypatch.setattr("mdfl_jax.report.panels.curves.CLIENT_NUMBERS", 4 * 8 * 2)  # 4 points, 8 clients, 5 evaluations
    assert CLIENT_NUMBERS >= 1_000_000
    packed = explorer(read_workdir(reported))["clients"]
    assert packed["every"] == 3
    assert [of["at"].tolist() for of in packed["of"]["accuracy"]["points"]] == [[1, 4]] * 4  # the last one stays


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


def test_a_study_that_is_judged_by_its_global_model_starts_with_it(make_workdir):
    folder = change(make_workdir(seeds=2), lambda row: row | {"mean_model_accuracy": row["accuracy"], "accuracy": None})
    run = read_workdir(edit(folder, "config", config=lambda config: config | {"judged": "global"}))
    assert explorer(run)["start"] == "mean_model_accuracy"
    assert titles(run)["mean_model_accuracy"] == "test accuracy of the global model (%)"
    assert "accuracy" not in explorer(run)["values"]
