"""Measure an evaluation of many clients, and that of a sample: python -m benchmarks.evaluation --clients=2000

The models are perceptrons for images of 28 x 28, one for each client; the test images are random.
The variants take turns: all clients on all images, as a study does it; the same with all models mapped together (as up
to `mdfl_jax.tasks.scoring.MANY_MODELS` models are); and the samples `eval_clients` and `eval_samples`, with their
errors.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags

from benchmarks import measure
from mdfl_jax.cli import common
from mdfl_jax.core.types import Schedule
from mdfl_jax.data.dataset import Dataset
from mdfl_jax.metrics.sampling import sampled_scores
from mdfl_jax.models import make_model
from mdfl_jax.tasks import classification
from mdfl_jax.tasks import scoring as how

_CLIENTS = flags.DEFINE_integer("clients", 2000, "Clients, N.", lower_bound=100)
_IMAGES = flags.DEFINE_integer("images", 1000, "Test images, T.", lower_bound=500)
_WIDTHS = flags.DEFINE_list("widths", ["16", "32"], "Widths of the hidden layers.")
_REPEATS = flags.DEFINE_integer("repeats", 3, "Timed calls of each variant.", lower_bound=1)
_TOGETHER = flags.DEFINE_bool("together", True, "Whether to time all models mapped together too, which takes longest.")

SAMPLES = {"eval_clients=100": (100, 0), "eval_samples=500": (0, 500), "eval_clients=100, eval_samples=500": (100, 500)}


def random_images(count: int) -> Dataset:
    """Make a data set of random images of ten classes, whose test set has the given size."""
    rng = np.random.default_rng(0)

    def drawn(size: int) -> tuple[np.ndarray, np.ndarray]:
        return rng.integers(0, 256, (size, 28, 28, 1), dtype=np.uint8), (np.arange(size) % 10).astype(np.int32)

    return Dataset("random", *drawn(100), *drawn(count), 10)


def main() -> int:
    """Time the variants and write results/evaluation-<platform>.json."""
    common.setup_jax("")
    count = _CLIENTS.value
    task = classification(
        random_images(_IMAGES.value), make_model("mlp", 10, widths=tuple(map(int, _WIDTHS.value))), count, batch_size=16
    )
    keys = jax.random.split(jax.random.key(0), count)
    models = jax.jit(jax.vmap(lambda key: task.init(task.data, key)))(keys)
    is_mobile, key = jnp.arange(count) < count // 4, jax.random.key(1)

    def sampled(clients: int, samples: int) -> Any:
        schedule = Schedule(2, 1, eval_clients=clients, eval_samples=samples)
        return lambda params: sampled_scores(task, schedule, task.data, None, params, is_mobile, key)

    def whole(params: Any) -> Any:
        return task.evaluate(task.data, None, params)

    variants = {"all": whole}
    variants |= {name: sampled(*sizes) for name, sizes in SAMPLES.items()}
    programs = {name: measure.compiled(function, models) for name, function in variants.items()}
    if _TOGETHER.value:
        many, how.MANY_MODELS = how.MANY_MODELS, count
        programs["all, mapped together"] = measure.compiled(lambda params: whole(params), models)
        how.MANY_MODELS = many
    calls: dict[str, Callable[[], Any]] = {name: partial(program, models) for name, (program, _) in programs.items()}
    found = measure.interleaved(calls, _REPEATS.value)
    rows: list[dict[str, Any]] = []
    for name, (program, compile_seconds) in programs.items():
        row: dict[str, Any] = {"variant": name, "num_clients": count, "num_images": _IMAGES.value}
        row |= {"widths": _WIDTHS.value, "seconds": measure.spread(found[name]), "compile_seconds": compile_seconds}
        row |= {"ratio_to_all": float(np.median(np.divide(found[name], found["all"])))}
        row |= {"temporary_mib": program.memory_analysis().temp_size_in_bytes / 2**20}
        rows.append(row)
    measure.report("evaluation", rows)
    return 0


if __name__ == "__main__":
    common.run_command(main)
