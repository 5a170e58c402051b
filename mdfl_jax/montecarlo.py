"""Many runs of one program: ``pmap`` over devices of ``vmap`` over the runs of a device.

A run is a (hparams, key) pair: a sweep point under a seed. All have one shape, so one compiled program serves them. On
a CPU a device's runs follow one another (`lax.map`), which keeps one run's models in the cache; on an accelerator they
are mapped together. A simulation that has a mesh, so that devices share each run, is one program over that mesh, whose
rows take the places of the devices.
The results are those of a plain loop over runs.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mdfl_jax import sharding, target
from mdfl_jax.metrics.history import Metrics
from mdfl_jax.simulation import Simulation
from mdfl_jax.types import Hparams


class Runs(NamedTuple):
    """Runs laid out over D devices of R runs each.

    Attributes:
      hparams: leaves [D, R].
      keys: [D, R] typed keys.
    """

    hparams: Hparams
    keys: jax.Array


class MonteCarlo(NamedTuple):
    """A simulation over the devices, for runs in batches.

    Attributes:
      runs: (list of hparams, list of seeds) -> Runs; where they do not fill the devices the last one is repeated.
      place: a tree of NumPy arrays [runs, ...] -> the same over the devices, [D, R, ...].
      state: (Runs) -> the shapes of a carry, and where it lies, for compiling beforehand.
      init: (data, hparams, keys) -> (carry, metrics), all [D, R, ...].
      advance: (data, hparams, keys, carry) -> (carry, metrics); the carry is donated. Both have ``lower`` for compiling
        beforehand.
      data: the simulation's data, once a device: leaves [D, ...] (without that axis over a mesh).
      num_evaluations: how many times ``advance`` makes a whole run.

    For a target that is not here what ``runs`` gives and ``data`` are shapes, which is all that ``lower`` needs.
    """

    runs: Callable[[list[Hparams], list[int]], Runs]
    place: Callable[[Any], Any]
    state: Callable[[Runs], Any]
    init: Any
    advance: Any
    data: Any
    num_evaluations: int


def one_per_device(tree: Any, devices: list[jax.Device]) -> Any:
    """One copy of every leaf a device, as one array [D, ...] whose shards stay where they are."""
    sharding = NamedSharding(Mesh(np.array(devices), ("device",)), PartitionSpec("device"))
    if not target.current().is_here:
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct((len(devices), *x.shape), x.dtype), tree)

    def leaf(x: jax.Array) -> jax.Array:
        host = np.asarray(x)[None]
        shape = (len(devices), *x.shape)
        return jax.make_array_from_callback(shape, sharding, lambda index: host)

    return jax.tree.map(leaf, tree)


def monte_carlo(
    simulation: Simulation, runs_per_batch: int, at_once: int = 0, devices: list[jax.Device] | None = None
) -> MonteCarlo:
    """Maps a simulation over runs. Over a mesh D is its rows.

    Args:
      simulation: see `mdfl_jax.simulation.build`.
      runs_per_batch: runs that are on the devices together.
      at_once: runs of a device that are mapped together (vmap); 0: one where one is work enough, as on a CPU, else all.
      devices: the devices to use; the target's where left out, and never more than there are runs.
    """
    aim, mesh = target.current(), simulation.mesh
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
        # By hand: lax.map's own batches fail on arrays without elements.
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

    def runs(hparams: list[Hparams], seeds: list[int]) -> Runs:
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *hparams)
        made = Runs(place(stacked), jax.vmap(jax.vmap(jax.random.key))(place(np.array(seeds, np.uint32))))
        return sharding.placed(made, sharding.by_row(mesh) if mesh else None)

    def over_mesh(mesh: Mesh, f: Callable[..., Any]) -> Callable[..., Any]:
        def whole(data: Any, *of_runs: Any) -> Any:
            carry, metrics = sharding.over_rows(mesh, partial(f, data), *of_runs)
            # Results lie where the next call expects them, which is not for the compiler to choose.
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
        num_evaluations=simulation.num_evaluations,
    )


def to_host(tree: Any, num_runs: int) -> Any:
    """Results [D, R, ...] as NumPy arrays [num_runs, ...], padding dropped."""
    return jax.tree.map(lambda x: np.asarray(x).reshape(x.shape[0] * x.shape[1], *x.shape[2:])[:num_runs], tree)
