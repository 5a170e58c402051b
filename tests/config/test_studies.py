"""Small studies of servers and costs: their files and their words hold what the settings mean."""

import json

import numpy as np
import pytest
from tiny import run_study

from mdfl_jax.study import make_study


@pytest.mark.long
def test_seconds_and_joules_are_in_the_files(tiny, tmp_path):
    """A sweep over the bandwidth whose last value is free; rounds last two seconds."""
    changes = {"motion.dt": 2.0, "cost.short_contact": "drop", "network.contact": "swept", "target": 0.1}
    study = make_study(tiny(sweep="cost.bandwidth=10000,inf", x_axis="seconds", **changes))
    points = run_study(study, tmp_path / "run")["points"]
    lines = [json.loads(text) for text in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert sorted(line["seconds"] for line in lines if line["point"] == "bandwidth=inf") == [0, 0, 4, 4, 8, 8]
    assert {line["joules"] for line in lines} == {0}
    for point in points:
        rounds, each = point["rounds_to_target"], point["rounds_to_target_per_seed"]
        found = [line["seconds"] for line in lines if line["point"] == point["id"] and line["round"] == rounds]
        assert point["seconds_to_target"] == np.mean(found)
        assert [value is None for value in point["seconds_to_target_per_seed"]] == [value is None for value in each]
        assert point["joules_to_target"] == 0
    assert points[1]["seconds_to_target"] == 2 * points[1]["rounds_to_target"]


@pytest.mark.long
def test_clients_that_never_meet_the_server_are_told(tiny, tmp_path):
    (tmp_path / "meetings.csv").write_text("client,slot\n0,1\n1,2\n1,0\n")
    changes = {"server.pattern": "table", "server.file": str(tmp_path / "meetings.csv")}
    said = []
    config = tiny(seeds=1, **{"algorithm.name": "fedmobile", "algorithm.upload_from": 0, **changes})
    run_study(make_study(config), tmp_path / "run", log=said.append)
    assert sum("4 of 6 clients never meet the server" in line for line in said) == 1
