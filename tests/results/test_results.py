"""What a study from Python gives: named arrays, tables, figures and the report equal what its files hold."""

import numpy as np
import pandas as pd
import pytest
from made_study import made

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


def test_the_report_is_that_of_the_command(results, alone, tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "drawn", lambda: {"map": FIGURES["map"]})  # the others take seconds
    page = write_report(results.workdir).read_bytes()
    tables = {file.name: file.read_bytes() for file in (results.workdir / "tables").iterdir()}
    elsewhere = alone.report(tmp_path / "new" / "folder")
    assert elsewhere.read_bytes() == page
    assert {file.name: file.read_bytes() for file in (elsewhere.parent / "tables").iterdir()} == tables
    ours, theirs = (folder / "figures" / "map.png" for folder in (results.workdir, elsewhere.parent))
    assert theirs.read_bytes() == ours.read_bytes()


def test_mistakes_are_one_line(results, alone):
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
