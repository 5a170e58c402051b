"""Clocks: whose work ends in a slot against a queue of events, what a slot costs, and works of one slot as rounds."""

import heapq

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import assert_trees_equal, toy_dataset
from tables import with_fields
from tiny import tiny_config
from worlds import holding, played

from mdfl_jax.config.resolve import resolve
from mdfl_jax.core.types import FIXED, SYMMETRIC
from mdfl_jax.data.partition import PartitionNumbers
from mdfl_jax.mobility.registry import movement_of
from mdfl_jax.models import make_model
from mdfl_jax.networks.costs import CostParams, Work
from mdfl_jax.networks.fixed import fixed_graph
from mdfl_jax.networks.graphs import GraphParams
from mdfl_jax.networks.wrappers.clocks import JOINS, ClockParams, with_clocks
from mdfl_jax.networks.wrappers.presence import PresenceParams, StayNumbers, coming_and_going
from mdfl_jax.study.prepare.task import build_task, load_dataset
from mdfl_jax.study.study import build_simulation, hparams_of
from mdfl_jax.tasks import classification
from mdfl_jax.tasks.gradients import Tiling

N, ROUNDS = 6, 40
SAMPLES = [10, 20, 30, 45, 7, 0]  # works of 1, 2, 3, 5, 1 and no samples' slots: ten samples are a slot
SLOTS = [1, 2, 3, 5, 1, 1]
STAYS = np.array([[[0, 40]], [[0, 9]], [[3, 30]], [[0, 40]], [[0, 40]], [[5, 40]]], np.int32)
RING = [[(i + s) % N for s in (-1, 1)] for i in range(N)]


def queue(asynchronous, in_contact, there):
    """[R, N] whose work ends, by a queue of the slots in which each client computes: those in which it is there."""
    worked, found = [0] * N, np.zeros((ROUNDS, N), bool)
    events = [(t, i) for t in range(ROUNDS) for i in range(N) if there[t, i]]
    heapq.heapify(events)
    done = {t: set() for t in range(ROUNDS)}
    while events:
        t, i = heapq.heappop(events)
        worked[i] += 1
        if worked[i] >= SLOTS[i]:
            done[t].add(i)
        if not events or events[0][0] > t:  # the slot is over
            for k in sorted(done[t]):
                others = {j for j in RING[k] if there[t, j]}
                if not in_contact or (others if asynchronous else others & done[t]):
                    found[t, k], worked[k] = True, 0
    return found


@pytest.mark.parametrize("joins", JOINS)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_works_end_when_the_queue_says(joins, asynchronous):
    """Clients that are away have clocks that stand still; who joins in contact waits for somebody who can exchange."""
    inner = coming_and_going(fixed_graph(N, "ring"), "table")
    network = with_clocks(inner, Work(), asynchronous, joins)
    assert network.gives == inner.gives - ({FIXED} if not asynchronous else set())
    params = PresenceParams(GraphParams(), StayNumbers(STAYS))
    params = ClockParams(params, CostParams(seconds_per_sample=0.2, round_seconds=2.0))
    states, links = played(network, params, ROUNDS, holding(SAMPLES))
    np.testing.assert_array_equal(states.slots[0], SLOTS)
    there = (STAYS[:, 0, 0] <= np.arange(ROUNDS)[:, None]) & (np.arange(ROUNDS)[:, None] < STAYS[:, 0, 1])
    expected = queue(asynchronous, joins == "in_contact", there)
    np.testing.assert_array_equal(links.finishes, expected)
    assert 0.2 < expected.mean() < 0.8
    active = there if asynchronous else expected
    np.testing.assert_array_equal(links.active, active)
    np.testing.assert_array_equal(links.adjacency, links.adjacency & active[:, :, None] & active[:, None, :])
    ring = np.array([[j in RING[i] for j in range(N)] for i in range(N)])
    np.testing.assert_array_equal(links.audible, ring & there[:, :, None] & there[:, None, :])
    np.testing.assert_allclose(links.mix.sum(axis=2), 1, rtol=1e-6)
    assert SYMMETRIC in network.gives
    np.testing.assert_allclose(links.mix, links.mix.transpose(0, 2, 1), atol=1e-7)


CLOCKS = {"motion.dt": "2", "cost.seconds_per_sample": "0.25", "algorithm.batch_size": "8", "rounds": "6"}
CLOCKS |= {"eval_every": "3", "seeds": "1", "network.radius": "3"}


def run_of(**fields):
    experiment = resolve(with_fields(tiny_config(), {**CLOCKS, **fields}))
    rules = [movement_of(experiment)]
    simulation = build_simulation(experiment, build_task(experiment, load_dataset(experiment.data)), rules)
    return jax.device_get(jax.jit(simulation.run)(hparams_of(experiment, rules), jax.random.key(2)))


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["pame", "dpsgd"])
def test_with_works_of_one_slot_rounds_are_what_they_are_without_clocks(name):
    """Bit for bit, with seconds that are those of the slots; the mean of losses alone is divided by a traced number."""
    momentum = {"algorithm.momentum": "0.5"} if name == "dpsgd" else {}
    fields = {"algorithm.name": name, **momentum}
    plain, clocked = run_of(**fields), run_of(**fields, **{"clock.joins": "at_once"})
    assert {*clocked} - {*plain} == {"works"} | ({"heard"} if name == "dpsgd" else set())
    for metric in plain:
        rtol = 1e-6 if metric == "train_loss" else 0
        np.testing.assert_allclose(plain[metric], clocked[metric], rtol=rtol, err_msg=metric)
    np.testing.assert_array_equal(clocked["works"][1:], 3)
    np.testing.assert_allclose(clocked["seconds"], [0, 6, 12])


@pytest.mark.parametrize("epochs", ["0", "1"])
def test_also_a_client_that_computes_judges_what_it_hears_on_its_own_samples(epochs, tmp_path):
    """Of two attackers that send useless models everybody learns to think badly, whether its work ends or not."""
    speeds = tmp_path / "speeds.txt"
    speeds.write_text("1 1 1 0.5 0.5 0.1")
    fields = {"algorithm.name": "push", "algorithm.aggregation": "reputation", "algorithm.local_epochs": epochs}
    attack = {"attack.name": "scaled", "attack.scale": "100", "attack.who": "listed", "attack.clients": "0,1"}
    fields |= attack | {"attack.number": "2", "cost.speeds": str(speeds), "clock.joins": "at_once"}
    experiment = resolve(with_fields(tiny_config(), {**CLOCKS, **fields, "network.radius": "10"}))
    rules, key = [movement_of(experiment)], jax.random.key(2)
    simulation = build_simulation(experiment, build_task(experiment, load_dataset(experiment.data)), rules)
    hparams, data = hparams_of(experiment, rules), simulation.data
    carry, one_round = simulation.first(data, hparams, key), jax.jit(simulation.round)
    for _ in range(10):
        carry = one_round(data, hparams, key, carry)
    trust = np.asarray(carry.memory)[2:, :2]
    assert (trust <= 0.5).all()
    assert (trust.min(axis=1) < 0.49).all()


def test_slow_clients_work_seldom_and_a_slot_takes_its_seconds(tmp_path):
    """Joules of a work are counted when it ends; the training loss is the mean over works."""
    speeds = tmp_path / "speeds.txt"
    speeds.write_text("1 1 1 0.5 0.5 0.26")
    fields = {"cost.speeds": str(speeds), "clock.joins": "at_once", "cost.joules_per_sample": "1"}
    for name in ("dpsgd", "adpsgd"):
        found = run_of(**fields, **{"algorithm.name": name})
        works = np.cumsum(found["works"], axis=0)[-1]
        np.testing.assert_array_equal(works, [6, 6, 6, 3, 3, 1])
        np.testing.assert_allclose(found["seconds"], [0, 6, 12])
        np.testing.assert_allclose(found["joules"][-1], 8 * works)
        known = np.isfinite(found["train_loss"][1:])
        np.testing.assert_array_equal(known, found["works"][1:] > 0)
        if name == "adpsgd":
            np.testing.assert_allclose(found["staleness"][-1], [0, 0, 0, 1, 1, 3])


def test_clients_of_pame_count_their_period_in_works(tmp_path):
    """Works of two slots end in slots 1, 3 and 5, and of these the first and the third have an exchange."""
    speeds = tmp_path / "speeds.txt"
    speeds.write_text("0.5 " * 6)
    clocks = {"cost.speeds": str(speeds), "clock.joins": "at_once", "network.mobility": "static"}
    periods = {"algorithm.period_min": "2", "algorithm.period_max": "2", "algorithm.participation": "1"}
    found = run_of(**clocks, **periods, **{"algorithm.name": "pame"})
    heard = np.unpackbits(found["heard"], axis=-1, count=6)
    in_range = np.unpackbits(found["links"], axis=-1, count=6)
    np.testing.assert_array_equal(heard[[1, 5]], in_range[[1, 5]])
    assert in_range[1].any()
    assert not heard[[0, 2, 3, 4]].any()


def test_who_has_no_samples_or_does_not_train_finishes_no_works_and_pays_for_none():
    """Relays have no samples; attackers of replay send what they have. The slots of the others are as before."""
    fields = {"clock.joins": "at_once", "cost.joules_per_sample": "1", "network.num_mobile": "0"}
    for name in ("dpsgd", "swift"):
        attack = {"attack.name": "replay", "attack.who": "listed", "attack.clients": "1"}
        found = run_of(**fields, **attack, **{"algorithm.name": name, "network.relays": "2"})
        works = np.sum(found["works"], axis=0)
        np.testing.assert_array_equal(works, [6, 0, 6, 6, 0, 0])
        np.testing.assert_allclose(found["joules"][-1], 8 * works)


@pytest.mark.parametrize("batch_size", [0, 5])
def test_gradients_of_some_clients_are_rows_of_those_of_all_and_of_no_others(batch_size):
    """Also where runs with different clients are mapped together: the loop is then that of the run with the most."""
    by_four = Tiling(block_size=5, tile=20)
    task = classification(toy_dataset(), make_model("linear", 3), 9, "iid", batch_size=batch_size, tiling=by_four)
    clients = task.partition(task.data, PartitionNumbers(), jax.random.key(0))
    params = jax.vmap(lambda k: task.init(task.data, k))(jax.random.split(jax.random.key(1), 9))
    of = lambda only: task.gradient(task.data, clients, params, jax.random.key(2), only=only)  # noqa: E731
    some = jnp.asarray(np.random.default_rng(0).random((4, 9)) < np.array([[0], [0.3], [0.6], [1]]))
    whole = jax.jit(lambda: task.gradient(task.data, clients, params, jax.random.key(2)))()
    found = jax.jit(jax.vmap(of))(some)
    for k in range(4):
        rows = lambda leaf, k=k: jnp.where(some[k].reshape(-1, *[1] * (leaf.ndim - 1)), leaf, 0)  # noqa: E731
        assert_trees_equal(jax.tree.map(lambda leaf, k=k: leaf[k], found), jax.tree.map(rows, whole), 1e-6)
