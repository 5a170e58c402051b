"""One simulation over a mesh of devices against the same on one: histories, models, gradients and where they lie."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import leaves_equal, toy_dataset, toy_hparams

from mdfl_jax import Schedule, simulate
from mdfl_jax.algorithms.dpsgd import dpsgd
from mdfl_jax.algorithms.local import sgd
from mdfl_jax.gradients import Tiling
from mdfl_jax.models import MODELS, ModelSettings
from mdfl_jax.montecarlo import monte_carlo, to_host
from mdfl_jax.networks.spatial import spatial
from mdfl_jax.rng import stream
from mdfl_jax.sharding import AXIS, by_rows, client_mesh, divide, replicate, size, tracing_over
from mdfl_jax.simulation import build
from mdfl_jax.tasks import classification

TOLERANCE = 2e-5
SEEDS = [3, 11, 5]
HPARAMS = toy_hparams(pattern=0, alpha=0.05, num_mobile=4, radius=1.5, lr=0.1, momentum=0.5)


def mesh_of(num_devices):
    return client_mesh(jax.devices()[:num_devices])


def make(num_clients, batch_size, num_devices=1, name="linear", partition="dirichlet"):
    """Blocks of 4: not a divisor of the minibatch of 10, nor of what clients hold."""
    module, mesh = MODELS[name](ModelSettings(3, (2, 3), 3, 4)), mesh_of(num_devices)
    return classification(
        toy_dataset(), module, num_clients, partition, batch_size=batch_size, tiling=Tiling(4, 8), mesh=mesh
    )


def world(num_clients, mixing_bound=0):
    """Clients that move about, mixed over lists where there is a bound."""
    return spatial(num_clients, 4, ("random_movement",)), dpsgd(sgd(), 1, mixing_bound), Schedule(6, 2)


@cache
def divided(num_clients, batch_size):
    """Who holds what in a run of the first seed: some hold nothing."""
    task = make(num_clients, batch_size)
    key = stream(jax.random.key(SEEDS[0]), "partition")
    clients = jax.device_get(jax.jit(task.partition)(task.data, HPARAMS.task, key))
    assert clients.num_samples.min() == 0
    return clients


def simulation_of(num_clients, batch_size, num_devices=1, mixing_bound=0):
    """With data divided beforehand, which is half of the compilation."""
    task, clients = make(num_clients, batch_size, num_devices), divided(num_clients, batch_size)
    task = task._replace(partition=lambda *_: jax.tree.map(jnp.asarray, clients))
    return build(task, *world(num_clients, mixing_bound))


def run(simulation, seed=SEEDS[0]):
    """A whole run: (last carry, metrics after its first round)."""

    @jax.jit
    def whole(key):
        carry, _ = simulation.init(simulation.data, HPARAMS, key)
        advance = lambda c, _: simulation.advance(simulation.data, HPARAMS, key, c)  # noqa: E731
        return jax.lax.scan(advance, carry, None, length=simulation.num_evaluations)

    return whole(jax.random.key(seed))


@pytest.fixture(scope="module")
def single():
    """Runs on one device with the dense product, one a (N, batch size)."""
    done = {}

    def get(num_clients, batch_size):
        if (num_clients, batch_size) not in done:
            done[num_clients, batch_size] = run(simulation_of(num_clients, batch_size))
        return done[num_clients, batch_size]

    return get


def rows_of_first_device(tree):
    return {leaf.addressable_shards[0].data.shape[0] for leaf in jax.tree.leaves(tree)}


@pytest.mark.parametrize(
    ("num_clients", "batch_size", "num_devices", "mixing_bound"),
    [
        (6, 0, 1, 3),
        (6, 0, 2, 3),
        (6, 0, 8, 0),
        (6, 10, 3, 3),
        (6, 10, 8, 3),
        (8, 10, 3, 4),
        (8, 10, 8, 0),
    ],
)
def test_mesh_equals_one_device(single, num_clients, batch_size, num_devices, mixing_bound):
    """Clients that the devices divide and clients that they do not, some without data, over a moving network."""
    carry, history = run(simulation_of(num_clients, batch_size, num_devices, mixing_bound))
    expected, expected_history = single(num_clients, batch_size)
    assert leaves_equal(carry.algorithm, expected.algorithm, TOLERANCE)
    assert leaves_equal(history, expected_history, TOLERANCE)
    divides = num_clients % num_devices == 0
    assert rows_of_first_device(carry.algorithm) == {num_clients // num_devices if divides else num_clients}
    assert {len(leaf.devices()) for leaf in jax.tree.leaves(carry.algorithm)} == {num_devices}
    assert rows_of_first_device(carry.messages) == {num_clients}


@pytest.mark.parametrize(("num_clients", "batch_size"), [(6, 0), (6, 10), (8, 10)])
def test_those_runs_learn_move_and_go_beyond_the_bounds(single, num_clients, batch_size):
    """What the equality above is worth: models differ, clients move, and degrees lie on either side of the bounds."""
    _, history = single(num_clients, batch_size)
    assert float(history.consensus_distance[-1]) > 0.01
    assert float(history.mean_model_accuracy[-1]) > 0.6
    assert float(history.distance_moved[-1].max()) > 0
    most = 1 + np.asarray(history.num_neighbours).max()
    assert most > 3 > 1 + np.asarray(history.num_neighbours).min()


def test_simulate_over_a_mesh_equals_one_device(single):
    """With everything in one program, the division of the data included."""
    history = jax.jit(simulate(make(6, 10, 3), *world(6, 3)))(HPARAMS, jax.random.key(SEEDS[0]))
    found = jax.tree.map(lambda x: x[1:], history._replace(position=history.position[None]))
    expected = single(6, 10)[1]
    assert leaves_equal(found._replace(position=0), expected._replace(position=0), TOLERANCE)


@pytest.mark.parametrize(("num_clients", "batch_size"), [(6, 10), (8, 0)])
def test_convolutional_gradients_over_a_mesh_equal_one_device(num_clients, batch_size):
    """Three devices: clients of their own, and blocks of anybody's where they do not divide the clients."""
    found, clients = [], divided(num_clients, batch_size)
    for num_devices in (1, 3):
        task = make(num_clients, batch_size, num_devices, "cnn")
        params = jax.vmap(task.init)(jax.random.split(jax.random.key(0), num_clients))
        both = jax.jit(
            lambda p, t=task: (
                t.gradient(t.data, clients, p, jax.random.key(2)),
                t.evaluate(t.data, p),
            )
        )
        found.append(both(params))
    assert leaves_equal(found[0], found[1], 1e-5)
    assert max(float(jnp.max(jnp.abs(leaf))) for leaf in jax.tree.leaves(found[0][0])) > 0.1


def of_runs(simulation, at_once=0, num_devices=8):
    """Metrics and models of three runs by `monte_carlo`: [runs, evaluations, ...], [runs, N, ...]."""
    mc = monte_carlo(simulation, len(SEEDS), at_once, jax.devices()[:num_devices])
    runs = mc.runs([HPARAMS] * len(SEEDS), SEEDS)
    carry, metrics = mc.init(mc.data, *runs)
    history = [to_host(metrics, len(SEEDS))]
    for _ in range(mc.num_evaluations):
        carry, metrics = mc.advance(mc.data, *runs, carry)
        history.append(to_host(metrics, len(SEEDS)))
    return jax.tree.map(lambda *x: np.stack(x, axis=1), *history), to_host(carry.algorithm.params, len(SEEDS))


@pytest.fixture(scope="module")
def plain_loop():
    """The same by a plain loop over seeds, on one device."""
    simulation = build(make(6, 10, partition="iid"), *world(6))
    init = jax.jit(lambda key: simulation.init(simulation.data, HPARAMS, key))
    advance = jax.jit(lambda key, carry: simulation.advance(simulation.data, HPARAMS, key, carry))
    histories, models = [], []
    for seed in SEEDS:
        carry, metrics = init(jax.random.key(seed))
        history = [metrics]
        for _ in range(simulation.num_evaluations):
            carry, metrics = advance(jax.random.key(seed), carry)
            history.append(metrics)
        histories.append(jax.tree.map(lambda *x: np.stack(x), *history))
        models.append(carry.algorithm.params)
    stack = lambda trees: jax.tree.map(lambda *x: np.stack(x), *trees)  # noqa: E731
    return stack(histories), stack(models)


@pytest.mark.parametrize(("over_mesh", "at_once"), [(2, 0), (2, 3), (3, 2), (1, 0)])
def test_monte_carlo_over_a_mesh_equals_pmap_equals_a_loop(plain_loop, over_mesh, at_once):
    """Runs one by one, all mapped, and two at once with one left over, on a mesh; the last case is pmap of runs."""
    found = of_runs(build(make(6, 10, over_mesh, partition="iid"), *world(6, 3)), at_once)
    assert leaves_equal(found, plain_loop, TOLERANCE)
    assert not leaves_equal(found[1]["Dense_0"]["kernel"][0], found[1]["Dense_0"]["kernel"][1], 1e-2)


def test_a_mesh_needs_two_devices():
    assert client_mesh(jax.devices()[:1]) is None
    assert size(None) == 1
    assert size(client_mesh()) == len(jax.local_devices())
    assert mesh_of(3).axis_names == (AXIS,)


@pytest.mark.parametrize(("num_devices", "num_clients", "rows"), [(1, 6, 6), (2, 6, 3), (3, 6, 2), (4, 6, 6)])
def test_by_rows_gives_each_device_the_rows_of_its_clients(num_devices, num_clients, rows):
    """Only while a round is traced over a mesh whose devices divide the clients; the same numbers in any case."""
    seen = []

    def take(own, whole):
        seen.append((own.shape, whole.shape))
        return whole[own] * 2

    mesh = mesh_of(num_devices)

    def program(own, whole):
        with tracing_over(mesh):
            return by_rows(take, own, whole, num_clients)

    own, whole = np.arange(num_clients)[::-1].copy(), np.arange(5.0 * num_clients).reshape(num_clients, 5)
    given = replicate((own, whole), mesh) if mesh else (own, whole)
    np.testing.assert_array_equal(jax.jit(program)(*given), whole[::-1] * 2)
    assert set(seen) == {((rows,), (num_clients, 5))}


def test_divide_splits_what_has_a_row_a_client():
    mesh = mesh_of(2)
    tree = {"models": jnp.zeros((6, 3)), "steps": jnp.int32(0), "other": jnp.zeros((4, 6))}
    placed = jax.jit(lambda t: divide(t, 6, mesh))(tree)
    shapes = {name: leaf.addressable_shards[0].data.shape for name, leaf in placed.items()}
    assert shapes == {"models": (3, 3), "steps": (), "other": (4, 6)}
    assert divide(tree, 6, None) is tree
