"""The section server: what is refused, what is said, what shares a program, and whole small studies of each pattern."""

import numpy as np
import pytest

from mdfl_jax.config.families import movement_of
from mdfl_jax.config.resolve import resolve
from mdfl_jax.study import make_study, run_study
from mdfl_jax.study.prepare.simulation import hparams_of

ROADSIDE = {"server.pattern": "roadside", "server.units": "2,2", "server.unit_range": 1.5}


def test_zero_is_a_value_of_the_search_intervals(tiny):
    """The algorithm's own stands where nothing is said, and 0 is 0."""
    zeros = {"algorithm.compressor": "qsgd", "algorithm.upload_from": 0, "algorithm.max_download": 0}
    experiment = resolve(tiny(**{"algorithm.name": "fedmobile"}, **zeros))
    numbers = hparams_of(experiment, [movement_of(experiment)]).algorithm
    assert (numbers.upload_from, numbers.upload_until) == (0, 40)
    assert (numbers.max_upload, numbers.max_download) == (1, 0)
    assert numbers.compressor.levels == 16


@pytest.mark.long
def test_studies_of_every_pattern_run(tiny, tmp_path):
    """Finite results, the server's model judged, and gossip over the same pairs."""
    file = tmp_path / "meetings.csv"
    file.write_text("client,slot\n0,1\n1,2\n1,0\n")
    fast = {
        "algorithm.upload_from": 0, "algorithm.download_from": 0, "rounds": 8, "eval_every": 4, "seeds": 1,
        "server.interval": 3, "server.pairs": 1.0,
    }  # fmt: skip
    cases = {
        "gossip": {"server.pattern": "fixed", "algorithm.name": "dpsgd"},
        "fixed": {"server.pattern": "fixed", "algorithm.name": "fedmobile_auto"},
        "table": {"server.pattern": "table", "server.file": str(file), "algorithm.name": "fedmobile"},
        "grid": {**ROADSIDE, "algorithm.name": "fedmobile", "network.mobility": "random_movement"},
        "all": {**ROADSIDE, "algorithm.name": "fedmobile_local", "server.one_at_a_time": False},
    }
    for name, changes in cases.items():
        lines = []
        summary = run_study(make_study(tiny(**fast, **changes)), tmp_path / name, log=lines.append)
        point = summary["points"][0]
        assert np.isfinite(point["mean_model_accuracy"]["mean"])
        assert not point["diverged"]
        assert point["messages_per_client"] > 0
        said = [line for line in lines if "never meet the server" in line]
        assert bool(said) == (name in ("table", "grid", "all"))
        if name == "table":
            assert "4 of 6 clients" in said[0]
            with np.load(tmp_path / name / "history.npz") as history:
                assert history["0/reached"][0].tolist() == [True, True, False, False, False, False]
