"""The panels in a browser: every choice of the reader changes what is drawn, with the numbers of the study's files."""

import json

import numpy as np
import pytest
from scipy.special import stdtrit

from tests.report.conftest import write_workdir
from tests.report.kinds import write_page
from tests.report.made_report import change

pytestmark = pytest.mark.long  # tests/report tells what the scripts are given


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


def test_the_first_view_is_the_mean_accuracy_with_its_interval(folder, curves):
    _, _, drawn = curves()
    summary = json.loads((folder / "summary.json").read_text())
    lines = drawn()
    assert [line["point"] for line in lines] == [point["id"] for point in summary["points"]]
    accuracies = [np.load(folder / "history.npz")[f"{p}/accuracy"] for p in range(4)]
    for line, band, accuracy in zip(lines, drawn("band"), accuracies, strict=True):
        assert line["x"] == [0, 10, 20, 30, 40]
        seeds = 100 * accuracy.mean(2)
        np.testing.assert_allclose(line["y"], seeds.mean(0), rtol=2e-5)
        half = stdtrit(2, 0.975) * seeds.std(0, ddof=1) / np.sqrt(3)
        high, low = np.array(band["y"][:5]), np.array(band["y"][5:])[::-1]
        np.testing.assert_allclose(high, np.minimum(seeds.mean(0) + half, 100), rtol=1e-3)
        np.testing.assert_allclose(low, np.maximum(seeds.mean(0) - half, 0), rtol=1e-3, atol=1e-3)
    _, other, drawn = curves(name="metrics")  # a view of the same numbers
    np.testing.assert_allclose(drawn()[0]["y"], 1 / (1 + np.arange(0, 50, 10)), rtol=2e-5)
    assert other.locator(".js-plotly-plot").evaluate("of => of.layout.yaxis.type") == "log"


def test_metric_axis_and_logarithms_change_what_is_drawn_and_a_link_shows_the_same_view_again(folder, curves):
    page, panel, drawn = curves()
    panel.get_by_role("checkbox", name="lowest client").check()
    np.testing.assert_allclose(drawn("lowest")[0]["y"], np.array(drawn()[0]["y"]) / 2, rtol=1e-4)
    panel.get_by_label("Metric").select_option("loss")
    with np.load(folder / "history.npz") as history:
        np.testing.assert_allclose(drawn()[1]["y"], history["1/loss"].mean((0, 2)), rtol=2e-5)
        np.testing.assert_allclose(drawn("lowest")[2]["y"], history["2/loss"].min(2).mean(0), rtol=2e-5)
    panel.get_by_label("against").select_option("bits_sent")
    np.testing.assert_allclose(drawn()[1]["x"], [0, 20, 40, 60, 80], rtol=1e-5)  # the mean of seeds 1, 2 and 3 x
    panel.get_by_label("log y").check()
    panel.get_by_label("log x").check()
    types = "of => [of.layout.xaxis.type, of.layout.yaxis.type, of.layout.xaxis.title.text, of.layout.yaxis.title.text]"
    told = panel.locator(".js-plotly-plot").evaluate(types)
    assert told == ["log", "log", "megabits sent by a client", "test loss"]
    panel.get_by_label("dam", exact=True).uncheck()
    before = drawn()
    _, again, same = curves(page.evaluate("location.hash"))
    assert same() == before
    assert again.get_by_label("Metric").input_value() == "loss"
    panel.get_by_role("button", name="Reset", exact=True).click()
    assert panel.locator(".js-plotly-plot").evaluate(types)[0] == "linear"
    _, _, unknown = curves("#accuracy.metric=no_such&accuracy.points=9-99&accuracy.x=loss")
    assert unknown() == []  # none of the points exists; a metric that does not exist is left aside
