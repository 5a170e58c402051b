"""Ten thousand clients: no array of all pairs of clients, in any part of a program, nor of all clients and samples."""

import re
from math import prod

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from array_sizes import largest
from small import toy_dataset, toy_hparams, toy_task
from worlds import holding

from mdfl_jax import Hparams, Schedule
from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import Settings
from mdfl_jax.algorithms.registry import resolved
from mdfl_jax.contrib.terrains.plane import PlaneStrategyNumbers
from mdfl_jax.core.types import FIXED
from mdfl_jax.data.batching import cut_blocks, index_clients
from mdfl_jax.data.partition import PARTITIONS, PartitionSettings
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.mobility import MOBILITIES, Motion, Movement
from mdfl_jax.mobility.choosing import StrategyNumbers
from mdfl_jax.networks.contact import contact_list
from mdfl_jax.networks.costs import CostParams, Work, link_filter
from mdfl_jax.networks.fixed import fixed_graph
from mdfl_jax.networks.graphs import GraphParams
from mdfl_jax.networks.meetings import MeetingsParams, meetings
from mdfl_jax.networks.spatial import SpatialParams, spatial
from mdfl_jax.networks.wrappers.participation import ParticipationParams, partial_participation
from mdfl_jax.networks.wrappers.roadside import RoadsideParams, roadside
from mdfl_jax.traces.trace import ContactTable

N = 10_000
PAIRS = N * N // 30  # a model has 51 numbers, a list 32 places, and the grid 10,000 points; bits of pairs are N N / 32
PLANE = SpatialParams(N // 2, radius=150.0, motion=Motion(1e4, 1e4, 10.0), link_failure=0.1, link_filter=CostParams())
GRID = SpatialParams(N // 4, radius=1.5, max_step=5.0)
UNITS = RoadsideParams(PLANE, np.array([[300.0, 300.0]], np.float32), 200.0)


def plane(**options):
    return spatial(N, mobility=("random_waypoint",), contact="swept", max_neighbours=31, **options)


def world_for(algorithm):
    """A network that gives what an algorithm needs, and its numbers."""
    needs = ALGORITHMS[algorithm](Settings()).needs
    if "server" in needs:
        return roadside(plane(), 4, one_at_a_time=False), UNITS
    return (fixed_graph(N, "ring", lists=True), GraphParams()) if FIXED in needs else (plane(), PLANE)


def listed(at_most=20_000):
    """The numbers of a contact list of three rounds."""
    edges = np.random.default_rng(0).integers(0, N, (3 * at_most, 2)).astype(np.int32)
    edges = edges[edges[:, 0] != edges[:, 1]]
    table = ContactTable(edges, np.array([0, at_most, at_most, len(edges)]), N)
    return SpatialParams(trace=contact_list(table), link_failure=0.1)


BY_MEETING = (Movement("dam", "met"), Movement("dcm", "met"))
STUDIES = {
    "dpsgd in the plane, links fail": ("dpsgd", plane(links_fail=True), PLANE),
    "dpsgd by dam and dcm": ("dpsgd", spatial(N, 100, ("dam", "dcm"), max_neighbours=31), GRID),
    "dpsgd by those met": ("dpsgd", spatial(N, 100, BY_MEETING, max_neighbours=31), GRID),
    "dpsgd over a contact list": ("dpsgd", spatial(N, mobility=("contacts",), max_neighbours=31), listed()),
    "dpsgd, messages go on": ("dpsgd", plane(link_filter=link_filter(Work(), "resume", True)), PLANE),
    "dpsgd by speeds": ("dpsgd", plane(mixing="speed_aware_auto"), PLANE),
    "dpsgd on a torus": ("dpsgd", fixed_graph(N, "torus", lists=True), GraphParams()),
    "dpsgd on the exponential graph": ("dpsgd", fixed_graph(N, "exponential", lists=True), GraphParams()),
    "sgp of one peer": ("sgp", fixed_graph(N, "one_peer_exponential", lists=True), GraphParams()),
    "partial participation": ("nids", partial_participation(plane()), ParticipationParams(PLANE, 0.5, 2)),
    "picks that stay": (
        "d2",
        partial_participation(fixed_graph(N, "ring", lists=True), stay=True),
        ParticipationParams(GraphParams(), 0.5, 2),
    ),
    "fedmobile at units, in pairs": ("fedmobile", roadside(plane(), 4), UNITS),
    "fedmobile in pairs": ("fedmobile", meetings(N, lists=True), MeetingsParams()),
    **{name: (name, *world_for(name)) for name in ALGORITHMS},
}


def study(name):
    """The simulation and its arguments."""
    algorithm, network, params = STUDIES[name]
    task = toy_task(num_clients=N, dataset=toy_dataset(num_train=6 * N))
    simulation = Simulation(task, network, ALGORITHMS[algorithm](Settings()), Schedule(4, 2, eval_clients=20))
    return simulation, Hparams(toy_hparams().task, params, resolved(algorithm, "", {}).typed())


@pytest.mark.few(1)
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


FORMS = [  # strategies refuse so many clients
    Movement(name, form.knowledge or "oracle", form.world)
    for name in MOBILITIES
    for form in MOBILITIES.forms(name)
    if form.world in ("grid", "plane") and not issubclass(form.numbers, StrategyNumbers | PlaneStrategyNumbers)
]


@pytest.mark.long
@pytest.mark.parametrize("world", ["grid", "plane"])
def test_no_rule_of_movement_computes_one(world):
    rules = tuple(movement for movement in FORMS if movement.world == world)
    network = spatial(N, 100, rules, max_neighbours=31)
    numbers, key, clients = SpatialParams(N // 4), jax.random.key(0), holding(np.ones(N), 10)
    assert largest(network.init, numbers, key, clients)[0] < PAIRS
    state = jax.eval_shape(network.init, numbers, key, clients)
    assert largest(network.step, numbers, key, jnp.int32(3), state, clients)[0] < PAIRS


SAMPLES, CLASSES, OWNERS = 60_000, 10, 20_000
LINEAR = 2 * (SAMPLES + N * CLASSES)
TABLES = {"table": (SAMPLES,), "table of counts": (N, CLASSES)}


@pytest.mark.parametrize("name", [*PARTITIONS, "table of counts"])
def test_no_partition_computes_one_of_all_clients_and_samples(name):
    member = name.removesuffix(" of counts")
    given = PARTITIONS.numbers(member)()

    def program(key, labels, places, owner_of, table):
        typed = type(given)(table=table) if name in TABLES else given.typed()
        settings = PartitionSettings(N, CLASSES, typed, owner_of, OWNERS, places)
        owner = PARTITIONS[member](key, labels, settings)
        return cut_blocks(index_clients(owner, labels, N, CLASSES), 8)

    labels, owner_of = (np.zeros(SAMPLES, np.int32) for _ in range(2))
    places, table = (np.zeros(shape, np.float32) for shape in ((N, 2), TABLES.get(name, (1,))))
    entries, shape = largest(program, jax.random.key(5), labels, places, owner_of, table)
    assert entries <= LINEAR, shape
