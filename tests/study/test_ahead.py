"""The account of a compiled program, here for the CPU at hand, and its words."""

import jax
import pytest

from mdfl_jax.core import devices
from mdfl_jax.core.devices import KINDS, Target
from mdfl_jax.study import make_study
from mdfl_jax.study.ahead import accounts, memory
from mdfl_jax.study.ahead.meters import Collective, Cost, Meters, Operation


@pytest.mark.long
def test_as_many_runs_as_are_said_to_fit_do(tiny):
    """Runs that follow one another on one device: the bound, by what one needs, against the compiler."""
    one = memory.Need(data=0, state=10, temporary=30)
    assert [memory.following(one, limit) for limit in (39, 40, 79, 80, 99, 100)] == [0, 1, 4, 5, 6, 7]
    with devices.aimed_at(Target("cpu", "cpu", jax.local_devices()[:1], 2**34)):
        changes = {"network.num_clients": 60, "algorithm.momentum": 0.9, "seeds": 8}
        group = make_study(tiny(**changes)).groups[0]
        one = memory.need(group, 1, 1)
        for limit in (one.total, one.total + 5 * one.state, one.total + 9 * one.state):
            assert memory.need(group, memory.following(one, limit), 1).total <= limit


def test_both_meters_in_seconds_and_words():
    """20 rounds of 30 ms and an evaluation of 0.3 s, twice, of three runs on one chip; by bytes 25 ms and 0.1 s.

    The products of a round take 20 ms in whole tiles, and its bytes 24 ms.
    """
    kind = KINDS["tpu-v5e"]
    clock, steps, bandwidth = kind.clock, kind.steps, kind.bandwidth
    found = {
        "runs": 1, "runs_on_a_device": 1, "runs_per_batch": 2, "num_runs": 3, "rounds": 40, "eval_every": 20,
        "flops_per_round": 0.015 * kind.peak, "chips_per_run": 1, "points": ["all"], "num_params": 650,
        "effort": "full", "compile_seconds": 1, "compile_cpu_seconds": 2, "limit": 2**30, "runs_that_fit": 9,
        "bytes": {"data": 1, "state": 2, "temporary": 3},
    }  # fmt: skip
    cost = Cost(
        rounds=Meters(int(20 * 0.03 * clock), int(20 * 0.02 * steps), int(20 * 0.024 * bandwidth), 20 * 0.025),
        rest=Meters(int(0.3 * clock), 0, int(0.1 * bandwidth), 0.05),
        operations=[(Operation("fusion", "a/b/c/d/e", "f32[3]"), int(0.6 * clock))],
        collectives=[Collective("all-gather", 20, 20 * 2**20, 20)],
        unknown=20,
    )
    found |= accounts._of_meters(cost, found, kind)
    assert found["round_seconds"] == pytest.approx(0.03)
    assert found["share_of_peak"] == pytest.approx(0.5)
    assert found["study_hours"] * 3600 == pytest.approx(4 * 2 * 0.9)  # two batches of two
    side_by_side = found | {"runs": 4, "runs_per_batch": 10, "num_runs": 80}  # eight batches of three turns
    assert accounts._of_meters(cost, side_by_side, kind)["study_hours"] * 3600 == pytest.approx(24 * 2 * 0.9)
    told = found["by_bytes_and_tiles"]
    assert [told[key] for key in ("round_seconds", "share_of_peak", "evaluation_seconds")] == pytest.approx(
        [0.025, 0.6, 0.1]
    )
    assert found["bound"] == pytest.approx({"arithmetic": 0.015, "tiles": 0.02, "bytes": 0.024, "share": 0.8})
    words = accounts.describe(found)
    for each in ("schedule: 30 ms a round of a run, 50.0% of the peak; 300 ms an evaluation; 7 s for all its runs",
                 "1 all-gather a round, 1.0 MiB on a chip, 1 of them with nothing beside",
                 "20 loops of unknown length were counted once", "100.0%  fusion f32[3] b/c/d/e"):  # fmt: skip
        assert each in words
