"""Local steps and epochs, FedProx's term and K-GT's corrections against loops in NumPy over the batches they take."""

import jax
import jax.numpy as jnp
import least_squares
import numpy as np
import pytest
from least_squares import Problem, graph, run_long
from oracles import local_work
from small import assert_trees_equal, toy_task
from tiny import tiny_config

from mdfl_jax import UserError
from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import Settings, sgd
from mdfl_jax.algorithms.local import local_work as local_work_of
from mdfl_jax.algorithms.registry import numbers_of
from mdfl_jax.core.rng import stream
from mdfl_jax.core.types import Links
from mdfl_jax.data.batching import Batch, draw_epochs
from mdfl_jax.data.partition import PartitionNumbers
from mdfl_jax.exchange import under_way
from mdfl_jax.study import make_study
from mdfl_jax.tasks import GRADIENTS

HELD, LR, ROUNDS = np.array([5, 0, 3, 8, 1]), 0.0625, 4
FIRST = np.cumsum(HELD) - HELD
PAIR = ("dpsgd", "kgt")


class Unequal(Problem):
    """Clients of 5, 0, 3, 8 and 1 rows; a batch has rows of its client."""

    def rows(self, batch):
        place = np.concatenate([np.arange(8)[:held] for held in HELD])
        return jnp.asarray(place)[batch.sample]

    def gradient(self, params, key, batch):
        x = jnp.concatenate([params["u"][:, :, 0], params["v"]], axis=1)
        a, b = jax.vmap(lambda a, b, rows: (a[rows], b[rows]))(
            jnp.asarray(self.a), jnp.asarray(self.b), self.rows(batch)
        )
        residual = jnp.where(batch.mask, jnp.einsum("irl,il->ir", a, x) - b, 0)
        count = jnp.maximum(batch.mask.sum(axis=1), 1)
        found = jnp.einsum("irl,ir->il", a, residual) / count[:, None]
        return jnp.sum(residual**2, axis=1) / 2 / count, self.tree(found)

    def gradient_of(self, i, w, rows=slice(None)):
        return super().gradient_of(i, w, rows) if len(self.a[i][rows]) else np.zeros_like(w)


def drawn(size, equal):
    return lambda key, count, e: draw_epochs(
        key, count, jnp.arange(17, dtype=jnp.int32), jnp.asarray(FIRST), jnp.asarray(HELD), size, equal
    )


def batches_of(size, equal, epochs=2):
    """[R][N] the batches of a round, cut from the orders of each epoch as a DataLoader cuts them."""

    def cut(own):
        return np.array_split(own, -(-HELD.max() // size)) if equal else np.split(own, range(size, len(own), size))

    found = []
    for t in range(ROUNDS):
        order = np.asarray(drawn(size, equal)(stream(jax.random.key(t), "epochs"), epochs, equal).order)
        rows = [[row[a : a + n] - a for row in order if n] for a, n in zip(FIRST, HELD)]
        found.append([[batch for own in of_client for batch in cut(own)] for of_client in rows])
    return found


def run(name, numbers, size, equal, links, **settings):
    problem = Unequal()
    algorithm = ALGORITHMS[name](Settings(num_local_epochs=2, equal_steps=equal, **settings))

    @jax.jit
    def step(key, state, links):
        with under_way.traced(under_way.UnderWay(epochs=drawn(size, equal))):
            return algorithm.round(numbers, key, state, links, problem.gradient)

    state = algorithm.init(numbers, problem.tree(jnp.asarray(problem.start)))
    models = [problem.flat(algorithm.params(state))]
    for t, (adjacency, mix) in enumerate(links):
        state, _ = step(jax.random.key(t), state, Links(jnp.asarray(adjacency), jnp.asarray(mix)))
        models.append(problem.flat(algorithm.params(state)))
    return np.stack(models), state


@pytest.mark.few(2)
@pytest.mark.parametrize("equal", [False, True], ids=["own", "equal"])
@pytest.mark.parametrize("size", [2, 8])
def test_epochs_are_a_loop_over_the_batches_of_a_data_loader(size, equal):
    """Of DPSGD, with and without FedProx's term, and of K-GT, whose corrections keep their sum of zero."""
    links = [graph(), graph([(0, 1), (2, 3)]), graph(), graph()]
    with jax.enable_x64(True):
        problem, mixes = Unequal(), [mix for _, mix in links]
        args = problem.start, batches_of(size, equal), problem.gradient_of, mixes, LR
        plain = sgd(momentum=False)
        for mu in (0.0, 0.75):
            numbers = numbers_of("dpsgd", lr=LR, proximal=mu)
            models, _ = run("dpsgd", numbers, size, equal, links, optimizer=plain, proximal=mu > 0)
            np.testing.assert_allclose(models, local_work.dpsgd(*args, mu), rtol=1e-6)
        models, state = run("kgt", numbers_of("kgt", lr=LR, exchange_lr=0.5), size, equal, links)
        wanted, correction = local_work.kgt(*args, 0.5)
        np.testing.assert_allclose(models, wanted, rtol=1e-9)
        np.testing.assert_allclose(problem.flat(state.correction), correction, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(problem.flat(state.correction).sum(axis=0), 0, atol=1e-9)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["dfedsam", "dfedavgm", "sgp", "squarm_sgd"])
def test_a_batch_of_all_samples_makes_an_epoch_a_step_on_all_samples(name):
    """Two epochs are then two local steps, of each algorithm with a loop of its own."""
    problem, links, numbers = Unequal(), graph(), numbers_of(name, lr=LR)
    with jax.enable_x64(True):
        everything = Batch(jnp.minimum(FIRST[:, None] + np.arange(8), 16), np.arange(8) < HELD[:, None])
        algorithm = ALGORITHMS[name](Settings(num_local_steps=2))
        state = algorithm.init(numbers, problem.tree(jnp.asarray(problem.start)))
        gradient = lambda params, key: problem.gradient(params, key, everything)  # noqa: E731
        following, _ = algorithm.round(numbers, jax.random.key(0), state, Links(*map(jnp.asarray, links)), gradient)
        in_epochs = run(name, numbers, 8, False, [links])[0][-1]
        np.testing.assert_allclose(in_epochs, problem.flat(algorithm.params(following)), rtol=1e-6)


@pytest.mark.parametrize("data", ["digits", pytest.param("synthetic:logistic", marks=pytest.mark.long)])
def test_a_study_with_such_batches_is_one_of_full_batches(data):
    changes = {"data.name": data, "data.partition": "dirichlet", "rounds": 2, "algorithm.lr": 0.05}
    if data != "digits":
        changes |= {"data.limit_train": 0, "data.limit_test": 0}
    epochs = {"algorithm.local_epochs": 2, "algorithm.batch_size": 120, "algorithm.proximal": 0.5}
    steps = {"algorithm.local_steps": 2, "algorithm.proximal": 0.5}

    def models(more):
        (group,) = make_study(tiny_config(**changes | more)).groups
        run, args = group.simulation, (group.simulation.data, group.hparams[0], jax.random.key(0))
        return jax.jit(lambda *args: run.advance(*args, run.init(*args)[0])[0].algorithm.params)(*args)

    assert_trees_equal(models(epochs), models(steps), 1e-5)


def test_a_sum_of_gradients_is_over_the_samples_of_the_batch():
    task = toy_task(num_clients=3, batch_size=4, partition="iid")
    clients = jax.jit(task.partition)(task.data, PartitionNumbers(), jax.random.key(0))
    model = task.init(task.data, jax.random.key(1))
    models = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (3, *leaf.shape)), model)
    batch = Batch(jnp.arange(12).reshape(3, 4), jnp.arange(4) < jnp.array([[4], [1], [0]]))
    found = [jax.jit(GRADIENTS[name](task, 4).gradient)(task.data, clients, models, jax.random.key(2), batch=batch)[1]
             for name in ("mean", "sum")]  # fmt: skip
    for mean, total in zip(*map(jax.tree.leaves, found)):
        np.testing.assert_allclose(total, mean * np.array([4, 1, 0]).reshape(3, *[1] * (mean.ndim - 1)), rtol=1e-6)
        assert not np.any(mean[2])
        assert np.any(mean[1])


def test_without_its_corrections_kgt_is_dpsgd_and_with_them_it_finds_the_solution_in_spite_of_local_steps():
    with jax.enable_x64(True):
        problem, links, settings = Problem(), graph(), Settings(sgd(momentum=False), num_local_steps=4)
        first = [least_squares.run(ALGORITHMS[of](settings), numbers_of(of, lr=LR), problem, [links])[0] for of in PAIR]
        np.testing.assert_allclose(first[0], first[1], rtol=1e-6)  # in the first round all corrections are zero
        ends = [run_long(ALGORITHMS[of](settings), numbers_of(of, lr=0.05), problem, links, 3000) for of in PAIR]
        apart = [np.abs(end - problem.solution).max() for end in ends]
        assert apart[1] < 1e-8 < 0.05 < apart[0]


def test_rules_that_judge_models_do_so_on_the_first_batches_of_the_epochs():
    with jax.enable_x64(True):
        problem, models = Unequal(), Unequal.tree(jnp.asarray(Unequal().start))
        key = jax.random.key(0)
        loss = lambda models, **batch: problem.gradient(models, key, **batch)[0]  # noqa: E731
        with under_way.traced(under_way.UnderWay(loss, epochs=drawn(2, False))) as now:
            local_work_of(Settings(num_local_epochs=2), numbers_of("dpsgd"), key, models, problem.gradient)
            found = now.loss(models)
        for i, batches in enumerate(batches_of(2, False)[0]):
            rows = batches[0] if batches else []
            residual = problem.a[i][rows] @ problem.start[i] - problem.b[i][rows] if batches else np.zeros(1)
            np.testing.assert_allclose(found[i], np.mean(residual**2) / 2, rtol=1e-9)


def test_a_task_without_epochs_is_told_so():
    problem, links = Problem(), graph()
    algorithm = ALGORITHMS["dpsgd"](Settings(num_local_epochs=2))
    with pytest.raises(UserError, match=r"^algorithm.local_epochs is 2; it must be 0: the task has no minibatches of"):
        least_squares.run(algorithm, numbers_of("dpsgd"), problem, [links])
