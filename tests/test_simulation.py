"""simulate: loop == vmap == devices, named streams, paired strategies, what is counted."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import PATTERNS, assert_trees_equal, computed, toy_hparams, toy_simulation, toy_task

from mdfl_jax import Schedule, UserError, simulate
from mdfl_jax.algorithms.dpsgd import dpsgd
from mdfl_jax.core.rng import STREAMS, stream, stream_at
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.metrics.history import by_round
from mdfl_jax.networks.spatial import spatial

SEEDS = [3, 11, 5, 8, 2]


def histories(parts):
    """Metrics of `computed` as whole histories [runs, E, ...], positions as a path."""
    paths = {name: np.concatenate([part[name] for part in parts], axis=1) for name in by_round(parts[0])}
    alike = [part.replace(dict.fromkeys(paths, part.round)) for part in parts]
    return jax.tree.map(lambda *leaves: np.stack(leaves, axis=1), *alike).replace(paths)


@pytest.mark.long
def test_a_loop_equals_runs_on_devices():
    """Devices x runs in every layout, with runs that do not fill the devices and patterns mixed in a batch."""
    run = jax.jit(simulate(toy_task(), spatial(6, 5, PATTERNS), dpsgd(), Schedule(6, 2, record_positions=True)))
    numbers = [toy_hparams(pattern) for pattern in (0, 1, 2, 3, 3)]
    loop = [jax.device_get(run(hparams, jax.random.key(seed))) for hparams, seed in zip(numbers, SEEDS)]
    for num_devices, at_once in ((8, 0), (2, 1), (2, 3), (1, 2)):
        together = histories(computed(toy_simulation(), numbers, SEEDS, at_once, jax.devices()[:num_devices])[2])
        for i, alone in enumerate(loop):
            assert_trees_equal(alone, jax.tree.map(lambda leaf, i=i: leaf[i], together), 2e-5)


def test_two_seeds_differ_in_every_stream():
    for name in STREAMS:
        a, b = (jax.random.key_data(stream(jax.random.key(s), name)) for s in (0, 1))
        assert (a != b).any()
    first = {tuple(jax.random.key_data(stream(jax.random.key(0), name)).tolist()) for name in STREAMS}
    assert len(first) == len(STREAMS)
    rounds = {tuple(jax.random.key_data(stream_at(jax.random.key(0), "batch", t)).tolist()) for t in range(100)}
    assert len(rounds) == 100


def test_strategies_of_one_seed_share_data_places_and_initial_model():
    simulation = toy_simulation()
    init = jax.jit(simulation.init)
    starts = [init(simulation.data, toy_hparams(p), jax.random.key(3)) for p in range(4)]
    for carry, metrics in starts[1:]:
        first, first_metrics = starts[0]
        assert_trees_equal(first.clients, carry.clients)
        assert_trees_equal(first.network.places, carry.network.places)
        assert_trees_equal(first.algorithm.params, carry.algorithm.params)
        assert_trees_equal(first_metrics, metrics)
    assert all((leaf == leaf[:1]).all() for leaf in jax.tree.leaves(first.algorithm.params))  # one model for all


def test_a_model_whose_messages_cannot_be_counted_is_refused():
    large = toy_task()._replace(init=lambda data, key: {"kernel": jnp.zeros(2**32)})
    with pytest.raises(UserError, match="the model has 4,294,967,296 numbers; what messages take is counted"):
        Simulation(large, spatial(6, 5, PATTERNS), dpsgd(), Schedule(2, 2))
