"""The account of a compiled program, here for the CPU at hand, and its words."""

import jax
import pytest

from mdfl_jax.core import devices
from mdfl_jax.core.devices import KINDS, Target
from mdfl_jax.study import make_study
from mdfl_jax.study.ahead import accounts, memory
from mdfl_jax.study.ahead.meters import Collective, Cost, Meters, Operation


@pytest.mark.long
def test_an_account_of_the_devices_at_hand(tiny):
    study = make_study(tiny(**{"engine.memory_mib": 64}))
    found = accounts.account(study, 0)
    plan = memory.footprint(study, study.groups[0])
    assert found["flops_per_round"] == memory.round_flops(study, study.groups[0])
    assert found["bytes"]["data"] == plan.need.data
    assert found["limit"] == 64 * memory.MIB
    assert found["num_runs"] == len(study.seeds) == 2
    assert (found["runs"], found["chips_per_run"]) == (1, 8)  # of a turn: the eight devices share each run
    assert found["runs_that_fit"] >= 2
    assert "round_seconds" not in found  # which a CPU's compiler does not tell
    words = accounts.describe(found)
    assert "compiles in" in words
    assert f"{found['num_params']:,} parameters a client" in words


def test_both_meters_in_seconds_and_words():
    """20 rounds of 30 ms and an evaluation of 0.3 s, twice, of three runs on one chip; by bytes 25 ms and 0.1 s.

    The products of a round take 20 ms in whole tiles, and its bytes 24 ms.
    """
    kind = KINDS["tpu-v5e"]
    clock, peak, steps, bandwidth = kind.clock, kind.peak, kind.steps, kind.bandwidth
    found = {
        "runs": 1, "runs_on_a_device": 1, "runs_per_batch": 2, "num_runs": 3, "rounds": 40, "eval_every": 20,
        "flops_per_round": 0.015 * peak, "chips_per_run": 1, "points": ["all"], "num_params": 650, "effort": "full",
        "compile_seconds": 1, "compile_cpu_seconds": 2, "bytes": {"data": 1, "state": 2, "temporary": 3},
        "limit": 2**30, "runs_that_fit": 9,
    }  # fmt: skip
    cost = Cost(
        rounds=Meters(int(20 * 0.03 * clock), int(20 * 0.02 * steps), int(20 * 0.024 * bandwidth), 20 * 0.025),
        rest=Meters(int(0.3 * clock), 0, int(0.1 * bandwidth), 0.05),
        operations=[
            (Operation("fusion", "a/b/c/d/e", "f32[3]"), int(0.6 * clock)),
            (Operation("copy", "", ""), int(0.3 * clock)),
        ],
        collectives=[Collective("all-gather", 20, 20 * 2**20, 20), Collective("all-reduce", 40, 0, 0)],
        unknown=20,
    )
    found |= accounts._of_meters(cost, found, KINDS["tpu-v5e"])
    assert abs(found["round_seconds"] - 0.03) < 1e-9
    assert abs(found["share_of_peak"] - 0.5) < 1e-9
    assert abs(found["study_hours"] * 3600 - 4 * 2 * (20 * 0.03 + 0.3)) < 1e-6  # two batches of two
    side_by_side = found | {"runs": 4, "runs_per_batch": 10, "num_runs": 80}  # eight batches of three turns
    hours = accounts._of_meters(cost, side_by_side, KINDS["tpu-v5e"])["study_hours"]
    assert abs(hours * 3600 - 24 * 2 * (20 * 0.03 + 0.3)) < 1e-6
    bytes_and_tiles, bound = found["by_bytes_and_tiles"], found["bound"]
    assert bytes_and_tiles["round_seconds"] == pytest.approx(0.025)
    assert bytes_and_tiles["share_of_peak"] == pytest.approx(0.6)
    assert bytes_and_tiles["evaluation_seconds"] == pytest.approx(0.1)
    assert bound == pytest.approx({"arithmetic": 0.015, "tiles": 0.02, "bytes": 0.024, "share": 0.8})
    words = accounts.describe(found)
    assert "little effort" not in words
    assert "little effort" in accounts.describe(found | {"effort": "quick"})
    schedule = "30 ms a round of a run, 50.0% of the peak; 300 ms an evaluation; 7 s for all its runs"
    assert f"by the compiler's schedule: {schedule}" in words
    assert "by bytes and tiles: 25 ms a round of a run, 60.0% of the peak; 100 ms an evaluation" in words
    assert "bound of a round: 24 ms by its bytes (15 ms for its arithmetic at the peak, 20 ms for" in words
    assert "the schedule is at 80% of it" in words
    assert " 66.7%  fusion f32[3] b/c/d/e" in words
    assert " 33.3%  copy  (made by the compiler)" in words
    assert "1 all-gather a round, 1.0 MiB on a chip, 1 of them with nothing beside" in words
    assert "2 all-reduce a round, 0.0 MiB on a chip, beside other work" in words
    assert "20 loops of unknown length were counted once" in words
    assert "what chips send one another is not in these seconds" in words


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


@pytest.mark.long
def test_a_study_whose_seeds_draw_the_data_has_a_plan(tiny):
    synthetic = {
        "data.name": "synthetic:linear",
        "algorithm.name": "pame",
        "algorithm.lr": 0.1,
        "network.graph": "ring",
    }
    assert "MiB of a run" in memory.describe(make_study(tiny(**synthetic)))[0]
