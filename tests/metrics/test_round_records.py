"""The records of the rounds: what they say follows from places and counts alone, and nothing else changes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import grid_world
from small import PATTERNS, assert_trees_equal, toy_hparams, toy_task

from mdfl_jax import Schedule, UserError, simulate
from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.dpsgd import dpsgd
from mdfl_jax.algorithms.registry import resolved
from mdfl_jax.core.metric import record
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.metrics import HOLDS, NOTHING, ROUNDS, UNKNOWN, Metric, metrics_of
from mdfl_jax.metrics.evaluation import RoundView, choose_records, metrics_by_round, rows_of_round, rows_without_round
from mdfl_jax.metrics.history import Metrics, standing_still
from mdfl_jax.mobility import Motion
from mdfl_jax.mobility.trace import tracks
from mdfl_jax.networks.meetings import MeetingsParams, RandomNumbers, meetings
from mdfl_jax.networks.spatial import SpatialParams, rule_numbers, spatial
from mdfl_jax.networks.wrappers.participation import ParticipationParams, partial_participation
from mdfl_jax.networks.wrappers.roadside import RoadsideParams, roadside
from mdfl_jax.tasks.regression import LinearNumbers, regression
from mdfl_jax.traces import TraceTable

N, ROUNDS_RUN = 6, 6
SCHEDULE = Schedule(ROUNDS_RUN, 2, record_positions=True, record_mib=1)
WITHOUT = {"links", "destination", "centre"}


def heard(links, num_clients=N):
    """The adjacency [..., N, N] from packed bits."""
    return np.unpackbits(np.asarray(links), axis=-1, count=num_clients).astype(bool)


@pytest.fixture(scope="module")
def grid():
    """Runs of the four patterns of the grid, all with one program, as NumPy arrays."""
    run = jax.jit(simulate(toy_task(N), spatial(N, 5, PATTERNS), dpsgd(), SCHEDULE))
    return [jax.device_get(run(toy_hparams(p), jax.random.key(4))) for p in range(len(PATTERNS))]


@pytest.mark.long
def test_links_are_those_of_the_places_before_each_round(grid):
    for history in grid:
        assert history.links.shape == (ROUNDS_RUN, N, 1)
        for t in range(ROUNDS_RUN):
            np.testing.assert_array_equal(heard(history.links[t]), grid_world.disc(history.position[t], 2.0))


@pytest.mark.long
def test_destinations_are_where_clients_go(grid):
    points = grid_world.square_grid(5)
    index = {tuple(point): i for i, point in enumerate(points)}
    for name, history in zip(PATTERNS, grid):
        known = ~np.isnan(history.destination).any(axis=2)
        assert not known[:, 2:].any()  # only the first two clients move
        assert known.any() == (name in ("dam", "dcm"))
        for t, i in np.argwhere(known):
            before, after = (index[tuple(history.position[t + k, i])] for k in (0, 1))
            goal = index[tuple(history.destination[t, i])]
            assert goal != after  # who has arrived has no destination
            assert after == grid_world.next_place(before, goal, points, 2.0)
            if t + 1 < ROUNDS_RUN and known[t + 1, i]:  # it changes only after the client has been there
                np.testing.assert_array_equal(history.destination[t, i], history.destination[t + 1, i])


@pytest.mark.long
def test_centres_are_those_of_a_greedy_cover_and_the_destinations_of_dcm(grid):
    points, history = grid_world.square_grid(5), grid[PATTERNS.index("dcm")]
    assert all(np.isnan(grid[p].centre).all() for p in range(3))
    (first,) = {tuple(map(tuple, row)) for row in np.nan_to_num(history.centre, nan=-1).tolist()}  # they stay
    places = [place for place in first if place != (-1, -1)]
    chosen = {[tuple(point) for point in points].index(tuple(map(int, place))) for place in places}
    assert grid_world.is_possible_outcome(frozenset(chosen), points, history.position[0, 2:].astype(int), 2.0)
    goals = history.destination[~np.isnan(history.destination).any(axis=2)]
    assert {tuple(goal) for goal in goals.tolist()} <= set(places)


@pytest.mark.long
def test_recording_changes_no_other_value(grid):
    run = jax.jit(simulate(toy_task(N), spatial(N, 5, PATTERNS), dpsgd(), SCHEDULE._replace(record_mib=0)))
    for p, recorded in enumerate(grid):
        plain = jax.device_get(run(toy_hparams(p), jax.random.key(4)))
        assert set(recorded) - set(plain) == WITHOUT
        assert_trees_equal(dict(plain), {name: recorded[name] for name in plain})


def fedmobile(slots=60, mesh=None):
    """A run of FedMobile over random pairs and meetings, with the network's own links."""
    network = meetings(N, "random")
    numbers = {"upload_from": 0, "upload_until": 9, "download_from": 0, "download_until": 9, "lr": 0.1}
    own = MeetingsParams(pairs=np.float32(0.7), numbers=RandomNumbers(gap_min=2, gap_max=8).traced())
    hparams = toy_hparams()._replace(network=own, algorithm=resolved("fedmobile", "", numbers).traced())
    schedule = Schedule(slots, 10, record_positions=True, record_mib=1)
    simulation = Simulation(toy_task(N), network, ALGORITHMS["fedmobile"](), schedule)
    run = jax.jit(simulate(toy_task(N), network, ALGORITHMS["fedmobile"](), schedule))
    assert simulation.records.names == ("links", "met_server", "heard", "relay_upload", "relay_download")
    return jax.device_get(run(hparams, jax.random.key(1)))


@pytest.mark.long
def test_meetings_and_relays_are_those_that_the_traffic_counts():
    history = fedmobile()
    met, up, down = history.met_server, history.relay_upload, history.relay_download
    assert (met.dtype, up.dtype, down.dtype) == (bool, np.int16, np.int16)
    ends = 10 * np.arange(1, 7)
    for e, end in enumerate(ends, start=1):
        np.testing.assert_array_equal(met[:end].sum(axis=0), history.uploads[e])
        np.testing.assert_array_equal((up[:end] >= 0).sum(axis=0), history.relayed_updates[e])
        given = np.bincount(down[:end][down[:end] >= 0], minlength=N)  # a relay sends what others take
        np.testing.assert_array_equal(given, history.relayed_models[e])
    assert (up >= 0).sum() > 5
    assert (down >= 0).sum() > 5
    links = heard(history.links)
    for t, i in np.argwhere(up >= 0):
        assert links[t, up[t, i], i]  # the relay hears the client
        later = [np.flatnonzero(met[t + 1 :, who]) for who in (up[t, i], i)]
        if len(later[1]):
            assert later[0][0] < later[1][0]  # and meets the server sooner
    for t, i in np.argwhere(down >= 0):
        assert links[t, i, down[t, i]]


def traced_world(wrap):
    """A network of a trace with absent clients, its numbers and its table; wrapped in others if asked for."""
    rng = np.random.default_rng(3)
    table = TraceTable(
        rng.uniform(0, 100, (ROUNDS_RUN + 1, N, 2)).astype(np.float32), rng.random((ROUNDS_RUN + 1, N)) > 0.4, 0.0, 1.0
    )
    network, params = spatial(N, 5, ["trace"]), SpatialParams(radius=np.float32(60), trace=tracks(table, "hold"))
    units = np.array([[50.0, 50.0]], np.float32)
    if wrap == "roadside":
        return roadside(network, ROUNDS_RUN), RoadsideParams(params, units, np.float32(40)), table
    if wrap == "participation":
        return partial_participation(network), ParticipationParams(params, np.float32(0.5)), table
    return network, params, table


@pytest.mark.long
@pytest.mark.parametrize("wrap", ["", "roadside", "participation"])
def test_who_is_present_is_what_the_trace_says_also_of_a_wrapped_network(wrap):
    network, params, table = traced_world(wrap)
    run = jax.jit(simulate(toy_task(N), network, dpsgd(), SCHEDULE))
    history = run(toy_hparams()._replace(network=params), jax.random.key(0))
    np.testing.assert_array_equal(history.present, table.present[:-1])
    near = np.stack([grid_world.disc(place, 60.0) for place in table.position[:-1]])
    there = table.present[:-1]
    allowed = near & there[:, :, None] & there[:, None, :]
    if wrap:
        assert not (heard(history.links) & ~allowed).any()
        assert heard(history.links).any()
    else:
        np.testing.assert_array_equal(heard(history.links), allowed)
    if wrap == "roadside":
        close = np.hypot(*np.moveaxis(table.position[:-1] - 50.0, -1, 0)) <= 40
        np.testing.assert_array_equal(history.met_server, close & there)


@pytest.mark.long
@pytest.mark.parametrize("rule", ["random_waypoint", "patrol"])
def test_destinations_of_the_plane_lie_ahead(rule):
    """A client moves straight towards its destination as long as it keeps it; those of a patrol are its waypoints."""
    corners = [(50.0, 50.0), (250.0, 50.0), (250.0, 250.0)]
    values = {"speed_min": 10.0, "speed_max": 20.0, "loop": "; ".join(f"{x:g},{y:g}" for x, y in corners)}
    motion = Motion(width=300.0, height=300.0, dt=2.0)
    rules = tuple(numbers.traced() for numbers in rule_numbers((rule,), **values))
    params = SpatialParams(num_mobile=4, radius=60.0, motion=motion, rules=rules)
    run = jax.jit(simulate(toy_task(N), spatial(N, mobility=[rule]), dpsgd(), Schedule(12, 6, True, record_mib=1)))
    history = jax.device_get(run(toy_hparams()._replace(network=params), jax.random.key(2)))
    goal, place = history.destination.astype(float), history.position.astype(float)
    assert np.isnan(goal[:, 4:]).all()
    kept = (goal[1:] == goal[:-1]).all(axis=2)
    assert kept.sum() > 10
    for t, i in np.argwhere(kept):
        rest = [np.hypot(*(place[t + k, i] - goal[t + 1, i])) for k in (1, 2)]
        walked = np.hypot(*(place[t + 2, i] - place[t + 1, i]))
        assert rest[0] - rest[1] == pytest.approx(walked, abs=1e-2)  # each metre walked is a metre nearer
    if rule == "patrol":
        assert {tuple(g) for g in goal[:, :4].reshape(-1, 2)} <= set(corners)


BY_ROUND = (
    Metric("state", lambda at: at.by_round("state"), HOLDS, (ROUNDS, 2), each_round=lambda view: view.state),
    Metric("event", lambda at: 0, NOTHING, (ROUNDS,), dtype="bool", each_round=lambda view: view.links > 3),
    Metric("who", lambda at: 0, -1, (ROUNDS, "clients"), dtype="int16", each_round=lambda view: jnp.arange(N)),
)


@pytest.mark.parametrize("count", [1, 4])
def test_a_run_that_has_ended_has_the_same_rows_on_the_device_and_on_the_host(count):
    """The device fills the rows of one run, the host those of a batch of which all runs have ended."""
    state = jnp.array([1.0, 2.0])
    row = rows_without_round(BY_ROUND, None, None, state, N)
    values = {name: np.stack([np.asarray(value)] * 2)[None] for name, value in row.items()}
    values["event"][...], values["who"][...] = True, 3  # the last round had some
    history = Metrics(BY_ROUND, {"round": np.array([[2]]), **values})
    still = standing_still(history, count)
    for name, value in row.items():
        assert still[name].dtype == value.dtype
        np.testing.assert_array_equal(still[name], np.broadcast_to(value, still[name].shape))
        assert still[name].shape[:2] == (1, count)


@pytest.mark.parametrize(
    ("clients", "positions", "mib", "kept", "why"),
    [
        (8, True, 8, True, ""),
        (8, False, 8, False, ""),
        (8, True, 0, False, ""),
        (256, True, 4, True, ""),
        (256, True, 3, False, "would take 3.1 MiB of a run, and engine.record_mib is 3"),
        (257, True, 4000, False, "are recorded of at most 256 clients, and there are 257"),
    ],
)
def test_the_size_of_the_records_is_bounded(clients, positions, mib, kept, why):
    """Links of 400 rounds take 400 N ceil(N / 8) bytes, 3.1 MiB of 256 clients."""
    measured, records = choose_records(metrics_of(), clients, 400, positions, mib)
    assert records == (("links",), 400 * clients * -(-clients // 8), kept, why)
    assert ("links" in {metric.name for metric in measured}) == kept
    assert [metric.name for metric in metrics_by_round(measured, positions)] == ["position"] * positions + [
        "links"
    ] * kept
    assert "position" in {metric.name for metric in measured}


def test_of_many_clients_the_records_of_one_byte_are_kept():
    """Who is present takes N bytes a round; links take more."""
    present = record("present", lambda view: view, 1.0, dtype="bool")
    for clients, names in ((256, ("links", "present")), (257, ("present",))):
        measured, records = choose_records(metrics_of((present,)), clients, 400, True, 8)
        assert (records.names, records.kept, records.why) == (names, True, "")
        assert {metric.name for metric in measured if metric.record} == {"position", *names}
    assert records.size == 400 * 257


def test_wrong_declarations_and_values_are_one_line():
    wrong = Metric("mine", lambda at: 0, UNKNOWN, (ROUNDS,), dtype="int32", each_round=lambda view: 0)
    with pytest.raises(UserError, match="the metric 'mine' is int32, which cannot be UNKNOWN while"):
        metrics_of((wrong,))
    nothing = None
    view = RoundView(nothing, nothing, nothing, nothing, nothing, nothing, nothing, jnp.zeros(3))
    with pytest.raises(UserError, match=r"'state' is declared of shape \(2,\) a round and each_round gives \(3,\)"):
        rows_of_round(BY_ROUND[:1], view, N)


@pytest.mark.long
def test_after_the_stop_nothing_happens():
    task = regression("linear", 6, 4, 40)
    schedule = Schedule(60, 20, record_positions=True, record_mib=1, stop_std=1e-3)
    run = jax.jit(simulate(task, spatial(6, 3, ["dam"]), dpsgd(), schedule))
    hparams = toy_hparams(0, lr=0.2)._replace(task=LinearNumbers())
    history = jax.device_get(run(hparams, jax.random.key(0)))
    done = int(history.rounds_done[-1])
    assert 3 <= done < 60
    assert heard(history.links[:done]).any(axis=(1, 2)).all()
    assert not history.links[done:].any()
    assert np.isnan(history.destination[done:]).all()
    assert (history.position[done:] == history.position[done]).all()
