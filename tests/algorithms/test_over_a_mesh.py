"""PaME and the rivals over a mesh of four devices against one device: models, messages and bits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import leaves_equal, toy_dataset

from mdfl_jax import Hparams, Schedule
from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import Settings
from mdfl_jax.algorithms.registry import numbers_of
from mdfl_jax.data.partition import PartitionNumbers
from mdfl_jax.models import make_model
from mdfl_jax.networks.mixing import metropolis_hastings
from mdfl_jax.sharding import client_mesh
from mdfl_jax.simulation import build
from mdfl_jax.tasks import classification
from mdfl_jax.types import FIXED, SYMMETRIC, Links, Network, Places

N = 8


def ring():
    apart = np.abs(np.arange(N)[:, None] - np.arange(N))
    adjacency = jnp.asarray(np.isin(np.minimum(apart, N - apart), (1, 3)))
    links = Links(adjacency, metropolis_hastings(adjacency))
    places = Places(jnp.zeros((N, 2)), jnp.zeros(N), jnp.zeros(N, bool))
    gives = frozenset({"adjacency", "mix", SYMMETRIC, FIXED})
    return Network(N, gives, lambda *_: (), lambda p, k, r, state, c: (state, links), lambda _: places)


def outcome(name, num_devices, compressor):
    mesh = client_mesh(jax.devices()[:num_devices])
    module = make_model("linear", 3)
    task = classification(toy_dataset(), module, N, "iid", batch_size=10, mesh=mesh)
    simulation = build(task, ring(), ALGORITHMS[name](Settings(compressor=compressor)), Schedule(4, 4))
    numbers = numbers_of(name, compressor, lr=np.float32(0.05), period_min=1, period_max=2)
    hparams, key = Hparams(PartitionNumbers(), (), numbers), jax.random.key(1)

    @jax.jit
    def whole():
        carry, _ = simulation.init(simulation.data, hparams, key)
        return simulation.advance(simulation.data, hparams, key, carry)

    carry, metrics = whole()
    return jax.device_get((carry.algorithm.params, metrics.messages, metrics.bits))


@pytest.mark.parametrize(("name", "compressor"), [("pame", ""), ("beer", ""), ("squarm_sgd", "random_k")])
def test_over_a_mesh_as_on_one_device(name, compressor):
    (one, messages, bits), (four, over_messages, over_bits) = (outcome(name, d, compressor) for d in (1, 4))
    assert leaves_equal(one, four, 2e-5)
    assert (messages == over_messages).all()
    assert messages.sum() > 0
    assert (bits == over_bits).all()
