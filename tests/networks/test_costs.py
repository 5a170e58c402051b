"""Seconds and joules of rounds and runs, on one device and on several; what an algorithm computes and sends."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from collectives import unordered
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import costs as oracle
from small import toy_dataset, toy_hparams
from worlds import holding

from mdfl_jax import Hparams, Schedule
from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.allreduce import ring
from mdfl_jax.algorithms.dpsgd import dpsgd
from mdfl_jax.algorithms.local import LocalNumbers, Settings
from mdfl_jax.algorithms.pame import PaMENumbers
from mdfl_jax.algorithms.registry import ignored_by, resolved
from mdfl_jax.core.message_bits import count_bits, sparse_bits, total_bits, words
from mdfl_jax.core.sharding import client_mesh
from mdfl_jax.core.types import Links, Observed, RoundStats
from mdfl_jax.data.partition import PartitionNumbers
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.mobility.plane import Motion
from mdfl_jax.models import make_model
from mdfl_jax.networks import GraphParams, fixed_graph, partial_participation, spatial
from mdfl_jax.networks.costs import (
    CostParams,
    CountedParams,
    LinkLoad,
    Work,
    add,
    counted,
    gradient_calls,
    link_filter,
    no_total,
    probe,
    work_of,
)
from mdfl_jax.networks.wrappers.participation import ParticipationParams
from mdfl_jax.tasks import classification

N = 5
NUMBERS = {"seconds_per_sample": 0.01, "bandwidth": 1000.0, "latency": 0.05, "deadline": np.inf, "round_seconds": 0.0}
NUMBERS |= {
    "joules_per_bit": 0.002,
    "joules_per_bit_received": 0.001,
    "joules_per_sample": 0.5,
    "joules_per_metre": 3.0,
}


def params_of(numbers, speeds=None):
    given = {name: np.float32(value) for name, value in numbers.items()}
    return CountedParams(GraphParams(), CostParams(**given, speeds=speeds))


numbers = st.fixed_dictionaries(
    {name: st.floats(0, 10) for name in NUMBERS} | {"bandwidth": st.floats(1, 1e6), "deadline": st.floats(0.1, 100)}
)


@pytest.mark.long
@given(numbers, st.integers(0, 10**6), st.booleans())
@settings(deadline=None, max_examples=40, derandomize=True)
def test_a_round_costs_what_the_oracle_says(numbers, seed, minibatch):
    rng = np.random.default_rng(seed)
    held, speeds = rng.integers(0, 50, N), rng.uniform(0.2, 3, N).astype(np.float32)
    adjacency = rng.random((N, N)) < 0.4
    np.fill_diagonal(adjacency, False)
    messages, size = rng.integers(0, 9, N) * adjacency.any(axis=0), int(rng.integers(1, 10**6))
    work = Work(gradients=2, batch_size=8 if minibatch else 0)
    network = counted(fixed_graph(N, "ring"), work)
    params = params_of(numbers, speeds)
    start = network.init(params, jax.random.key(seed), holding(held))
    stats = RoundStats(jnp.zeros(N), jnp.asarray(messages, jnp.int32), count_bits(jnp.asarray(messages), size))
    found = network.observe(params, start, Observed(Links(jnp.asarray(adjacency), None), stats, None))
    samples = 2 * (np.where(held > 0, 8, 0) if minibatch else held)
    seconds = oracle.round_seconds(numbers, samples, speeds, messages, messages * size)
    np.testing.assert_allclose(found.seconds.value, seconds, rtol=1e-5, atol=1e-30)
    joules = oracle.round_joules(numbers, samples, messages, messages * size, adjacency)
    np.testing.assert_allclose(found.worked.value, joules, rtol=1e-5, atol=1e-30)
    again = network.observe(params, found, Observed(Links(jnp.asarray(adjacency), None), stats, None))
    np.testing.assert_allclose(again.seconds.value, 2 * found.seconds.value, rtol=1e-6)


def test_a_million_short_rounds_are_added_without_drift():
    """A plain sum in single precision of 0.1 is wrong by 1 % after a million additions."""
    short = jnp.float32(0.1)
    total = jax.jit(lambda: jax.lax.fori_loop(0, 10**6, lambda _, total: add(total, short), no_total()))()
    np.testing.assert_allclose(total.value, 10**6 * float(short), rtol=1e-6)
    plain = jax.jit(lambda: jax.lax.fori_loop(0, 10**6, lambda _, total: total + short, jnp.float32(0)))()
    assert abs(plain / 1e5 - 1) > 5e-3


def simulation_of(num_clients=6, num_devices=1, thinned=False, counts=True, eval_every=1):
    """Clients on a grid whose contacts are short, of unequal speeds, in minibatches and two local steps."""
    mesh = client_mesh(jax.devices()[:num_devices])
    work, rules = Work(2, 10), ("static", "random_movement")
    short = link_filter(work, "resume", deadline=True)
    world = spatial(num_clients, 5, rules, contact="swept", link_filter=short)
    world = partial_participation(world) if thinned else world
    world = counted(world, work) if counts else world
    task = classification(toy_dataset(), make_model("linear", 3), num_clients, "iid", batch_size=10, mesh=mesh)
    return Simulation(task, world, dpsgd(Settings(num_local_steps=2)), Schedule(6, eval_every))


def hparams_of(thinned=False):
    cost = {name: np.float32(value) for name, value in NUMBERS.items()}
    cost = CostParams(**cost | {"deadline": np.float32(0.3), "round_seconds": np.float32(2.0)})
    cost = cost._replace(speed_spread=np.float32(0.4), link_bits=np.float32(51 * 32))
    hparams = toy_hparams(num_mobile=4, radius=2.5)
    network = hparams.network._replace(link_filter=cost, motion=Motion(dt=np.float32(2.0)))
    if thinned:
        network = ParticipationParams(network, np.float32(1.0), np.int32(2))
    return hparams._replace(network=CountedParams(network, cost))


def history_of(simulation, hparams, seed=0):
    """The metrics of each evaluation, the network's last state, and the text of the compiled rounds."""
    carry, first = jax.jit(simulation.init)(simulation.data, hparams, jax.random.key(seed))
    advance = jax.jit(simulation.advance).lower(simulation.data, hparams, jax.random.key(seed), carry).compile()
    found = [first]
    for _ in range(simulation.num_evaluations):
        carry, metrics = advance(simulation.data, hparams, jax.random.key(seed), carry)
        found.append(metrics)
    return jax.device_get(found), jax.device_get(carry.network), advance.as_text()


@pytest.mark.long
@pytest.mark.parametrize("thinned", [False, True])
def test_a_run_adds_up_its_rounds(thinned):
    """Of every round of a run with an evaluation after each: bits, messages and movement give seconds and joules."""
    history, state, _ = history_of(simulation_of(thinned=thinned), hparams_of(thinned))
    samples = np.full(6, 20)
    speeds = 20 * 0.01 / state.computing
    assert len(set(speeds)) == 6
    numbers = NUMBERS | {"deadline": 0.3, "round_seconds": 2.0, "joules_per_bit_received": 0.0}
    seconds, joules = 0.0, np.zeros(6)
    bits = [total_bits(one.bits) for one in history]
    assert bits[-1].sum() > 0
    for t in range(1, len(history)):
        assert history[t].seconds.shape == ()
        sent, messages = bits[t] - bits[t - 1], history[t].messages - history[t - 1].messages
        seconds += oracle.round_seconds(numbers, samples, speeds, messages, sent)
        joules += oracle.round_joules(numbers, samples, messages, sent, np.zeros((6, 6), bool))
        np.testing.assert_allclose(history[t].seconds, seconds, rtol=1e-5)
        received = NUMBERS["joules_per_bit_received"] * bits[t].sum()  # all that is sent is received by somebody
        moved = NUMBERS["joules_per_metre"] * history[t].distance_moved
        np.testing.assert_allclose(history[t].joules.sum(), (joules + moved).sum() + received, rtol=1e-5)
        assert (history[t].joules >= (joules + moved) * (1 - 1e-5)).all()
    assert history[-1].distance_moved.any()
    assert seconds > 6 * 2.0  # some rounds last longer than their movement


@pytest.mark.long
def test_counting_changes_nothing_else():
    """The learning is that of the same network without the count, bit for bit."""
    hparams = hparams_of()
    with_costs, _, _ = history_of(simulation_of(), hparams)
    without, _, _ = history_of(simulation_of(counts=False), hparams._replace(network=hparams.network.inner))
    for one, other in zip(with_costs, without):
        assert set(one) - set(other) == {"seconds", "joules"}
        for name in other:
            np.testing.assert_array_equal(one[name], other[name])


@pytest.mark.long
@pytest.mark.parametrize("num_clients", [6, 8])
def test_several_devices_count_what_one_counts(num_clients):
    """Also where the devices do not divide the clients; and no collective may run beside another (`collectives`)."""
    (one, _, _), (several, _, text) = (
        history_of(simulation_of(num_clients, devices, eval_every=6), hparams_of()) for devices in (1, 4)
    )
    for a, b in zip(one, several):
        np.testing.assert_array_equal(a.seconds, b.seconds)
        np.testing.assert_array_equal(a.joules, b.joules)
        np.testing.assert_array_equal(a.messages, b.messages)
    assert one[-1].bits.any()
    assert unordered(text)[1] == []


def test_a_gradient_over_all_samples_costs_those_of_the_clients_that_computed_it():
    network, params = counted(fixed_graph(2, "ring"), Work(2, 8)), params_of(NUMBERS)
    start = network.init(params, jax.random.key(0), holding([100, 20]))
    nothing, links = count_bits(jnp.zeros(2, jnp.int32), 0), Links(jnp.zeros((2, 2), bool), None)
    for renewed, samples in (([True, False], [116, 16]), ([False, True], [16, 36]), ([False, False], [16, 16])):
        stats = RoundStats(jnp.zeros(2), jnp.zeros(2, jnp.int32), nothing, whole=jnp.array(renewed))
        found = network.observe(params, start, Observed(links, stats, None))
        np.testing.assert_allclose(found.worked.value, 0.5 * np.array(samples), rtol=1e-6)
        np.testing.assert_allclose(found.seconds.value, 0.01 * max(samples), rtol=1e-6)


@pytest.mark.long
def test_of_all_reduce_each_receives_from_the_one_before_and_nobody_is_late():
    work = Work(uses_links=False)
    network, params = counted(fixed_graph(3, "ring"), work), params_of(NUMBERS | {"deadline": 0.1})
    start = network.init(params, jax.random.key(0), holding([10, 100, 10]))
    awake, messages = jnp.array([True, True, False]), jnp.array([1, 1, 0])
    stats = RoundStats(jnp.zeros(3), messages, count_bits(jnp.array([1, 3, 0]), 100), computed=awake)
    found = network.observe(params, start, Observed(ring(awake), stats, None))
    np.testing.assert_allclose(found.seconds.value, 100 * 0.01 + 0.05 + 300 / 1000)
    np.testing.assert_allclose(found.worked.value, [5 + 0.2 + 0.3, 50 + 0.6 + 0.1, 0], rtol=1e-6)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["dpsgd", "extra", "d2", "nids", "anq_nids"])
def test_a_round_in_which_a_recursion_waits_is_not_charged_as_computing(name):
    """Ten rounds with links in every fifth one: of a sample a round, those that wait compute 2, and D-PSGD 10."""
    network = counted(partial_participation(fixed_graph(6, "ring"), stay=True), Work(batch_size=1))
    cost = CostParams(joules_per_sample=np.float32(1), seconds_per_sample=np.float32(1), latency=np.float32(0.25))
    params = CountedParams(ParticipationParams(GraphParams(), np.float32(1), np.int32(5)), cost)
    numbers = resolved(name, "", {"lr": np.float32(0.05)}).traced()
    task = classification(toy_dataset(), make_model("linear", 3), 6, "iid", batch_size=1)
    simulation = Simulation(task, network, ALGORITHMS[name](Settings()), Schedule(10, 10))
    history = jax.jit(simulation.run)(Hparams(PartitionNumbers(), params, numbers), jax.random.key(0))
    computed = 10 if name == "dpsgd" else 2
    assert history.joules[-1].tolist() == [computed] * 6
    assert history.seconds[-1] == computed + 0.25 * history.messages[-1].max()


MODEL = {"w": jax.ShapeDtypeStruct((5, 4), jnp.float32), "b": jax.ShapeDtypeStruct((4,), jnp.float32)}
DENSE = 24 * 32


def make(name, steps=3, **values):
    steps = 1 if "local_steps" in ignored_by(name) else steps
    return ALGORITHMS[name](Settings(num_local_steps=steps)), resolved(name, "", values).traced(), steps


@pytest.mark.few(4)
@pytest.mark.parametrize("name", ["dfedsam", *sorted(set(ALGORITHMS) - {"dfedsam"})])
def test_gradients_of_every_algorithm(name):
    """One a local step; sharpness-aware steps take two, and variance-reduced ones one at the anchor too."""
    algorithm, numbers, steps = make(name)
    assert gradient_calls(algorithm, numbers, MODEL) == steps * (2 if name in ("dfedsam", "dmgt_svrg") else 1)


def test_work_is_counted_in_samples():
    held = jnp.array([4, 0, 10])
    np.testing.assert_array_equal(Work(3, 0).samples(held), [12, 0, 30])
    np.testing.assert_array_equal(Work(3, 8).samples(held), [24, 0, 24])
    np.testing.assert_array_equal(Work(2, 8, epochs=3).samples(held), [24, 0, 60])  # whatever the batches
    for name, gradients in (("dpsgd", 1), ("dfedsam", 2)):
        epochs = ALGORITHMS[name](Settings(num_local_epochs=5))
        assert work_of(epochs, resolved(name, "", {}), MODEL, 16, 5) == Work(gradients, 16, True, 5)
    for name, uses_links in (("dpsgd", True), ("epidemic", True), ("local_only", False), ("allreduce", False)):
        algorithm, numbers, steps = make(name)
        assert work_of(algorithm, numbers, MODEL, 16) == Work(steps, 16, uses_links)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("dpsgd", LinkLoad(1, DENSE)),
        ("sgp", LinkLoad(1, DENSE + 32)),  # the model and its weight
        ("gradient_tracking", LinkLoad(2, 2 * DENSE)),  # two messages from the second round on
        ("kgt", LinkLoad(2, 2 * DENSE)),
        ("dmgt_svrg", LinkLoad(4, 4 * DENSE)),  # each of two steps of gossip
        ("local_only", LinkLoad(1, DENSE)),  # nothing is sent: a whole model is assumed
    ],
)
def test_load_of_a_link(name, expected):
    algorithm, numbers, _ = make(name)
    assert probe(algorithm, MODEL)(numbers)[:2] == expected[:2]


@pytest.mark.long
def test_load_follows_the_numbers_of_a_point():
    """PaME sends a share of the coordinates and their indices; one program serves all shares."""
    load = probe(ALGORITHMS["pame"](Settings()), MODEL)
    for share, count in ((0.25, 6), (0.5, 12), (1.0, 24)):
        numbers = PaMENumbers(transmission=share).traced()
        assert load(numbers)[:2] == (1, total_bits(words(sparse_bits(24, count, 32))))
    whole = probe(ALGORITHMS["dpsgd"](Settings()), MODEL)(LocalNumbers().traced())
    assert whole == LinkLoad(1, DENSE, 32 + 5)  # one of 24 coordinates, and which
