"""What every algorithm and every compressor keeps: over several devices it does what it does on one.

Each is run by four devices with clients that these divide, and with clients that they do not, against one device:
models agree to rounding, messages and bits exactly, and no collective stands in a loop or a condition where the CPU's
runtime could let it run beside another (`collectives`).
"""

import ast
from functools import cache
from pathlib import Path

import jax
import numpy as np
import pytest
from collectives import unordered
from small import assert_trees_equal, toy_dataset

import mdfl_jax.algorithms as package
from mdfl_jax import Hparams, Schedule
from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import Settings
from mdfl_jax.algorithms.registry import ignored_by, resolved
from mdfl_jax.core.sharding import client_mesh
from mdfl_jax.data.partition import PartitionNumbers
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.exchange.compressors import COMPRESSORS
from mdfl_jax.models import make_model
from mdfl_jax.networks.fixed import fixed_graph
from mdfl_jax.networks.graphs import GraphParams
from mdfl_jax.networks.meetings import FixedNumbers, MeetingsParams, meetings
from mdfl_jax.tasks import classification

ROUNDS = 4
NUMBERS = {"lr": np.float32(0.05), "period_min": np.int32(1), "period_max": np.int32(2), "num_peers": np.int32(2)}
SLOTS = {"upload_from": 0, "upload_until": 4, "download_from": 0, "download_until": 4}


def network_of(algorithm, num_clients):
    """Links in which something happens in every round, for what the algorithm needs."""
    if "at_server" in algorithm.needs or "partner" in algorithm.needs:
        numbers = FixedNumbers(interval=np.int32(2))
        return meetings(num_clients, "fixed"), MeetingsParams(pairs=np.float32(1.0), numbers=numbers)
    return fixed_graph(num_clients, "complete"), GraphParams()


@cache
def outcome(name, compressor, num_clients, num_devices):
    """Models, messages and bits after some rounds, and the text of the compiled rounds."""
    mesh = client_mesh(jax.devices()[:num_devices])
    task = classification(toy_dataset(), make_model("linear", 3), num_clients, "iid", batch_size=10, mesh=mesh)
    steps = 1 if "local_steps" in ignored_by(name) else 2
    algorithm = ALGORITHMS[name](Settings(compressor=compressor, num_local_steps=steps))
    network, params = network_of(algorithm, num_clients)
    simulation = Simulation(task, network, algorithm, Schedule(ROUNDS, ROUNDS))
    numbers = resolved(name, compressor, NUMBERS | {key: np.int32(value) for key, value in SLOTS.items()})
    hparams, key = Hparams(PartitionNumbers(), params, numbers.traced()), jax.random.key(1)
    carry = jax.jit(simulation.init)(simulation.data, hparams, key)[0]
    advance = jax.jit(simulation.advance).lower(simulation.data, hparams, key, carry).compile()
    carry, metrics = jax.device_get(advance(simulation.data, hparams, key, carry))
    models = jax.tree.map(lambda leaf: leaf[:num_clients], algorithm.params(carry.algorithm))
    return models, metrics.messages, metrics.bits, advance.as_text()


PAIRS = [(name, "") for name in ALGORITHMS] + [("choco", name) for name in COMPRESSORS]
SOME = [("dpsgd", "", 7)]  # the others take long
CASES = [
    pytest.param(*pair, num_clients, marks=[] if (*pair, num_clients) in SOME else pytest.mark.long)
    for pair in PAIRS
    for num_clients in (8, 7)
]


@pytest.mark.parametrize(("name", "compressor", "num_clients"), CASES)
def test_several_devices_do_what_one_does(name, compressor, num_clients):
    one, messages, bits, _ = outcome(name, compressor, num_clients, 1)
    four, over_messages, over_bits, text = outcome(name, compressor, num_clients, 4)
    assert_trees_equal(one, four, 5e-5)
    np.testing.assert_array_equal(messages, over_messages)
    np.testing.assert_array_equal(bits, over_bits)
    if name != "local_only":
        assert messages.sum() > 0
    assert unordered(text)[1] == []


def test_every_algorithm_is_a_factory_of_the_package():
    assert set(ALGORITHMS) <= set(package.__all__)
    for name in ALGORITHMS:
        assert getattr(package, name) is ALGORITHMS[name]


def test_algorithms_know_no_mesh():
    for path in Path(package.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {"sharding", "padding"} & {part for name in names for part in name.split(".")}, path.name
