"""Networks of traces and of contact lists: links by hand, absence, the end of a table, whole runs."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import toy_hparams, toy_task

from mdfl_jax import Schedule, UserError, simulate
from mdfl_jax.algorithms.dpsgd import dpsgd
from mdfl_jax.algorithms.local import sgd
from mdfl_jax.mobility.trace import trace_mobility
from mdfl_jax.networks.contact_list import contact_network
from mdfl_jax.networks.trace import TraceParams, trace_network
from mdfl_jax.traces import ContactTable, TraceTable

N = 6


def table_of(rows=9, seed=0, absent=0.3):
    rng = np.random.default_rng(seed)
    position = rng.uniform(0, 100, (rows, N, 2)).astype(np.float32)
    position[:, 5] = position[0, 5]  # never moves
    return TraceTable(position, rng.random((rows, N)) >= absent, 0.0, 1.0)


class Clients:
    num_samples = jnp.arange(1, N + 1)


def play(network, params, rounds):
    """Adjacency, mix and places of each round of a network, by a loop."""
    key, state = jax.random.key(0), None
    state, history = network.init(params, key, Clients), []
    step = jax.jit(lambda k, s: network.step(params, key, k, s, Clients))
    for k in range(rounds):
        before = network.places(state)
        state, links = step(jnp.int32(k), state)
        history.append((np.asarray(links.adjacency), np.asarray(links.mix), np.asarray(before.position)))
    return history, network.places(state)


@pytest.mark.parametrize(("at_end", "begins"), [("hold", [0, 1, 2, 3, 3, 3]), ("repeat", [0, 1, 2, 0, 1, 2])])
def test_links_are_of_those_there_and_near(at_end, begins):
    table = table_of(rows=4)
    history, _ = play(trace_network(table, "fedavg", at_end), TraceParams(60.0), 6)
    for (adjacency, mix, position), k in zip(history, begins):
        np.testing.assert_array_equal(position, table.position[k])
        for i in range(N):
            for j in range(N):
                near = np.hypot(*(table.position[k, i] - table.position[k, j]).astype(float)) <= 60
                assert adjacency[i, j] == (i != j and near and table.present[k, i] and table.present[k, j])
        np.testing.assert_allclose(mix.sum(axis=1), 1, rtol=1e-6)
        np.testing.assert_array_equal(mix[~table.present[k]], np.eye(N)[~table.present[k]])
    assert any(adjacency.any() for adjacency, *_ in history)


def test_distance_counts_where_a_client_is_there_at_both_ends():
    table = table_of(rows=6)
    _, places = play(trace_network(table), TraceParams(), 9)
    step = np.linalg.norm(np.diff(table.position, axis=0), axis=-1) * (table.present[1:] & table.present[:-1])
    np.testing.assert_allclose(places.distance_moved, step.sum(axis=0), rtol=1e-5)
    assert places.is_mobile.tolist() == [True] * 5 + [False]


def test_the_leap_back_is_no_distance():
    table = table_of(rows=4, absent=0.0)
    _, once = play(trace_network(table, at_end="repeat"), TraceParams(), 3)
    _, twice = play(trace_network(table, at_end="repeat"), TraceParams(), 6)
    np.testing.assert_allclose(twice.distance_moved, 2 * once.distance_moved, rtol=1e-5)
    np.testing.assert_array_equal(once.position, table.position[0])


@pytest.mark.parametrize("substeps", [1, 2, 4])
def test_paths_join_the_places_of_the_rounds(substeps):
    table = table_of(rows=9, absent=0.0)
    move = trace_mobility(table, "hold", substeps)
    assert move.rounds == 8 // substeps
    for k in range(move.rounds):
        times, points = move.path(jnp.int32(k))
        assert (times.shape, points.shape) == ((N, substeps + 1), (N, substeps + 1, 2))
        np.testing.assert_allclose(times, np.tile(np.linspace(0, 1, substeps + 1), (N, 1)))
        np.testing.assert_array_equal(points[:, 0], move.position(jnp.int32(k)))
        np.testing.assert_array_equal(points[:, -1], move.position(jnp.int32(k + 1)))
        rows = table.position[k * substeps : (k + 1) * substeps + 1]
        np.testing.assert_array_equal(points, np.swapaxes(rows, 0, 1))
    _, after = move.path(jnp.int32(move.rounds))  # held: stands where the table ends
    np.testing.assert_array_equal(after, np.repeat(table.position[-1][:, None], substeps + 1, axis=1))


def test_who_is_absent_at_an_end_of_a_round_stands():
    table = table_of()
    move = trace_mobility(table)
    for k in range(8):
        _, points = move.path(jnp.int32(k))
        there = table.present[k] & table.present[k + 1]
        np.testing.assert_array_equal(points[~there, 1], table.position[k, ~there])
        np.testing.assert_array_equal(points[there, 1], table.position[k + 1, there])


CONTACTS = ContactTable(
    edges=np.array([[0, 1], [1, 0], [2, 5], [3, 4], [4, 3], [0, 5]], np.int32),
    offsets=np.array([0, 3, 3, 6]),
    num_clients=N,
)


@pytest.mark.parametrize(("at_end", "rounds"), [("hold", [0, 1, 2, 2, 2]), ("repeat", [0, 1, 2, 0, 1])])
def test_contact_lists_are_the_links_of_each_round(at_end, rounds):
    history, places = play(contact_network(CONTACTS, "fedavg", at_end), None, 5)
    for (adjacency, mix, _), k in zip(history, rounds):
        expected = np.zeros((N, N), bool)
        for i, j in CONTACTS.edges[CONTACTS.offsets[k] : CONTACTS.offsets[k + 1]]:
            expected[i, j] = True
        np.testing.assert_array_equal(adjacency, expected)
        np.testing.assert_allclose(mix.sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(places.position, axis=1), 1, rtol=1e-6)
    assert not places.distance_moved.any()


@pytest.mark.parametrize("contacts", [False, True])
def test_whole_runs(contacts):
    """They learn, record places, and do not compile again for other seeds and radii."""
    network = contact_network(CONTACTS, at_end="repeat") if contacts else trace_network(table_of(), at_end="repeat")
    run = simulate(toy_task(N), network, dpsgd(sgd()), Schedule(20, 10, record_positions=True))
    chex.clear_trace_counter()
    counted = jax.jit(chex.assert_max_traces(run, n=1))
    first, other = (
        counted(toy_hparams()._replace(network=TraceParams(np.float32(radius))), jax.random.key(seed))
        for radius, seed in ((40, 0), (70, 1))
    )
    assert float(first.accuracy[-1].mean()) > float(first.accuracy[0].mean())
    assert first.position.shape == (21, N, 2)
    assert np.isfinite(first.loss).all()
    assert bool((first.messages[-1] == other.messages[-1]).all()) == contacts
    if contacts:  # 3 + 0 + 3 links in three rounds; the 19th round is as the first, the 20th as the second
        assert int(first.messages[-1].sum()) == 6 * 6 + 3


def test_an_absent_client_trains_but_meets_nobody():
    everybody_far = table_of(absent=0.0)
    nobody = everybody_far._replace(present=np.zeros_like(everybody_far.present))
    run = jax.jit(simulate(toy_task(N), trace_network(nobody), dpsgd(sgd()), Schedule(4, 2)))
    history = run(toy_hparams()._replace(network=TraceParams(np.float32(np.inf))), jax.random.key(0))
    assert int(history.messages.sum()) == 0
    losses = np.asarray(history.train_loss)[1:]
    assert (losses[1] < losses[0])[np.isfinite(losses[0])].all()


def test_wrong_arguments():
    with pytest.raises(UserError, match=r"the end of a trace 'hld' \(did you mean 'hold'\?\); known: hold, repeat"):
        trace_network(table_of(), at_end="hld")
    with pytest.raises(UserError, match="unknown rule for the end of a trace"):
        contact_network(CONTACTS, at_end="")
    with pytest.raises(UserError, match="unknown mixing"):
        trace_network(table_of(), "mixed")
    for substeps in (0, 3):
        with pytest.raises(UserError, match=f"substeps is {substeps}; it must divide the 8 rows"):
            trace_mobility(table_of(), substeps=substeps)
    with pytest.raises(UserError, match="no rounds"):
        contact_network(ContactTable(CONTACTS.edges, np.array([0]), N))
