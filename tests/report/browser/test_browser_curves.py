"""The explored curves in a browser: every choice changes what is drawn, with the numbers of the study's files."""

import itertools
import json

import numpy as np
import pytest
from scipy.special import stdtrit

from tests.report.browser.pages import fits, write_page
from tests.report.conftest import write_workdir
from tests.report.made_report import change

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A study of four points, three seeds and eight clients, with megabits, losses and the worst clients."""
    workdir = write_workdir(tmp_path_factory.mktemp("curves") / "run", positions=False)
    loss = np.random.default_rng(3).random((4, 3, 5, 8)) + 0.5
    names = [point["id"] for point in json.loads((workdir / "config.json").read_text())["points"]]

    def more(row):
        values = loss[names.index(row["point"]), row["seed"], row["round"] // 10]
        worst = {"accuracy_min": row["accuracy"] / 2, "accuracy_max": (1 + row["accuracy"]) / 2}
        bits = 1e6 * row["round"] * (1 + row["seed"])
        return (
            row
            | worst
            | {"loss": float(values.mean()), "bits_sent": bits, "consensus_distance": 1 / (1 + row["round"])}
        )

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
    best = max(summary["points"], key=lambda point: point["final_accuracy"]["mean"])["final_accuracy"]
    assert f"{100 * best['mean']:.2f} ±" in panel.locator(".told").inner_text()


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


@pytest.mark.parametrize(
    ("ends", "few"), [((0.31, 0.92), 3), ((3.2, 4.4), 3), ((0.0000012, 0.004), 3), ((0.07, 3.6), 5)]
)
def test_labels_of_a_logarithmic_axis_are_whole_numbers(curves, ends, few):
    _, panel, _ = curves()
    panel.get_by_label("Metric").select_option("consensus_distance")
    panel.get_by_label("log y").check()
    plot = panel.locator(".js-plotly-plot")
    plot.evaluate("(of, ends) => Plotly.relayout(of, {'yaxis.range': ends.map(Math.log10)})", list(ends))
    texts = panel.locator(".yaxislayer-above .ytick text").all_text_contents()
    labels = [float(text.replace("\u2212", "-")) for text in texts]  # plotly writes a minus sign
    assert len(labels) >= few
    assert all(ends[0] <= label <= ends[1] for label in labels)
    assert labels == sorted(labels)


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


def test_accuracy_stays_within_its_bounds_in_the_view(curves):
    _, panel, _ = curves()
    low, high = panel.locator(".js-plotly-plot").evaluate("of => of.layout.yaxis.range")
    assert 0 <= low < high <= 100


def test_the_consensus_panel_is_a_view_of_the_same_numbers(curves):
    _, panel, drawn = curves(name="consensus")
    np.testing.assert_allclose(drawn()[0]["y"], 1 / (1 + np.arange(0, 50, 10)), rtol=2e-5)
    assert panel.locator(".js-plotly-plot").evaluate("of => of.layout.yaxis.type") == "log"


def test_two_hundred_points_stay_usable(tmp_path, open_report, show_panel):
    points = [{"network.radius": float(r), "network.mobility": m} for r in range(1, 101) for m in ("static", "dcm")]
    workdir = write_workdir(tmp_path / "run", points, seeds=2, rounds=40, every=1, positions=False)
    panel = show_panel(open_report(write_page(workdir)), "accuracy")
    count = "of => of.data.filter(({meta}) => meta.role === '{role}').length"
    plot = panel.locator(".js-plotly-plot")
    assert plot.evaluate(count.replace("{role}", "mean")) == 200
    assert plot.evaluate(count.replace("{role}", "band")) == 0  # only if asked for
    panel.get_by_label("Filter the list").first.fill("radius = 7, dcm")
    panel.get_by_role("button", name="only these").first.click()
    assert plot.evaluate("of => of.data.map(({meta}) => meta.point)") == ["7.0-dcm", "7.0-dcm"]  # its band and its mean
    panel.get_by_label("Filter the list").first.fill("")
    panel.get_by_role("button", name="all", exact=True).first.click()
    panel.get_by_label("95 % interval").check()
    assert plot.evaluate(count.replace("{role}", "band")) == 200


def test_the_sentence_below_tells_the_last_round_that_all_points_have(
    folder, curves, tmp_path, open_report, show_panel
):
    _, panel, _ = curves()
    assert panel.locator(".told").inner_text().startswith("Test accuracy at round 40: ")
    workdir = write_workdir(tmp_path / "run", positions=False)
    change(workdir, lambda row: None if row["point"] == "dam" and row["round"] == 40 else row)
    change(workdir, arrays=lambda arrays: {key: of for key, of in arrays.items() if not key.startswith("2/acc")})
    panel = show_panel(open_report(write_page(workdir)), "accuracy")
    assert panel.locator(".told").inner_text().startswith("Test accuracy at round 30: ")
    panel.get_by_label("dam", exact=True).uncheck()
    assert panel.locator(".told").inner_text().startswith("Test accuracy at round 40: ")


def test_a_sweep_of_three_settings_is_drawn_as_multiples(tmp_path, open_report, show_panel):
    axes = itertools.product(("static", "dcm"), (1.0, 2.0, 4.0), (0.01, 0.1, 1.0))
    points = [{"network.mobility": m, "network.radius": r, "algorithm.lr": lr} for m, r, lr in axes]
    workdir = write_workdir(tmp_path / "run", points, seeds=2, positions=False)
    page = open_report(write_page(workdir), 360)
    kinds = "of => [...new Set(of.data.map(({type}) => type))].concat(of.data.length)"
    plots = {name: show_panel(page, name).locator(".js-plotly-plot") for name in ("heat_map", "response")}
    assert plots["heat_map"].evaluate(kinds) == ["heatmap", "scatter", 4]  # the numbers are texts of their own
    assert plots["heat_map"].evaluate("of => of.layout.margin.t") == 54  # no room for a legend that is not there
    assert plots["response"].evaluate(kinds) == ["scatter", 2 * 3]  # against the radius; step sizes have their panel
    assert fits(page)
    summary = json.loads((workdir / "summary.json").read_text())
    drawn = plots["heat_map"].evaluate("of => of.data.flatMap(({z = []}) => z.flatMap((row) => Array.from(row)))")
    expected = [100 * point["final_accuracy"]["mean"] for point in summary["points"]]
    np.testing.assert_allclose(sorted(drawn), sorted(expected), rtol=1e-5)
