"""The panels in a browser: every choice of the reader changes what is drawn, with the numbers of the study's files."""

import dataclasses
import itertools
import json

import numpy as np
import pytest
from scipy.special import stdtrit

from mdfl_jax.report.read import read_workdir
from tests.report.browser.pages import fits
from tests.report.conftest import write_workdir
from tests.report.kinds import write_page
from tests.report.made_report import change

long = pytest.mark.long


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A study of four points, three seeds and eight clients, with megabits, losses and the worst clients."""
    workdir = write_workdir(tmp_path_factory.mktemp("curves") / "run", positions=False)
    loss = np.random.default_rng(3).random((4, 3, 5, 8)) + 0.5
    names = [point["id"] for point in json.loads((workdir / "config.json").read_text())["points"]]

    def more(row):
        values = loss[names.index(row["point"]), row["seed"], row["round"] // 10]
        worst = {"accuracy_min": row["accuracy"] / 2, "accuracy_max": (1 + row["accuracy"]) / 2}
        sent = {"bits_sent": 1e6 * row["round"] * (1 + row["seed"]), "consensus_distance": 1 / (1 + row["round"])}
        return row | worst | sent | {"loss": float(values.mean())}

    change(workdir, more, lambda arrays: arrays | {f"{p}/loss": loss[p] for p in range(4)})
    return write_page(workdir)


@pytest.fixture
def curves(folder, open_report, show_panel):
    """Returns open(fragment) -> (page, panel, drawn), where drawn(role) gives plotly's traces of a role."""

    def opened(fragment="", name="accuracy", **options):
        page = open_report(folder, fragment=fragment, **options)
        panel = show_panel(page, name)
        plot = panel.locator(".js-plotly-plot")
        take = "of => of.data.map(({meta, x, y, text, line}) => ({...meta, x, y, text, width: line.width}))"

        def drawn(role="mean"):
            return [trace for trace in plot.evaluate(take) if trace["role"] == role]

        return page, panel, drawn

    return opened


def accuracies(folder):
    with np.load(folder / "history.npz") as history:
        return [history[f"{p}/accuracy"] for p in range(4)]


@long
def test_the_first_view_is_the_mean_accuracy_with_its_interval(folder, curves):
    _, panel, drawn = curves()
    summary = json.loads((folder / "summary.json").read_text())
    lines = drawn()
    assert [line["point"] for line in lines] == [point["id"] for point in summary["points"]]
    for line, point, accuracy in zip(lines, summary["points"], accuracies(folder)):
        assert line["x"] == [0, 10, 20, 30, 40]
        np.testing.assert_allclose(line["y"], 100 * accuracy.mean((0, 2)), rtol=2e-5)
        assert line["y"][-1] == pytest.approx(100 * point["final_accuracy"]["mean"], rel=1e-4)
    for band, accuracy in zip(drawn("band"), accuracies(folder)):
        seeds = 100 * accuracy.mean(2)
        half = stdtrit(2, 0.975) * seeds.std(0, ddof=1) / np.sqrt(3)
        high, low = np.array(band["y"][:5]), np.array(band["y"][5:])[::-1]
        np.testing.assert_allclose(high, np.minimum(seeds.mean(0) + half, 100), rtol=1e-3)
        np.testing.assert_allclose(low, np.maximum(seeds.mean(0) - half, 0), rtol=1e-3, atol=1e-3)
    low, high = panel.locator(".js-plotly-plot").evaluate("of => of.layout.yaxis.range")
    assert 0 <= low < high <= 100
    _, other, drawn = curves(name="consensus")  # a view of the same numbers
    np.testing.assert_allclose(drawn()[0]["y"], 1 / (1 + np.arange(0, 50, 10)), rtol=2e-5)
    assert other.locator(".js-plotly-plot").evaluate("of => of.layout.yaxis.type") == "log"
    best = max(summary["points"], key=lambda point: point["final_accuracy"]["mean"])["final_accuracy"]
    assert f"{100 * best['mean']:.2f} ±" in panel.locator(".told").inner_text()


@long
def test_metric_axis_and_logarithms_change_what_is_drawn(folder, curves):
    page, panel, drawn = curves()
    panel.get_by_label("Metric").select_option("loss")
    with np.load(folder / "history.npz") as history:
        np.testing.assert_allclose(drawn()[1]["y"], history["1/loss"].mean((0, 2)), rtol=2e-5)
    panel.get_by_label("against").select_option("bits_sent")
    np.testing.assert_allclose(drawn()[1]["x"], [0, 20, 40, 60, 80], rtol=1e-5)  # the mean of seeds 1, 2 and 3 x
    panel.get_by_label("log y").check()
    panel.get_by_label("log x").check()
    types = "of => [of.layout.xaxis.type, of.layout.yaxis.type, of.layout.xaxis.title.text, of.layout.yaxis.title.text]"
    told = panel.locator(".js-plotly-plot").evaluate(types)
    assert told == ["log", "log", "megabits sent by a client", "test loss"]
    assert panel.locator(".told").inner_text().endswith(" 8 megabits are 1 MB.")  # the table has MB
    panel.get_by_role("button", name="Reset", exact=True).click()
    assert panel.locator(".js-plotly-plot").evaluate(types)[0] == "linear"
    assert "accuracy." not in page.evaluate("location.hash")


@long
def test_points_seeds_and_clients_are_picked(folder, curves):
    _, panel, drawn = curves()
    panel.get_by_label("static", exact=True).uncheck()
    assert [line["point"] for line in drawn()] == ["random_movement", "dam", "dcm"]
    panel.get_by_text("Seeds", exact=True).first.click()
    panel.get_by_label("seed 1", exact=True).uncheck()
    accuracy = accuracies(folder)[1]
    np.testing.assert_allclose(drawn()[0]["y"], 100 * accuracy[[0, 2]].mean((0, 2)), rtol=2e-5)
    panel.get_by_label("single seeds").check()
    seeds = [trace for trace in drawn("seed") if trace["point"] == "random_movement"]
    assert [trace["seed"] for trace in seeds] == [0, 2]
    np.testing.assert_allclose(seeds[1]["y"], 100 * accuracy[2].mean(1), rtol=2e-5)
    panel.get_by_text("Single clients").first.click()
    panel.get_by_label("client 5", exact=True).check()
    (client,) = (trace for trace in drawn("client") if trace["point"] == "random_movement")
    np.testing.assert_allclose(client["y"], 100 * accuracy[0, :, 5], atol=2e-3)  # of the first seed
    panel.get_by_label("mean", exact=True).uncheck()
    assert drawn() == drawn("band") == []


@long
def test_the_worst_client_and_what_one_sees_over_a_point(folder, curves):
    _, panel, drawn = curves()
    panel.get_by_role("checkbox", name="lowest client").check()
    means, lowest = drawn(), drawn("lowest")
    np.testing.assert_allclose(lowest[0]["y"], np.array(means[0]["y"]) / 2, rtol=1e-4)
    assert means[1]["text"][4].startswith("<b>random movement</b>, mean of 3 seeds<br>test accuracy (%): ")
    assert means[1]["text"][4].endswith(" %<br>round 40")
    panel.get_by_label("Metric").select_option("loss")
    with np.load(folder / "history.npz") as history:
        np.testing.assert_allclose(drawn("lowest")[2]["y"], history["2/loss"].min(2).mean(0), rtol=2e-5)
    panel.get_by_label("Metric").select_option("consensus_distance")  # one number a run: it has no clients
    assert drawn("lowest") == []
    assert not panel.get_by_role("checkbox", name="lowest client").is_visible()


@long
def test_a_link_shows_the_same_view_again(curves):
    page, panel, drawn = curves()
    panel.get_by_label("Metric").select_option("loss")
    panel.get_by_label("dam", exact=True).uncheck()
    before = drawn()
    fragment = page.evaluate("location.hash")
    _, again, same = curves(fragment)
    assert same() == before
    assert again.get_by_label("Metric").input_value() == "loss"
    _, _, unknown = curves("#accuracy.metric=no_such&accuracy.points=9-99&accuracy.x=loss")
    assert unknown() == []  # none of the points exists; a metric that does not exist is left aside


def sweep(*axes):
    paths = ("network.mobility", "network.radius", "algorithm.lr")
    return [dict(zip(paths, values)) for values in itertools.product(*axes)]


@long
def test_eighteen_points_are_drawn_in_panels_and_none_of_their_names_is_hidden(make_workdir, open_report, show_panel):
    rules = ("static", "random_movement", "dam", "dcm", "random_walk", "random_waypoint")
    page = open_report(write_page(make_workdir(sweep(rules, (1.0, 2.0, 4.0)), seeds=2, positions=False)))
    panel = show_panel(page, "accuracy")
    plot = panel.locator(".js-plotly-plot")
    assert plot.evaluate("of => of.layout.annotations.map(({text}) => text)") == [f"radius = {r}" for r in (1, 2, 4)]
    lines = (
        "of => of.data.filter(({meta}) => meta.role === 'mean').map(({line, xaxis}) => [line.color, line.dash, xaxis])"
    )
    found = plot.evaluate(lines)
    assert len({tuple(line) for line in found}) == len({tuple(line[:2]) for line in found}) == 18
    clipped = """of => [...of.querySelectorAll("label")].filter((label) => {
      const [box, list] = [label.getBoundingClientRect(), label.parentElement.getBoundingClientRect()];
      return box.bottom > list.bottom + 1 || box.right > list.right + 1; }).length"""
    assert panel.locator(".list").first.evaluate(clipped) == 0
    panel.get_by_role("button", name="none").click()
    panel.get_by_label("dcm, radius = 4").check()
    assert plot.evaluate("of => of.layout.xaxis2") is None  # a single panel is as wide as the page


def test_the_matrix_of_rivals_has_other_references_and_measures_and_leads_to_curves(
    make_workdir, open_report, show_panel
):
    folder = make_workdir(sweep(("static", "dam", "dcm"), (1.0, 3.0)), seeds=4, rounds=20, positions=False)
    page = open_report(write_page(folder))
    panel = show_panel(page, "rivals")
    plot = panel.locator(".plot")
    columns = lambda: plot.evaluate("(plot) => plot.layout.xaxis.ticktext")  # noqa: E731
    cells = lambda: plot.evaluate("(plot) => Array.from(plot.data[0].z, (row) => Array.from(row))")  # noqa: E731
    assert columns() == ["dam", "dcm"]
    before = cells()
    panel.locator("select[name=reference]").select_option("2")  # another reference changes sides
    assert columns() == ["static", "dam"]
    changed = cells()
    assert [row[0] for row in changed] == pytest.approx([-row[1] for row in before])
    panel.locator("select[name=measure]").select_option("1")
    assert cells() != changed
    area = panel.locator(".nsewdrag")
    area.click(position={"x": 30, "y": 0.75 * area.bounding_box()["height"]})  # the second row: radius 3
    page.wait_for_function("() => document.querySelector('#accuracy .chart').explorer?.state.points.size === 3")
    picked = page.locator("#accuracy .chart").evaluate("(chart) => [...chart.explorer.state.points].sort()")
    assert picked == [1, 3, 5]


DATA = "document.querySelector('#label_counts .js-plotly-plot').data"
CELLS = f"{DATA}[0].customdata.map((row) => row.map(([count]) => count ? String(count) : ''))"
WORST_CONTRAST = """() => {
  const plot = document.querySelector('#label_counts .js-plotly-plot');
  const [{ colorscale, zmin, zmax }, { text, textfont }] = plot.data;
  const [from, to] = colorscale.map(([, colour]) => mdfl.parse(colour));
  return Math.min(...text.map((count, k) => {
    const share = (Math.log10(count) - zmin) / (zmax - zmin);
    const cell = mdfl.luminance(from.map((part, at) => part + share * (to[at] - part)));
    const [low, high] = [cell, mdfl.luminance(mdfl.parse(textfont.color[k]))].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  }));
}"""


@long
def test_the_counts_of_labels_are_drawn_legibly_and_another_division_can_be_chosen(
    make_workdir, open_report, show_panel
):
    run = read_workdir(make_workdir([{"data.alpha": 0.1}, {"data.alpha": 9.0}], rounds=20, positions=False))

    def opened(width, first):
        arrays = {"0/label_counts": first[None], "1/label_counts": np.full((1, 8, 10), 3)}
        page = open_report(write_page(dataclasses.replace(run, arrays=dict(run.arrays) | arrays)), width)
        return page, show_panel(page, "label_counts")

    page, panel = opened(1200, np.arange(80).reshape(8, 10))
    expected = [[str(count) if count else "" for count in row] for row in np.arange(80).reshape(8, 10).T.tolist()]
    assert page.evaluate(CELLS) == expected
    written = page.evaluate(f"{DATA}[1].x.map((i, k) => [i, {DATA}[1].y[k], {DATA}[1].text[k]])")
    assert sorted(written) == [[i, c, str(10 * i + c)] for i in range(8) for c in range(10) if i + c]
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate(WORST_CONTRAST) >= 4.5
    panel.get_by_label("Data of").select_option(label="alpha = 9")
    page.wait_for_function(f"() => ({CELLS})[0][0] === '3'")
    assert page.evaluate(CELLS) == [["3"] * 8] * 10
    assert "Every client has 30 samples." in panel.inner_text()
    page, _ = opened(360, np.arange(800).reshape(80, 10))
    assert page.evaluate(f"[{DATA}[1].text.length, {DATA}[0].showscale]") == [0, True]  # the numbers are in the bar
    assert fits(page)
