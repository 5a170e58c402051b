"""Clients that come and go: who is there against loops in NumPy, whose links stay, and with what models they come."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from collectives import unordered
from small import assert_trees_equal, toy_dataset, toy_hparams, toy_task
from worlds import played

from mdfl_jax import Hparams, Schedule
from mdfl_jax.algorithms.dpsgd import dpsgd
from mdfl_jax.algorithms.local import LocalNumbers, Settings
from mdfl_jax.core.message_bits import total_bits
from mdfl_jax.core.rng import stream
from mdfl_jax.core.sharding import client_mesh
from mdfl_jax.core.types import FIXED, SYMMETRIC
from mdfl_jax.data.partition import PartitionNumbers
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.models import make_model
from mdfl_jax.networks.fixed import fixed_graph
from mdfl_jax.networks.graphs import GraphParams
from mdfl_jax.networks.spatial import spatial
from mdfl_jax.networks.wrappers.presence import (
    ABSENT,
    NEWCOMERS,
    OWN,
    PRESENCES,
    CyclicNumbers,
    MarkovNumbers,
    Moment,
    PoissonNumbers,
    PresenceParams,
    StayNumbers,
    coming_and_going,
)
from mdfl_jax.tasks import classification

N, ROUNDS = 8, 40
KEY = jax.random.fold_in(stream(jax.random.key(0), "placement"), OWN)
STAYS = np.array([
    [[0, 40], [0, 0]], [[3, 9], [12, 15]], [[0, 0], [0, 0]], [[39, 40], [0, 0]],
    [[1, 2], [4, 8]], [[0, 5], [6, 12]], [[6, 20], [0, 0]], [[0, 1], [2, 30]],
], np.int32)  # fmt: skip


def coins(t):
    return np.asarray(jax.random.uniform(jax.random.fold_in(KEY, t), (N,)))


def markov(leave, come):
    there = coins(0) < come / (come + leave)
    found = [there]
    for t in range(1, ROUNDS + 1):
        there = np.array([coin < (1 - leave if was else come) for coin, was in zip(coins(t), there)])
        found.append(there)
    return np.stack(found)


def poisson(at_start, arrivals, stay):
    """Clients stand in a queue; the first ones are there, the others come after exponential gaps."""
    order, gaps, stays = (jax.random.fold_in(KEY, k) for k in range(3))
    rank = np.asarray(jax.random.permutation(order, N))
    waits, lasts = (np.asarray(jax.random.exponential(key, (N,))) for key in (gaps, stays))
    comes = {i: sum(waits[at_start : rank[i] + 1]) / arrivals for i in range(N)}
    return np.array([[comes[i] <= t < comes[i] + lasts[i] * stay for i in range(N)] for t in range(ROUNDS + 1)])


def cyclic(hours, spread, begin, dt):
    shift = spread * np.asarray(jax.random.uniform(KEY, (N,)))
    return np.array([(begin + t * dt / 3600 - shift) % 24 < hours for t in range(ROUNDS + 1)])


def table():
    return np.array([[any(a <= t < b for a, b in stays) for stays in STAYS] for t in range(ROUNDS + 1)])


CASES = {
    "markov": (MarkovNumbers(leave=0.25, come=0.5), markov(0.25, 0.5), 1.0),
    "poisson": (PoissonNumbers(at_start=3, arrivals=0.2, stay=9.0), poisson(3, 0.2, 9.0), 1.0),
    "cyclic": (CyclicNumbers(hours=7.5, spread=12.0, begin=3.0), cyclic(7.5, 12.0, 3.0, 1800.0), 1800.0),
    "table": (StayNumbers(STAYS), table(), 1.0),
}


def test_every_member_has_its_loop():
    assert {*PRESENCES} == {*CASES, "trace"}


@pytest.mark.parametrize("name", CASES)
def test_who_is_there_is_what_the_loop_says_and_the_others_have_no_links(name):
    """On a ring, or over a movement, once with neighbour lists; the links of those there are those of the world."""
    numbers, there, seconds = CASES[name]
    assert 0.1 < there.mean() < 0.9
    world, inner = fixed_graph(N, "ring"), GraphParams()
    if name in ("markov", "table"):
        world = spatial(N, 6, ("random_movement",), max_neighbours=N - 1 if name == "markov" else 0)
        inner = toy_hparams(mobility=0).network
    network = coming_and_going(world, name)
    assert network.gives == world.gives - {FIXED}
    assert SYMMETRIC in network.gives
    states, links = played(network, PresenceParams(inner, numbers, seconds), ROUNDS)
    found = np.stack([states.was[1:], links.active])
    np.testing.assert_array_equal(found, np.stack([there[:ROUNDS]] * 2))
    _, whole = played(world, inner, ROUNDS)
    ids = np.tile(np.arange(N), (ROUNDS, N, 1)) if whole.senders.ids is None else whole.senders.ids
    both = there[:ROUNDS, :, None] & np.take_along_axis(there[:ROUNDS, None, :].repeat(N, 1), ids, axis=2)
    np.testing.assert_array_equal(links.adjacency, whole.adjacency & both)
    np.testing.assert_allclose(links.mix.sum(axis=2), 1, rtol=1e-6)
    own = ids == np.arange(N)[None, :, None]
    np.testing.assert_allclose(links.mix[~own], np.where(both, whole.mix, 0)[~own], rtol=1e-6)


def test_who_stays_for_good_and_who_is_there_all_day_is_never_away():
    """A draw may be 0, as one of these million is, and infinity times 0 is no number; an hour may be rounded to 24."""
    many, moment = jnp.ones(1_000_000, bool), Moment(jnp.int32(5), jnp.float32(5.0))
    endless = PoissonNumbers(at_start=many.size, arrivals=0.1, stay=np.inf)
    assert PRESENCES["poisson"](endless, jax.random.key(40), moment, many).all()
    all_day = CyclicNumbers(hours=24.0, spread=1e-6, begin=0.0)
    assert PRESENCES["cyclic"](all_day, KEY, Moment(jnp.int32(0), jnp.float32(0)), many[:N]).all()


def test_markov_chains_are_stationary_from_the_first_round_on():
    network = coming_and_going(fixed_graph(2000, "ring", lists=True), "markov")
    _, links = played(network, PresenceParams(GraphParams(), MarkovNumbers(leave=0.1, come=0.3)), 30)
    share = links.active.mean(axis=1)
    np.testing.assert_allclose(share, 0.75, atol=5 * np.sqrt(0.75 * 0.25 / 2000))


def gossip(first, there, newcomers, mix):
    """x <- W_t x over the links of those who are there; who comes begins anew. The models, and what each one sent."""
    x, waits, models, messages = first.copy(), np.zeros(N, bool), [first], []
    linked = (mix > 0) & ~np.eye(N, dtype=bool)
    for t, now in enumerate(there):
        comes = now & ~there[t - 1] if t else np.zeros(N, bool)
        x, before, heard = x.copy(), x, linked & now[:, None] & now[None, :]
        sent, waits = heard.sum(axis=0), (waits & now) | comes
        if newcomers == "initial":
            x[comes] = first[comes]
        for i in np.flatnonzero(waits & (newcomers == "neighbour")):
            known = [j for j in range(N) if heard[i, j] and not waits[j]]
            if known:
                x[i] = before[known[0]]
                sent[known[0]] += 1
        waits = waits & ~np.any(heard & ~waits[None, :], axis=1)
        w = np.where(heard, mix, 0)
        x = (w + np.diag(1 - w.sum(axis=1))) @ x
        models.append(x)
        messages.append(sent)
    return np.stack(models), np.stack(messages)


@pytest.mark.parametrize(("newcomers", "absent"), [*zip(NEWCOMERS, itertools.cycle(ABSENT))])
def test_newcomers_begin_as_set_and_their_lessons_are_sent(newcomers, absent):
    """Models that only gossip, since the step size is zero; each client has a first model of its own."""
    ring = fixed_graph(N, "ring")
    network = coming_and_going(ring, "table", absent, newcomers)
    simulation = Simulation(toy_task(num_clients=N, partition="iid"), network, dpsgd(Settings()), Schedule(10, 1))
    leaves, form = jax.tree.flatten(simulation.model)
    start = [np.random.default_rng(0).normal(size=(N, *leaf.shape)).astype(np.float32) for leaf in leaves]
    numbers = LocalNumbers(lr=np.float32(0)).typed()
    hparams = Hparams(toy_hparams().task, PresenceParams(GraphParams(), StayNumbers(STAYS)), numbers)
    hparams = hparams._replace(start=jax.tree.unflatten(form, start))
    carry = jax.jit(simulation.first)(simulation.data, hparams, jax.random.key(0))
    advance = jax.jit(simulation.advance)
    mix = np.asarray(played(ring, GraphParams(), 1)[1].mix[0], float)
    first = np.concatenate([leaf.reshape(N, -1) for leaf in start], axis=1)
    models, messages = gossip(first.astype(float), table()[:10], newcomers, mix)
    before = 0
    for t in range(10):
        carry, metrics = advance(simulation.data, hparams, jax.random.key(0), carry)
        found = [
            np.asarray(leaf).reshape(N, -1) for leaf in jax.tree.leaves(simulation.algorithm.params(carry.algorithm))
        ]
        np.testing.assert_allclose(np.concatenate(found, axis=1), models[t + 1], atol=1e-6, err_msg=f"round {t}")
        np.testing.assert_array_equal(np.asarray(metrics.messages) - before, messages[t])
        before = np.asarray(metrics.messages)
        size = first.shape[1] * 32
        np.testing.assert_array_equal(total_bits(np.asarray(metrics.bits)), before * size)
        assert metrics.share_present == pytest.approx(table()[t].mean())


@pytest.mark.parametrize("absent", ABSENT)
def test_who_is_away_trains_or_does_not(absent):
    """And a client that begins anew has no momentum of earlier rounds."""
    network = coming_and_going(fixed_graph(N, "ring"), "table", absent, "initial")
    simulation = Simulation(toy_task(num_clients=N, partition="iid"), network, dpsgd(Settings()), Schedule(6, 1))
    numbers = LocalNumbers(lr=np.float32(0.1), momentum=np.float32(0.9)).typed()
    hparams = Hparams(toy_hparams().task, PresenceParams(GraphParams(), StayNumbers(STAYS)), numbers)
    carry = start = jax.jit(simulation.first)(simulation.data, hparams, jax.random.key(0))
    advance = jax.jit(simulation.advance)
    states = [start.algorithm]
    for _ in range(6):
        carry, _ = advance(simulation.data, hparams, jax.random.key(0), carry)
        states.append(carry.algorithm)
    of_client = lambda tree, i: np.concatenate([np.ravel(leaf[i]) for leaf in jax.tree.leaves(tree)])  # noqa: E731
    stands = np.array_equal(of_client(states[6].params, 2), of_client(states[0].params, 2))  # it is never there
    assert stands == (absent == "idle")
    comes, alone = (of_client(states[t].opt_state, 1) for t in (4, 1))  # after its first round there, and after round 0
    assert np.linalg.norm(comes) > 0
    if absent == "train":  # in both it has followed one gradient, at the first model
        np.testing.assert_allclose(comes, alone, rtol=1e-5, atol=1e-7)
        first, last = (np.linalg.norm(of_client(states[t].opt_state, 2)) for t in (1, 6))
        assert last > 2 * first  # and who stays away keeps the momentum of all its rounds
    else:
        assert not alone.any()


@pytest.mark.long
def test_newcomers_over_devices_are_those_on_one():
    """Three devices have a padding client; the model of a neighbour comes from another device."""
    found = []
    for devices in (1, 3):
        mesh = client_mesh(jax.devices()[:devices])
        task = classification(toy_dataset(), make_model("linear", 3), N, "iid", batch_size=5, mesh=mesh)
        network = coming_and_going(fixed_graph(N, "ring"), "markov", "idle", "neighbour")
        simulation = Simulation(task, network, dpsgd(Settings(num_local_steps=2)), Schedule(8, 8))
        numbers = LocalNumbers(lr=np.float32(0.1), momentum=np.float32(0.5)).typed()
        presence = PresenceParams(GraphParams(), MarkovNumbers(leave=0.5, come=0.5))
        hparams = Hparams(PartitionNumbers(), presence, numbers)

        def whole(key, of=simulation, hparams=hparams):
            return of.advance(of.data, hparams, key, of.init(of.data, hparams, key)[0])

        compiled = jax.jit(whole).lower(jax.random.key(3)).compile()
        carry, metrics = compiled(jax.random.key(3))
        assert not unordered(compiled.as_text())[1]
        found.append((jax.tree.map(lambda leaf: np.asarray(leaf)[:N], carry.algorithm.params), metrics.messages))
    assert_trees_equal(*found, 2e-5)
