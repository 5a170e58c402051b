"""Every algorithm over neighbour lists: the messages and bits of matrices, and models that differ by rounding only."""

import jax
import numpy as np
import pytest
from small import toy_hparams, toy_task

from mdfl_jax import Hparams, Schedule, simulate
from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import Settings
from mdfl_jax.algorithms.registry import resolved
from mdfl_jax.core.types import FIXED, SYMMETRIC
from mdfl_jax.networks.fixed import fixed_graph
from mdfl_jax.networks.graphs import GraphParams
from mdfl_jax.networks.meetings import MeetingsParams, meetings
from mdfl_jax.networks.spatial import SpatialParams, spatial
from mdfl_jax.networks.wrappers.roadside import RoadsideParams, roadside

N, ROUNDS = 12, 4
GRID = SpatialParams(6, radius=2.0, max_step=3.0)
COUNTS = ("messages", "bits", "num_neighbours", "num_heard", "lambda_2", "distance_moved")


def network_for(algorithm, lists):
    """A network that gives what the algorithm needs, and its numbers."""
    more = {"max_neighbours": 10} if lists else {}
    if "at_server" in algorithm.needs:
        inner = spatial(N, 6, ("random_movement",), **more)
        return roadside(inner, ROUNDS, True, False), RoadsideParams(GRID, np.array([[3.0, 3.0]], np.float32), 2.0)
    if FIXED in algorithm.needs:
        return fixed_graph(N, "torus", lists=lists), GraphParams()
    fails = SYMMETRIC not in algorithm.needs
    params = GRID._replace(link_failure=0.2 if fails else 0.0)
    return spatial(N, 6, ("random_movement",), links_fail=fails, **more), params


def history(name, lists, network=None):
    algorithm = ALGORITHMS[name](Settings(num_local_steps=2))
    network, params = network or network_for(algorithm, lists)
    hparams = Hparams(toy_hparams().task, params, resolved(name, "", {}).typed())
    run = jax.jit(simulate(toy_task(num_clients=N), network, algorithm, Schedule(ROUNDS, 2)))
    return run(hparams, jax.random.key(1))


@pytest.mark.few(1)
@pytest.mark.parametrize("name", [*ALGORITHMS])
def test_an_algorithm_over_lists(name):
    of_pairs, listed = history(name, False), history(name, True)
    assert int(np.sum(of_pairs.messages[-1])) > 0 or name == "local_only"
    for metric in COUNTS:
        np.testing.assert_allclose(of_pairs[metric], listed[metric], rtol=1e-5, err_msg=metric)
    for metric in ("loss", "train_loss", "consensus_distance", "mean_model_loss"):
        np.testing.assert_allclose(of_pairs[metric], listed[metric], rtol=2e-4, atol=1e-6, err_msg=metric)


@pytest.mark.long
def test_pairs_over_lists():
    found = [history("fedmobile", lists, (meetings(N, lists=lists), MeetingsParams())) for lists in (False, True)]
    for metric in found[0]:
        np.testing.assert_array_equal(found[0][metric], found[1][metric], err_msg=metric)
