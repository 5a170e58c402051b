"""Plans from compiled programs: FLOPs by hand, memory bounds kept, batches split with a line, seconds in words."""

import jax
import jax.numpy as jnp
import pytest

from mdfl_jax.contrib.estimates import accounts
from mdfl_jax.contrib.estimates.meters import Collective, Cost, Meters, Operation
from mdfl_jax.core.devices import KINDS
from mdfl_jax.core.flops import count_flops
from mdfl_jax.models.conv import convolution
from mdfl_jax.study import make_study, memory


def test_a_round_is_credited_the_same_however_it_is_computed(tiny):
    settings = {"model.name": "cnn", "model.widths": (2, 3), "model.hidden": 4}
    forms = [{}, {"mapping": "vmap", "convolution": "filtering"}, {"remat": True, "block_size": 7, "tile": 3}]
    studies = [make_study(tiny(**settings, **{f"engine.{k}": v for k, v in form.items()})) for form in forms]
    (credit,) = {memory.round_flops(study, study.groups[0]) for study in studies}
    assert credit > 0


def test_a_round_of_the_linear_model_takes_its_hand_count(tiny):
    """Forward and weight gradient of 120 samples, one more a client, and one averaging of six models by a matrix."""
    study = make_study(tiny())
    group = study.groups[0]
    plan = memory.footprint(study, group)
    classes, pixels = 10, 64
    mixing = 2 * 6 * 6 * plan.num_params
    assert memory.round_flops(study, group) == 2 * 2 * (120 + 6) * pixels * classes + mixing
    listed = make_study(tiny(**{"network.graph": "ring", "network.num_mobile": 0, "engine.links": "lists"}))
    assert memory.round_flops(listed, listed.groups[0]) == 2 * 2 * (120 + 6) * pixels * classes
    epochs = make_study(tiny(**{"algorithm.local_epochs": 2, "algorithm.batch_size": 8}))  # of twenty samples a client
    assert memory.round_flops(epochs, epochs.groups[0]) == 2 * 3 * 2 * 2 * 6 * 8 * pixels * classes + mixing
    assert plan.num_params == pixels * classes + classes
    assert plan.models == 6 * 4 * plan.num_params
    assert plan.need.data == sum(leaf.nbytes for leaf in jax.tree.leaves(group.simulation.data))
    assert plan.most_runs >= group.runs_per_batch
    one = memory.Need(data=0, state=10, temporary=30)
    assert [memory.following(one, limit) for limit in (39, 40, 79, 80, 99, 100)] == [0, 1, 4, 5, 6, 7]


@pytest.mark.long
def test_a_bound_splits_the_seeds_with_a_line(tiny):
    free = make_study(tiny(seeds=24, rounds=2))
    bound, devices = -(-memory.footprint(free, free.groups[0]).need.total // memory.MIB), len(jax.local_devices())
    assert free.groups[0].runs_per_batch == 24 > 2 * devices
    lines: list[str] = []
    split = memory.fit(make_study(tiny(seeds=24, rounds=2, **{"engine.memory_mib": int(bound)})), lines.append)
    size = split.groups[0].runs_per_batch
    assert devices <= size <= 24
    assert memory.need(split.groups[0], size, 0).total <= bound * memory.MIB
    assert (len(lines) == 1 and f"split into batches of {size}" in lines[0]) or (size == 24 and not lines)


def test_flops_of_a_gradient_are_the_same_in_every_form():
    """Three times the forward pass, though that of a stride is dilated, and that of clients together grouped."""
    for stride, side, form in ((1, 8, "patches"), (2, 7, "library"), (2, 8, "patches"), (2, 8, "library")):
        x, kernel = jnp.ones((3, side, side, 2)), jnp.ones((3, 3, 3, 5))
        out = -(-side // stride)
        forward = 2 * 5 * out * out * 2 * 27

        def total(x, kernel, form=form, stride=stride):
            return jnp.sum(convolution(x, kernel, form, stride) ** 2)

        both = jax.grad(total, argnums=(0, 1))
        assert count_flops(jax.make_jaxpr(both)(x, kernel)) == 3 * forward
        assert count_flops(jax.make_jaxpr(jax.grad(total, argnums=1))(x, kernel)) == 2 * forward
        stacked = jnp.stack([x] * 4), jnp.stack([kernel] * 4)
        assert count_flops(jax.make_jaxpr(jax.vmap(both))(*stacked)) == 4 * 3 * forward


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
