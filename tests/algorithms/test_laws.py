"""What algorithms promise: where they converge to, what they keep, and what they are in special cases."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from least_squares import NO_LINKS, Problem, graph, run, run_long

from mdfl_jax import UserError
from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import Settings, sgd
from mdfl_jax.algorithms.registry import numbers_of
from mdfl_jax.exchange.relay import best_share

LR = 0.125  # exact in single precision, in which an optimiser has it
CLOSE = {"rtol": 1e-10, "atol": 1e-10}
PLAIN = Settings(sgd(momentum=False))


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


def still(params, key, whole=False):
    """No gradients."""
    leaves = jax.tree.leaves(params)
    return jnp.zeros(len(leaves[0])), jax.tree.map(jnp.zeros_like, params)


def after_many(name, problem, numbers, rounds, links=None, setting=None):
    links = graph() if links is None else links
    setting = setting or (PLAIN if name in ("dpsgd", "kgt") else Settings())
    return run_long(ALGORITHMS[name](setting), numbers_of(name, **numbers), problem, links, rounds)


def farthest(name, problem, *args):
    """The largest distance of a client's model from the common solution, after many rounds."""
    return np.abs(after_many(name, problem, *args) - problem.solution).max()


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("extra", {"lr": 0.1}),
        ("d2", {"lr": 0.1}),
        ("nids", {"lr": 0.2}),
        ("gradient_tracking", {"lr": 0.05}),
        ("kgt", {"lr": 0.05}),
        ("beer", {"lr": 0.03125, "consensus_lr": 0.25, "transmission": 0.5}),
        ("anq_nids", {"lr": 0.125, "eta": 0.1, "omega": 0.1, "eta_decay": 0.97}),
    ],
)
def test_exact_algorithms_reach_the_common_solution_of_unlike_clients(name, numbers):
    """With a constant step, every model within 1e-6 of the minimiser of the mean of all objectives."""
    problem = Problem(spread=1.0 if name in ("beer", "anq_nids") else 3.0)
    alone = [np.linalg.lstsq(a, b, rcond=None)[0] for a, b in zip(problem.a, problem.b)]
    assert np.abs(np.stack(alone) - problem.solution).max() > 0.3  # it is not theirs
    assert farthest(name, problem, numbers, 4000) < 1e-6


def test_variance_reduction_converges_linearly_on_minibatches():
    """Every 300 rounds divide the distance by about the same number, down to rounding; D-PSGD's stays."""
    problem, numbers = Problem(spread=3.0, batch=2), {"lr": 0.05, "anchor_probability": 0.25}
    distances = [farthest("dmgt_svrg", problem, numbers, rounds) for rounds in (300, 600, 900)]
    first, second = (near / far for far, near in itertools.pairwise(distances))
    assert max(first, second) < 0.2
    assert abs(np.log(second / first)) < 0.5 * abs(np.log(first))
    assert farthest("dmgt_svrg", problem, numbers, 4000) < 1e-6
    assert farthest("dpsgd", problem, {"lr": 0.05}, 4000) > 0.01


def test_a_schedule_that_ends_at_zero_leaves_the_momentum_finite():
    problem = Problem()
    algorithm = ALGORITHMS["qg_dsgdm"](Settings(schedule=lambda k: jnp.where(k < 3, 1.0, 0.0)))
    models, state = run(algorithm, numbers_of("qg_dsgdm", lr=LR), problem, [graph()] * 8)
    np.testing.assert_allclose(models[-1], np.linalg.matrix_power(graph()[1], 5) @ models[3], **CLOSE)
    assert np.isfinite(problem.flat(state.velocity)).all()


def test_the_state_of_an_optimizer_is_of_one_client():
    """A rule that looks at the whole gradient (clipping by its norm) sees one client's, not everybody's."""
    clipped = lambda numbers: optax.chain(optax.clip_by_global_norm(1e-3), optax.scale_by_learning_rate(numbers.lr))  # noqa: E731
    models = run(ALGORITHMS["dpsgd"](Settings(clipped)), numbers_of("dpsgd", lr=1.0), Problem(), [NO_LINKS])[0]
    np.testing.assert_allclose(np.linalg.norm(models[1] - models[0], axis=1), 1e-3, rtol=1e-6)


def test_a_task_that_cannot_give_what_an_algorithm_asks_for_is_told_so():
    problem = Problem()
    with pytest.raises(UserError, match=r"^algorithm.local_epochs is 2; it must be 0: the task has no minibatches of"):
        run(ALGORITHMS["dpsgd"](Settings(num_local_epochs=2)), numbers_of("dpsgd"), problem, [graph()])
    problem.gradient = lambda params, key: still(params, key)
    with pytest.raises(UserError, match="has no argument 'whole', by which dmgt_svrg asks"):
        run(ALGORITHMS["dmgt_svrg"](Settings()), numbers_of("dmgt_svrg"), problem, [graph()])


@pytest.mark.parametrize("k", [1e-2, 0.3, 1.0, 5.0, 25.0, 200.0, 1e4])
def test_the_automatic_share_of_fedmobile_is_the_best_on_a_grid(k):
    """The least mean bound Delta - (1 - exp(-k u^2)) (1 - u) Delta / 2 over all shares."""
    u = np.linspace(0, 1, 20_001)
    bound = 1 - (1 - np.exp(-k * u**2)) * (1 - u) / 2
    assert abs(float(best_share(k)) - u[np.argmin(bound)]) < 2e-3
