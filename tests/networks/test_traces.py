"""Clients of traces and of contact lists: links by hand, absence, leaps, the end of a table, whole runs."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import costs as oracle
from worlds import holding, matrices, played

from mdfl_jax import UserError
from mdfl_jax.mobility import MOBILITIES, Motion, Movement, PlaneWorld
from mdfl_jax.mobility.trace import tracks
from mdfl_jax.networks.contact import contact_list
from mdfl_jax.networks.costs import CostParams, Work, link_filter
from mdfl_jax.networks.spatial import SpatialParams, spatial
from mdfl_jax.traces import GAPS, Contacts, ContactTable, TraceTable, contact_table, load, resample
from mdfl_jax.traces.describe import describe

N = 6


def table_of(rows=9, seed=0, absent=0.3):
    rng = np.random.default_rng(seed)
    position = rng.uniform(0, 100, (rows, N, 2)).astype(np.float32)
    position[:, 5] = position[0, 5]  # never moves
    return TraceTable(position, rng.random((rows, N)) >= absent, 0.0, 1.0)


def network(mixing="metropolis_hastings", mobility=("trace",), **options):
    return spatial(N, mobility=mobility, mixing=mixing, **options)


def params(table, at_end="hold", radius=np.inf, **options):
    return SpatialParams(radius=np.float32(radius), trace=tracks(table, at_end), **options)


def play(network, params, rounds):
    """Adjacency, mix and places of each round of a network, and the places after the last one."""
    states, links = played(network, params, rounds, holding(np.arange(1, N + 1)))
    places = network.places(states)
    history = list(zip(links.adjacency, links.mix, places.position))
    return history, jax.tree.map(lambda leaf: leaf[-1], places)


@pytest.mark.parametrize(("at_end", "begins"), [("hold", [0, 1, 2, 3, 3, 3]), ("repeat", [0, 1, 2, 0, 1, 2])])
def test_links_are_of_those_there_and_near(at_end, begins):
    table = table_of(rows=4)
    history, _ = play(network("fedavg"), params(table, at_end, 60.0), 6)
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
    _, places = play(network(), params(table), 9)
    step = np.linalg.norm(np.diff(table.position, axis=0), axis=-1) * (table.present[1:] & table.present[:-1])
    np.testing.assert_allclose(places.distance_moved, step.sum(axis=0), rtol=1e-5)
    assert places.is_mobile.tolist() == [True] * 5 + [False]


def paths(data, rounds):
    """Places and paths of the rule itself, round by round, each with the round's number."""
    rule = MOBILITIES["trace"]()
    zero = jnp.zeros(N)
    world = PlaneWorld(jnp.ones(2), jnp.zeros((N, 2)), zero > 0, zero[:, None], zero, Motion(), trace=data)
    state = rule.init(jax.random.key(0), world)
    for k in range(rounds):
        state = rule.step(jax.random.key(0), world, state)
        yield k, rule.path(world, state), rule.position(world, state), rule.presence(world, state)


@pytest.mark.parametrize("substeps", [1, 2, 4])
def test_paths_join_the_places_of_the_rounds(substeps):
    table = table_of(rows=9, absent=0.0)
    data = tracks(table, "hold", substeps, rounds=10)
    assert data.rounds == 8 // substeps
    for k, (times, points), after, _ in paths(data, 9):
        assert (times.shape, points.shape) == ((N, substeps + 1), (N, substeps + 1, 2))
        np.testing.assert_allclose(times, np.tile(np.linspace(0, 1, substeps + 1), (N, 1)))
        np.testing.assert_array_equal(points[:, -1], after)
        rows = table.position[np.minimum(np.arange(k * substeps, (k + 1) * substeps + 1), 8)]  # held: stands at the end
        np.testing.assert_array_equal(points, np.swapaxes(rows, 0, 1))


def test_who_is_absent_at_an_end_of_a_round_stands():
    table = table_of()
    for k, (_, points), _, present in paths(tracks(table), 8):
        there = table.present[k] & table.present[k + 1]
        np.testing.assert_array_equal(points[~there, 1], table.position[k, ~there])
        np.testing.assert_array_equal(points[there, 1], table.position[k + 1, there])
        np.testing.assert_array_equal(present.throughout, there)
        np.testing.assert_array_equal(present.now, table.present[k + 1])


def test_a_leap_is_no_movement():
    """A vehicle that comes back from a gap elsewhere, though held and present, has swept over nobody."""
    table = table_of(absent=0.0)
    goes = np.random.default_rng(1).random((8, N)) > 0.5
    for k, (_, points), after, _ in paths(tracks(table._replace(goes=goes)), 8):
        np.testing.assert_array_equal(
            points[:, 1], np.where(goes[k][:, None], table.position[k + 1], table.position[k])
        )
        np.testing.assert_array_equal(after, table.position[k + 1])


def test_swept_contact_is_of_those_there_throughout_and_meets_between_samples():
    """0 and 1 pass each other between two rounds; 2 is as near to them, but leaves."""
    position = np.zeros((3, N, 2), np.float32)
    position[..., 1] = 1000 * np.arange(N)
    position[:, 0] = [(-50, 0), (50, 0), (50, 0)]
    position[:, 1] = [(50, 5), (-50, 5), (-50, 5)]
    position[:, 2] = [(0, 2), (0, 2), (0, 2)]
    present = np.ones((3, N), bool)
    present[1:, 2] = False
    data = params(TraceTable(position, present, 0.0, 1.0), radius=10.0)
    swept, _ = play(network(contact="swept"), data, 3)
    disc, _ = play(network(), data, 3)
    assert [np.argwhere(adjacency).tolist() for adjacency, *_ in swept] == [[], [[0, 1], [1, 0]], []]
    assert not any(adjacency.any() for adjacency, *_ in disc)


@pytest.mark.long
def test_static_trace_stays_where_the_trace_begins_and_shares_a_network():
    table = table_of()
    table.present[:, 3] = False
    both = network(mobility=("trace", Movement("static", world="trace"), "random_waypoint"))
    history, places = play(both, params(table, mobility=1), 3)
    for adjacency, _, position in history:
        np.testing.assert_array_equal(position, table.position[0])
        assert adjacency.sum() == (N - 1) * (N - 2)
    assert not places.is_mobile.any()
    assert not places.distance_moved.any()
    _, walked = play(both, params(table, mobility=2, num_mobile=2), 3)
    assert walked.is_mobile.tolist() == [True] * 2 + [False] * 4
    alone, _ = play(network(), params(table), 3)
    shared, moved = play(both, params(table, mobility=0), 3)
    for a, b in zip(alone, shared):
        np.testing.assert_array_equal(a[0], b[0])
    assert moved.is_mobile.tolist() == [True] * 5 + [False]


CONTACTS = ContactTable(
    edges=np.array([[0, 1], [1, 0], [2, 5], [3, 4], [4, 3], [0, 5]], np.int32),
    offsets=np.array([0, 3, 3, 6]),
    num_clients=N,
)


@pytest.mark.parametrize(("at_end", "rounds"), [("hold", [0, 1, 2, 2, 2]), ("repeat", [0, 1, 2, 0, 1])])
def test_contact_lists_are_the_links_of_each_round(at_end, rounds):
    listed = SpatialParams(trace=contact_list(CONTACTS, at_end))
    history, places = play(network("fedavg", ("contacts",), contact="swept"), listed, 5)
    for (adjacency, mix, _), k in zip(history, rounds):
        expected = np.zeros((N, N), bool)
        for i, j in CONTACTS.edges[CONTACTS.offsets[k] : CONTACTS.offsets[k + 1]]:
            expected[i, j] = True
        np.testing.assert_array_equal(adjacency, expected)
        np.testing.assert_allclose(mix.sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(places.position, axis=1), 1, rtol=1e-6)
    assert not places.distance_moved.any()


def test_contacts_of_one_direction_are_mixed_and_links_of_a_list_fail():
    listed = SpatialParams(trace=contact_list(CONTACTS, "repeat"), link_failure=np.float32(0.5))
    history, _ = play(network("metropolis_hastings", ("contacts",), links_fail=True), listed, 30)
    sure, _ = play(network("metropolis_hastings", ("contacts",)), listed, 30)
    heard = sum(adjacency.astype(int) for adjacency, *_ in history)
    of = sum(adjacency.astype(int) for adjacency, *_ in sure)
    assert (heard <= of).all()
    assert 0.3 * of.sum() < heard.sum() < 0.7 * of.sum()
    for adjacency, mix, _ in history + sure:
        np.testing.assert_allclose(mix.sum(axis=1), 1, rtol=1e-6)
        np.testing.assert_array_equal((mix > 0) & ~np.eye(N, dtype=bool), adjacency)


@functools.cache
def of_lists(short_contact, max_neighbours):
    return network(
        "fedavg", ("contacts",), max_neighbours=max_neighbours, link_filter=link_filter(Work(), short_contact)
    )


@pytest.mark.parametrize("short_contact", ["drop", "resume"])
@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**40))
def test_short_contacts_of_a_list_carry_nothing(short_contact, seed):
    """The seconds of a contact in a round are the measure of its intervals there, counted tick by tick of 0.5 s."""
    rng = np.random.default_rng(seed)
    begin, length = rng.integers(0, 40, 20) / 2, rng.integers(0, 12, 20) / 2
    pair = np.array([rng.choice(N, 2, replace=False) for _ in begin], np.int32)
    listed = Contacts(begin, begin + length, pair, False, "list")
    table = contact_table(listed, N, 6, 4.0, start=0.0, durations=True)
    need, rounds = 1.5, 6
    on, met = np.zeros((N, N, rounds * 8), bool), np.zeros((rounds, N, N), bool)
    for a, b, (i, j) in zip(begin, begin + length, pair):
        on[i, j, round(2 * a) : round(2 * b)] = True
        for k in range(rounds):
            met[k, i, j] |= (a < 4 * (k + 1) and b > 4 * k) if b > a else 4 * k <= a < 4 * (k + 1)
    on |= on.swapaxes(0, 1)
    met |= met.swapaxes(1, 2)
    seconds = on.reshape(N, N, rounds, 8).sum(-1) / 2
    owner = np.repeat(np.arange(rounds), np.diff(table.offsets))
    np.testing.assert_allclose(table.seconds, seconds[(*table.edges.T, owner)], atol=1e-5)
    cost = CostParams(bandwidth=np.float32(100.0), link_bits=np.float32(100 * need))
    listed = SpatialParams(trace=padded_list(table), link_filter=cost)
    expected = met & (seconds.transpose(2, 0, 1) >= need)
    if short_contact == "resume":
        for i, j in np.ndindex(N, N):
            expected[:, i, j] = oracle.resumed(met[:, i, j], seconds[i, j], need)
    for places in (0, N - 1):
        links = played(of_lists(short_contact, places), listed, rounds, holding(np.arange(1, N + 1)))[1]
        np.testing.assert_array_equal(matrices(links.senders, links.adjacency), expected)


def padded_list(table):
    """The list of a table, in arrays whose shapes do not depend on it."""
    found = contact_list(table)
    most, rows = N * N, 8 * N * N
    edges = np.zeros((rows, 2), np.int32)
    edges[: len(table.edges)] = table.edges
    seconds = np.append(table.seconds, np.zeros(rows - len(table.edges), np.float32))
    return found._replace(edges=edges, slots=np.arange(most, dtype=np.int32), seconds=seconds)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**40), st.sampled_from(GAPS), st.sampled_from([20.0, 50.0, np.sqrt(2) * 10]))
def test_a_description_counts_the_contacts_of_the_study(tmp_path_factory, seed, gaps, radius):
    """Vehicles on points of a lattice, so that many are at the radius exactly; some come late, leave or have gaps."""
    rng = np.random.default_rng(seed)
    rows = [f"{t},v{k},{10 * rng.integers(9)},{10 * rng.integers(9)}" for t in range(9) for k in range(N)
            if rng.random() < 0.6 or (t in (0, 8) and k == 0) or t < 2]  # fmt: skip
    path = tmp_path_factory.mktemp("trace") / "t.csv"
    path.write_text("\n".join(["time,id,x,y", *rows, ""]))
    trace = load(path, "csv")
    history, _ = play(SHARED, params(resample(trace, 1.0, 8, N, gaps=gaps), radius=radius), 8)
    pairs = np.array([adjacency.sum() / 2 for adjacency, *_ in history])
    told = dict(describe(trace, radius, 1.0, gaps))["contacts"]
    assert told == f"mean {pairs.mean():.1f}, largest {pairs.max():.0f} pairs a round; a pair is two links"


SHARED = network()


def test_wrong_arguments():
    with pytest.raises(UserError, match=r"the end of a trace 'hld' \(did you mean 'hold'\?\); known: hold, repeat"):
        tracks(table_of(), at_end="hld")
    with pytest.raises(UserError, match="substeps is 3; it must divide the 8 rows"):
        tracks(table_of(), substeps=3)
    with pytest.raises(UserError, match=r"needs places: give SpatialParams.trace"):
        play(network(), SpatialParams(), 1)
