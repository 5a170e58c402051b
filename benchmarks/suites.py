"""The suites of benchmarks.throughput that do not compare a whole round with PyTorch."""

import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import measure
from benchmarks.rounds import ROUNDS, images, prepare, simulation
from mdfl_jax.contrib.convolutions import onednn
from mdfl_jax.core import sharding
from mdfl_jax.data.partition import DirichletNumbers
from mdfl_jax.data.sources import load
from mdfl_jax.exchange.gossip import NeighbourList, mix, mix_dense, mix_listed, neighbour_list
from mdfl_jax.mobility import MOBILITIES, Mobility
from mdfl_jax.mobility.grid import GridWorld, grid_points
from mdfl_jax.models import make_model
from mdfl_jax.models.conv import FORMS, convolution
from mdfl_jax.tasks import classification


def has_torch() -> bool:
    """Return whether torch is installed, so that the rivals can run."""
    return importlib.util.find_spec("torch") is not None


def matrix_product(size: int = 2048, dtype: Any = jnp.float32) -> Callable[[], Any]:
    """Return a call that computes a product of matrices on the first device: the reference speed of a machine."""
    a = jax.random.normal(jax.random.key(0), (size, size), dtype)
    return partial(jax.jit(lambda a: jnp.matmul(a, a, precision="highest")), a)


def full_batch() -> list[dict[str, Any]]:
    """Time the full-batch gradients of all clients, once with unequal and once with equal shares of the samples."""
    sizes = {
        "digits": (load("digits"), make_model("cnn", 10, widths=(8, 8), kernel=3, hidden=32)),
        "mnist_6000": (images(6000, 28), make_model("cnn", 10, widths=(16, 32), kernel=5, hidden=64)),
    }
    rows = []
    for name, (dataset, model) in sizes.items():
        calls: dict[str, Callable[[], Any]] = {}
        compile_seconds, num_samples = {}, {}
        for partition in ("dirichlet", "iid"):
            task = classification(dataset, model, 20, partition)
            key = jax.random.key(0)
            clients = task.partition(task.data, DirichletNumbers(0.05), key)
            params = jax.jit(jax.vmap(lambda k, task=task: task.init(task.data, k)))(jax.random.split(key, 20))
            program, seconds = measure.compiled(task.gradient, task.data, clients, params, key)
            calls[partition] = partial(program, task.data, clients, params, key)
            compile_seconds[partition] = seconds
            num_samples[partition] = clients.num_samples
        seconds_of = measure.interleaved(calls)
        # Calls that ran one after the other are compared, so that drift of the machine cancels.
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


def _ring(num_clients: int, degree: int) -> NeighbourList:
    """Neighbour lists of a ring with ``degree`` neighbours each, in random order so that caches gain nothing."""
    place = np.random.default_rng(0).permutation(num_clients)
    shifts = np.arange(-(degree // 2), degree // 2 + 1)
    around = (np.arange(num_clients)[:, None] + shifts) % num_clients
    sender = np.empty_like(around)
    sender[place] = place[around]
    weight = np.full(sender.shape, 1 / sender.shape[1], np.float32)
    return NeighbourList(jnp.asarray(sender, jnp.int32), jnp.asarray(weight), jnp.int32(degree + 1))


def mixing() -> list[dict[str, Any]]:
    """Time the averaging over eight neighbours, d = 10,000: dense, with lists given, with lists from the matrix."""
    rows, per_client = [], {}
    dense_jit, listed_jit, auto_jit = jax.jit(mix_dense), jax.jit(mix_listed), jax.jit(partial(mix, bound=9))
    make_jit = jax.jit(partial(neighbour_list, bound=9))
    for num_clients in (20, 64, 100, 300, 1000, 3000, 10_000):
        lists, models = _ring(num_clients, 8), jnp.ones((num_clients, 10_000))
        calls: dict[str, Callable[[], Any]] = {"listed": partial(listed_jit, lists, models)}
        if num_clients <= 3000:
            everyone = jnp.arange(num_clients)[:, None]
            weights = jnp.zeros((num_clients, num_clients)).at[everyone, lists.sender].set(lists.weight)
            calls["lists made of the matrix"] = partial(make_jit, weights)
            calls["mix, which chooses"] = partial(auto_jit, weights, models)
        if num_clients <= 1000:
            calls["dense"] = partial(dense_jit, weights, models)
        seconds_of = measure.interleaved(calls)
        per_client[num_clients] = float(np.median(seconds_of["listed"])) / num_clients
        for name, seconds in seconds_of.items():
            row: dict[str, Any] = {
                "variant": f"N = {num_clients}, {name}",
                "seconds_per_round": measure.spread(seconds),
            }
            row |= {
                "num_clients": num_clients,
                "microseconds_per_client": 1e6 * float(np.median(seconds)) / num_clients,
            }
            if num_clients == 10_000:
                row["ratio"] = per_client[10_000] / per_client[1000]
            rows.append(row)
    return rows


def mobility() -> list[dict[str, Any]]:
    """Time steps of DAM and DCM with N up to 10,000 and G up to 200, and compare them with a round of digits_round.

    Half of the clients are static, but at most 100. In the first step every mobile client draws a destination, later
    only those that have arrived do. So the first step is timed apart, and forty steps run before the timing of others.
    """
    rows, steps = [], 5
    the_round = prepare(simulation(ROUNDS["digits_round"], sharding.client_mesh())).call
    sizes = [(20, 18), (1000, 50), (1000, 200), (10_000, 50), (10_000, 200)]
    for num_clients, size in sizes:
        grid = grid_points(size)
        key = jax.random.key(0)
        world = GridWorld(
            grid=grid,
            start=jax.random.randint(key, (num_clients,), 0, len(grid), jnp.int32),
            is_mobile=jnp.arange(num_clients) < num_clients - min(num_clients // 2, 100),
            label_counts=jax.random.randint(key, (num_clients, 10), 0, 50),
            radius=jnp.float32(3.0),
            max_step=jnp.float32(5.0),
        )
        calls: dict[str, Callable[[], Any]] = {}
        for name in ("dam", "dcm"):
            rule = MOBILITIES[name]()

            def walk(state: Any, first: int, count: int, rule: Mobility = rule, world: GridWorld = world) -> Any:
                def step(moved: Any, r: Any) -> tuple[Any, None]:
                    return rule.step(jax.random.key(r), world, moved), None

                return jax.lax.scan(step, state, first + jnp.arange(count))[0]

            start = jax.jit(rule.init)(key, world)
            calls[f"{name}, first step"] = partial(jax.jit(partial(walk, first=0, count=1)), start)
            state = jax.jit(partial(walk, first=0, count=40))(start)
            calls[name] = partial(jax.jit(partial(walk, first=40, count=steps)), state)
        seconds_of = measure.interleaved(calls | {"round": the_round}, 7)
        round_of_client = np.array(seconds_of.pop("round")) / ROUNDS["digits_round"].num_clients
        first_of = {name: seconds_of.pop(f"{name}, first step") for name in ("dam", "dcm")}
        for name, seconds in seconds_of.items():
            a_step = [s / steps for s in seconds]
            row: dict[str, Any] = {"variant": f"{name}, N = {num_clients}, G = {size}"}
            row["first_step_seconds"] = measure.spread(first_of[name])
            row |= {"seconds_per_round": measure.spread(a_step), "num_clients": num_clients}
            row["microseconds_per_client"] = 1e6 * float(np.median(a_step)) / num_clients
            row["ratio"] = float(np.median(np.array(a_step) / num_clients / round_of_client))
            rows.append(row)
    return rows


def monte_carlo_suite() -> list[dict[str, Any]]:
    """Time one point of the demo, 200 rounds, eight seeds: one program against eight processes, two at a time."""
    settings = {"sweep": "network.mobility=dcm", "baseline": "", "rounds": "200"}
    flags = [
        "--config=configs/digits.py",
        "--noreport",
        *(f"--config.{key}={value}" for key, value in settings.items()),
    ]
    with tempfile.TemporaryDirectory() as folder:
        cache = f"--cache={folder}/cache"

        def command(seeds: int, first: int) -> list[str]:
            return [sys.executable, "-m", "launch.sweep", *flags, cache, f"--workdir={folder}/{seeds}-{first}",
                    f"--config.seeds={seeds}", f"--config.first_seed={first}", "--overwrite"]  # fmt: skip

        def run(commands: list[list[str]], at_once: int) -> float:
            begin, waiting = time.perf_counter(), list(commands)
            running: list[subprocess.Popen] = []
            while waiting or running:
                while waiting and len(running) < at_once:
                    running.append(
                        subprocess.Popen(waiting.pop(0), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                    )
                running[0].wait()
                if running.pop(0).returncode:
                    raise SystemExit("a run of the monte_carlo suite failed")
            return time.perf_counter() - begin

        together, apart = [command(8, 0)], [command(1, seed) for seed in range(8)]
        run(together, 1), run(apart[:1], 1)  # fill the compilation cache
        found: dict[str, list[float]] = {"one program, 8 seeds": [], "8 processes, two at a time": []}
        for _ in range(3):
            found["one program, 8 seeds"].append(run(together, 1))
            found["8 processes, two at a time"].append(run(apart, 2))
    base = np.array(found["8 processes, two at a time"])
    return [
        {"variant": name, "seconds": measure.spread(s), "ratio": float(np.median(np.array(s) / base))}
        for name, s in found.items()
    ]


def convolution_forms() -> list[dict[str, Any]]:
    """Time a convolution of stacked clients, forward and both gradients, in each form and for several shapes."""
    shapes = {
        "5x5, 1 -> 16, 28 x 28": (5, 1, 16, 28, 16),
        "5x5, 16 -> 32, 14 x 14": (5, 16, 32, 14, 16),
        "3x3, 16 -> 32, 4 x 4": (3, 16, 32, 4, 64),
        "5x5, 32 -> 32, 16 x 16": (5, 32, 32, 16, 8),
        "5x5, 32 -> 64, 8 x 8": (5, 32, 64, 8, 8),
        "3x3, 16 -> 16, 32 x 32": (3, 16, 16, 32, 32),
        "3x3, 32 -> 32, 16 x 16": (3, 32, 32, 16, 32),
        "3x3, 64 -> 64, 8 x 8": (3, 64, 64, 8, 32),
    }
    dtypes = {"float32": "highest"} if jax.default_backend() == "cpu" else {
        "float32": "highest", "tensorfloat32": "tensorfloat32", "bfloat16": "default"}  # fmt: skip
    clients = 2 if jax.default_backend() == "cpu" else 64
    rows = []
    for shape, (size, channels, features, side, samples) in shapes.items():
        for dtype, precision in dtypes.items():
            kind = jnp.bfloat16 if dtype == "bfloat16" else jnp.float32
            keys = jax.random.split(jax.random.key(0), 3)
            x = jax.random.normal(keys[0], (clients, channels, side, side, samples), kind)
            kernel = jax.random.normal(keys[1], (clients, size, size, channels, features), kind)
            dy = jax.random.normal(keys[2], (clients, features, side, side, samples), kind)
            calls: dict[str, Callable[[], Any]] = {}
            for form in FORMS:
                if form == "onednn" and (onednn.why_absent() or kind == jnp.bfloat16 or jax.default_backend() != "cpu"):
                    continue

                def gradients(x: Any, kernel: Any, dy: Any, form: str = form) -> Any:
                    def one(x: Any, kernel: Any, dy: Any) -> Any:
                        y, back = jax.vjp(lambda x, kernel: convolution(x, kernel, form), x, kernel)
                        return y, back(dy)

                    return jax.vmap(one)(x, kernel, dy)

                with jax.default_matmul_precision(precision):
                    calls[form] = partial(jax.jit(gradients).lower(x, kernel, dy).compile(), x, kernel, dy)
            seconds_of = measure.interleaved(calls)
            flops = 6 * x.size * features * size * size
            for form, seconds in seconds_of.items():
                median = float(np.median(seconds))
                row: dict[str, Any] = {
                    "variant": f"{shape}, {form}",
                    "dtype": dtype,
                    "seconds_per_round": measure.spread(seconds),
                }
                row |= {"gflop_per_second": flops / median / 1e9, "clients": clients, "samples": samples}
                row["ratio"] = float(np.median(np.divide(seconds, seconds_of["patches"])))
                rows.append(row)
    return rows


def startup() -> list[dict[str, Any]]:
    """Time a process from the command to the end of the first round, with a cold and a warm compilation cache."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for i in range(4):
            workdir = Path(folder) / "run"
            command = [sys.executable, "-m", "launch.sweep", "--config=configs/digits.py", "--noreport", "--overwrite",
                       f"--workdir={workdir}", f"--cache={folder}/cache", "--config.rounds=1",
                       "--config.eval_every=1"]  # fmt: skip
            begin = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            seconds = time.perf_counter() - begin
            made = json.loads((workdir / "config.json").read_text())
            variant = "warm cache" if i else "cold cache"
            rows.append({"variant": variant, "seconds": seconds, "compile_seconds": made["compile_seconds"]})
    return rows
