"""Plans from compiled programs: FLOPs against a hand count, memory bounds kept, batches split with a line."""

import jax
import jax.numpy as jnp
import pytest
from tiny import run_study

from mdfl_jax import UserError
from mdfl_jax.core.flops import count_flops
from mdfl_jax.models.conv import convolution
from mdfl_jax.storage.study_files import read_config
from mdfl_jax.study import make_study
from mdfl_jax.study.ahead import memory


def test_flops_of_products_in_loops_branches_and_devices():
    a, b = jnp.ones((3, 4)), jnp.ones((4, 5))

    def program(a, b):
        def body(carry, _):
            return carry + jnp.sum(a @ b), None

        total = jax.lax.scan(body, 0.0, None, length=7)[0]
        dear = lambda: jnp.sum(jax.jit(jnp.matmul)(a, b) @ b.T)  # noqa: E731
        return total + jax.lax.cond(total > 0, dear, lambda: jnp.sum(a @ b))

    once = 2 * 3 * 4 * 5
    assert count_flops(jax.make_jaxpr(program)(a, b)) == 7 * once + 2 * once
    batched = jax.make_jaxpr(jax.vmap(jnp.matmul, in_axes=(0, None)))(jnp.ones((6, 3, 4)), b)
    assert count_flops(batched) == 6 * once


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("side", [8, 7])
def test_flops_of_a_gradient_are_the_same_in_every_form(stride, side):
    """Three times the forward pass, though that of a stride is dilated, and that of clients together grouped."""
    x, kernel = jnp.ones((3, side, side, 2)), jnp.ones((3, 3, 3, 5))
    out = -(-side // stride)
    forward = 2 * 5 * out * out * 2 * 27
    for form in ("patches", "library"):

        def total(x, kernel, form=form):
            return jnp.sum(convolution(x, kernel, form, stride) ** 2)

        both = jax.grad(total, argnums=(0, 1))
        assert count_flops(jax.make_jaxpr(both)(x, kernel)) == 3 * forward
        assert count_flops(jax.make_jaxpr(jax.grad(total, argnums=1))(x, kernel)) == 2 * forward
        stacked = jnp.stack([x] * 4), jnp.stack([kernel] * 4)
        assert count_flops(jax.make_jaxpr(jax.vmap(both))(*stacked)) == 4 * 3 * forward


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


@pytest.mark.long
def test_a_bound_splits_the_seeds_with_a_line_and_the_results_stay(tiny, tmp_path):
    changes = {"seeds": 24, "rounds": 2}
    free = make_study(tiny(**changes))
    plan = memory.footprint(free, free.groups[0])
    devices = len(jax.local_devices())
    assert free.groups[0].runs_per_batch == 24 > 2 * devices
    bound = -(-plan.need.total // memory.MIB)
    lines: list[str] = []
    study = make_study(tiny(**changes, **{"engine.memory_mib": int(bound)}))
    split = memory.fit(study, lines.append)
    size = split.groups[0].runs_per_batch
    room = bound * memory.MIB
    assert devices <= size <= 24
    assert memory.need(split.groups[0], size, 0).total <= room
    if size < 24:
        assert len(lines) == 1
        assert f"split into batches of {size}" in lines[0]
    one_size = free._replace(groups=[free.groups[0]._replace(runs_per_batch=devices)])
    whole = run_study(free, tmp_path / "free")
    parts = run_study(one_size, tmp_path / "parts")
    assert whole["points"][0]["final_accuracy"] == parts["points"][0]["final_accuracy"]
    assert read_config(tmp_path / "parts")["runs_per_batch"] == [devices]


@pytest.mark.long
def test_a_bound_below_one_run_says_what_one_client_needs(tiny):
    study = make_study(tiny(**{"engine.memory_mib": 1, "model.name": "mlp", "model.widths": (8192,)}))
    with pytest.raises(UserError, match=r"engine.memory_mib is 1; one run of 6 clients needs .* one client alone \d"):
        memory.fit(study, print)


@pytest.mark.long
def test_bytes_of_a_device_follow_the_mesh(tiny):
    """Of eight devices four share a run: two rows of runs, and a fourth of the clients' rows and blocks on a device."""
    states, rough = [], []
    for columns, rows in ((1, 8), (4, 2)):
        study = make_study(tiny(**{"engine.client_devices": columns, "data.limit_train": 4000, "seeds": 8}))
        [group] = study.groups
        data = sum(leaf.nbytes for leaf in jax.tree.leaves(group.simulation.data))
        need = memory.need(group, rows, 0)  # one run a device, or a row
        assert need.data == data
        states.append(need.state)
        rough.append((memory._rough(group) - data) / (8 // rows))
    for alone, shared in (states, rough):
        assert alone / 4 < shared < alone / 2  # the list of samples lies on each device
