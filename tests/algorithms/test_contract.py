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
from least_squares import NO_LINKS, Problem, run, types_of_states
from small import assert_trees_equal, toy_dataset

import mdfl_jax.algorithms as package
from mdfl_jax import Hparams, Schedule, UserError
from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import Settings
from mdfl_jax.algorithms.registry import ignored_by, numbers_of, resolved
from mdfl_jax.core.numbers import Setting
from mdfl_jax.core.sharding import client_mesh
from mdfl_jax.core.types import FIXED, SYMMETRIC
from mdfl_jax.data.partition import PartitionNumbers
from mdfl_jax.engine.simulation import Simulation, check_needs
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


NEEDS = {
    ("adjacency", "mix", SYMMETRIC, FIXED): ("extra", "d2", "anq_nids", "beer", "choco", "dcd_psgd", "squarm_sgd"),
    ("adjacency", "mix", SYMMETRIC): ("nids", "gradient_tracking", "dmgt_svrg"),
    ("adjacency", "mix"): ("dpsgd", "dsgdm_n", "qg_dsgdm", "qg_dsgdm_n", "dfedsam", "dfedavgm"),
    ("adjacency",): ("sgp", "epidemic", "epidemic_oracle", "pame"),
    (): ("local_only", "allreduce", "server_fedavg"),
}
NEEDS = {name: {*needs} for needs, names in NEEDS.items() for name in names}
DEFAULTS = {
    "d2": {"laziness": 1 / 3},
    "dsgdm_n": {"momentum": 0.9},
    "qg_dsgdm": {"momentum": 0.9, "momentum_memory": 0.9},
    "dfedavgm": {"momentum": 0.9},
    "dfedsam": {"rho": 0.01},
    "epidemic": {"num_peers": 7},
    "sgp": {"momentum": 0},
    "allreduce": {"momentum": 0},
    "pame": {"participation": 0.2, "transmission": 0.2, "period_min": 3, "period_max": 7},
}


def test_what_each_needs_and_the_papers_numbers():
    by_server = {name for name in ALGORITHMS if "at_server" in ALGORITHMS[name](Settings()).needs}
    assert {*ALGORITHMS} == {*NEEDS} | by_server
    for name, needs in NEEDS.items():
        assert ALGORITHMS[name](Settings()).needs == needs, name
    for name, numbers in DEFAULTS.items():
        found = numbers_of(name)
        assert {key: getattr(found, key) for key in numbers} == pytest.approx(numbers), name
    assert [name for name in NEEDS if ALGORITHMS[name](Settings()).participates] == ["pame"]
    with pytest.raises(UserError, match=r"^extra needs symmetric mixing weights, which"):
        check_needs(ALGORITHMS["extra"](Settings()), fixed_graph(6, "exponential"), "extra")


def test_bits_of_messages_in_double_precision():
    """A whole model, or the coordinates of a sparse message and their bitmap, or nothing that is known beforehand."""
    whole = ("dpsgd", "extra", "d2", "dsgdm_n", "qg_dsgdm", "qg_dsgdm_n", "nids", "gradient_tracking", "dfedsam")
    for name in (*whole, "dfedavgm", "epidemic", "epidemic_oracle", "dmgt_svrg"):
        assert ALGORITHMS[name](Settings()).double_bits(None, 10) == 640, name
    for name in ("anq_nids", "beer", "choco", "dcd_psgd", "squarm_sgd"):
        sparse = ALGORITHMS[name](Settings(compressor="top_k"))
        assert sparse.double_bits(numbers_of(name, "top_k"), 1000) == 63 * 200 + 1000, name
        assert ALGORITHMS[name](Settings(compressor="sign")).double_bits is None, name
    assert ALGORITHMS["allreduce"](Settings()).double_bits is None
    few = numbers_of("pame", transmission=np.float32(0.01))
    assert ALGORITHMS["pame"](Settings()).double_bits(few, 10_000) == 63 * 100 + 10_000  # PaME (8)


def test_the_eigenvalue_is_given_where_it_is_not_computed():
    numbers = numbers_of("dmgt_svrg")
    numbers.check(Setting(num_clients=256))
    numbers.replace(mixing_rate=0.5).check(Setting(num_clients=257))
    with pytest.raises(UserError, match=r"^algorithm.mixing_rate is 1, .*num_clients=257 it must be below 1"):
        numbers.check(Setting(num_clients=257))


WAIT = ("extra", "d2", "nids", "anq_nids")


@pytest.mark.parametrize("name", [name for name in NEEDS if name not in ("allreduce", "server_fedavg")])
def test_without_links_nothing_is_sent_and_clients_learn_alone_or_wait(name):
    """Descent with the weight decay in the gradient; the types of all states stay, also where double is on."""
    with jax.enable_x64(True):
        before, after = types_of_states(ALGORITHMS[name](Settings()), numbers_of(name))
        assert after == before
        alone = {"lr": 0.125, "weight_decay": 0.25, "momentum": 0.0, "rho": 0.0, "penalty_growth": 1.0}
        hparams, problem = resolved(name, "", alone), Problem()
        models, messages, bits, _ = run(ALGORITHMS[name](Settings()), hparams, problem, [NO_LINKS] * 4)
        w = problem.start.copy()
        for _ in range(0 if name in WAIT else 4):
            w = w - 0.125 * (np.stack([problem.gradient_of(i, w[i]) for i in range(5)]) + 0.25 * w)
        np.testing.assert_allclose(models[-1], w, rtol=1e-6)
        assert messages.sum() == bits.sum() == 0


def test_every_algorithm_is_a_factory_of_the_package():
    assert set(ALGORITHMS) <= set(package.__all__)
    for name in ALGORITHMS:
        assert getattr(package, name) is ALGORITHMS[name]


WITHOUT_A_MESH = {"choose", "draw_pairs", "everywhere", "take_steps"}  # they do what a mesh needs where there is one


def test_algorithms_know_no_mesh():
    for path in Path(package.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "mdfl_jax.core.sharding":
                assert {alias.name for alias in node.names} <= WITHOUT_A_MESH, path.name
