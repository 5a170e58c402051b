"""NIDS, gradient tracking, DFedSAM, DFedAvgM and epidemic learning against loops; what they converge to, and counts."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from least_squares import NO_LINKS, Problem, graph, run, run_long, types_of_states
from oracles import rivals as oracle

from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.dfedavgm import dfedavgm
from mdfl_jax.algorithms.dfedsam import dfedsam, sharpness_aware
from mdfl_jax.algorithms.dpsgd import dpsgd
from mdfl_jax.algorithms.epidemic import epidemic, epidemic_oracle
from mdfl_jax.algorithms.gradient_tracking import gradient_tracking
from mdfl_jax.algorithms.local import Settings, sgd
from mdfl_jax.algorithms.nids import nids
from mdfl_jax.algorithms.registry import numbers_of
from mdfl_jax.core.rng import own_draws
from mdfl_jax.core.types import SYMMETRIC
from mdfl_jax.exchange.peers import random_receivers, random_regular_part
from mdfl_jax.networks.fixed import fixed_graph

NAMES = ("nids", "gradient_tracking", "dfedsam", "dfedavgm", "epidemic", "epidemic_oracle")
EVERY_OTHER = [graph() if t % 2 == 0 else NO_LINKS for t in range(7)]
SENT = graph()[0].sum(axis=0)  # 3, 2, 3, 2, 2
BITS = 64 * 6  # six coordinates in double precision
LR = 0.125  # exact in single precision, in which an optimiser has it
CLOSE = {"rtol": 1e-10, "atol": 1e-10}


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


def halving(step):
    return 0.5 ** (step / 4)


def steps_of(lr, count):
    """lr * schedule in the precision in which the program has it."""
    return [float(lr * halving(jnp.int32(k))) for k in range(count)]


@pytest.mark.parametrize("links", [[graph()] * 7, EVERY_OTHER], ids=["always", "every other round"])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_nids_equals_the_loop(links, decay):
    problem = Problem()
    hparams = numbers_of("nids", lr=0.2, weight_decay=decay)
    models, messages, bits, _ = run(nids(Settings(schedule=halving)), hparams, problem, links)
    etas = steps_of(0.2, 7)
    gradient = lambda i, w: problem.gradient_of(i, w) + decay * w  # noqa: E731
    steps = np.cumsum([adjacency.any() for adjacency, _ in links])  # it waits where nobody has a link
    expected = oracle.nids(problem.start, gradient, [w for a, w in links if a.any()], etas)
    np.testing.assert_allclose(models, expected[[0, *steps]], **CLOSE)
    for t, (adjacency, _) in enumerate(links):  # the first step is local
        expected = SENT if steps[t] > 1 and adjacency.any() else 0 * SENT
        np.testing.assert_array_equal(messages[t], expected)
        np.testing.assert_array_equal(bits[t], BITS * expected)


@pytest.mark.parametrize("links", [[graph()] * 7, EVERY_OTHER], ids=["always", "every other round"])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_gradient_tracking_equals_the_loop(links, decay):
    problem = Problem()
    hparams = numbers_of("gradient_tracking", lr=0.1, weight_decay=decay)
    models, messages, bits, state = run(gradient_tracking(Settings(schedule=halving)), hparams, problem, links)
    etas = steps_of(0.1, 7)
    gradient = lambda i, w: problem.gradient_of(i, w) + decay * w  # noqa: E731
    expected = oracle.gradient_tracking(problem.start, gradient, [w for _, w in links], etas)
    np.testing.assert_allclose(models, expected, **CLOSE)
    for t, (adjacency, _) in enumerate(links):
        sent = (1 if t == 0 else 2) * SENT if adjacency.any() else 0 * SENT
        np.testing.assert_array_equal(messages[t], sent)
        np.testing.assert_array_equal(bits[t], BITS * sent)
    # The mean of what is tracked is the mean gradient.
    tracked, last = (problem.flat(tree) for tree in (state.tracked, state.gradient))
    np.testing.assert_allclose(tracked.mean(axis=0), last.mean(axis=0), **CLOSE)


@pytest.mark.parametrize(("name", "lr"), [("nids", 0.2), ("gradient_tracking", 0.05)])
def test_exact_algorithms_reach_the_common_solution(name, lr):
    """Unlike clients, constant step: every model within 1e-6 of the minimiser of the mean of all objectives."""
    problem = Problem(spread=3.0)
    models = run_long(ALGORITHMS[name](Settings()), numbers_of(name, lr=lr), problem, graph(), 4000)
    assert np.abs(models - problem.solution).max() < 1e-6


def test_dpsgd_stays_in_a_neighbourhood_that_shrinks_with_the_step():
    problem = Problem(spread=3.0)
    errors = []
    for lr in (0.04, 0.02, 0.01):
        models = run_long(dpsgd(Settings(sgd(momentum=False))), numbers_of("dpsgd", lr=lr), problem, graph(), 8000)
        errors.append(np.abs(models - problem.solution).max())
    assert errors[2] > 1e-3  # never there
    for wide, narrow in itertools.pairwise(errors):
        assert 0.4 < narrow / wide < 0.65  # of order of the step


@pytest.mark.parametrize(("steps", "decay"), [(1, 0.0), (3, 0.1)])
def test_dfedsam_equals_the_loop(steps, decay):
    problem = Problem()
    hparams = numbers_of("dfedsam", lr=LR, rho=0.3, weight_decay=decay)
    algorithm = dfedsam(Settings(sgd(momentum=False), num_local_steps=steps))
    models, messages, bits, _ = run(algorithm, hparams, problem, EVERY_OTHER)
    mixes = [w for _, w in EVERY_OTHER]
    expected = oracle.dfedsam(problem.start, problem.gradient_of, mixes, LR, 0.3, steps, decay)
    np.testing.assert_allclose(models, expected, **CLOSE)
    np.testing.assert_array_equal(messages, [SENT * (t % 2 == 0) for t in range(7)])
    np.testing.assert_array_equal(bits, BITS * messages)


def test_perturbation_has_length_rho_one_minibatch_and_spares_a_zero_gradient():
    seen = []

    def gradient(params, key):
        seen.append((np.asarray(params["w"]), key))
        return jnp.zeros(3), {"w": jnp.array([[3.0, 4.0], [0.0, 0.0], [0.0, -2.0]])}

    sharpness_aware(gradient, 0.5)({"w": jnp.ones((3, 2))}, jax.random.key(4))
    (at, key), (near, same) = seen
    np.testing.assert_allclose(near - at, [[0.3, 0.4], [0, 0], [0, -0.5]], **CLOSE)
    assert key is same


@pytest.mark.parametrize(("steps", "decay"), [(1, 0.0), (4, 0.1)])
def test_dfedavgm_equals_the_loop(steps, decay):
    problem = Problem()
    hparams = numbers_of("dfedavgm", lr=0.05, weight_decay=decay)
    algorithm = dfedavgm(Settings(num_local_steps=steps, schedule=halving))
    models, messages, bits, _ = run(algorithm, hparams, problem, EVERY_OTHER)
    etas = steps_of(0.05, 7 * steps)
    mixes = [w for _, w in EVERY_OTHER]
    expected = oracle.dfedavgm(problem.start, problem.gradient_of, mixes, etas, 0.9, steps, decay)
    np.testing.assert_allclose(models, expected, **CLOSE)
    np.testing.assert_array_equal(messages, [SENT * (t % 2 == 0) for t in range(7)])
    np.testing.assert_array_equal(bits, BITS * messages)


def test_special_cases_are_dpsgd():
    """No perturbation; one step of a ball at rest; nothing picked by chance where there are two clients."""
    problem = Problem()
    hparams = numbers_of("dpsgd", lr=LR)
    links = [graph()] * 4
    plain = Settings(sgd(momentum=False))
    expected = run(dpsgd(plain), hparams, problem, links)[0]
    still = numbers_of("dfedsam", lr=LR, rho=0.0)
    np.testing.assert_allclose(run(dfedsam(plain), still, problem, links)[0], expected, **CLOSE)
    np.testing.assert_allclose(run(dfedavgm(), hparams.replace(momentum=0.9), problem, links)[0], expected, **CLOSE)
    two, pair = Problem(num_clients=2), [(np.array([[0, 1], [1, 0]], bool), np.full((2, 2), 0.5))] * 4
    expected = run(dpsgd(plain), hparams, two, pair)[0]
    peers = numbers_of("epidemic", lr=LR, num_peers=2)
    for algorithm in (epidemic, epidemic_oracle):
        np.testing.assert_allclose(run(algorithm(plain), peers, two, pair)[0], expected, **CLOSE)


def test_heavy_ball_is_what_the_optimiser_does_in_one_round():
    problem, schedule = Problem(), optax.constant_schedule(1.0)
    hparams = numbers_of("dfedavgm", lr=LR)
    ours = run(dfedavgm(Settings(num_local_steps=5, schedule=schedule)), hparams, problem, [graph()])[0]
    other = run(dpsgd(Settings(sgd(), num_local_steps=5)), hparams, problem, [graph()])[0]
    np.testing.assert_allclose(ours, other, **CLOSE)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["epidemic", "epidemic_oracle"])
@pytest.mark.parametrize("where", ["complete", "small graph"])
def test_epidemic_equals_the_loop(name, where):
    problem = Problem()
    adjacency = ~np.eye(5, dtype=bool) if where == "complete" else graph()[0]
    hparams = numbers_of(name, lr=LR, num_peers=2)
    draw = {"epidemic": random_receivers, "epidemic_oracle": random_regular_part}[name]
    received = [np.asarray(draw(own_draws(jax.random.key(t)), jnp.asarray(adjacency), 2)) for t in range(6)]
    settings = Settings(sgd(momentum=False), num_local_steps=2)
    models, messages, bits, _ = run(ALGORITHMS[name](settings), hparams, problem, [(adjacency, np.eye(5))] * 6)
    sends = [[np.flatnonzero(table[:, j]) for j in range(5)] for table in received]
    np.testing.assert_allclose(models, oracle.epidemic(problem.start, problem.gradient_of, sends, LR, 2), **CLOSE)
    if name == "epidemic" or where == "complete":  # the small graph has one circle through all only
        assert len({table.tobytes() for table in received}) > 1
    assert all(not (table & ~adjacency).any() for table in received)
    if name == "epidemic" or where == "complete":  # all have two neighbours or more
        np.testing.assert_array_equal(messages, 2)
    np.testing.assert_array_equal(bits, BITS * messages)


def test_local_receivers_are_uniform_and_bounded_by_who_hears():
    keys = jax.random.split(jax.random.key(0), 2000)
    many = jax.jit(jax.vmap(random_receivers, in_axes=(0, None, None)))
    sent = np.asarray(many(keys, ~jnp.eye(7, dtype=bool), 2))
    assert (sent.sum(axis=1) == 2).all()
    share = sent.mean(axis=0)[~np.eye(7, dtype=bool)]
    assert (np.abs(share - 1 / 3) < 4.5 * np.sqrt(2 / 9 / 2000)).all()
    one_way = np.zeros((7, 7), bool)
    one_way[0, 1:] = True  # client 0 hears all, nobody hears it
    few = np.asarray(many(keys[:3], jnp.asarray(one_way), 2))
    np.testing.assert_array_equal(few, np.broadcast_to(one_way, few.shape))


@pytest.mark.few(2)
@pytest.mark.parametrize(("n", "degree"), [(6, 2), (6, 3), (8, 3), (8, 7), (9, 4), (20, 7)])
def test_oracle_graphs_are_regular_symmetric_and_alike_for_all(n, degree):
    draw = jax.jit(jax.vmap(random_regular_part, in_axes=(0, None, None)))
    graphs = np.asarray(draw(jax.random.split(jax.random.key(n), 500), ~jnp.eye(n, dtype=bool), degree))
    assert (graphs == graphs.swapaxes(1, 2)).all()
    assert not graphs[:, np.arange(n), np.arange(n)].any()
    assert graphs.sum(axis=2).max() <= degree
    regular = (graphs.sum(axis=2) == degree).all(axis=1)
    assert regular.mean() > 0.99
    share = graphs.mean(axis=0)[~np.eye(n, dtype=bool)]
    wanted = degree / (n - 1)
    assert (np.abs(share - wanted) < 5 * np.sqrt(wanted * (1 - wanted) / 500) + 0.01).all()


def test_oracle_of_odd_sum_leaves_one_client_one_short():
    draw = jax.jit(jax.vmap(random_regular_part, in_axes=(0, None, None)))
    degrees = np.sort(np.asarray(draw(jax.random.split(jax.random.key(0), 100), ~jnp.eye(7, dtype=bool), 3)).sum(2))
    assert (degrees == [2, 3, 3, 3, 3, 3, 3]).all(axis=1).mean() > 0.95


@pytest.mark.parametrize("seed", range(5))
def test_oracle_graphs_inside_a_network_are_maximal(seed):
    """Nobody has more links than asked, and no two in range both lack one and are not linked."""
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((12, 12)) < 0.35, 1)
    adjacency = upper | upper.T
    adjacency[3, 4], adjacency[4, 3] = True, False  # of one direction: not used
    found = np.asarray(random_regular_part(jax.random.key(seed), jnp.asarray(adjacency), 3))
    mutual = adjacency & adjacency.T
    assert (found == found.T).all()
    assert not (found & ~mutual).any()
    lacks = found.sum(axis=1) < np.minimum(3, mutual.sum(axis=1))
    assert found.sum(axis=1).max() <= 3
    assert not (mutual & ~found & lacks[:, None] & lacks[None, :]).any()


def test_what_they_need_and_their_defaults():
    for name in ("nids", "gradient_tracking"):
        assert SYMMETRIC in ALGORITHMS[name](Settings()).needs
        assert ALGORITHMS[name](Settings()).needs <= fixed_graph(6).gives
        assert not ALGORITHMS[name](Settings()).needs <= fixed_graph(6, "exponential").gives
    assert ALGORITHMS["epidemic"](Settings()).needs == frozenset({"adjacency"})
    assert numbers_of("dfedavgm").momentum == 0.9
    assert numbers_of("dfedsam").rho == 0.01
    assert numbers_of("epidemic").num_peers == 7
    assert all(ALGORITHMS[name](Settings()).double_bits(None, 10) == 640 for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_precision_is_kept(name):
    """Single-precision models stay so, in the state too, also where double is on."""
    before, after = types_of_states(ALGORITHMS[name](Settings()), numbers_of(name))
    assert after == before
