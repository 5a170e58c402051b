"""Clients of traces and of contact lists: parts of a round, leaps, the end of a table, durations, descriptions."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import holding, matrices, played

from mdfl_jax.contrib.describe.traces import describe_trace
from mdfl_jax.mobility import MOBILITIES, Motion, PlaneWorld
from mdfl_jax.mobility.trace import tracks
from mdfl_jax.networks.contact import contact_list
from mdfl_jax.networks.costs import CostParams, Work, link_filter
from mdfl_jax.networks.spatial import SpatialParams, spatial
from mdfl_jax.traces import GAPS, Contacts, TraceTable, contact_table, load, resample

N = 6


def table_of(rows=9, seed=0, absent=0.3):
    rng = np.random.default_rng(seed)
    position = rng.uniform(0, 100, (rows, N, 2)).astype(np.float32)
    position[:, 5] = position[0, 5]  # never moves
    return TraceTable(position, rng.random((rows, N)) >= absent, 0.0, 1.0)


def paths(data, rounds):
    """Places and paths of the rule itself, round by round, each with the round's number."""
    rule = MOBILITIES["trace"]()
    zero = jnp.zeros(N)
    world = PlaneWorld(jnp.ones(2), jnp.zeros((N, 2)), zero > 0, zero[:, None], zero, Motion(), trace=data)
    state = rule.init(jax.random.key(0), world)
    for k in range(rounds):
        state = rule.step(jax.random.key(0), world, state)
        yield k, rule.path(world, state), rule.position(world, state), rule.presence(world, state)


@pytest.mark.parametrize(("substeps", "absent", "leaps"), [(1, 0.3, False), (1, 0.0, True), (2, 0.0, False)])
def test_paths_join_the_places_of_the_rounds_of_those_who_are_there_and_did_not_leap(substeps, absent, leaps):
    """Who is absent at an end of a round stands, and so does a vehicle that comes back from a gap elsewhere."""
    table = table_of(absent=absent)
    goes = np.random.default_rng(1).random((8, N)) > 0.5 if leaps else table.present[1:] & table.present[:-1]
    data = tracks(table._replace(goes=goes) if leaps else table, "hold", substeps, rounds=10)
    assert data.rounds == 8 // substeps
    for k, (times, points), after, present in paths(data, data.rounds):
        np.testing.assert_allclose(times, np.tile(np.linspace(0, 1, substeps + 1), (N, 1)))
        rows = np.swapaxes(table.position[k * substeps : (k + 1) * substeps + 1], 0, 1)
        np.testing.assert_array_equal(after, rows[:, -1])
        moves = goes[k * substeps : (k + 1) * substeps].all(axis=0)
        np.testing.assert_array_equal(points[moves], rows[moves])
        np.testing.assert_array_equal(points[~moves, 1], rows[~moves, 0])
        there = table.present[k * substeps : (k + 1) * substeps + 1].all(axis=0)
        np.testing.assert_array_equal(present.throughout, there)
        np.testing.assert_array_equal(present.now, table.present[(k + 1) * substeps])


@functools.cache
def of_lists(short_contact, max_neighbours):
    how = {"max_neighbours": max_neighbours, "link_filter": link_filter(Work(), short_contact)}
    return spatial(N, mobility=("contacts",), mixing="fedavg", **how)


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
            lasted = 0.0
            for k in range(rounds):  # what was sent counts until the contact ends or the message is whole
                lasted = lasted + seconds[i, j, k] if met[k, i, j] else 0.0
                expected[k, i, j] = met[k, i, j] and lasted >= need
                lasted = 0.0 if expected[k, i, j] else lasted
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


SHARED = spatial(N, mobility=("trace",))


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
    followed = tracks(resample(trace, 1.0, 8, N, gaps=gaps), "hold")
    links = played(SHARED, SpatialParams(radius=np.float32(radius), trace=followed), 8, holding(np.ones(N)))[1]
    pairs = links.adjacency.sum(axis=(1, 2)) / 2
    told = dict(describe_trace(trace, radius, 1.0, gaps))["contacts"]
    assert told == f"mean {pairs.mean():.1f}, largest {pairs.max():.0f} pairs a round; a pair is two links"
