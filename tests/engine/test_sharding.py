"""One simulation over a mesh of devices against the same on one: histories, models, gradients and where they lie."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from collectives import unordered
from jax.sharding import NamedSharding, PartitionSpec
from small import assert_trees_differ, assert_trees_equal, computed, toy_dataset, toy_hparams

from mdfl_jax import Schedule
from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.dpsgd import dpsgd
from mdfl_jax.algorithms.local import Settings
from mdfl_jax.algorithms.registry import numbers_of
from mdfl_jax.core.rng import stream
from mdfl_jax.core.sharding import (
    CLIENT,
    by_rows,
    choose,
    client_mesh,
    everywhere,
    padded,
    replicate,
    size,
    tracing_over,
)
from mdfl_jax.core.types import Links, Network, Places
from mdfl_jax.data.batching import ClientIndex, cut_blocks
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.models import make_model
from mdfl_jax.networks.meetings import MeetingsParams, meetings
from mdfl_jax.networks.mixing import metropolis_hastings
from mdfl_jax.tasks import SupervisedClients, classification
from mdfl_jax.tasks.gradients import Tiling, pad_blocks

N = 8
TOLERANCE = 2e-5
SEEDS = [3, 11, 5]
HPARAMS = toy_hparams(alpha=0.05, lr=0.1, momentum=0.5)
SCHEDULE = Schedule(6, 2)


def mesh_of(num_devices, columns=0):
    return client_mesh(jax.devices()[:num_devices], columns)


def make(batch_size, num_devices=1, name="linear", columns=0):
    """Blocks of 4: not a divisor of the minibatch of 10, nor of what clients hold."""
    numbers = {"widths": (2,), "kernel": 3, "hidden": 4} if name == "cnn" else {}
    module, mesh = make_model(name, 3, **numbers), mesh_of(num_devices, columns)
    return classification(toy_dataset(), module, N, batch_size=batch_size, tiling=Tiling(4, 8), mesh=mesh)


def test_arrays_without_elements_are_no_inputs_of_what_is_divided():
    """Of arguments, of what a function takes from around it, and of constants: such an input ends jaxlib 0.11.2."""
    mesh = mesh_of(2)
    x, none = replicate((np.arange(N, dtype=np.float32), np.zeros((N, 0), np.float32)), mesh)

    def whole(x, empty):
        with tracing_over(mesh):
            alike = everywhere(lambda x, own: x.at[:].add(jnp.sum(own) + jnp.sum(empty)), x, empty)
            return by_rows(lambda rows, own: rows[0] + jnp.sum(rows[1], axis=1) + jnp.sum(own), (alike, empty), none, N)

    traced = jax.make_jaxpr(whole)(x, none)
    inputs = [var.aval.shape for each in traced.eqns if each.primitive.name == "shard_map" for var in each.invars]
    assert inputs == [(N,)] * 2
    np.testing.assert_array_equal(jax.jit(whole)(x, none), np.arange(N))


@cache
def held():
    """Who holds what at Dirichlet 0.05: some hold nothing. Divided beforehand, for that is half of the compilation."""
    task = make(10)
    key = stream(jax.random.key(SEEDS[0]), "partition")
    found = jax.device_get(jax.jit(task.partition)(task.data, HPARAMS.task, key).held)
    assert found.num_samples.min() == 0
    return found


def clients_of(batch_size, mesh=None):
    """As the task makes them: with clients that hold nothing until the devices divide them, and so with the blocks."""
    extra = padded(N, mesh) - N
    more = lambda x: jnp.pad(x, [(0, extra)] + [(0, 0)] * (x.ndim - 1))  # noqa: E731
    index = ClientIndex(jnp.asarray(held().sample), *map(more, held()[1:]))
    return SupervisedClients(index, None if batch_size else pad_blocks(cut_blocks(index, 4), size(mesh)))


def shifting():
    """A network whose links change from round to round, by table: two, three or five senders."""
    apart = np.abs(np.arange(N)[:, None] - np.arange(N))
    rings = [np.minimum(apart, N - apart) == k + 1 for k in range(N // 2)]
    adjacency = np.stack([rings[3], rings[0] | rings[2], rings[3], rings[1], rings[1] | rings[0], rings[0]])
    mix = np.stack([metropolis_hastings(a) for a in adjacency])
    assert {int(a.sum(axis=1).max()) for a in adjacency} == {1, 2, 4}
    zero = jnp.zeros(N)

    def step(params, key, round_index, state, clients):
        return state, Links(jnp.asarray(adjacency)[round_index], jnp.asarray(mix)[round_index])

    places = Places(jnp.zeros((N, 2)), zero, zero > 0)
    return Network(N, frozenset({"adjacency", "mix"}), lambda *_: (), step, lambda _: places)


def simulation_of(batch_size, num_devices=1, mixing_bound=0, columns=0):
    """Clients of Dirichlet 0.05 over links that shift, mixed over lists where there is a bound."""
    clients = clients_of(batch_size, mesh_of(num_devices, columns))
    task = make(batch_size, num_devices, columns=columns)._replace(partition=lambda *_: clients)
    return Simulation(task, shifting(), dpsgd(Settings(mixing_bound=mixing_bound)), SCHEDULE)


def program(simulation):
    """A whole run: (seed's key) -> (last carry, metrics after its first round)."""

    def whole(key):
        carry, _ = simulation.init(simulation.data, HPARAMS, key)
        advance = lambda c, _: simulation.advance(simulation.data, HPARAMS, key, c)  # noqa: E731
        return jax.lax.scan(advance, carry, None, length=simulation.num_evaluations)

    return jax.jit(whole)


@cache
def on_one_device(batch_size):
    """What all is compared with: one device, the dense product."""
    return program(simulation_of(batch_size))


def rows_of_first_device(tree):
    return {leaf.addressable_shards[0].data.shape[0] for leaf in jax.tree.leaves(tree)}


@pytest.mark.long
@pytest.mark.parametrize(("batch_size", "num_devices", "mixing_bound"), [(0, 2, 3), (0, 3, 0), (10, 8, 3)])
def test_mesh_equals_one_device(batch_size, num_devices, mixing_bound):
    """Devices that divide the clients and devices that do not, clients without data, links that shift."""
    simulation = simulation_of(batch_size, num_devices, mixing_bound)
    compiled = program(simulation).lower(jax.random.key(SEEDS[0])).compile()
    carry, history = compiled(jax.random.key(SEEDS[0]))
    number, apart = unordered(compiled.as_text())
    assert number > 0
    assert not apart
    expected, expected_history = on_one_device(batch_size)(jax.random.key(SEEDS[0]))
    assert_trees_equal(simulation.kept(carry).algorithm, expected.algorithm, TOLERANCE)
    assert_trees_equal(history, expected_history, TOLERANCE)
    # What the equality is worth: models that differ between clients, and from where they started.
    assert float(history.consensus_distance[-1]) > 0.01
    assert float(history.mean_model_loss[-1]) < 0.9 * float(history.mean_model_loss[0])
    assert rows_of_first_device(carry.algorithm) == {-(-N // num_devices)}
    assert rows_of_first_device(carry.clients.held._replace(sample=carry.clients.num_samples)) == {-(-N // num_devices)}
    assert {len(leaf.devices()) for leaf in jax.tree.leaves(carry.algorithm)} == {num_devices}
    assert rows_of_first_device(carry.messages) == {N}


def of_runs(simulation, at_once):
    """Models and metrics of three runs in the programs of a study: [runs, N, ...], [runs, evaluations, ...]."""
    placement, carries, history = computed(simulation, [HPARAMS] * len(SEEDS), SEEDS, at_once)
    models = simulation.kept(placement.join(carries, len(SEEDS)), before=1).algorithm.params
    return models, jax.tree.map(lambda *x: np.stack(x, axis=1), *history[1:])


@pytest.mark.long
@pytest.mark.parametrize(
    ("num_devices", "columns", "at_once"),
    [(1, 1, 0), (2, 2, 2), (6, 3, 1), (6, 3, 2)],
    ids=["devices", "mesh", "rows", "mapped"],
)
def test_runs_over_a_mesh_equal_runs_on_devices_equal_a_loop(num_devices, columns, at_once):
    """Runs on devices of their own; over a row, two together with one left over; and over two rows, clients padded."""
    models, history = of_runs(simulation_of(10, num_devices, 3, columns), at_once)
    runs = [on_one_device(10)(jax.random.key(seed)) for seed in SEEDS]
    for i, (carry, expected) in enumerate(runs):
        assert_trees_equal(jax.tree.map(lambda x, i=i: x[i], models), carry.algorithm.params, TOLERANCE)
        assert_trees_equal(jax.tree.map(lambda x, i=i: x[i], history), expected, TOLERANCE)
    assert_trees_differ(runs[0][0].algorithm.params, runs[1][0].algorithm.params, 1e-2)


@pytest.mark.long
@pytest.mark.parametrize("name", ["dpsgd", "fedmobile"])
def test_local_steps_over_full_batches_keep_their_sums_in_order(name):
    """Each step's gradient ends in a sum over the devices; as a loop it would run beside what is handed over."""
    clients, network = clients_of(0, mesh_of(4)), meetings(N)
    task = make(0, 4)._replace(partition=lambda *_: clients)
    simulation = Simulation(task, network, ALGORITHMS[name](Settings(num_local_steps=2)), Schedule(2, 2))
    hparams = HPARAMS._replace(network=MeetingsParams(), algorithm=numbers_of(name, lr=np.float32(0.1)))

    def whole(key):
        return simulation.advance(simulation.data, hparams, key, simulation.init(simulation.data, hparams, key)[0])

    number, apart = unordered(jax.jit(whole).lower(jax.random.key(3)).compile().as_text())
    assert number > 0
    assert not apart


@pytest.mark.few(1)
@pytest.mark.parametrize("equal", [False, True])
def test_local_epochs_over_devices_are_those_on_one_and_no_loop_has_a_collective(equal):
    """Where clients hold unlike numbers of samples and some nothing; FedMobile hands models over beside its steps."""
    found = []
    for devices in (1, 4):
        clients = clients_of(10, mesh_of(devices))
        task = make(10, devices)._replace(partition=lambda *_, clients=clients: clients)
        local = Settings(num_local_epochs=2, equal_steps=equal)
        simulation = Simulation(task, meetings(N), ALGORITHMS["fedmobile"](local), Schedule(2, 2))
        numbers = numbers_of("fedmobile", lr=np.float32(0.1))
        hparams = HPARAMS._replace(network=MeetingsParams(), algorithm=numbers)

        def whole(key, simulation=simulation, hparams=hparams):
            start = simulation.init(simulation.data, hparams, key)[0]
            return simulation.advance(simulation.data, hparams, key, start)

        compiled = jax.jit(whole).lower(jax.random.key(3)).compile()
        found.append(compiled(jax.random.key(3))[0].algorithm.params)
        number, apart = unordered(compiled.as_text())
        assert bool(number) == (devices > 1)
        assert not apart
    assert_trees_equal(*found, TOLERANCE)


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
        (lambda flag, x: jax.lax.while_loop(lambda x: jnp.sum(x) < 9, lambda x: x + 1, x), True),
        (lambda flag, x: choose(flag, total, lambda x: x, x), False),
        (lambda flag, x: by_rows(lambda x, _: jax.lax.cond(flag, total, lambda x: x, x), x, (), 4), False),
        (lambda flag, x: everywhere(lambda x: jax.lax.cond(flag, total, lambda x: x, x), x), False),
    ],
)
def test_collectives_in_loops_and_conditions_run_beside_others(inner, apart):
    """What the search for them finds, and what keeps them out."""
    number, found = unordered(over_two(inner).compile().as_text())
    assert number > 0
    assert bool(found) == apart
