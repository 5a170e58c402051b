"""Runs over a mesh of devices against the same on one, and no collective where it could run beside another."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from collectives import unordered
from jax.sharding import NamedSharding, PartitionSpec
from small import PATTERNS, assert_trees_differ, assert_trees_equal, computed, toy_dataset, toy_hparams

from mdfl_jax import Schedule
from mdfl_jax.algorithms.dpsgd import dpsgd
from mdfl_jax.algorithms.local import Settings
from mdfl_jax.core.sharding import CLIENT, by_rows, choose, client_mesh, everywhere, replicate, tracing_over
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.models import make_model
from mdfl_jax.networks.spatial import spatial
from mdfl_jax.tasks import classification
from mdfl_jax.tasks.gradients import Tiling

N = 8
TOLERANCE = 2e-5
SEEDS = [3, 11, 5]
HPARAMS = toy_hparams(alpha=0.05, lr=0.1, momentum=0.5)


def mesh_of(num_devices, columns=0):
    return client_mesh(jax.devices()[:num_devices], columns)


def make(batch_size, num_devices=1, columns=0):
    """Blocks of 4: not a divisor of the minibatch of 10, nor of what clients hold; some hold nothing."""
    how = {"batch_size": batch_size, "tiling": Tiling(4, 8), "mesh": mesh_of(num_devices, columns)}
    return classification(toy_dataset(), make_model("linear", 3), N, **how)


def test_arrays_without_elements_are_no_inputs_of_what_is_divided():
    """Of arguments, of what a function takes from around it, and of constants: such an input ends jaxlib 0.11.2."""
    mesh = mesh_of(2)
    x, none = replicate((np.arange(N, dtype=np.float32), np.zeros((N, 0), np.float32)), mesh)

    def whole(x, empty):
        with tracing_over(mesh):
            alike = everywhere(lambda x, own: x.at[:].add(jnp.sum(own) + jnp.sum(empty)), x, empty)
            return by_rows(lambda rows, own: rows[0] + jnp.sum(rows[1], axis=1) + jnp.sum(own), (alike, empty), none)

    traced = jax.make_jaxpr(whole)(x, none)
    inputs = [var.aval.shape for each in traced.eqns if each.primitive.name == "shard_map" for var in each.invars]
    assert inputs == [(N,)] * 2
    np.testing.assert_array_equal(jax.jit(whole)(x, none), np.arange(N))


def of_runs(num_devices=1, columns=0, at_once=0, devices=None):
    """Models and metrics of three runs in the programs of a study: [runs, N, ...], [runs, evaluations, ...]."""
    task, settings = make(10, num_devices, columns), Settings(mixing_bound=3 if num_devices > 1 else 0)
    simulation = Simulation(task, spatial(N, 5, PATTERNS), dpsgd(settings), Schedule(6, 2))
    placement, carries, history = computed(simulation, [HPARAMS] * len(SEEDS), SEEDS, at_once, devices)
    carry = placement.join(carries, len(SEEDS))
    return carry.algorithm.params, jax.tree.map(lambda *x: np.stack(x, axis=1), *history[1:])


@pytest.mark.long
@pytest.mark.parametrize(
    ("num_devices", "columns", "at_once"), [(1, 1, 0), (2, 2, 1), (4, 2, 2)], ids=["devices", "a row", "two rows"]
)
def test_runs_over_a_mesh_are_runs_on_one_device(num_devices, columns, at_once):
    """Runs on devices of their own; over a row of two; two together with one left over, two rows."""
    expected, found = of_runs(devices=jax.devices()[:1]), of_runs(num_devices, columns, at_once)
    assert_trees_equal(found, expected, TOLERANCE)
    first, second = (jax.tree.map(lambda x, i=i: x[i], expected[0]) for i in (0, 1))
    assert_trees_differ(first, second, 1e-2)
    assert (expected[1].consensus_distance[:, -1] > 0.01).all()


def over_two(inner):
    """A program over two devices: what `inner` makes of x, and a sum over all rows beside it."""
    mesh = mesh_of(2)
    lies = NamedSharding(mesh, PartitionSpec(CLIENT))

    def whole(flag, x):
        with tracing_over(mesh):
            return inner(flag, jax.lax.with_sharding_constraint(x, lies)), jnp.sum(jnp.sin(x))

    x = jax.ShapeDtypeStruct((4, 3), jnp.float32, sharding=lies)
    return jax.jit(whole).lower(jax.ShapeDtypeStruct((), bool, sharding=NamedSharding(mesh, PartitionSpec())), x)


def total(x):
    return jnp.sum(jnp.cos(x)) * x


@pytest.mark.parametrize(
    ("inner", "apart"),
    [
        (lambda flag, x: jax.lax.cond(flag, total, lambda x: x, x), True),
        (lambda flag, x: choose(flag, total, lambda x: x, x), False),
        (lambda flag, x: by_rows(lambda x, _: jax.lax.cond(flag, total, lambda x: x, x), x, ()), False),
        (lambda flag, x: everywhere(lambda x: jax.lax.cond(flag, total, lambda x: x, x), x), False),
    ],
)
def test_collectives_in_loops_and_conditions_run_beside_others(inner, apart):
    """What the search for them finds, and what keeps them out."""
    number, found = unordered(over_two(inner).compile().as_text())
    assert number > 0
    assert bool(found) == apart
