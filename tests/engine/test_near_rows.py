"""Devices that share a run over neighbour lists: what they receive."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mdfl_jax import Hparams, Schedule
from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import Settings
from mdfl_jax.algorithms.registry import numbers_of
from mdfl_jax.core.links import Reach, Senders
from mdfl_jax.core.sharding import client_mesh, replicate, tracing_over
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.exchange.gossip import mix
from mdfl_jax.networks.fixed import fixed_graph
from mdfl_jax.networks.graphs import GraphParams
from mdfl_jax.tasks.regression import LinearNumbers, regression

D = 37  # parameters of a model
NUMBERS = numbers_of("dpsgd", lr=np.float32(0.1))


def exchanged(program):
    """The collectives of a program that move models."""
    kinds = "all-gather|all-reduce|reduce-scatter|collective-permute|all-to-all"
    return re.findall(rf"f32\[[\d,]*\b{D}\b[\d,]*\]\S* (?:{kinds})(?:-start)?\(", program.as_text())


def over_lists(graph, num_clients, num_devices):
    """A whole run of D-PSGD on a graph whose links are neighbour lists, compiled."""
    mesh = client_mesh(jax.devices()[:num_devices])
    network = fixed_graph(num_clients, graph, lists=True)
    task = regression("linear", num_clients, D, 3, test_samples=2, mesh=mesh)
    simulation = Simulation(task, network, ALGORITHMS["dpsgd"](Settings()), Schedule(2, 2))
    hparams, key = Hparams(LinearNumbers(shift=1.0).typed(), GraphParams(), NUMBERS), jax.random.key(0)
    whole = lambda: simulation.advance(None, hparams, key, simulation.init(None, hparams, key)[0])  # noqa: E731
    return jax.jit(whole).lower().compile()


@pytest.mark.long
@pytest.mark.parametrize(
    ("graph", "num_clients", "num_devices", "rows"),
    [("ring", 12, 4, 1), ("torus", 36, 4, 6), ("torus", 32, 8, 0)],
)
def test_devices_receive_only_the_models_next_to_their_own(graph, num_clients, num_devices, rows):
    """Bit-equal to one device; all where half of the models are near."""
    alone, program = (over_lists(graph, num_clients, number) for number in (1, num_devices))
    received = [each for each in exchanged(program) if "all-reduce" not in each]  # but the mean, which is evaluated
    assert not exchanged(alone)
    if rows:
        assert {re.match(r"f32\[(\d+),", shape)[1] for shape in received} == {str(rows)}
        assert len(received) == 2
        assert all("collective-permute" in each for each in received)
    else:
        assert not any("collective-permute" in each for each in received)
        assert received
    (before, _), (after, _) = alone(), program()
    np.testing.assert_array_equal(after.algorithm.params["w"], before.algorithm.params["w"])
    assert np.ptp(before.algorithm.params["w"], axis=0).min() > 0.01


def test_a_model_from_beyond_the_reach_that_a_network_told_is_not_a_number():
    ids, mesh = jnp.array([[i, (i + 2) % 16] for i in range(16)]), client_mesh(jax.devices()[:4])

    def mixed(params):
        with tracing_over(mesh):
            return mix(jnp.full((16, 2), 0.5), params, senders=Senders(ids, ids, jnp.int32(2), Reach(1)))

    found = jax.jit(mixed)(replicate(np.arange(16.0, dtype=np.float32)[:, None], mesh))[:, 0]
    assert np.isnan(found).tolist() == [i % 4 == 3 for i in range(16)]
