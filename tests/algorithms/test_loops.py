"""Every recursion against its loop in NumPy: models, messages and bits; special cases, and where it converges to."""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from least_squares import NO_LINKS, Problem, graph, run, run_long
from oracles import baselines, innovations, local_work, rivals

from mdfl_jax import UserError
from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.allreduce import ring_bits
from mdfl_jax.algorithms.dfedsam import sharpness_aware
from mdfl_jax.algorithms.local import Settings, sgd
from mdfl_jax.algorithms.registry import numbers_of
from mdfl_jax.algorithms.sgp import push_weights
from mdfl_jax.core.message_bits import total_bits, words
from mdfl_jax.core.rng import own_draws
from mdfl_jax.core.types import Links

ROUNDS = 8
ALWAYS = [graph()] * ROUNDS
SOME = [graph() if t % 3 != 1 else NO_LINKS for t in range(ROUNDS)]
CHANGING = [(graph(), NO_LINKS, graph([(0, 1), (2, 3)]), graph([(1, 4), (4, 3), (0, 2)]))[t % 4] for t in range(ROUNDS)]
WHOLE = 64 * 6  # the bits of six coordinates in double precision
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


class Asked(NamedTuple):
    """What a loop is asked for: a problem, the links of the rounds, and the decay of the weights."""

    problem: Any
    links: list
    decay: float

    @property
    def mixes(self):
        return [mix for _, mix in self.links]

    @property
    def linked(self):
        """The number of rounds with links so far."""
        return np.cumsum([adjacency.any() for adjacency, _ in self.links])

    @property
    def args(self):
        """Where a loop begins, and the gradient, with the decay of the weights in it."""
        return self.problem.start, lambda i, w: self.problem.gradient_of(i, w) + self.decay * w

    def sent(self, factor=lambda t: 1):
        """[R, N] messages: ``factor`` (round) over each link."""
        return np.array([adjacency.sum(axis=0) * factor(t) for t, (adjacency, _) in enumerate(self.links)])


class Loop(NamedTuple):
    """What a loop says of an algorithm with these numbers and settings."""

    models: Any  # [R + 1, N, n]
    messages: Any  # [R, N]
    numbers: dict
    settings: Settings = Settings()
    bits: Any = WHOLE  # of a message, or [R, N] those of the messages of each round
    close: dict = CLOSE


def dpsgd(asked, name="dpsgd"):
    """With a momentum that stays with its client, and a step size that falls from local step to local step."""
    x, velocity, rates = [asked.problem.start], np.zeros((5, 6)), steps_of(LR, 3 * ROUNDS)
    for t, mix in enumerate(asked.mixes):
        y = x[-1]
        for rate in rates[3 * t : 3 * t + 3]:
            velocity = 0.5 * velocity + np.stack([asked.args[1](i, w) for i, w in enumerate(y)])
            y = y - rate * velocity
        x.append(mix @ y if name == "dpsgd" else y)
    settings = Settings(sgd(halving), num_local_steps=3)
    sent = asked.sent() if name == "dpsgd" else 0 * asked.sent()
    return Loop(np.stack(x), sent, {"lr": LR, "momentum": 0.5}, settings, close={"rtol": 1e-6, "atol": 1e-6})


def extra(asked, name="extra"):
    """It waits where nobody has a link."""
    _, mix = graph()
    weights = 2 / 3 * mix + np.eye(5) / 3 if name == "d2" else mix
    models = getattr(baselines, name)(*asked.args, weights, steps_of(0.2, asked.linked[-1]))
    return Loop(models[[0, *asked.linked]], asked.sent(), {"lr": 0.2}, Settings(schedule=halving))


def nids(asked):
    """It waits where nobody has a link, and its first step is local."""
    heard = [mix for adjacency, mix in asked.links if adjacency.any()]
    models = rivals.nids(*asked.args, heard, steps_of(0.2, ROUNDS))
    sent = asked.sent(lambda t: asked.linked[t] > 1)
    return Loop(models[[0, *asked.linked]], sent, {"lr": 0.2}, Settings(schedule=halving))


def gradient_tracking(asked):
    models = rivals.gradient_tracking(*asked.args, asked.mixes, steps_of(0.1, ROUNDS))
    return Loop(models, asked.sent(lambda t: 2 if t else 1), {"lr": 0.1}, Settings(schedule=halving))


def dmgt_svrg(asked):
    """On minibatches of two rows; where the graph falls apart, its parts mix at their own rate."""
    problem, keys = asked.problem, [jax.random.key(t) for t in range(ROUNDS)]
    rows = [np.asarray(problem.drawn(jax.random.fold_in(key, 0))) for key in keys]
    coins = [np.asarray(jax.random.uniform(own_draws(key), (5,), jnp.float32)) < 0.5 for key in keys]
    assert 0 < np.sum(coins[1:]) < 5 * (ROUNDS - 1)

    def gradient(i, w, t=None):
        return problem.gradient_of(i, w, slice(None) if t is None else rows[t][i]) + asked.decay * w

    models = rivals.dmgt_svrg(problem.start, gradient, asked.mixes, steps_of(0.1, ROUNDS), coins, 3)
    numbers = {"lr": 0.1, "gossip_steps": 3, "anchor_probability": 0.5}
    return Loop(models, asked.sent(lambda t: 6 if t else 3), numbers, Settings(schedule=halving))


def dsgdm_n(asked):
    """In optax, which keeps step sizes and momenta in single precision."""
    start, plain = asked.problem.start, asked.problem.gradient_of
    models = baselines.dsgdm_n(start, plain, asked.mixes, steps_of(LR, 3 * ROUNDS), 0.9, 3, asked.decay)
    close = {"rtol": 1e-6, "atol": 1e-6}
    return Loop(models, asked.sent(), {"lr": LR}, Settings(num_local_steps=3, schedule=halving), close=close)


def qg_dsgdm(asked, nesterov=False):
    models = baselines.qg_dsgdm(*asked.args, asked.mixes, steps_of(0.1, ROUNDS), 0.75, 0.875, nesterov)
    numbers = {"lr": 0.1, "momentum": 0.75, "momentum_memory": 0.875}
    return Loop(models, asked.sent(), numbers, Settings(schedule=halving))


def dfedsam(asked):
    start, plain = asked.problem.start, asked.problem.gradient_of
    models = rivals.dfedsam(start, plain, asked.mixes, LR, 0.3, 3, asked.decay)
    return Loop(models, asked.sent(), {"lr": LR, "rho": 0.3}, PLAIN._replace(num_local_steps=3))


def dfedavgm(asked):
    start, plain = asked.problem.start, asked.problem.gradient_of
    models = rivals.dfedavgm(start, plain, asked.mixes, steps_of(0.05, 4 * ROUNDS), 0.9, 4, asked.decay)
    return Loop(models, asked.sent(), {"lr": 0.05}, Settings(num_local_steps=4, schedule=halving))


def kgt(asked):
    """With a step size that is halved from round to round, and batches that are all rows."""
    start, _ = asked.args
    rates = [0.0625 * 0.5**t for t in range(ROUNDS)]
    whole = [[[slice(None)] * 3] * 5] * ROUNDS
    decayed = lambda i, w, rows: asked.problem.gradient_of(i, w) + asked.decay * w  # noqa: E731
    models, _ = local_work.kgt(start, whole, decayed, asked.mixes, rates, 0.5)
    settings = Settings(num_local_steps=3, schedule=lambda k: 0.5 ** (k // 3))
    return Loop(models, asked.sent(lambda t: 2), {"lr": 0.0625, "exchange_lr": 0.5}, settings)


def beer(asked):
    """In round 0 there is no tracked gradient to send yet."""
    models = innovations.beer(*asked.args, asked.mixes, 0.0625, 0.375, innovations.top_k(0.4))
    numbers = {"lr": 0.0625, "consensus_lr": 0.375, "transmission": 0.4}
    return Loop(models, asked.sent(lambda t: 2 if t else 1), numbers, bits=3 * 64 + 6)


def choco(asked, name=""):
    compress, bits = (innovations.scaled_sign, 6 + 64) if name else (innovations.top_k(0.2), 2 * 64 + 6)
    models = innovations.choco(*asked.args, asked.mixes, 0.125, 0.375, compress)
    return Loop(models, asked.sent(), {"lr": 0.125, "consensus_lr": 0.375}, Settings(compressor=name), bits)


def dcd_psgd(asked):
    """With a copy at each neighbour; from a common start, as the paper has it."""
    problem = asked.problem
    problem.start[:] = problem.start[:1]
    models = innovations.dcd(*asked.args, asked.mixes, 0.125, innovations.scaled_sign)
    return Loop(models, asked.sent(), {"lr": 0.125}, Settings(compressor="sign"), 6 + 64)


def squarm_sgd(asked):
    """Three local steps with momentum, halved from round to round, and a trigger that fires for some only."""
    lrs, trigger = [0.0625 * 0.5**t for t in range(ROUNDS)], 2000.0
    compress = innovations.top_k(0.5)
    models, fired = innovations.squarm(*asked.args, asked.mixes, lrs, 0.375, compress, 0.5, 3, trigger)
    assert any(any(some) and not all(some) for some in fired)
    numbers = {"lr": 0.0625, "consensus_lr": 0.375, "momentum": 0.5, "transmission": 0.5, "trigger": trigger}
    setting = Settings(num_local_steps=3, schedule=lambda k: 0.5 ** (k // 3))
    return Loop(models, np.where(fired, asked.sent(), 0), numbers, setting, 3 * 64 + 6)


def anq_nids(asked):
    """As NIDS; the bits are those of the code of the levels that a client sends."""
    heard = [mix for adjacency, mix in asked.links if adjacency.any()]
    models, levels = innovations.anq_nids(*asked.args, heard, 0.125, 0.25, 0.125, 0.5)
    sent, bits = asked.sent(lambda t: asked.linked[t] > 1), np.zeros((ROUNDS, 5), int)
    for t, i in np.argwhere(sent):
        places = [2 * level if level > 0 else 1 - 2 * level for level in levels[asked.linked[t] - 1][i].tolist()]
        bits[t, i] = sent[t, i] * sum(2 * len(f"{place:b}") - 1 for place in places)
    numbers = {"lr": 0.125, "eta": 0.25, "omega": 0.125, "eta_decay": 0.5}
    return Loop(models[[0, *asked.linked]], sent, numbers, bits=bits, close={"rtol": 1e-9, "atol": 1e-9})


LOOPS: dict[str, Callable] = {
    "dpsgd": dpsgd,
    "local_only": lambda asked: dpsgd(asked, "local_only"),
    "extra": extra,
    "d2": lambda asked: extra(asked, "d2"),
    "nids": nids,
    "gradient_tracking": gradient_tracking,
    "dmgt_svrg": dmgt_svrg,
    "dsgdm_n": dsgdm_n,
    "qg_dsgdm": qg_dsgdm,
    "qg_dsgdm_n": lambda asked: qg_dsgdm(asked, nesterov=True),
    "dfedsam": dfedsam,
    "dfedavgm": dfedavgm,
    "kgt": kgt,
    "beer": beer,
    "choco": choco,
    "choco sign": lambda asked: choco(asked, "sign"),
    "dcd_psgd": dcd_psgd,
    "squarm_sgd": squarm_sgd,
    "anq_nids": anq_nids,
}
# The others need the same links in every round.
CHANGE = ("dpsgd", "local_only", "dsgdm_n", "qg_dsgdm", "qg_dsgdm_n", "dfedsam", "dfedavgm", "dmgt_svrg", "kgt")


@pytest.mark.parametrize("case", LOOPS)
def test_an_algorithm_is_its_loop(case):
    """With weight decay and, but for DCD-PSGD, links that come and go."""
    links = CHANGING if case in CHANGE else ALWAYS if case == "dcd_psgd" else SOME
    asked = Asked(Problem(batch=2 if case == "dmgt_svrg" else 0), links, 0.1)
    loop, (name, _, compressor) = LOOPS[case](asked), case.partition(" ")
    hparams = numbers_of(name, compressor, **loop.numbers, weight_decay=asked.decay)
    models, messages, bits, state = run(ALGORITHMS[name](loop.settings), hparams, asked.problem, links)
    np.testing.assert_allclose(models, loop.models, **loop.close)
    np.testing.assert_array_equal(messages, loop.messages)
    np.testing.assert_array_equal(bits, messages * loop.bits if np.ndim(loop.bits) == 0 else loop.bits)
    if name in ("gradient_tracking", "dmgt_svrg"):  # the mean of what is tracked is the mean gradient
        own = state.gradient if name == "gradient_tracking" else state.estimate
        tracked, last = (asked.problem.flat(tree).mean(axis=0) for tree in (state.tracked, own))
        np.testing.assert_allclose(tracked, last, **CLOSE)
    if name == "dcd_psgd":
        np.testing.assert_allclose(state.known, models[-1], rtol=1e-14)  # neighbours know the models exactly


def test_a_schedule_that_ends_at_zero_leaves_the_momentum_finite():
    problem = Problem()
    algorithm = ALGORITHMS["qg_dsgdm"](Settings(schedule=lambda k: jnp.where(k < 3, 1.0, 0.0)))
    models, _, _, state = run(algorithm, numbers_of("qg_dsgdm", lr=LR), problem, ALWAYS)
    np.testing.assert_allclose(models[-1], np.linalg.matrix_power(graph()[1], ROUNDS - 3) @ models[3], **CLOSE)
    assert np.isfinite(problem.flat(state.velocity)).all()


def test_perturbation_has_length_rho_one_minibatch_and_spares_a_zero_gradient():
    seen = []

    def gradient(params, key):
        seen.append((np.asarray(params["w"]), key))
        return jnp.zeros(3), {"w": jnp.array([[3.0, 4.0], [0.0, 0.0], [0.0, -2.0]])}

    sharpness_aware(gradient, 0.5)({"w": jnp.ones((3, 2))}, jax.random.key(4))
    (at, key), (near, same) = seen
    np.testing.assert_allclose(near - at, [[0.3, 0.4], [0, 0], [0, -0.5]], **CLOSE)
    assert key is same


# Where they converge to.


def farthest(name, problem, numbers, rounds, links=None, setting=None, start=None):
    """The largest distance of a client's model from the common solution, after many rounds."""
    setting = setting or (PLAIN if name == "dpsgd" else Settings())
    links = graph() if links is None else links
    models = run_long(ALGORITHMS[name](setting), numbers_of(name, **numbers), problem, links, rounds, start)
    return np.abs(models - problem.solution).max()


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("extra", {"lr": 0.1}),
        ("d2", {"lr": 0.1}),
        ("nids", {"lr": 0.2}),
        ("gradient_tracking", {"lr": 0.05}),
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


def test_a_task_without_whole_gradients_is_refused_by_variance_reduction():
    problem = Problem()
    problem.gradient = lambda params, key: (jnp.zeros(5), params)
    with pytest.raises(UserError, match="has no argument 'whole', by which dmgt_svrg asks"):
        run(ALGORITHMS["dmgt_svrg"](Settings()), numbers_of("dmgt_svrg"), problem, [graph()])


@pytest.mark.parametrize("rate", [0.0, 0.5, 1.0])
def test_gossip_of_several_steps_is_plain_given_or_of_the_links(rate):
    """Without gradients a round is K steps of gossip, which keep the mean; Chebyshev's bring the models nearer."""
    problem, (_, mix) = Problem(), graph()
    problem.gradient = lambda params, key, whole=False: (jnp.zeros(5), jax.tree.map(jnp.zeros_like, params))
    hparams = numbers_of("dmgt_svrg", gossip_steps=4, mixing_rate=rate)
    found = run(ALGORITHMS["dmgt_svrg"](Settings()), hparams, problem, [graph()])[0][1]
    np.testing.assert_allclose(found, rivals.fast_mix(mix, problem.start, 4, None if rate == 1 else rate), **CLOSE)
    np.testing.assert_allclose(found.mean(axis=0), problem.start.mean(axis=0), **CLOSE)
    plain = np.linalg.matrix_power(mix, 4) @ problem.start
    if rate == 0:
        np.testing.assert_allclose(found, plain, **CLOSE)
    if rate == 1:
        assert found.std(axis=0).max() < plain.std(axis=0).max()


def test_dpsgd_stays_in_a_neighbourhood_that_shrinks_with_the_step():
    errors = [farthest("dpsgd", Problem(spread=3.0), {"lr": lr}, 8000) for lr in (0.04, 0.02, 0.01)]
    assert errors[2] > 1e-3  # never there
    for wide, narrow in itertools.pairwise(errors):
        assert 0.4 < narrow / wide < 0.65  # of order of the step


def test_d2_needs_its_laziness_where_the_smallest_eigenvalue_is_below_a_third():
    """Two groups of three, each linked with all of the other: Metropolis-Hastings weights have the eigenvalue -1/2."""
    links = graph([(i, j) for i in range(3) for j in range(3, 6)], 6)
    assert np.linalg.eigvalsh(links[1]).min() < -0.49
    assert farthest("d2", Problem(num_clients=6), {"lr": 0.1}, 4000, links) < 1e-6
    assert not farthest("d2", Problem(num_clients=6), {"lr": 0.1, "laziness": 0.0}, 300, links) < 1e6


# SGP, over links of one direction.


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
    z, _, w = baselines.sgp(problem.start, problem.gradient_of, adjacencies, LR, steps, float(np.float32(decay)))
    assert np.ptp(w[-1]) > 0.5
    np.testing.assert_allclose(models, z, rtol=1e-6, atol=1e-6)  # weight decay is single in optax
    np.testing.assert_allclose(state.weight, w[-1], **CLOSE)
    np.testing.assert_array_equal(messages, [adjacency.sum(axis=0) for adjacency in adjacencies])
    np.testing.assert_array_equal(bits, messages * (WHOLE + 64))  # w is one more number
    assert algorithm.double_bits(hparams, 6) == WHOLE + 64


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


# All-reduce.


@pytest.mark.parametrize("links", [graph(), NO_LINKS], ids=["links", "no links"])
def test_all_reduce_is_descent_on_the_mean_objective_whatever_the_links(links):
    problem, hparams = Problem(), numbers_of("allreduce", lr=LR, momentum=0.5)
    problem.start[:] = problem.start[:1]
    models, messages, bits, _ = run(ALGORITHMS["allreduce"](Settings()), hparams, problem, [links] * 7)
    x, velocity = problem.start[0], 0.0
    for found in models:
        np.testing.assert_allclose(found, np.tile(x, (5, 1)), **CLOSE)
        velocity = 0.5 * velocity + np.mean([problem.gradient_of(i, x) for i in range(5)], axis=0)
        x = x - LR * velocity
    _, sent, coordinates = baselines.ring_allreduce(models[0])
    np.testing.assert_array_equal(messages, np.tile(sent, (7, 1)))
    np.testing.assert_array_equal(bits, np.tile(64 * coordinates, (7, 1)))


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 8), st.integers(1, 30))
def test_ring_counts_are_those_of_passing_chunks_around(num_clients, size):
    """Also where there are fewer coordinates than clients; rows beyond the clients send nothing."""
    values = np.random.default_rng(size).normal(size=(num_clients, size))
    means, _, coordinates = baselines.ring_allreduce(values)
    np.testing.assert_allclose(means, np.tile(values.mean(axis=0), (num_clients, 1)), **CLOSE)
    assert coordinates.sum() == 2 * (num_clients - 1) * size
    found = total_bits(words(ring_bits({"w": np.zeros((9, size), np.float32)}, num_clients)))
    np.testing.assert_array_equal(found, [*(32 * coordinates), *[0] * (9 - num_clients)])
