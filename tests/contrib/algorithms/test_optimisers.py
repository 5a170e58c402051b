"""Aug-DGM, LED, ProxSkip, DLM, DiNNO and GT-SARAH: their papers' recursions, what they reduce to, where they end.

The recursions are written here as the papers have them, in NumPy. decent-bench 0.3.0 has the same iterates to 1e-14, of
DLM on graphs on which all have equally many neighbours, since it has one step size for all clients. In DLM and DiNNO it
adds to the received NumPy arrays in place; the iterates are the same where it is given copies.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from least_squares import NO_LINKS, Problem, graph, run, run_long

from mdfl_jax import UserError
from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import Settings, sgd
from mdfl_jax.algorithms.registry import numbers_of
from mdfl_jax.core.rng import own_draws

ROUNDS, LR = 12, 0.125  # exact in single precision
CLOSE = {"rtol": 1e-10, "atol": 1e-10}


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


def gradients(problem, x):
    return np.einsum("irl,ir->il", problem.a, np.einsum("irl,il->ir", problem.a, x) - problem.b) / problem.a.shape[1]


def aug_dgm(g, w, adjacency, x):
    y = g(x)
    while True:
        following = w @ (x - LR * y)
        y = w @ (y + g(following) - g(x))
        x = following
        yield x


def led(g, w, adjacency, x, steps=3, beta=0.25):
    y = 0 * x
    while True:
        phi = x
        for _ in range(steps):
            phi = phi - LR * g(phi) - beta * y
        x = w @ phi
        y = y + phi - x
        yield x


def proxskip(g, w, adjacency, x, p=0.5, chi=1.0):
    """In the paper's variables: h, and gamma tau / p = 1 / (2 chi)."""
    h, share, t = 0 * x, 1 / (2 * chi), 0
    while True:
        hat = x - LR * (g(x) - h)
        if jax.random.uniform(own_draws(jax.random.key(t)), (), jnp.float32) < p:
            x = (1 - share) * hat + share * w @ hat
            h = h + p / LR * (x - hat)
        else:
            x = hat
        t += 1
        yield x


def dlm(g, w, adjacency, x, c=0.25):
    laplacian = np.diag(adjacency.sum(axis=1)) - adjacency
    phi = 0 * x
    while True:
        x = x - (g(x) + c * laplacian @ x + phi) / (2 * c * adjacency.sum(axis=1) + 1 / LR)[:, None]
        phi = phi + c * laplacian @ x
        yield x


def dinno(g, w, adjacency, x, rho=0.25, steps=3):
    p = 0 * x
    while True:
        p = p + rho * (np.diag(adjacency.sum(axis=1)) - adjacency) @ x
        middles, y = (x[:, None] + x[None, :]) / 2, x
        for _ in range(steps):
            pull = 2 * rho * np.einsum("ij,ijl->il", adjacency, y[:, None] - middles)
            y = y - LR * (g(y) + p + pull)
        x = y
        yield x


def gt_sarah(g, w, adjacency, x):
    """With all samples in a batch v is the gradient, and this is DIGing."""
    y = g(x)
    while True:
        following = w @ x - LR * y
        y = w @ y + g(following) - g(x)
        x = following
        yield x


CASES = {
    aug_dgm: ({}, 1),
    led: ({"correction_lr": 0.75, "laziness": 0.0}, 3),
    proxskip: ({"exchange_probability": 0.5, "laziness": 0.5}, 1),
    dlm: ({"penalty": 0.25}, 1),
    dinno: ({"penalty": 0.25}, 3),
    gt_sarah: ({"whole_every": 4}, 1),
}


def of_ours(name, numbers, steps=1, links=None, problem=None):
    settings = Settings(sgd(momentum=False), num_local_steps=steps)
    links = [graph()] * ROUNDS if links is None else links
    return run(ALGORITHMS[name](settings), numbers_of(name, lr=LR, **numbers), problem or Problem(spread=3.0), links)


@pytest.mark.parametrize("recursion", CASES, ids=lambda recursion: recursion.__name__)
def test_iterates_are_those_of_the_paper(recursion):
    problem, (adjacency, mix), (numbers, steps) = Problem(spread=3.0), graph(), CASES[recursion]
    iterates = recursion(lambda x: gradients(problem, x), mix, adjacency.astype(float), problem.start)
    models, _ = of_ours(recursion.__name__, numbers, steps)
    np.testing.assert_allclose(models[1:], [next(iterates) for _ in range(ROUNDS)], **CLOSE)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("name", "numbers", "steps", "rounds"),
    [
        ("aug_dgm", {"lr": 0.05}, 1, 4000),
        ("led", {"lr": 0.02}, 4, 4000),
        ("proxskip", {"lr": 0.1, "exchange_probability": 1.0}, 1, 4000),
        ("dlm", {"lr": 0.1, "penalty": 0.5}, 1, 8000),
        ("dinno", {"lr": 0.05, "penalty": 0.5}, 5, 4000),
        ("gt_sarah", {"lr": 0.02}, 1, 8000),
    ],
)
def test_all_reach_the_common_solution_of_unlike_clients(name, numbers, steps, rounds):
    problem, settings = Problem(spread=3.0), Settings(sgd(momentum=False), num_local_steps=steps)
    models = run_long(ALGORITHMS[name](settings), numbers_of(name, **numbers), problem, graph(), rounds)
    assert np.abs(models - problem.solution).max() < 1e-6


def test_skipped_exchanges_still_lead_to_the_common_solution():
    problem, links = Problem(spread=3.0), [graph()] * 3000
    models, _ = of_ours("proxskip", {"exchange_probability": 0.3}, links=links, problem=problem)
    assert np.abs(models[-1] - problem.solution).max() < 1e-6


def test_recursive_differences_of_minibatches_reach_the_common_solution():
    """The noise of v vanishes as the models stand still; that of D-PSGD with the same batches does not."""
    problem, settings = Problem(spread=3.0, batch=2), Settings(sgd(momentum=False))
    far = {}
    for name, more in (("gt_sarah", {"whole_every": 5}), ("dpsgd", {})):
        numbers = numbers_of(name, lr=0.02, **more)
        models = run_long(ALGORITHMS[name](settings), numbers, problem, graph(), 6000)
        far[name] = np.abs(models - problem.solution).max()
    assert far["gt_sarah"] < 1e-5
    assert far["dpsgd"] > 0.01


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("led", {"correction_lr": 1.0, "laziness": 0.5}),
        ("proxskip", {"exchange_probability": 1.0, "laziness": 0.5}),
    ],
)
def test_one_step_and_an_exchange_in_every_round_are_exact_diffusion(name, numbers):
    expected, _ = of_ours("d2", {"laziness": 0.5})
    np.testing.assert_allclose(of_ours(name, numbers)[0], expected, **CLOSE)


def test_whole_gradients_in_every_round_do_not_depend_on_the_period():
    """A minibatch of all samples has the whole gradient, so that the differences add up to it."""
    expected, _ = of_ours("gt_sarah", {"whole_every": 1})
    np.testing.assert_allclose(of_ours("gt_sarah", {"whole_every": 7})[0], expected, **CLOSE)


@pytest.mark.parametrize("name", ["aug_dgm", "led", "proxskip", "dlm", "dinno", "gt_sarah"])
def test_sums_are_kept_over_links_that_come_and_go(name):
    """Corrections and multipliers add up to zero, trackers to the estimates of the gradients."""
    _, state = of_ours(name, {}, links=[graph(), NO_LINKS, graph(), graph(), NO_LINKS])
    kept = {"aug_dgm": "tracked", "gt_sarah": "tracked", "dlm": "multiplier", "dinno": "multiplier"}
    of = Problem.flat(getattr(state, kept.get(name, "correction")))
    of_gradients = {"aug_dgm": "gradient", "gt_sarah": "estimate"}
    total = Problem.flat(getattr(state, of_gradients[name])).sum(axis=0) if name in of_gradients else 0
    assert np.abs(of).max() > 1e-3
    np.testing.assert_allclose(of.sum(axis=0), total, **CLOSE)


def test_a_task_without_whole_gradients_is_refused():
    problem = Problem()
    found = problem.gradient
    problem.gradient = lambda params, key: found(params, key)
    with pytest.raises(UserError, match="has no argument 'whole', by which gt_sarah asks"):
        of_ours("gt_sarah", {}, problem=problem)
