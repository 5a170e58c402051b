"""Seconds of a round, suite by suite: python -m benchmarks.throughput --suite=full_batch

Suites:
  full_batch  a full-batch round of ragged clients (Dirichlet 0.05) against an equal split of the same samples, at the
              sizes of the digits (N = 20, CNN 3x3x8, 3x3x8, 32) and of 6,000 images of 28 x 28 (N = 20, CNN 5x5x16,
              5x5x32, 64)
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags

from benchmarks import measure
from launch import common
from mdfl_jax.data.dataset import Dataset
from mdfl_jax.data.sources import load
from mdfl_jax.errors import UserError, unknown_name
from mdfl_jax.models import MODELS, ModelSettings
from mdfl_jax.tasks import PartitionParams, classification

_SUITE = flags.DEFINE_string("suite", "", "Which suite to run.")

NUM_CLIENTS = 20


def images(num_samples: int, side: int) -> Dataset:
    """Stand-in images of ten classes; arithmetic does not depend on what they show."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 255, (num_samples, side, side, 1), dtype=np.uint8)
    y = (np.arange(num_samples) % 10).astype(np.int32)
    return Dataset("images", x, y, x[:100], y[:100], 10)


def full_batch() -> list[dict[str, Any]]:
    """Gradient of every client over all its samples; clients hold unequal shares, then equal ones."""
    sizes = {
        "digits": (load("digits"), ModelSettings(10, (8, 8), 3, 32)),
        "mnist_6000": (images(6000, 28), ModelSettings(10, (16, 32), 5, 64)),
    }
    rows = []
    for name, (dataset, model) in sizes.items():
        calls: dict[str, Callable[[], Any]] = {}
        compile_seconds, num_samples = {}, {}
        for partition in ("dirichlet", "iid"):
            task = classification(dataset, MODELS["cnn"](model), NUM_CLIENTS, partition)
            key = jax.random.key(0)
            clients = task.partition(task.data, PartitionParams(0.05), key)
            params = jax.jit(jax.vmap(task.init))(jax.random.split(key, NUM_CLIENTS))
            program, seconds = measure.compiled(task.gradient, task.data, clients, params, key)
            calls[partition] = partial(program, task.data, clients, params, key)
            compile_seconds[partition] = seconds
            num_samples[partition] = clients.num_samples
        seconds_of = measure.interleaved(calls)
        # Pairs of neighbours in time are compared, then the median is taken.
        ratio = float(np.median(np.divide(seconds_of["dirichlet"], seconds_of["iid"])))
        for partition in calls:
            rows.append(
                {
                    "variant": f"{name}, {partition}",
                    "seconds_per_round": measure.spread(seconds_of[partition]),
                    "compile_seconds": compile_seconds[partition],
                    "samples_per_second": len(dataset.y_train) / float(np.median(seconds_of[partition])),
                    "largest_client": int(jnp.max(num_samples[partition])),
                    "ratio": ratio if partition == "dirichlet" else 1.0,
                }
            )
    return rows


SUITES: dict[str, Callable[[], list[dict[str, Any]]]] = {"full_batch": full_batch}


def main() -> int:
    """Runs a suite and writes its rows."""
    if _SUITE.value not in SUITES:
        raise UserError(f"--suite: {unknown_name('suite', _SUITE.value, SUITES)}")
    print(measure.report(_SUITE.value, SUITES[_SUITE.value]()))
    return 0


if __name__ == "__main__":
    common.run(main)
