"""Metrics by declaration: one's own is found everywhere, and each says what it is while a run stands still."""

import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import told, toy_hparams, toy_task
from tiny import run_study

from mdfl_jax import Schedule, UserError
from mdfl_jax.algorithms.dpsgd import dpsgd
from mdfl_jax.core.outcomes import interval
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.metrics import (
    AXIS,
    CLIENTS,
    CURVE,
    HOLDS,
    METRICS,
    NOTHING,
    TABLE,
    UNKNOWN,
    Metric,
    list_metrics,
    metric,
)
from mdfl_jax.networks.spatial import spatial
from mdfl_jax.report import tables
from mdfl_jax.report.panels import curves
from mdfl_jax.results.results import Results
from mdfl_jax.study import make_study


@pytest.fixture(scope="module")
def own():
    """The metrics of this file, registered as a user's file would; they are gone after its tests."""
    before = dict(METRICS._members)

    @metric(
        "shares", still=UNKNOWN, shape=(CLIENTS, 3), over_clients=lambda v: v[:, 1].max(), more={"low": np.min},
        each_round=lambda view: jnp.ones((view.stats.loss.shape[0], 3)) * view.num_neighbours[:, None],
    )  # fmt: skip
    def shares(at):
        return at.mean_over_rounds("shares")

    @metric("lonely", still=NOTHING, shape=(), unit="rounds", each_round=lambda view: jnp.sum(view.num_neighbours == 0))
    def lonely(at):
        return at.total("lonely")

    @metric("worst_loss", still=HOLDS, shape=(), label="largest loss", shown={TABLE, CURVE, AXIS}, scale=2.0)
    def worst_loss(at):
        return jnp.max(at.score.loss)

    yield METRICS
    METRICS._members = before


@pytest.fixture(scope="module")
def workdir(own, tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("metrics") / "run"
    study = make_study(tiny(**{"sweep": "network.mobility=static,random_movement"}))
    run_study(study, folder)
    return folder


def test_an_own_metric_is_in_every_file(workdir):
    lines = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    summary = json.loads((workdir / "summary.json").read_text())
    with np.load(workdir / "history.npz") as arrays:
        history = dict(arrays)
    for p, point in enumerate(summary["points"]):
        assert history[f"{p}/shares"].shape == (2, 3, 6, 3)
        assert history[f"{p}/worst_loss"].shape == (2, 3)
        np.testing.assert_array_equal(history[f"{p}/worst_loss"], history[f"{p}/loss"].max(axis=2))
        np.testing.assert_allclose(history[f"{p}/shares"][..., 1], history[f"{p}/num_neighbours"])
        met = (history[f"{p}/num_neighbours"][:, 1:] == 0).sum(axis=2) * 2  # in none of the two rounds
        assert (history[f"{p}/lonely"][:, 1:] >= met).all()
        assert point["worst_loss"] == interval(history[f"{p}/worst_loss"][:, -1]) | {
            "per_seed": history[f"{p}/worst_loss"][:, -1].tolist()
        }
        assert point["shares"]["per_seed"] == history[f"{p}/shares"][:, -1, :, 1].max(axis=1).tolist()
        of_seed = [line for line in lines if (line["point"], line["seed"]) == (point["id"], 1)]
        assert [line["worst_loss"] for line in of_seed] == history[f"{p}/worst_loss"][1].tolist()
        assert [line["lonely"] for line in of_seed] == history[f"{p}/lonely"][1].tolist()
        assert of_seed[0]["shares"] is None
        assert of_seed[1]["shares_low"] == history[f"{p}/shares"][1, 1].min()
    assert [own["name"] for own in summary["metrics"]] == ["shares", "lonely", "worst_loss"]


def test_an_own_metric_is_in_the_tables_and_in_the_report(workdir):
    run = Results.read(workdir).shown("worst_loss")
    header, rows = tables.sheet(run)[:2]
    mean = tables.format_number(run.outcomes[0]["worst_loss"]["mean"] / 2)
    assert rows[0][header.index("largest loss")] == mean  # two seeds have no interval
    assert "lonely" not in " ".join(header)
    _, axes = curves.metrics(run).axes  # after the consensus
    np.testing.assert_allclose(axes.lines[0].get_ydata(), run.curves["static"].values["worst_loss"].mean(0) / 2)
    with pytest.raises(UserError, match="'lonely'; this study has rounds, messages, bits, worst_loss"):
        Results.read(workdir).shown("lonely")


@pytest.mark.long
def test_a_run_held_still_by_the_program_says_the_same(own, tiny, tmp_path, monkeypatch):
    """Two points in one batch, of which one stops at once: the program goes on and holds its runs still."""
    monkeypatch.setattr(METRICS, "_members", dict(METRICS._members))
    for name, still in (("sent_nothing", NOTHING), ("sent_unknown", UNKNOWN), ("sent_held", HOLDS)):
        metric(name, still=still, shape=())(lambda at: jnp.sum(at.messages).astype(jnp.float32))
    config = tiny(**{"sweep": "algorithm.lr=1e-12,0.2", "data.name": "synthetic:linear", "rounds": 12})
    config.stop_std, config.engine.runs_per_batch, config.seeds, config.network.num_mobile = 1e-3, 2, 1, 0
    config.network.graph = "ring"
    run_study(make_study(config), tmp_path / "run")
    with np.load(tmp_path / "run" / "history.npz") as history:
        assert history["0/rounds_done"].tolist()[0][-1] == 3
        assert history["1/rounds_done"].tolist()[0][-1] > 4
        assert np.isnan(history["0/shares"][0, -1]).all()
        assert history["0/lonely"].tolist() == [[0, 0, 0, 0, 0, 0, 0]]
        assert (history["0/worst_loss"][0, 3:] == history["0/worst_loss"][0, 2]).all()
        assert not np.isnan(history["1/shares"][0, 2]).any()
        sent, stopped = history["0/sent_held"][0], np.arange(7) > 2  # of the evaluations, those after the stop
        assert sent[1] > 0
        np.testing.assert_array_equal(history["0/sent_nothing"][0], np.where(stopped, 0, sent))
        np.testing.assert_array_equal(history["0/sent_unknown"][0], np.where(stopped, np.nan, sent))


def test_a_wrong_declaration_and_a_value_that_is_not_as_declared_are_told():
    for one, says in (
        (Metric("two words", lambda at: 0, HOLDS), "letters, digits"),
        (Metric("bits", lambda at: 0, HOLDS), "'bits' needs the name 'bits'"),
        (Metric("mine", lambda at: 0, HOLDS, key="accuracy_min"), "'accuracy_min', which something else has"),
        (Metric("mine", lambda at: 0, HOLDS, ("client",)), "has the shape"),
        (Metric("mine", lambda at: 0, UNKNOWN, ("rounds",)), "can only hold"),
    ):
        assert says in told(list_metrics, (one,))
    with pytest.raises(TypeError, match="'mine' is declared with lable, which no metric has"):
        Metric("mine", lambda at: 0, HOLDS, lable="what is shown")
    own = dpsgd()._replace(metrics=(Metric("mine", lambda at: at.messages[:2], HOLDS),))
    simulation = Simulation(toy_task(), spatial(6, 5, ["static"]), own, Schedule(2, 2))
    inputs = simulation.data, toy_hparams(0), jax.random.key(0)
    says = "is declared of shape (6,) and was measured as (2,)"
    line = told(jax.eval_shape, simulation.init, *inputs)
    assert re.search(rf"test_metrics\.py:\d+: the metric 'mine' {re.escape(says)}", line)  # where it is declared
