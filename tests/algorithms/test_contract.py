"""What every algorithm keeps: devices that share a run do not deadlock, what it leaves out it says, types stay.

That it does the same over several devices, over neighbour lists and where clients sleep is judged by tests/reference.
"""

import jax
import numpy as np
import pytest
from collectives import unordered
from least_squares import types_of_states
from small import toy_dataset

from mdfl_jax import Hparams, Schedule
from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import Settings
from mdfl_jax.algorithms.registry import ignored_by, numbers_of, resolved
from mdfl_jax.contrib.presence.presence import MarkovNumbers, PresenceParams, coming_and_going
from mdfl_jax.core.numbers import fields_of
from mdfl_jax.core.sharding import client_mesh
from mdfl_jax.core.traced import live
from mdfl_jax.core.types import FIXED, SYMMETRIC
from mdfl_jax.data.partition import PartitionNumbers
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.models import make_model
from mdfl_jax.networks.fixed import fixed_graph
from mdfl_jax.networks.graphs import GraphParams
from mdfl_jax.networks.spatial import SpatialParams, spatial
from mdfl_jax.networks.wrappers.roadside import RoadsideParams, roadside
from mdfl_jax.tasks import classification

N, ROUNDS, DEVICES = 12, 4, 4
AT_SERVER = [name for name in ALGORITHMS if "server" in ALGORITHMS[name](Settings()).needs]
NUMBERS = {"lr": 0.05, "period_min": 1, "period_max": 2, "num_peers": 2}
NUMBERS |= {"upload_from": 0, "upload_until": 4, "download_from": 0, "download_until": 4}
GRID = SpatialParams(6, radius=2.0, max_step=3.0)


def network_of(name, lists=False):
    """A network in which something happens in every round, for what the algorithm needs, and its numbers."""
    needs, more = ALGORITHMS[name](Settings()).needs, {"max_neighbours": 10} if lists else {}
    if name in AT_SERVER:
        inner = spatial(N, 6, ("random_movement",), **more)
        return roadside(inner, ROUNDS, True, False), RoadsideParams(GRID, np.array([[3.0, 3.0]], np.float32), 2.0)
    if FIXED in needs:
        return fixed_graph(N, "torus", lists=lists), GraphParams()
    fails = SYMMETRIC not in needs
    params = GRID._replace(link_failure=0.2 if fails else 0.0)
    return spatial(N, 6, ("random_movement",), links_fail=fails, **more), params


def but(short, names):
    """The cases of which all but one are long."""
    return [name if name == short else pytest.param(name, marks=pytest.mark.long) for name in names]


@pytest.mark.parametrize("name", but("dpsgd", ALGORITHMS))
def test_devices_that_share_a_run_wait_for_one_another_in_one_order(name):
    """No collective stands in a loop or a condition where another one may run beside it (`collectives`)."""
    mesh = client_mesh(jax.devices()[:DEVICES])
    task = classification(toy_dataset(), make_model("linear", 3), N, "iid", batch_size=5, mesh=mesh)
    network, params = network_of(name, lists=True)
    if name not in AT_SERVER and FIXED not in ALGORITHMS[name](Settings()).needs:
        network, params = coming_and_going(network, "markov"), PresenceParams(params, MarkovNumbers().typed())
    algorithm = ALGORITHMS[name](Settings(num_local_steps=1 if "local_steps" in ignored_by(name) else 2))
    simulation = Simulation(task, network, algorithm, Schedule(ROUNDS, 2))
    given = (
        simulation.data,
        Hparams(PartitionNumbers(), params, resolved(name, "", NUMBERS).traced()),
        jax.random.key(1),
    )
    carry = jax.jit(simulation.first)(*given)
    number, pairs = unordered(jax.jit(simulation.advance).lower(*given, carry).compile().as_text())
    assert number > 0
    assert pairs == []


SETTINGS = {
    **{"aggregation": "aggregation", "compressor": "compressor", "local_steps": "num_local_steps"},
    **{"optimizer": "optimizer", "sends": "sends", "statistics": "local_statistics"},
}


class Watched(Settings):
    """Settings that know which of their fields have been read (``read``), by an algorithm that was made and traced."""

    def __new__(cls, *values, **named):
        found = super().__new__(cls, *values, **named)
        found.read = set()
        return found

    def __getattribute__(self, name):
        if name in Settings._fields:
            self.read.add(name)
        return super().__getattribute__(name)

    def __iter__(self):
        self.read.update(Settings._fields)
        return super().__iter__()

    def _replace(self, **changes):
        """What is read of the changed settings counts as read of these."""
        found = type(self)(**(dict(zip(Settings._fields, tuple.__iter__(self))) | changes))
        found.read = self.read
        return found


def numbers_not_read(simulation, hparams):
    """The numbers of an algorithm that neither the start of a run nor its rounds read."""
    names = [path[-1].name for path, _ in jax.tree_util.tree_leaves_with_path(hparams.algorithm)]
    key = jax.eval_shape(lambda: jax.random.key(0))
    carry, _ = jax.eval_shape(simulation.init, simulation.data, hparams, key)
    read = set()
    for step, given in ((simulation.init, (key,)), (simulation.advance, (key, carry))):

        def of_numbers(numbers, *given, step=step):
            return step(simulation.data, hparams._replace(algorithm=numbers), *given)

        used = live(jax.make_jaxpr(of_numbers)(hparams.algorithm, *given).jaxpr)[1]
        read |= {name for name, is_used in zip(names, used) if is_used}
    return set(names) - read


@pytest.mark.parametrize("name", but("dpsgd", ALGORITHMS))
def test_what_is_not_read_is_said_to_be_ignored(name):
    task, (network, params) = classification(toy_dataset(), make_model("linear", 3), N, "iid"), network_of(name)
    settings, numbers = Watched(), resolved(name, "", NUMBERS).traced()
    simulation = Simulation(task, network, ALGORITHMS[name](settings), Schedule(ROUNDS, 2))
    unread = numbers_not_read(simulation, Hparams(PartitionNumbers(), params, numbers))
    ignored = ignored_by(name)
    assert {setting for setting, field in SETTINGS.items() if field not in settings.read} <= ignored
    assert "local_steps" in ignored or {"num_local_epochs", "proximal"} <= settings.read
    assert "statistics" in ignored or "shared" in settings.read
    assert {"optimizer", "schedule"} & settings.read
    elsewhere = {field for field, each in fields_of(type(numbers)).items() if "part" in each.metadata}
    assert unread - elsewhere <= {"proximal"} | (ignored & {"momentum"})


def test_bits_of_messages_in_double_precision():
    """A whole model, or the coordinates of a sparse message and their bitmap, or nothing that is known beforehand."""
    whole = ("dpsgd", "extra", "d2", "dsgdm_n", "qg_dsgdm", "qg_dsgdm_n", "nids", "gradient_tracking", "dfedsam")
    for name in (*whole, "dfedavgm", "kgt", "epidemic", "epidemic_oracle", "dmgt_svrg"):
        assert ALGORITHMS[name](Settings()).traits.double_bits(None, 10) == 640, name
    for name in ("anq_nids", "beer", "choco", "dcd_psgd", "squarm_sgd"):
        sparse = ALGORITHMS[name](Settings(compressor="top_k"))
        assert sparse.traits.double_bits(numbers_of(name, "top_k"), 1000) == 63 * 200 + 1000, name
        assert ALGORITHMS[name](Settings(compressor="sign")).traits.double_bits is None, name
    assert ALGORITHMS["allreduce"](Settings()).traits.double_bits is None
    few = numbers_of("pame", transmission=np.float32(0.01))
    assert ALGORITHMS["pame"](Settings()).traits.double_bits(few, 10_000) == 63 * 100 + 10_000  # PaME (8)


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name not in AT_SERVER])
def test_states_of_single_precision_keep_their_types_where_double_is_on(name):
    with jax.enable_x64(True):
        before, after = types_of_states(ALGORITHMS[name](Settings()), numbers_of(name))
        assert after == before
