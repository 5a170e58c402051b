"""What a study from Python gives: named arrays, tables, figures and the report equal what its files hold."""

import json

import numpy as np
import pandas as pd
import pytest
from made_study import made
from matplotlib.figure import Figure

import mdfl_jax
from mdfl_jax.core.errors import UserError
from mdfl_jax.report import figures
from mdfl_jax.report.page import write_report
from mdfl_jax.report.registry import FIGURES

SWEEP = {
    "name": "small",
    "sweep": "network.mobility=static,dcm; network.radius=1,2",
    "baseline": "network.mobility=static",
}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results") / "run"
    made(folder, **SWEEP)
    return mdfl_jax.Results.load(folder)


@pytest.fixture(scope="module")
def alone(results):
    """The same results without their folder."""
    return results.without_workdir()


def test_metrics_are_described(results):
    told = results.metrics
    assert told["accuracy"] == ("test accuracy", "", ("point", "seed", "round", "client"), (4, 2, 3, 6))
    assert told["bits_sent"] == ("bits sent", "bits", ("point", "seed", "round", "client"), (4, 2, 3, 6))
    assert told["rounds_done"] == ("rounds done", "rounds", ("point", "seed", "round"), (4, 2, 3))
    assert told["position"].dims == ("point", "seed", "each_round", "client", "position_axis")
    assert "label_counts" not in told
    assert results.accuracy.attrs == {"long_name": "test accuracy"}
    assert results["bits"].attrs == {"long_name": "bits sent", "units": "bits"}
    assert results.loss.identical(results["loss"])


def test_a_row_a_client_of_an_evaluation(results):
    frame = results.to_dataframe(per_client=True)
    assert len(frame) == 4 * 2 * 3 * 6
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


def test_a_table_has_numbers_only(results):
    frame = results.to_dataframe()
    assert len(frame) == 4 * 2 * 3
    overrides = {point["id"]: point["overrides"] for point in results.summary["points"]}
    texts = {path for of in overrides.values() for path, value in of.items() if isinstance(value, str)}
    assert {name for name in frame.columns if not pd.api.types.is_numeric_dtype(frame[name])} == {"point"} | texts
    for table in (frame, results.to_dataframe(per_client=True)):  # the swept settings are columns
        for row in table.sample(8, random_state=0).to_dict("records"):
            assert {path: row[path] for path in overrides[row["point"]]} == overrides[row["point"]]


def test_infinity_in_a_table_is_a_number(results):
    lines = [dict(line, loss=value) for line, value in zip(results.lines, ("inf", None, 1.5))]
    changed = mdfl_jax.Results(results.manifest, results.summary, lines, results.arrays, None)
    np.testing.assert_array_equal(changed.to_dataframe()["loss"], [np.inf, np.nan, 1.5])
    radii = ("inf", 2.0, 3.0, "inf")
    points = [point | {"overrides": {"network.radius": r}} for point, r in zip(results.summary["points"], radii)]
    summary = results.summary | {"points": points}
    changed = mdfl_jax.Results(results.manifest, summary, results.lines, results.arrays, None)
    assert set(changed.to_dataframe()["network.radius"]) == {np.inf, 2.0, 3.0}


def test_every_figure_that_applies_is_drawn(results, alone):
    names = list(alone.plot)
    own = ["map", "groups", "label_counts", "contacts", "consensus", "traffic"]
    assert names == ["curves", "accuracy", "final_accuracy", *own]
    assert dir(alone.plot) == sorted(names)
    for name in names:
        assert isinstance(getattr(alone.plot, name)(), Figure)
        assert f"{name}(" in repr(alone.plot)
    (axes,) = alone.plot.accuracy(x="bits").axes[:1]
    assert axes.figure.get_supxlabel() == "megabits sent by a client"
    assert results.plot.accuracy().get_supxlabel() == "round"


@pytest.mark.parametrize(
    ("metric", "x", "labels"),
    [
        ("consensus_distance", "round", ("round", "consensus distance")),
        ("accuracy", "bits", ("megabits sent by a client", "test accuracy")),
        ("accuracy_min", "messages", ("messages sent by a client", "accuracy min")),
        ("bits_sent", "rounds", ("round", "megabits sent by a client")),
    ],
)
def test_curves_are_the_means_of_the_arrays(alone, metric, x, labels):
    (axes,) = alone.plot.curves(metric, x).axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == labels
    assert len(axes.lines) == 4
    own = {
        "consensus_distance": lambda p: alone.array("consensus_distance", p),
        "accuracy": lambda p: alone.array("accuracy", p).mean(2),
        "accuracy_min": lambda p: alone.array("accuracy", p).min(2),
        "bits_sent": lambda p: alone.array("bits_sent", p).mean(2) / 1e6,
    }[metric]
    along = {
        "bits": lambda p: alone.array("bits_sent", p).mean(axis=(0, 2)) / 1e6,
        "messages": lambda p: alone.array("messages", p).mean(axis=(0, 2)),
    }.get(x, lambda p: alone.arrays["rounds"])
    for p, line in enumerate(axes.lines):
        np.testing.assert_allclose(line.get_ydata(), own(p).mean(0), rtol=1e-5)
        np.testing.assert_allclose(line.get_xdata(), along(p), rtol=1e-6)


def test_the_report_is_that_of_the_command(results, alone, tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "drawn", lambda: {"map": FIGURES["map"]})  # the others take seconds
    page = write_report(results.workdir).read_bytes()
    tables = {file.name: file.read_bytes() for file in (results.workdir / "tables").iterdir()}
    elsewhere = alone.report(tmp_path / "new" / "folder")
    assert elsewhere.read_bytes() == page
    assert {file.name: file.read_bytes() for file in (elsewhere.parent / "tables").iterdir()} == tables
    ours, theirs = (folder / "figures" / "map.png" for folder in (results.workdir, elsewhere.parent))
    assert theirs.read_bytes() == ours.read_bytes()


def test_results_are_shown_in_words_and_in_a_notebook(alone):
    points = "static, radius=1; static, radius=2; dcm, radius=1; dcm, radius=2"
    assert repr(alone) == f"<Results of 'small': 4 points ({points}), 2 seeds, 3 evaluations until round 4>"
    page = alone._repr_html_()
    assert page.count("<tr>") == 1 + 4
    assert f"{100 * alone.summary['points'][3]['final_accuracy']['mean']:.2f} ±" in page
    assert "paired by seed" in page


def test_mistakes_are_one_line(results, alone, tmp_path):
    mistakes = {
        "report: the study has no workdir; give a folder": lambda: alone.report(),
        "which holds another study; choose another folder": lambda: alone.report(results.workdir),
        "it cannot be made": lambda: alone.report(results.workdir / "config.json" / "report"),
        r"the x axis is 'bit'; this study has rounds, messages, bits": lambda: alone.plot.accuracy(x="bit"),
        r"unknown metric 'los' \(did you mean 'loss'\?\)": lambda: alone.plot.curves("los"),
        r"unknown figure 'mapp' \(did you mean 'map'\?\)": lambda: alone.plot.mapp(),
        "figure 'roadside': the study has not recorded what it shows; there are accuracy": alone.plot.roadside,
    }
    for line, do in mistakes.items():
        with pytest.raises(UserError, match=line) as caught:
            do()
        assert "\n" not in str(caught.value)
    assert not hasattr(alone.plot, "mapp")
    manifest = json.loads((results.workdir / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(manifest | {"status": "running"}))
    with pytest.raises(UserError, match="the study there is not finished"):
        mdfl_jax.Results.load(tmp_path)
