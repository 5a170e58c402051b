"""The account of a compiled program, here for the CPU at hand, and its words."""

from mdfl_jax.experiments import ahead, make_study, memory
from mdfl_jax.experiments.schedule import Collective, Cost, Operation
from mdfl_jax.target import KINDS


def test_an_account_of_the_devices_at_hand(tiny):
    study = make_study(tiny(**{"engine.memory_mib": 64}))
    found = ahead.account(study, 0)
    plan = memory.footprint(study, study.groups[0])
    assert found["flops_per_round"] == plan.flops_per_round
    assert found["bytes"]["data"] == plan.need.data
    assert found["limit"] == 64 * memory.MIB
    assert found["num_runs"] == len(study.seeds) == 2
    assert found["runs"] >= 2
    assert found["runs_that_fit"] >= 2
    assert "round_seconds" not in found  # which a CPU's compiler does not tell
    words = ahead.describe(found)
    assert "compiles in" in words
    assert f"{found['num_params']:,} parameters a client" in words


def test_a_schedule_in_seconds_and_words(tiny):
    """20 rounds of 30 ms and an evaluation of 0.3 s, twice, of three runs on one chip."""
    clock, peak = KINDS["tpu-v5e"].clock, KINDS["tpu-v5e"].peak
    found = ahead.account(make_study(tiny()), 0) | {
        "runs": 1, "runs_on_a_device": 1, "num_runs": 3, "rounds": 40, "eval_every": 20, "chips_per_run": 1,
        "flops_per_round": 0.015 * peak,
    }  # fmt: skip
    cost = Cost(
        rounds=int(20 * 0.03 * clock),
        rest=int(0.3 * clock),
        operations=[
            (Operation("fusion", "a/b/c/d/e", "f32[3]"), int(0.6 * clock)),
            (Operation("copy", "", ""), int(0.3 * clock)),
        ],
        collectives=[Collective("all-gather", 20, 20 * 2**20, 20), Collective("all-reduce", 40, 0, 0)],
    )
    found |= ahead._of_schedule(cost, found, KINDS["tpu-v5e"])
    assert abs(found["round_seconds"] - 0.03) < 1e-9
    assert abs(found["share_of_peak"] - 0.5) < 1e-9
    assert abs(found["study_hours"] * 3600 - 3 * 2 * (20 * 0.03 + 0.3)) < 1e-6
    words = ahead.describe(found)
    assert "30 ms a round of a run, 50.0% of the peak; 300 ms an evaluation; 5 s for all its runs" in words
    assert " 66.7%  fusion f32[3] b/c/d/e" in words
    assert " 33.3%  copy  (made by the compiler)" in words
    assert "1 all-gather a round, 1.0 MiB on a chip, 1 of them with nothing beside" in words
    assert "2 all-reduce a round, 0.0 MiB on a chip, beside other work" in words


def test_a_study_whose_seeds_draw_the_data_has_a_plan(tiny):
    synthetic = {
        "data.name": "synthetic:linear",
        "algorithm.name": "pame",
        "algorithm.lr": 0.1,
        "network.graph": "ring",
    }
    assert "MiB of a run" in memory.describe(make_study(tiny(**synthetic)))
