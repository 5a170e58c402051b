"""The section cost: what is refused, what is said, what shares a program, and the files of whole small studies."""

import json

import jax
import numpy as np
import pytest

from mdfl_jax.study import make_study, run_study


def test_static_clients_keep_their_links_with_a_deadline(tiny):
    """So an algorithm with copies of its neighbours takes it; short contacts are refused in test_mistakes.py."""
    make_study(tiny(**{"algorithm.name": "choco", "network.mobility": "static", "cost.deadline": 0.5}))


def test_a_study_without_costs_counts_nothing(tiny):
    """Its state has no leaf more, and its numbers are those of the network itself."""
    simulation, hparams = make_study(tiny()).groups[0][1:3]
    assert not {"seconds", "joules"} & {metric.name for metric in simulation.metrics}
    assert hparams[0].network.link_filter is None
    carry = jax.eval_shape(simulation.init, simulation.data, hparams[0], jax.random.key(0))[0]
    assert carry.network.filtered is None


@pytest.fixture(scope="module")
def workdir(tmp_path_factory, tiny):
    """A sweep over the bandwidth whose last value is free; rounds last two seconds."""
    folder = tmp_path_factory.mktemp("costs")
    changes = {"motion.dt": 2.0, "cost.short_contact": "drop", "network.contact": "swept", "target": 0.1}
    run_study(make_study(tiny(sweep="cost.bandwidth=10000,inf", x_axis="seconds", **changes)), folder / "run")
    return folder / "run"


@pytest.mark.long
def test_seconds_and_joules_are_in_the_files(workdir):
    summary = json.loads((workdir / "summary.json").read_text())
    lines = [json.loads(text) for text in (workdir / "metrics.jsonl").read_text().splitlines()]
    assert sorted(line["seconds"] for line in lines if line["point"] == "bandwidth=inf") == [0, 0, 4, 4, 8, 8]
    assert {line["joules"] for line in lines} == {0}
    with np.load(workdir / "history.npz") as arrays:
        assert arrays["0/seconds"].shape == (2, 3)
        assert arrays["0/joules"].shape == (2, 3, 6)
        bits, seconds = arrays["0/bits_sent"][:, -1].max(axis=1), arrays["0/seconds"][:, -1]
    assert (seconds >= np.maximum(8, bits / 10_000)).all()
    for point in summary["points"]:
        rounds, each = point["rounds_to_target"], point["rounds_to_target_per_seed"]
        found = [line["seconds"] for line in lines if line["point"] == point["id"] and line["round"] == rounds]
        assert point["seconds_to_target"] == np.mean(found)
        assert [value is None for value in point["seconds_to_target_per_seed"]] == [value is None for value in each]
        assert point["joules_to_target"] == 0
    assert summary["points"][1]["seconds_to_target"] == 2 * summary["points"][1]["rounds_to_target"]
