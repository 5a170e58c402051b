"""A study of ten thousand clients: no array of all pairs of clients, in any part of its program."""

import re
from math import prod

import jax
import numpy as np
import pytest
from array_sizes import largest
from small import toy_dataset, toy_hparams, toy_task

from mdfl_jax import Hparams, Schedule
from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import Settings
from mdfl_jax.algorithms.registry import resolved
from mdfl_jax.mobility.plane import Motion
from mdfl_jax.networks.fixed import fixed_graph
from mdfl_jax.networks.graphs import GraphParams
from mdfl_jax.networks.meetings import MeetingsParams, meetings
from mdfl_jax.networks.participation import ParticipationParams, partial_participation
from mdfl_jax.networks.roadside import RoadsideParams, roadside
from mdfl_jax.networks.spatial import SpatialParams, spatial
from mdfl_jax.simulation import build

N = 10_000
PAIRS = N * N // 4  # a model has 51 numbers, a list 32 places, and the grid 10,000 points
PLANE = SpatialParams(N // 2, radius=150.0, motion=Motion(1e4, 1e4, 10.0), link_failure=0.1)
GRID = SpatialParams(N // 4, radius=1.5, max_step=5.0)
UNITS = RoadsideParams(PLANE, np.array([[300.0, 300.0]], np.float32), 200.0)


def plane(**options):
    return spatial(N, mobility=("random_waypoint",), contact="swept", max_neighbours=31, **options)


STUDIES = {
    "dpsgd in the plane, links fail": ("dpsgd", plane(links_fail=True), PLANE),
    "dpsgd by dam and dcm": ("dpsgd", spatial(N, 100, ("dam", "dcm"), max_neighbours=31), GRID),
    "pame": ("pame", plane(), PLANE),
    "epidemic": ("epidemic", plane(mixing="speed_aware_auto"), PLANE),
    "epidemic_oracle": ("epidemic_oracle", plane(), PLANE),
    "choco on a ring": ("choco", fixed_graph(N, "ring", lists=True), GraphParams()),
    "sgp of one peer": ("sgp", fixed_graph(N, "one_peer_exponential", lists=True), GraphParams()),
    "partial participation": ("nids", partial_participation(plane()), ParticipationParams(PLANE, 0.5, 2)),
    "fedmobile at units": ("fedmobile", roadside(plane(), 4), UNITS),
    "fedmobile in pairs": ("fedmobile", meetings(N, lists=True), MeetingsParams()),
}


def study(name):
    """The simulation and its arguments."""
    algorithm, network, params = STUDIES[name]
    task = toy_task(num_clients=N, dataset=toy_dataset(num_train=6 * N))
    simulation = build(task, network, ALGORITHMS[algorithm](Settings()), Schedule(4, 2, eval_clients=20))
    return simulation, Hparams(toy_hparams().task, params, resolved(algorithm, "", {}).typed())


@pytest.mark.few(3)
@pytest.mark.parametrize("name", [*STUDIES])
def test_no_array_of_all_pairs_is_computed(name):
    simulation, numbers = study(name)
    key = jax.random.key(0)
    assert largest(simulation.init, simulation.data, numbers, key)[0] < PAIRS
    carry, _ = jax.eval_shape(simulation.init, simulation.data, numbers, key)
    assert largest(simulation.advance, simulation.data, numbers, key, carry)[0] < PAIRS


@pytest.mark.long
def test_no_array_of_all_pairs_is_compiled():
    simulation, numbers = study("dpsgd in the plane, links fail")
    key = jax.random.key(0)
    carry, _ = jax.eval_shape(simulation.init, simulation.data, numbers, key)
    program = jax.jit(simulation.advance).lower(simulation.data, numbers, key, carry).compile()
    shapes = [tuple(map(int, shape.split(","))) for shape in re.findall(r"\w\d+\[([\d,]+)\]", program.as_text())]
    assert max(map(prod, shapes)) < PAIRS
    assert (N, 32) in shapes
    assert program.memory_analysis().temp_size_in_bytes < N * N


def test_matrices_are_found_by_this_test():
    simulation = build(toy_task(num_clients=1000), spatial(1000), ALGORITHMS["dpsgd"](Settings()), Schedule(2, 1))
    numbers = toy_hparams(mobility=0)
    carry, _ = jax.eval_shape(simulation.init, simulation.data, numbers, jax.random.key(0))
    found = largest(simulation.advance, simulation.data, numbers, jax.random.key(0), carry)
    assert found[0] >= 1000 * 1000
