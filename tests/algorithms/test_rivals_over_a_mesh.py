"""Uncompressed rivals over a thinned graph, on a mesh of four devices against one: models and messages."""

import jax
import numpy as np
import pytest
from small import leaves_equal, toy_dataset

from mdfl_jax import Hparams, Schedule
from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import Settings
from mdfl_jax.algorithms.registry import resolved
from mdfl_jax.data.partition import PartitionNumbers
from mdfl_jax.models import make_model
from mdfl_jax.networks.fixed import fixed_graph
from mdfl_jax.networks.graphs import GraphParams
from mdfl_jax.networks.participation import ThinnedParams, thinned
from mdfl_jax.sharding import client_mesh
from mdfl_jax.simulation import build
from mdfl_jax.tasks import classification

N = 8


def outcome(name, num_devices):
    mesh = client_mesh(jax.devices()[:num_devices])
    task = classification(toy_dataset(), make_model("linear", 3), N, "iid", batch_size=10, mesh=mesh)
    network = thinned(fixed_graph(N, "complete"))
    simulation = build(task, network, ALGORITHMS[name](Settings(num_local_steps=2)), Schedule(4, 4))
    graph = ThinnedParams(GraphParams(), np.float32(0.5), np.int32(2))
    numbers = resolved(name, "", {"lr": np.float32(0.05), "num_peers": np.int32(2)})
    hparams, key = Hparams(PartitionNumbers(), graph, numbers), jax.random.key(1)

    @jax.jit
    def whole():
        carry, _ = simulation.init(simulation.data, hparams, key)
        return simulation.advance(simulation.data, hparams, key, carry)

    carry, metrics = whole()
    return jax.device_get((carry.algorithm.params, metrics.messages))


@pytest.mark.parametrize("name", ["nids", "epidemic_oracle"])
def test_over_a_mesh_as_on_one_device(name):
    (one, messages), (four, over_messages) = outcome(name, 1), outcome(name, 4)
    assert leaves_equal(one, four, 2e-5)
    assert (messages == over_messages).all()
    assert messages.sum() > 0
