"""Programs lowered for GPUs and TPUs on any machine, in the forms that those backends take: nothing is compiled."""

import functools
import itertools
import re

import jax
import pytest
from tiny import tiny_config

from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import Settings
from mdfl_jax.core.devices import TargetDevices, aimed_at
from mdfl_jax.study import make_study

BACKENDS = {"cpu": "cpu", "cuda": "gpu", "tpu": "tpu"}  # by JAX's names of the platforms
COMPLETE, SERVER = {"network.graph": "complete", "network.num_mobile": 0}, {"server.pattern": "fixed"}
BATCHES = {"algorithm.name": "pame", "algorithm.batch_size": 4}
WORLDS = {
    "grid": {"sweep": "network.mobility=dam,dcm"},
    "plane": {"network.world": "plane", "network.radius": 30.0, "sweep": "network.mobility=static,random_waypoint"},
}
CNN = COMPLETE | {"model.name": "cnn", "model.widths": (2, 4), "model.hidden": 4}
for_each_accelerator = pytest.mark.parametrize("platform", ["cuda", "tpu"])


def types(tree):
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), tree)


def aimed(platform):
    return aimed_at(TargetDevices(platform, BACKENDS[platform], jax.local_devices()[:1], 16 * 2**30))


def program(platform, part, changes):
    """(function, arguments) of a part of a study's program as a platform has it: a round, or a whole run of one."""
    with aimed(platform):
        (group,) = make_study(tiny_config(rounds=1, eval_every=1, seeds=1, **dict(changes))).groups
    simulation, arguments = group.simulation, (group.simulation.data, group.hparams[0], jax.random.key(0))

    def run(*arguments):
        start, before = simulation.init(*arguments)
        end, after = simulation.advance(*arguments, start)
        return end._replace(clients=None), before, after

    parts = {"start": simulation.init, "round": simulation.round, "run": run}
    # JAX has not seen a function of its own: what it traced for one backend it would take for another.
    return lambda *given: parts[part](*given), arguments


@functools.cache
def on_cpu(part, changes):
    """What a part of a program gives on a CPU, as types."""
    function, arguments = program("cpu", part, changes)
    with aimed("cpu"):
        return types(jax.eval_shape(function, *arguments))


def lowered(platform, part, **changes):
    """The module that a platform's program becomes, as text without places.

    A round takes the state with which a CPU begins and gives one alike: a run may go on elsewhere.
    """
    changes = tuple(changes.items())
    function, arguments = program(platform, part, changes)
    alike = tuple(each for each in changes if each[0] != "engine.precision")  # weights and sums are float32 always
    expected = on_cpu("start", changes)[0] if part == "round" else on_cpu(part, alike)
    with aimed(platform):
        given = (*arguments, expected) if part == "round" else arguments
        exported = jax.export.export(jax.jit(function), platforms=(platform,))(*given)
    text = re.sub(r"(?m)^#loc.*\n| loc\(#loc\d*\)", "", exported.mlir_module())
    assert exported.platforms == (platform,)
    assert types(jax.tree.unflatten(exported.out_tree, exported.out_avals)) == expected
    assert not [line for line in text.splitlines() if "f64" in line]
    return text


@pytest.mark.few(2)
@pytest.mark.parametrize(("name", "platform"), [*zip(ALGORITHMS, itertools.cycle(["cuda", "tpu"]))])
def test_a_round_of_every_algorithm(name, platform):
    """Each on one of the platforms: their forms are those of the models and of the mixing, which they share."""
    serves = bool(ALGORITHMS[name](Settings()).needs & {"server"})
    shared = {"model.shared": "*/bias"} if name in ("dfedalt", "dfedsalt") else {}
    text = lowered(platform, "round", **{"algorithm.name": name}, **(SERVER if serves else COMPLETE), **shared)
    assert "stablehlo.dot_general" in text


@pytest.mark.few(1)
@for_each_accelerator
@pytest.mark.parametrize("world", WORLDS)
def test_a_round_among_moving_clients(world, platform):
    text = lowered(platform, "round", **BATCHES, **WORLDS[world])
    assert "stablehlo.case" in text  # one of the mobility rules


@pytest.mark.few(1)
@for_each_accelerator
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_run_with_convolutions(precision, platform):
    """A full-batch round with all around it, from the partition to the last evaluation."""
    text = lowered(platform, "run", **CNN, **{"engine.precision": precision})
    assert "stablehlo.convolution" in text or "stablehlo.dot_general" in text
    assert ("bf16" in text) == (precision == "bfloat16")
