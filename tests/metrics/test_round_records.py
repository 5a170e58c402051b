"""The records of the rounds: what they say follows from places and counts alone, and nothing else changes."""

import jax
import numpy as np
import pytest
from oracles import grid_world
from small import PATTERNS, toy_hparams, toy_task

from mdfl_jax import Schedule, simulate
from mdfl_jax.algorithms.dpsgd import dpsgd
from mdfl_jax.core.metric import record
from mdfl_jax.metrics import metrics_of
from mdfl_jax.metrics.evaluation import choose_records
from mdfl_jax.networks.spatial import spatial

N, ROUNDS_RUN = 6, 6
SCHEDULE = Schedule(ROUNDS_RUN, 2, record_positions=True, record_mib=1)


@pytest.fixture(scope="module")
def grid():
    """Runs of the four patterns of the grid, all with one program, as NumPy arrays."""
    run = jax.jit(simulate(toy_task(N), spatial(N, 5, PATTERNS), dpsgd(), SCHEDULE))
    return [jax.device_get(run(toy_hparams(p), jax.random.key(4))) for p in range(len(PATTERNS))]


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


@pytest.mark.parametrize(
    ("clients", "mib", "kept", "why"),
    [
        (8, 8, True, ""),
        (8, 0, False, ""),
        (256, 4, True, ""),
        (256, 3, False, "would take 3.1 MiB of a run, and engine.record_mib is 3"),
        (257, 4000, False, "are recorded of at most 256 clients, and there are 257"),
    ],
)
def test_the_size_of_the_records_is_bounded(clients, mib, kept, why):
    """Links of 400 rounds take 400 N ceil(N / 8) bytes, 3.1 MiB of 256 clients."""
    measured, records = choose_records(metrics_of(), clients, 400, True, mib)
    assert records == (("links",), 400 * clients * -(-clients // 8), kept, why)
    assert ("links" in {metric.name for metric in measured}) == kept


def test_of_many_clients_the_records_of_one_byte_are_kept():
    """Who is present takes N bytes a round; links take more."""
    present = record("present", lambda view: view, 1.0, dtype="bool")
    for clients, names in ((256, ("links", "present")), (257, ("present",))):
        measured, records = choose_records(metrics_of((present,)), clients, 400, True, 8)
        assert (records.names, records.kept, records.why) == (names, True, "")
        assert {metric.name for metric in measured if metric.rows.record} == {"position", *names}
    assert records.size == 400 * 257
