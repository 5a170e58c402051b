"""The round suites: whole rounds (movement, links, minibatch steps, mixing), their sizes, FLOPs and memory."""

from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import numpy as np

from benchmarks import measure
from benchmarks.torch_rivals import Setting
from mdfl_jax import Hparams, Schedule
from mdfl_jax.algorithms.dpsgd import dpsgd
from mdfl_jax.algorithms.local import LocalNumbers, Settings, sgd
from mdfl_jax.core import sharding
from mdfl_jax.core.flops import count_flops
from mdfl_jax.core.numbers import from_values
from mdfl_jax.data.dataset import Dataset
from mdfl_jax.data.partition import DirichletNumbers
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.models import MODELS, ModelSettings, SampleSpec
from mdfl_jax.networks.spatial import SpatialParams, spatial
from mdfl_jax.tasks import classification, cut_for
from mdfl_jax.tasks.gradients import Tiling

ROUNDS = {
    "mnist_round": Setting(20, 64, 1, 28, 1, "cnn", (16, 32), 5, 64),
    "mnist_round_100": Setting(100, 32, 1, 28, 1, "cnn", (16, 32), 5, 64),
    "digits_round": Setting(20, 64, 1, 8, 1, "cnn", (16, 32), 3, 64),
    "gn_lenet_round": Setting(48, 8, 3, 32, 3, "gn_lenet", (32, 32, 64), 5, 0),
    "cifar_round": Setting(8, 32, 1, 32, 3, "resnet20", (16, 32, 64), 3, 0),
    "resnet18_round": Setting(20, 512, 1, 32, 3, "resnet18", (64, 128, 256, 512), 3, 0),
}
HPARAMS = Hparams(DirichletNumbers(0.05), SpatialParams(), LocalNumbers(lr=0.01))


class Ours(NamedTuple):
    """A compiled round that is called repeatedly on its own state.

    Attributes:
      call: Runs one round.
      compile_seconds: The seconds that compiling the round took.
      memory: The compiler's memory analysis of the round.
      simulation: The simulation whose round was compiled.
    """

    call: Callable[[], Any]
    compile_seconds: float
    memory: Any
    simulation: Simulation


def images(num_samples: int, side: int, channels: int = 1) -> Dataset:
    """Make random stand-in images of ten classes; the arithmetic of a round does not depend on their content.

    Returns:
      A data set of uint8 images [num_samples, side, side, channels]; its first 100 samples are also the test samples.
    """
    rng = np.random.default_rng(0)
    x = rng.integers(0, 255, (num_samples, side, side, channels), dtype=np.uint8)
    y = (np.arange(num_samples) % 10).astype(np.int32)
    return Dataset("images", x, y, x[:100], y[:100], 10)


def model_of(setting: Setting, form: str = "") -> nn.Module:
    """Make the model of a round suite. It uses those of widths, kernel and hidden that it has as numbers."""
    values = {"widths": setting.widths, "kernel": setting.kernel, "hidden": setting.hidden}
    numbers = from_values(MODELS.numbers(setting.model), values)
    return MODELS[setting.model](ModelSettings(10, numbers, form))


def simulation(
    setting: Setting, mesh: Any = None, tiling: Tiling = Tiling(), precision: str = "float32", form: str = ""
) -> Simulation:
    """Make the simulation of a round suite, with 300 samples per client."""
    data = images(300 * setting.num_clients, setting.side, setting.channels)
    task = classification(
        data,
        model_of(setting, form),
        setting.num_clients,
        "iid",
        batch_size=setting.batch,
        tiling=tiling,
        precision=precision,
        mesh=mesh,
    )
    algorithm = dpsgd(Settings(sgd(momentum=False), num_local_steps=setting.steps))
    return Simulation(task, spatial(setting.num_clients, 18, ("random_movement",)), algorithm, Schedule(1, 1))


def prepare(made: Simulation) -> Ours:
    """Compile a round of a simulation and make its initial state."""
    data = sharding.replicate(made.data, made.mesh) if made.mesh else made.data
    key = jax.random.key(0)
    carry = jax.jit(made.init)(data, HPARAMS, key)[0]
    round_ = jax.jit(made.round, donate_argnums=3)
    state = [carry]
    program, seconds = measure.compiled(round_, data, HPARAMS, key, carry)
    memory: Any = program.memory_analysis()

    def call() -> Any:
        state[0] = program(data, HPARAMS, key, state[0])
        return state[0]

    return Ours(call, seconds, memory, made)


def useful_flops(setting: Setting) -> float:
    """Count the FLOPs of a round with plain convolutions. Every implementation is credited with this number."""
    made = simulation(setting, form="patches")
    key = jax.random.key(0)
    carry = jax.eval_shape(made.init, made.data, HPARAMS, key)[0]
    return count_flops(jax.make_jaxpr(made.round)(made.data, HPARAMS, key, carry))


def peak_bytes(memory: Any) -> int:
    """Return the bytes that a compiled program takes on a device: arguments, results of their own, temporaries."""
    results = memory.output_size_in_bytes - memory.alias_size_in_bytes
    return memory.argument_size_in_bytes + results + memory.temp_size_in_bytes


def memory_ratio(setting: Setting, ours: Ours) -> float:
    """Return the memory ratio of a round on one device.

    It is the peak memory less the data, divided by the memory of 4 N d floats plus that of one chunk's activations.
    """
    shape = (setting.side, setting.side, setting.channels)
    model = model_of(setting)
    variables = jax.eval_shape(model.init, jax.random.key(0), np.zeros((1, *shape), np.float32))
    sizes = cut_for(model, variables, SampleSpec(shape), setting.batch, 300 * setting.num_clients, setting.num_clients)
    chunk = setting._replace(num_clients=sizes.at_once, batch=sizes.block_size, steps=1)
    task = classification(images(300, setting.side, setting.channels), model, chunk.num_clients, "iid",
                          batch_size=chunk.batch)  # fmt: skip
    key = jax.random.key(0)
    params = jax.vmap(lambda k: task.init(task.data, k))(jax.random.split(key, chunk.num_clients))
    clients = jax.jit(task.partition)(task.data, HPARAMS.task, key)
    alone: Any = jax.jit(task.gradient).lower(task.data, clients, params, key).compile().memory_analysis()
    data = sum(leaf.nbytes for leaf in jax.tree.leaves(ours.simulation.data))
    return (peak_bytes(ours.memory) - data) / (
        16 * setting.num_clients * ours.simulation.num_params + alone.temp_size_in_bytes
    )
