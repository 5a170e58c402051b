"""Plans from compiled programs: FLOPs by hand, memory bounds kept, batches split with a line."""

import jax
import jax.numpy as jnp
import pytest

from mdfl_jax.contrib.estimates.here import round_flops
from mdfl_jax.core.flops import count_flops
from mdfl_jax.models.conv import convolution
from mdfl_jax.study import make_study, memory


def test_a_round_is_credited_the_same_however_it_is_computed(tiny):
    settings = {"model.name": "cnn", "model.widths": (2, 3), "model.hidden": 4}
    forms = [{}, {"mapping": "vmap", "convolution": "filtering"}, {"remat": True, "block_size": 7, "tile": 3}]
    studies = [make_study(tiny(**settings, **{f"engine.{k}": v for k, v in form.items()})) for form in forms]
    (credit,) = {round_flops(study, study.groups[0]) for study in studies}
    assert credit > 0


def test_a_round_of_the_linear_model_takes_its_hand_count(tiny):
    """Forward and weight gradient of 120 samples, one more a client, and one averaging of six models by a matrix."""
    study = make_study(tiny())
    group = study.groups[0]
    plan = memory.footprint(study, group)
    classes, pixels = 10, 64
    mixing = 2 * 6 * 6 * plan.num_params
    assert round_flops(study, group) == 2 * 2 * (120 + 6) * pixels * classes + mixing
    listed = make_study(tiny(**{"network.graph": "ring", "network.num_mobile": 0, "engine.links": "lists"}))
    assert round_flops(listed, listed.groups[0]) == 2 * 2 * (120 + 6) * pixels * classes
    epochs = make_study(tiny(**{"algorithm.local_epochs": 2, "algorithm.batch_size": 8}))  # of twenty samples a client
    assert round_flops(epochs, epochs.groups[0]) == 2 * 3 * 2 * 2 * 6 * 8 * pixels * classes + mixing
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
