"""Programs lowered for GPUs and TPUs on any machine, in the forms that those backends take: nothing is compiled."""

import functools
import itertools
import re

import jax
import numpy as np
import pytest
from small import toy_dataset, toy_task

from mdfl_jax import Hparams, Schedule
from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import Settings
from mdfl_jax.algorithms.registry import numbers_of
from mdfl_jax.core.devices import Target, aimed_at
from mdfl_jax.data.partition import DirichletNumbers
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.mobility import Movement
from mdfl_jax.models import make_model
from mdfl_jax.networks.fixed import fixed_graph
from mdfl_jax.networks.graphs import GraphParams
from mdfl_jax.networks.meetings import MeetingsParams, meetings
from mdfl_jax.networks.spatial import SpatialParams, spatial
from mdfl_jax.tasks import classification
from mdfl_jax.tasks.gradients import Tiling

N = 4
BACKENDS = {"cpu": "cpu", "cuda": "gpu", "tpu": "tpu"}  # by JAX's names of the platforms
GRAPH, SERVER = (fixed_graph(N, "complete"), GraphParams()), (meetings(N), MeetingsParams())
MOVING = {
    "grid": (spatial(N, 3, ("dam", "dcm")), SpatialParams(2, 2.0, 2.0)),
    "plane": (spatial(N, mobility=(Movement("static", world="plane"), "random_waypoint")), SpatialParams(2, 30.0)),
}
for_each_accelerator = pytest.mark.parametrize("platform", ["cuda", "tpu"])


def aimed(platform):
    return aimed_at(Target(platform, BACKENDS[platform], jax.local_devices()[:1], 16 * 2**30))


def types(tree):
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), tree)


def typed(numbers):
    """Python's numbers as arrays of the types that a study gives them."""
    kinds = {bool: np.bool_, int: np.int32, float: np.float32}
    return jax.tree.map(lambda x: np.asarray(x, kinds.get(type(x))), numbers)


def untraced(function):
    """The function as one that JAX has not seen: what it traced for one backend it would take for another."""
    return lambda *arguments: function(*arguments)


def on_cpu(function, arguments):
    """What a function gives on a CPU, as types."""
    with aimed("cpu"):
        return types(jax.eval_shape(untraced(function), *arguments))


def lowered(platform, function, arguments, expected):
    """The module that a platform's program becomes, as text without places; the types of what it gives are checked."""
    with aimed(platform):
        exported = jax.export.export(jax.jit(untraced(function)), platforms=(platform,))(*arguments)
    text = re.sub(r"(?m)^#loc.*\n| loc\(#loc\d*\)", "", exported.mlir_module())
    assert exported.platforms == (platform,)
    assert types(jax.tree.unflatten(exported.out_tree, exported.out_avals)) == expected
    assert not [line for line in text.splitlines() if "f64" in line]
    return text


def built(platform, make_task, name, network, params):
    """The simulation of one round as a platform has it, and its arguments before the state."""
    with aimed(platform):
        simulation = Simulation(make_task(), network, ALGORITHMS[name](Settings()), Schedule(1, 1))
    hparams = Hparams(DirichletNumbers(1.0), params, numbers_of(name))
    return simulation, (simulation.data, typed(hparams), jax.random.key(0))


@functools.cache
def first_state(*parts):
    simulation, arguments = built("cpu", *parts)
    return on_cpu(simulation.init, arguments)[0]


def lowered_round(platform, *parts):
    """A round that takes the state with which a CPU begins and gives one alike: a run may go on elsewhere."""
    simulation, arguments = built(platform, *parts)
    state = first_state(*parts)
    return lowered(platform, simulation.round, (*arguments, state), state)


def full_batches():
    return toy_task(N, tiling=Tiling(block_size=8))


def minibatches():
    return toy_task(N, batch_size=4)


@pytest.mark.few(2)
@pytest.mark.parametrize(("name", "platform"), [*zip(ALGORITHMS, itertools.cycle(["cuda", "tpu"]))])
def test_a_round_of_every_algorithm(name, platform):
    """Each on one of the platforms: their forms are those of the models and of the mixing, which they share."""
    needs = ALGORITHMS[name](Settings()).needs
    fitting = [of for of in (GRAPH, SERVER) if needs <= of[0].gives]
    assert fitting, f"{name} needs {sorted(needs)}: add a network that gives this"
    assert "stablehlo.dot_general" in lowered_round(platform, full_batches, name, *fitting[0])


@pytest.mark.few(1)
@for_each_accelerator
@pytest.mark.parametrize("world", MOVING)
def test_a_round_among_moving_clients(world, platform):
    text = lowered_round(platform, minibatches, "pame", *MOVING[world])
    assert "stablehlo.case" in text  # one of the mobility rules


def convolutional_run(platform, precision):
    """(function, arguments) of a full-batch round with all around it, from the partition to the last evaluation."""
    model = make_model("cnn", 3, widths=(2, 4), hidden=4)
    make_task = lambda: classification(toy_dataset(), model, N, "iid", precision=precision)  # noqa: E731
    simulation, arguments = built(platform, make_task, "dpsgd", *GRAPH)

    def run(*arguments):
        start, before = simulation.init(*arguments)
        end, after = simulation.advance(*arguments, start)
        return simulation.kept(end), before, after

    return run, arguments


@functools.cache
def outcome_of_the_run():
    return on_cpu(*convolutional_run("cpu", "float32"))  # weights and sums are float32 always


@pytest.mark.few(1)
@for_each_accelerator
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_run_with_convolutions(precision, platform):
    text = lowered(platform, *convolutional_run(platform, precision), outcome_of_the_run())
    assert "stablehlo.convolution" in text or "stablehlo.dot_general" in text
    assert ("bf16" in text) == (precision == "bfloat16")
