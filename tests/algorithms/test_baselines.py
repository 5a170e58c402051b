"""EXTRA, D2, DSGDm-N, QG-DSGDm, SGP and all-reduce against loops; special cases, where they converge to, and counts."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from least_squares import NO_LINKS, Problem, graph, run, run_long, types_of_states
from oracles import baselines as oracle

from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.allreduce import ring_bits
from mdfl_jax.algorithms.local import Settings, sgd
from mdfl_jax.algorithms.registry import ignored_by, numbers_of
from mdfl_jax.algorithms.sgp import push_weights
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.message_bits import total_bits, words
from mdfl_jax.core.types import FIXED, SYMMETRIC, Links
from mdfl_jax.engine.checks import check_needs
from mdfl_jax.networks.fixed import fixed_graph

NAMES = ("extra", "d2", "dsgdm_n", "qg_dsgdm", "qg_dsgdm_n", "sgp", "allreduce")
ALWAYS = [graph()] * 7
EVERY_OTHER = [NO_LINKS if t % 2 else graph() for t in range(7)]
CHANGING = [(graph(), NO_LINKS, graph([(0, 1), (2, 3)]), graph([(1, 4), (4, 3), (0, 2)]))[t % 4] for t in range(7)]
COMPLETE = ~np.eye(5, dtype=bool), np.full((5, 5), 0.2)
SENT = graph()[0].sum(axis=0)  # 3, 2, 3, 2, 2
BITS = 64 * 6  # six coordinates in double precision
LR = 0.125  # exact in single precision, in which an optimiser has it
CLOSE = {"rtol": 1e-10, "atol": 1e-10}
PLAIN = Settings(sgd(momentum=False))


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


def halving(step):
    return 0.5 ** (step / 4)


def steps_of(lr, count):
    """lr * schedule in the precision in which the program has it."""
    return [float(lr * halving(jnp.int32(k))) for k in range(count)]


def decayed(problem, decay):
    return lambda i, w: problem.gradient_of(i, w) + decay * w


def alike(problem):
    """Everybody begins with the model of client 0."""
    return np.tile(problem.start[:1], (problem.num_clients, 1))


def check_counts(messages, bits, links, each=BITS):
    for t, (adjacency, _) in enumerate(links):
        np.testing.assert_array_equal(messages[t], adjacency.sum(axis=0))
        np.testing.assert_array_equal(bits[t], each * adjacency.sum(axis=0))


# EXTRA and D2.


@pytest.mark.few(4)
@pytest.mark.parametrize("links", [ALWAYS, EVERY_OTHER], ids=["always", "every other round"])
@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("name", ["extra", "d2"])
def test_corrected_recursions_equal_the_loop(name, links, decay):
    """They wait where nobody has a link, and send one message a link in every other round, the first included."""
    problem, (_, mix) = Problem(), graph()
    hparams = numbers_of(name, lr=0.2, weight_decay=decay)
    models, messages, bits, _ = run(ALGORITHMS[name](Settings(schedule=halving)), hparams, problem, links)
    weights = 2 / 3 * mix + np.eye(5) / 3 if name == "d2" else mix
    steps = np.cumsum([adjacency.any() for adjacency, _ in links])
    expected = getattr(oracle, name)(problem.start, decayed(problem, decay), weights, steps_of(0.2, steps[-1]))
    np.testing.assert_allclose(models, expected[[0, *steps]], **CLOSE)
    check_counts(messages, bits, links)


def test_d2_without_laziness_is_the_papers_and_centralised_over_uniform_weights():
    problem, hparams = Problem(), numbers_of("d2", lr=0.2, laziness=0.0)
    d2 = ALGORITHMS["d2"](Settings())
    expected = oracle.d2(problem.start, problem.gradient_of, graph()[1], [0.2] * 7)
    np.testing.assert_allclose(run(d2, hparams, problem, ALWAYS)[0], expected, **CLOSE)
    models = run(d2, hparams, problem, [COMPLETE] * 7, alike(problem))[0]
    x = problem.start[0]
    for found in models:
        np.testing.assert_allclose(found, np.tile(x, (5, 1)), **CLOSE)
        x = x - 0.2 * np.mean([problem.gradient_of(i, x) for i in range(5)], axis=0)


def test_the_mean_of_extra_follows_the_mean_gradient():
    problem = Problem()
    models = run(ALGORITHMS["extra"](Settings()), numbers_of("extra", lr=0.2), problem, ALWAYS)[0]
    for before, after in itertools.pairwise(models):
        gradients = np.mean([problem.gradient_of(i, before[i]) for i in range(5)], axis=0)
        np.testing.assert_allclose(after.mean(axis=0), before.mean(axis=0) - 0.2 * gradients, **CLOSE)


@pytest.mark.parametrize("name", ["extra", "d2"])
def test_exact_algorithms_reach_the_common_solution(name):
    """Unlike clients, constant step: every model within 1e-6 of the minimiser, where D-PSGD stays 1e-2 away or more."""
    problem = Problem(spread=3.0)
    models = run_long(ALGORITHMS[name](Settings()), numbers_of(name, lr=0.1), problem, graph(), 4000)
    assert np.abs(models - problem.solution).max() < 1e-6
    models = run_long(ALGORITHMS["dpsgd"](PLAIN), numbers_of("dpsgd", lr=0.1), problem, graph(), 4000)
    assert np.abs(models - problem.solution).max() > 1e-2


def test_d2_needs_its_laziness_where_the_smallest_eigenvalue_is_below_a_third():
    """Two groups of three, each linked with all of the other: Metropolis-Hastings weights have the eigenvalue -1/2."""
    problem = Problem(num_clients=6)
    links = graph([(i, j) for i in range(3) for j in range(3, 6)], 6)
    assert np.linalg.eigvalsh(links[1]).min() < -0.49
    d2 = ALGORITHMS["d2"](Settings())
    models = run_long(d2, numbers_of("d2", lr=0.1), problem, links, 4000)
    assert np.abs(models - problem.solution).max() < 1e-6
    models = run_long(d2, numbers_of("d2", lr=0.1, laziness=0.0), problem, links, 300)
    assert not np.abs(models).max() < 1e6


# Momentum.


@pytest.mark.parametrize(("steps", "decay"), [(1, 0.0), (3, 0.1)])
def test_dsgdm_n_equals_the_loop(steps, decay):
    problem, hparams = Problem(), numbers_of("dsgdm_n", lr=LR, weight_decay=decay)
    algorithm = ALGORITHMS["dsgdm_n"](Settings(num_local_steps=steps, schedule=halving))
    models, messages, bits, _ = run(algorithm, hparams, problem, CHANGING)
    mixes, etas = [w for _, w in CHANGING], steps_of(LR, 7 * steps)
    expected = oracle.dsgdm_n(problem.start, problem.gradient_of, mixes, etas, 0.9, steps, decay)
    np.testing.assert_allclose(models, expected, rtol=1e-6, atol=1e-6)  # optax keeps step sizes and momenta single
    check_counts(messages, bits, CHANGING)


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("name", ["qg_dsgdm", "qg_dsgdm_n"])
def test_quasi_global_momentum_equals_the_loop(name, decay):
    problem, hparams = Problem(), numbers_of(name, lr=0.1, momentum=0.75, momentum_memory=0.875, weight_decay=decay)
    models, messages, bits, _ = run(ALGORITHMS[name](Settings(schedule=halving)), hparams, problem, CHANGING)
    mixes = [w for _, w in CHANGING]
    args = problem.start, decayed(problem, decay), mixes, steps_of(0.1, 7), 0.75, 0.875, name == "qg_dsgdm_n"
    np.testing.assert_allclose(models, oracle.qg_dsgdm(*args), **CLOSE)
    check_counts(messages, bits, CHANGING)


def test_no_momentum_is_dpsgd():
    problem = Problem()
    expected = run(ALGORITHMS["dpsgd"](PLAIN), numbers_of("dpsgd", lr=LR), problem, CHANGING)[0]
    for name, changes in (
        ("dsgdm_n", {"momentum": 0.0}),
        ("qg_dsgdm", {"momentum": 0.0}),
        ("qg_dsgdm_n", {"momentum": 0.0}),
        ("qg_dsgdm", {"momentum_memory": 1.0}),  # the quasi-global momentum stays at zero
    ):
        models = run(ALGORITHMS[name](Settings()), numbers_of(name, lr=LR, **changes), problem, CHANGING)[0]
        np.testing.assert_allclose(models, expected, **CLOSE)


def centralised(problem, x, rounds, step_of):
    """x <- x - step_of(mean gradient, memory), the memory being a vector that step_of also returns."""
    path, memory = [x], np.zeros_like(x)
    for _ in range(rounds):
        step, memory = step_of(np.mean([problem.gradient_of(i, x) for i in range(5)], axis=0), memory)
        x = x - step
        path.append(x)
    return np.stack(path)


def nesterov(g, m):
    m = 0.5 * m + g
    return LR * (0.5 * m + g), m


def quasi_hyperbolic(g, m_hat):
    """QG-DSGDm where all are alike: m_hat takes up what the models moved by, over eta."""
    m = 0.5 * m_hat + g
    return LR * m, 0.75 * m_hat + 0.25 * m


@pytest.mark.parametrize(("name", "step_of"), [("dsgdm_n", nesterov), ("qg_dsgdm", quasi_hyperbolic)])
def test_uniform_weights_on_the_complete_graph_make_it_centralised(name, step_of):
    problem, changes = Problem(), {"momentum_memory": 0.75} if name == "qg_dsgdm" else {}
    hparams = numbers_of(name, lr=LR, momentum=0.5, **changes)
    models = run(ALGORITHMS[name](Settings()), hparams, problem, [COMPLETE] * 7, alike(problem))[0]
    expected = centralised(problem, problem.start[0], 7, step_of)
    np.testing.assert_allclose(models, np.repeat(expected[:, None], 5, axis=1), **CLOSE)


def test_a_schedule_that_ends_at_zero_leaves_the_momentum_finite():
    problem = Problem()
    algorithm = ALGORITHMS["qg_dsgdm"](Settings(schedule=lambda k: jnp.where(k < 3, 1.0, 0.0)))
    models, _, _, state = run(algorithm, numbers_of("qg_dsgdm", lr=LR), problem, ALWAYS)
    np.testing.assert_allclose(models[-1], np.linalg.matrix_power(graph()[1], 4) @ models[3], **CLOSE)
    assert np.isfinite(problem.flat(state.velocity)).all()


# SGP.


def directed(rng, num_clients=5, density=0.4):
    """Links of one direction, with a circle that makes all reach all."""
    adjacency = rng.random((num_clients, num_clients)) < density
    np.fill_diagonal(adjacency, False)
    adjacency[(np.arange(num_clients) + 1) % num_clients, np.arange(num_clients)] = True
    return adjacency


@pytest.mark.parametrize(("steps", "decay"), [(1, 0.0), (3, 0.1)])
def test_sgp_equals_the_messages_one_by_one(steps, decay):
    problem, rng = Problem(), np.random.default_rng(0)
    hparams = numbers_of("sgp", lr=LR, weight_decay=decay)
    adjacencies = [directed(rng) if t % 3 else np.zeros((5, 5), bool) for t in range(7)]
    links = [(adjacency, np.full((5, 5), np.nan)) for adjacency in adjacencies]  # the network's weights are not used
    algorithm = ALGORITHMS["sgp"](PLAIN._replace(num_local_steps=steps))
    models, messages, bits, state = run(algorithm, hparams, problem, links)
    z, _, w = oracle.sgp(problem.start, problem.gradient_of, adjacencies, LR, steps, float(np.float32(decay)))
    assert np.ptp(w[-1]) > 0.5
    np.testing.assert_allclose(models, z, rtol=1e-6, atol=1e-6)  # weight decay is single in optax
    np.testing.assert_allclose(state.weight, w[-1], **CLOSE)
    check_counts(messages, bits, links, BITS + 64)  # w is one more number
    assert algorithm.double_bits(hparams, 6) == BITS + 64


PUSH = ALGORITHMS["sgp"](PLAIN)


@jax.jit
def push_once(state, links):
    """A round without gradients."""
    still = lambda params, key: (jnp.zeros(6), jax.tree.map(jnp.zeros_like, params))  # noqa: E731
    return PUSH.round(numbers_of("sgp"), jax.random.key(0), state, links, still)[0]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_pushing_keeps_the_sums(seed, density):
    """Gradients of zero: the sums of x = w z and of w stay; P is column-stochastic, and zero where nobody hears."""
    rng = np.random.default_rng(seed)
    adjacency = directed(rng, 6, density)
    with jax.enable_x64(True):
        pushed = np.asarray(push_weights(jnp.asarray(adjacency)))
        np.testing.assert_allclose(pushed.sum(axis=0), 1, **CLOSE)
        assert ((pushed > 0) == (adjacency | np.eye(6, dtype=bool))).all()
        z = rng.normal(size=(6, 3))
        state, links = PUSH.init(numbers_of("sgp"), {"w": jnp.asarray(z)}), Links(jnp.asarray(adjacency), jnp.eye(6))
        for _ in range(4):
            state = push_once(state, links)
            weight = np.asarray(state.weight)
            np.testing.assert_allclose(weight.sum(), 6, **CLOSE)
            np.testing.assert_allclose(weight @ np.asarray(state.params["w"]), z.sum(axis=0), **CLOSE)


def test_push_sum_finds_the_exact_average_and_row_weights_do_not():
    problem, adjacency = Problem(), directed(np.random.default_rng(3))
    problem.gradient = lambda params, key: (jnp.zeros(5), jax.tree.map(jnp.zeros_like, params))
    mean = problem.start.mean(axis=0)
    uniform = (adjacency + np.eye(5)) / (adjacency + np.eye(5)).sum(axis=1, keepdims=True)
    models = run_long(ALGORITHMS["sgp"](PLAIN), numbers_of("sgp"), problem, (adjacency, uniform), 300)
    np.testing.assert_allclose(models, np.tile(mean, (5, 1)), **CLOSE)
    models = run_long(ALGORITHMS["dpsgd"](PLAIN), numbers_of("dpsgd"), problem, (adjacency, uniform), 300)
    assert np.abs(models - mean).max() > 0.05


def test_sgp_on_a_regular_undirected_graph_is_dpsgd():
    problem, links = Problem(), [(COMPLETE[0], COMPLETE[1])] * 5
    models, _, _, state = run(ALGORITHMS["sgp"](PLAIN), numbers_of("sgp", lr=LR), problem, links)
    np.testing.assert_allclose(models, run(ALGORITHMS["dpsgd"](PLAIN), numbers_of("dpsgd", lr=LR), problem, links)[0])
    np.testing.assert_allclose(state.weight, 1, **CLOSE)


# All-reduce.


@pytest.mark.parametrize("links", [ALWAYS, [NO_LINKS] * 4], ids=["links", "no links"])
def test_allreduce_is_descent_on_the_mean_objective_whatever_the_links(links):
    problem = Problem()
    algorithm = ALGORITHMS["allreduce"](Settings())
    hparams = numbers_of("allreduce", lr=LR, momentum=0.5)
    models, messages, bits, _ = run(algorithm, hparams, problem, links, alike(problem))

    def heavy_ball(g, m):
        m = 0.5 * m + g
        return LR * m, m

    expected = centralised(problem, problem.start[0], len(links), heavy_ball)
    np.testing.assert_allclose(models, np.repeat(expected[:, None], 5, axis=1), **CLOSE)
    _, sent, coordinates = oracle.ring_allreduce(models[0])
    np.testing.assert_array_equal(messages, np.tile(sent, (len(links), 1)))
    np.testing.assert_array_equal(bits, np.tile(64 * coordinates, (len(links), 1)))


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 8), st.integers(1, 30))
def test_ring_counts_are_those_of_passing_chunks_around(num_clients, size):
    """Also where there are fewer coordinates than clients; rows beyond the clients send nothing."""
    values = np.random.default_rng(size).normal(size=(num_clients, size))
    means, _, coordinates = oracle.ring_allreduce(values)
    np.testing.assert_allclose(means, np.tile(values.mean(axis=0), (num_clients, 1)), **CLOSE)
    assert coordinates.sum() == 2 * (num_clients - 1) * size
    found = total_bits(words(ring_bits({"w": np.zeros((9, size), np.float32)}, num_clients)))
    np.testing.assert_array_equal(found, [*(32 * coordinates), *[0] * (9 - num_clients)])


def test_allreduce_leaves_padding_rows_out():
    problem, rows = Problem(), 7
    algorithm, hparams = ALGORITHMS["allreduce"](PLAIN), numbers_of("allreduce", lr=LR)
    start = {"w": jnp.asarray(np.concatenate([problem.start, np.full((2, 6), 1e6)]))}
    links = Links(jnp.zeros((rows, rows), bool), jnp.eye(rows), real=5)
    still = lambda params, key: (jnp.zeros(rows), jax.tree.map(jnp.zeros_like, params))  # noqa: E731
    state, stats = algorithm.round(hparams, jax.random.key(0), algorithm.init(hparams, start), links, still)
    np.testing.assert_allclose(state.params["w"][:5], np.tile(problem.start.mean(axis=0), (5, 1)), **CLOSE)
    assert stats.messages.tolist() == [8] * 5 + [0, 0]


# All of them.


def test_what_they_need_and_their_defaults():
    ring, directed_ring = fixed_graph(6), fixed_graph(6, "exponential")
    moving = fixed_graph(6, "one_peer_exponential")
    for name in ("extra", "d2"):
        algorithm = ALGORITHMS[name](Settings())
        assert algorithm.needs == {"adjacency", "mix", SYMMETRIC, FIXED}
        check_needs(algorithm, ring, name)
        with pytest.raises(UserError, match=f"^{name} needs symmetric mixing weights, which"):
            check_needs(algorithm, directed_ring, name)
        assert {"momentum", "local_steps", "optimizer", "compressor"} <= ignored_by(name)
    for name in ("sgp", "allreduce", "dsgdm_n", "qg_dsgdm", "qg_dsgdm_n"):
        check_needs(ALGORITHMS[name](Settings()), moving, name)
    assert numbers_of("d2").laziness == pytest.approx(1 / 3)
    assert (
        numbers_of("dsgdm_n").momentum
        == numbers_of("qg_dsgdm").momentum
        == numbers_of("qg_dsgdm").momentum_memory
        == 0.9
    )
    assert numbers_of("sgp").momentum == numbers_of("allreduce").momentum == 0
    for name in ("extra", "d2", "dsgdm_n", "qg_dsgdm", "qg_dsgdm_n"):
        assert ALGORITHMS[name](Settings()).double_bits(None, 10) == 640, name
    assert ALGORITHMS["allreduce"](Settings()).double_bits is None


@pytest.mark.parametrize("name", NAMES)
def test_precision_is_kept(name):
    """Single-precision models stay so, in the state too, also where double is on."""
    before, after = types_of_states(ALGORITHMS[name](Settings()), numbers_of(name))
    assert after == before
