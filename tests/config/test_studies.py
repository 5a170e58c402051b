"""Small studies of all sections: they run, and their files hold what the settings mean."""

import json

import numpy as np
import pytest
from tables import cases, with_fields
from tiny import run_study

from mdfl_jax.study import make_study

ODD = """
seeds=1 | rounds=2 | network.grid_size=9 | sweep=network.num_mobile=0,6; network.radius=0,inf; network.max_step=0,inf
network.num_clients=1 | network.num_mobile=1 | data.partition=dirichlet
network.num_clients=30 | data.limit_train=10 | network.grid_size=1 | network.mixing=fedavg | data.partition=dirichlet
data.partition=shards | algorithm.batch_size=4 | algorithm.local_steps=3 | algorithm.momentum=0.9 | seeds=1
algorithm.name=local_only | algorithm.optimizer=adam | algorithm.lr=0.01
algorithm.lr_schedule=exponential | model.name=mlp | model.widths=8 | data.partition=classes_per_client
algorithm.lr_schedule=cosine | network.mobility=dcm | engine.record_positions=false
"""


def ran(config, folder, log=lambda line: None):
    """Run a study; return it, its summary and its arrays."""
    study = make_study(config)
    summary = run_study(study, folder, log=log)
    with np.load(folder / "history.npz") as history:
        return study, summary["points"], dict(history)


@pytest.mark.long
@pytest.mark.parametrize(("fields", "_"), list(cases(ODD)))
def test_odd_settings_are_one_program_and_give_finite_results(tiny, tmp_path, fields, _):
    study, points, history = ran(with_fields(tiny(rounds=2), fields), tmp_path / "run")
    assert len(study.groups) == 1  # M, radius and cap are traced
    for key, values in history.items():
        unknown_at_first = key.endswith(("/train_loss", "/num_neighbours", "/num_heard", "/lambda_2"))
        known = values[:, 1:] if unknown_at_first else values
        if key.endswith("/train_loss"):  # a client without samples has none
            holds = history[key.replace("train_loss", "label_counts")].sum(axis=-1) > 0
            assert (np.isfinite(known) == holds[:, None]).all()
        else:
            assert np.isfinite(known).all(), key
    for p, point in enumerate(points):
        assert point["diverged"] == {}
        assert 0 <= point["final_accuracy"]["mean"] <= 1
        network = study.points[p].experiment.network
        heard, moved = history[f"{p}/num_neighbours"][0, 1:], history[f"{p}/distance_moved"][0, -1]
        if network.radius == float("inf") or network.grid_size == 1:
            assert (heard == network.num_clients - 1).all()
        if network.num_mobile == 0 or network.max_step == 0 or network.grid_size == 1:
            assert (moved == 0).all()
            assert point["distance_moved_per_mobile_client"] == 0
        if network.num_mobile == 0 and network.radius == 0:
            places = history[f"{p}/position"][0, 0]
            assert heard.max() == (places[:, None] == places[None]).all(-1).sum(1).max() - 1


@pytest.mark.long
def test_every_pattern_of_a_server_runs(tiny, tmp_path):
    """Finite results, the server's model judged, and gossip over the same pairs."""
    (tmp_path / "meetings.csv").write_text("client,slot\n0,1\n1,2\n1,0\n")
    fast = {"algorithm.upload_from": 0, "algorithm.download_from": 0, "server.interval": 3, "server.pairs": 1.0}
    roadside = {"server.pattern": "roadside", "server.units": "2,2", "server.unit_range": 1.5}
    studies = {
        "gossip": {"server.pattern": "fixed", "algorithm.name": "dpsgd"},
        "fixed": {"server.pattern": "fixed", "algorithm.name": "fedmobile_auto"},
        "table": {"server.pattern": "table", "server.file": str(tmp_path / "meetings.csv")},
        "grid": {**roadside, "network.mobility": "random_movement"},
        "all": {**roadside, "algorithm.name": "fedmobile_local", "server.one_at_a_time": False},
    }
    for name, changes in studies.items():
        lines = []
        config = tiny(rounds=8, eval_every=4, seeds=1, **{"algorithm.name": "fedmobile", **fast, **changes})
        _, (point,), history = ran(config, tmp_path / name, lines.append)
        assert np.isfinite(point["mean_model_accuracy"]["mean"])
        assert not point["diverged"]
        assert point["messages_per_client"] > 0
        said = [line for line in lines if "never meet the server" in line]
        assert bool(said) == (name in ("table", "grid", "all"))
        if name == "table":
            assert "4 of 6 clients" in said[0]
            assert history["0/reached"][0].tolist() == [True, True, False, False, False, False]


def test_static_clients_keep_their_links_with_a_deadline(tiny):
    """So an algorithm with copies of its neighbours takes it; short contacts are refused in test_mistakes.py."""
    make_study(tiny(**{"algorithm.name": "choco", "network.mobility": "static", "cost.deadline": 0.5}))


@pytest.mark.long
def test_seconds_and_joules_are_in_the_files(tiny, tmp_path):
    """A sweep over the bandwidth whose last value is free; rounds last two seconds."""
    changes = {"motion.dt": 2.0, "cost.short_contact": "drop", "network.contact": "swept", "target": 0.1}
    config = tiny(sweep="cost.bandwidth=10000,inf", x_axis="seconds", **changes)
    _, points, history = ran(config, tmp_path / "run")
    lines = [json.loads(text) for text in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert sorted(line["seconds"] for line in lines if line["point"] == "bandwidth=inf") == [0, 0, 4, 4, 8, 8]
    assert {line["joules"] for line in lines} == {0}
    assert history["0/joules"].shape == (2, 3, 6)
    bits, seconds = history["0/bits_sent"][:, -1].max(axis=1), history["0/seconds"][:, -1]
    assert (seconds >= np.maximum(8, bits / 10_000)).all()
    for point in points:
        rounds, each = point["rounds_to_target"], point["rounds_to_target_per_seed"]
        found = [line["seconds"] for line in lines if line["point"] == point["id"] and line["round"] == rounds]
        assert point["seconds_to_target"] == np.mean(found)
        assert [value is None for value in point["seconds_to_target_per_seed"]] == [value is None for value in each]
        assert point["joules_to_target"] == 0
    assert points[1]["seconds_to_target"] == 2 * points[1]["rounds_to_target"]
