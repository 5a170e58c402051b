"""Executes many runs with one compiled program: ``pmap`` over the devices, and ``vmap`` over the runs of a device.

A run is a (hparams, key) pair: a sweep point under a seed. All runs have the same shapes, so one compiled program
serves them all. On a CPU, a device computes its runs one after another (`lax.map`), which keeps one run's models in the
cache; on an accelerator, the runs of a device are mapped together. A simulation with a mesh, where several devices
share each run, is one program over that mesh, and the rows of the mesh take the role of the devices. The results are
those of a plain loop over runs.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mdfl_jax.core import rng, sharding
from mdfl_jax.core.devices import current
from mdfl_jax.core.types import Hparams
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.engine.turns import RunsInTurns, turns_of
from mdfl_jax.metrics.history import Metrics


class Runs(NamedTuple):
    """The inputs of runs, arranged for D devices with R runs each.

    Attributes:
      hparams: the numbers of the runs, leaves [D, R, ...].
      keys: [D, R] typed keys, or [D, R, len(STREAMS)] with a key for each stream (`mdfl_jax.core.rng`).
    """

    hparams: Hparams
    keys: jax.Array


class MonteCarlo(NamedTuple):
    """A simulation that computes batches of runs on the devices.

    Attributes:
      runs: (list of hparams, seeds [runs] or [runs, len(STREAMS)], one for each stream) -> Runs; the last run is
        repeated until the devices are filled.
      place: a tree of NumPy arrays [runs, ...] -> the same arrays arranged for the devices, [D, R, ...].
      state: (Runs) -> the shapes and the sharding of a carry, for compilation ahead of time.
      init: (data, hparams, keys) -> (carry, metrics), all [D, R, ...].
      advance: (data, hparams, keys, carry) -> (carry, metrics); the carry is donated. ``init`` and ``advance`` both
        have a method ``lower`` for compilation ahead of time.
      devices: the D devices.
      turns: the runs of a device in the turns in which it computes them; None over a mesh and on accelerators.
      data: the simulation's data, with one copy for each device: leaves [D, ...]; over a mesh there is no axis D.
      num_evaluations: the number of calls of ``advance`` in a whole run.

    For a target that is not present, ``data`` and the result of ``runs`` are only shapes, which are all that ``lower``
    needs.
    """

    runs: Callable[[list[Hparams], Sequence[int] | np.ndarray], Runs]
    place: Callable[[Any], Any]
    state: Callable[[Runs], Any]
    init: Any
    advance: Any
    devices: list[jax.Device]
    turns: RunsInTurns | None
    data: Any
    num_evaluations: int


def one_per_device(tree: Any, devices: list[jax.Device]) -> Any:
    """Copy every leaf to each of D devices, as one array [D, ...] with one shard on each device."""
    sharding = NamedSharding(Mesh(np.array(devices), ("device",)), PartitionSpec("device"))
    if not current().is_here:
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct((len(devices), *x.shape), x.dtype), tree)

    def leaf(x: jax.Array) -> jax.Array:
        host = np.asarray(x)[None]
        shape = (len(devices), *x.shape)
        return jax.make_array_from_callback(shape, sharding, lambda index: host)

    return jax.tree.map(leaf, tree)


def monte_carlo(
    simulation: Simulation, runs_per_batch: int, at_once: int = 0, devices: list[jax.Device] | None = None
) -> MonteCarlo:
    """Map a simulation over runs. Over a mesh, D is the number of its rows.

    Args:
      simulation: the simulation, from `mdfl_jax.engine.simulation.build`.
      runs_per_batch: the number of runs that are on the devices at the same time.
      at_once: the runs of a device that are mapped together (vmap); 0: one run on a CPU and where one run keeps the
        device busy, otherwise all.
      devices: the devices to use, by default those of the target; never more devices than runs are used.
    """
    aim, mesh = current(), simulation.mesh
    devices = (devices or aim.devices)[:runs_per_batch]
    places = mesh.shape[sharding.SEED] if mesh else len(devices)
    per_device = -(-runs_per_batch // places)
    at_once = min(at_once or (1 if aim.backend == "cpu" or simulation.alone else per_device), per_device)
    per_device = -(-per_device // at_once) * at_once  # a whole number of groups; `place` fills them up

    def over_runs(f: Callable[..., Any], *runs: Any) -> Any:
        if at_once >= per_device:
            return jax.vmap(f)(*runs)
        if at_once == 1:
            return jax.lax.map(lambda run: f(*run), runs)
        # The grouping is done here because lax.map's own batches fail on arrays without elements.
        groups = jax.tree.map(lambda x: x.reshape(per_device // at_once, at_once, *x.shape[1:]), runs)
        results = jax.lax.map(lambda group: jax.vmap(f)(*group), groups)
        return jax.tree.map(lambda x: x.reshape(per_device, *x.shape[2:]), results)

    def init(data: Any, hparams: Hparams, keys: jax.Array) -> tuple[Any, Metrics]:
        return over_runs(lambda h, k: simulation.init(data, h, k), hparams, keys)

    def advance(data: Any, hparams: Hparams, keys: jax.Array, carry: Any) -> tuple[Any, Metrics]:
        return over_runs(lambda h, k, c: simulation.advance(data, h, k, c), hparams, keys, carry)

    def place(tree: Any) -> Any:
        def leaf(x: np.ndarray) -> np.ndarray:
            padded = np.concatenate([x, np.repeat(x[-1:], places * per_device - len(x), axis=0)])
            return padded.reshape(places, per_device, *x.shape[1:])

        return jax.tree.map(leaf, tree)

    def runs(hparams: list[Hparams], seeds: Sequence[int] | np.ndarray) -> Runs:
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *hparams)
        made = Runs(place(stacked), rng.keys(place(np.array(seeds, np.uint32))))
        return sharding.placed(made, sharding.by_row(mesh) if mesh else None)

    def over_mesh(mesh: Mesh, f: Callable[..., Any]) -> Callable[..., Any]:
        def whole(data: Any, *of_runs: Any) -> Any:
            carry, metrics = sharding.over_rows(mesh, partial(f, data), *of_runs)
            # The results must have the sharding that the next call expects, so the compiler must not choose another.
            where = simulation.layout(carry, before=2)
            return sharding.settle(carry, where), sharding.settle(metrics, sharding.by_row(mesh))

        return whole

    def state(of_runs: Runs) -> Any:
        shapes = jax.eval_shape(parts["init"], parts["data"], *of_runs)[0]
        where = simulation.layout(shapes, before=2)
        lies = lambda x, place: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place)  # noqa: E731
        return shapes if where is None else jax.tree.map(lies, shapes, where)

    if mesh:
        parts = {
            "init": jax.jit(over_mesh(mesh, init)),
            "advance": jax.jit(over_mesh(mesh, advance), donate_argnums=3),
            "data": sharding.replicate(simulation.data, mesh),
        }
    else:
        parts = {
            "init": jax.pmap(init, devices=devices),
            "advance": jax.pmap(advance, devices=devices, donate_argnums=3),
            "data": one_per_device(simulation.data, devices),
        }
    return MonteCarlo(
        runs=runs,
        place=place,
        state=state,
        **parts,
        devices=devices,
        turns=None if mesh or aim.backend != "cpu" else turns_of(simulation.steps, devices, per_device, at_once),
        num_evaluations=simulation.num_evaluations,
    )


def to_host(tree: Any, num_runs: int) -> Any:
    """Convert results [D, R, ...] to NumPy arrays [num_runs, ...], without the repeated runs at the end."""
    return jax.tree.map(lambda x: np.asarray(x).reshape(x.shape[0] * x.shape[1], *x.shape[2:])[:num_runs], tree)
