"""Time an iteration of PaME against one of D-PSGD: python -m benchmarks.throughput --suite=pame"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import measure
from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import Settings, sgd
from mdfl_jax.algorithms.registry import numbers_of
from mdfl_jax.core.types import Algorithm, Links, RoundContext
from mdfl_jax.networks.mixing import metropolis_hastings

NUM_CLIENTS, SIZE, DEGREE = 128, 10_000, 10
SAMPLES = (4, 16, 100)  # per client; with fewer samples, the exchange is a larger part of an iteration
ROUNDS = 8  # per timed call; an untimed call before it brings clients to different phases of their periods


def _rounds(algorithm: Algorithm, numbers: Any, links: Links, state: Any, data: jax.Array, target: jax.Array) -> Any:
    def gradient(params: Any, key: jax.Array) -> Any:
        residual = jnp.einsum("irl,il->ir", data, params) - target
        return jnp.mean(residual**2, axis=1) / 2, jnp.einsum("irl,ir->il", data, residual) / data.shape[1]

    step = lambda s, key: (algorithm.round(numbers, s, links, RoundContext(key, gradient))[0], None)  # noqa: E731
    return jax.lax.scan(step, state, jax.random.split(jax.random.key(1), ROUNDS))[0]


def pame_suite() -> list[dict[str, Any]]:
    """Time linear regression (PaME, example 1) with few samples per client, n = 10,000 and the paper's numbers."""
    rng = np.random.default_rng(0)
    near = rng.random((NUM_CLIENTS, NUM_CLIENTS)) < DEGREE / NUM_CLIENTS
    adjacency = jnp.asarray(np.triu(near, 1) | np.triu(near, 1).T)
    links = Links(adjacency, metropolis_hastings(adjacency))
    rows = []
    for samples in SAMPLES:
        calls: dict[str, Callable[[], Any]] = {}
        data = jnp.asarray(rng.normal(size=(NUM_CLIENTS, samples, SIZE)), jnp.float32)
        target = jnp.asarray(rng.normal(size=(NUM_CLIENTS, samples)), jnp.float32)
        for name in ("dpsgd", "pame"):
            algorithm = ALGORITHMS[name](Settings(sgd(momentum=False)))
            numbers = numbers_of(name, lr=1e-3)

            state = algorithm.init(numbers, jnp.zeros((NUM_CLIENTS, SIZE)))
            program, _ = measure.compiled(partial(_rounds, algorithm, numbers, links), state, data, target)
            calls[name] = partial(program, program(state, data, target), data, target)
        seconds_of = measure.interleaved(calls)
        for name, seconds in seconds_of.items():
            an_iteration = [s / ROUNDS for s in seconds]
            row: dict[str, Any] = {"variant": f"{name}, {samples} samples a client"}
            row |= {"seconds_per_round": measure.spread(an_iteration), "num_clients": NUM_CLIENTS, "size": SIZE}
            row["ratio"] = float(np.median(np.divide(seconds, seconds_of["dpsgd"])))
            rows.append(row)
    return rows
