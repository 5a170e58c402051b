"""A batch of runs on the devices: which device computes which run, and in which order.

A run is a (hparams, key) pair: a sweep point under a seed. All runs of a batch have the same shapes, so one compiled
program serves them all. Each device computes its runs in turns. On a CPU a turn is one run, which keeps its models in
the cache; on an accelerator it is all runs of the device, mapped together. A program is that of one turn: it neither
reads each of its inputs from an array of all runs nor writes its results to one, and the number of runs is not part of
it. If the simulation has a mesh, several devices share each run, and the rows of the mesh take the role of the devices.
The results are those of a plain loop over runs.
"""

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mdfl_jax.core import rng, sharding
from mdfl_jax.core.devices import current
from mdfl_jax.core.types import Hparams
from mdfl_jax.engine.simulation import Carry, Simulation

DEVICE = "device"  # the axis of the devices that compute runs of their own


class Runs(NamedTuple):
    """The inputs of runs.

    Attributes:
      hparams: the numbers of the runs.
      keys: typed keys, one for each run, or one for each run and stream (`mdfl_jax.core.rng`).
    """

    hparams: Hparams
    keys: jax.Array


def in_turns(simulation: Simulation, at_once: int = 0) -> bool:
    """Tell whether a device computes its runs one after another, as on a CPU and where one run keeps it busy.

    Args:
      simulation: the simulation.
      at_once: the runs that are mapped together, if it is set: ``engine.runs_at_once``.
    """
    return at_once == 1 or (not at_once and (current().backend == "cpu" or simulation.alone))


class Placement:
    """How the runs of a batch are divided among D devices (or rows of a mesh) with R runs each, and T turns.

    The arrays of a turn are [D, ...] where a device computes one run after another, and [D, R / T, ...] where it maps
    several. For a target that is not present they are only shapes, which are all that compiling needs.

    Args:
      simulation: the simulation.
      num_runs: the number of runs that are on the devices at the same time. The last run is repeated until the turns
        are filled.
      at_once: the runs of a device that are mapped together (vmap); 0: one run on a CPU and where one run keeps the
        device busy, otherwise all.
      devices: the devices to use, by default those of the target; never more devices than runs are used. A mesh has its
        own.

    Attributes:
      mesh: the mesh of the simulation, or one of D devices.
      at_once: the runs of a device in a turn.
      turns: for each turn, the place or the places of its runs among the R runs of a device.
      mapped: whether the arrays of a turn have an axis of several runs.
    """

    def __init__(
        self, simulation: Simulation, num_runs: int, at_once: int = 0, devices: list[jax.Device] | None = None
    ):
        aim, shared = current(), simulation.mesh
        self.simulation, self.num_runs = simulation, num_runs
        self.mesh = shared or Mesh(np.array((devices or aim.devices)[:num_runs]), (DEVICE,))
        self._axis = sharding.SEED if shared else DEVICE
        self._num_places = self.mesh.shape[self._axis]
        per_device = -(-num_runs // self._num_places)
        at_once = min(1 if in_turns(simulation, at_once) else at_once or per_device, per_device)
        self.at_once = at_once
        self._per_device = -(-per_device // at_once) * at_once  # a whole number of turns
        # A single run of each device is mapped too: without the mapping, its values could differ in their last bits.
        self.mapped = at_once == self._per_device or at_once > 1
        self.turns = [slice(i, i + at_once) if self.mapped else i for i in range(0, self._per_device, at_once)]

    @property
    def devices(self) -> list[jax.Device]:
        """All devices that take part."""
        return list(self.mesh.devices.flat)

    @cached_property
    def data(self) -> Any:
        """The simulation's data with one copy on each device: leaves [D, ...]; over a mesh there is no axis D."""
        if self.simulation.mesh:
            return sharding.replicate(self.simulation.data, self.mesh)
        lies, num_devices = self.by_device, self._num_places
        if not current().is_here:
            repeated = lambda x: jax.ShapeDtypeStruct((num_devices, *x.shape), x.dtype, sharding=lies)  # noqa: E731
            return jax.tree.map(repeated, self.simulation.data)

        def leaf(x: jax.Array) -> jax.Array:
            host = np.asarray(x)[None]
            return jax.make_array_from_callback((num_devices, *x.shape), lies, lambda index: host)

        return jax.tree.map(leaf, self.simulation.data)

    def inputs(self, hparams: list[Hparams], seeds: Sequence[int] | np.ndarray) -> list[Runs]:
        """Return the inputs of each turn.

        Args:
          hparams: the numbers of each run.
          seeds: [runs] or [runs, len(STREAMS)], one for each stream.
        """
        stacked = self._filled(jax.tree.map(lambda *leaves: np.stack(leaves), *hparams))
        return self._split(Runs(stacked, rng.keys(self._filled(np.array(seeds, np.uint32)))))

    def split(self, tree: Any) -> list[Any]:
        """Return NumPy arrays [runs, ...] as the arrays of each turn, on their devices."""
        return self._split(self._filled(tree))

    def join(self, turns: Sequence[Any], num_runs: int) -> Any:
        """Return the arrays of all turns as NumPy arrays [runs, ...], without the repeated runs at the end."""

        def whole(*leaves: jax.Array) -> np.ndarray:
            found = np.empty((self._num_places, self._per_device, *leaves[0].shape[1 + self.mapped :]), leaves[0].dtype)
            for leaf, turn in zip(leaves, self.turns, strict=True):
                # `np.asarray` of a leaf of several devices would leave a copy in it.
                for shard in leaf.addressable_shards:
                    if shard.replica_id == 0:
                        found[(shard.index[0], turn, *shard.index[1 + self.mapped :])] = shard.data
            return found.reshape(self._num_places * self._per_device, *found.shape[2:])[:num_runs]

        return jax.tree.map(whole, *turns)

    def _filled(self, tree: Any) -> Any:
        """Repeat the last of the runs [runs, ...] until they fill the devices, [D, R, ...]."""

        def leaf(x: np.ndarray) -> np.ndarray:
            padded = np.concatenate([x, np.repeat(x[-1:], self._num_places * self._per_device - len(x), axis=0)])
            return padded.reshape(self._num_places, self._per_device, *x.shape[1:])

        return jax.tree.map(leaf, tree)

    def _split(self, tree: Any) -> list[Any]:
        def of_turn(turn: int | slice) -> Any:
            cut = jax.tree.map(lambda x: x[:, turn], tree)
            if current().is_here:
                return jax.device_put(cut, self.lies(cut))
            return jax.tree.map(
                lambda x, lies: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=lies), cut, self.lies(cut)
            )

        return [of_turn(turn) for turn in self.turns]

    # What the programs of a turn need (`mdfl_jax.engine.compile`).

    @property
    def by_device(self) -> NamedSharding:
        """The sharding of an array [D, ...] that has the part of each device (or row of a mesh) there."""
        return NamedSharding(self.mesh, PartitionSpec(self._axis))

    def lies(self, tree: Any) -> Any:
        """Return the sharding of each leaf of the arrays of a turn. Over a mesh, the models of a state are divided."""
        if self.simulation.mesh and isinstance(tree, Carry):
            return self.simulation.layout(tree, before=1 + self.mapped)
        if type(tree) is tuple:
            return tuple(self.lies(one) for one in tree)
        return jax.tree.map(lambda _: self.by_device, tree)

    def clients_lie(self, clients: Any) -> Any:
        """Return the sharding of each leaf of the clients' data in a turn."""
        mesh, by_client = self.simulation.mesh, self.simulation.task.spread.by_client
        return sharding.layout(by_client(clients), mesh, 1 + self.mapped) if mesh and by_client else self.lies(clients)

    def over_runs(self, step: Callable[..., Any], has_data: bool) -> Callable[..., Any]:
        """Return a step of one run as the function that is traced: for the runs of a turn on one device.

        Over a mesh, the function is that of all devices.

        Args:
          step: one of the five steps of `Simulation`.
          has_data: whether its first argument is the data.
        """
        mesh = self.simulation.mesh

        def over(step: Callable[..., Any]) -> Callable[..., Any]:
            mapped = jax.vmap(step) if self.mapped else step
            return partial(sharding.over_rows, mesh, mapped) if mesh else mapped

        return (lambda data, *runs: over(partial(step, data))(*runs)) if has_data else over(step)

    def traced(self, tree: Any) -> Any:
        """Convert the shapes of the arrays of a turn to those with which a step is traced."""
        of_device = 0 if self.simulation.mesh else 1
        shape = lambda x: jax.ShapeDtypeStruct(x.shape[of_device:], x.dtype, weak_type=x.weak_type)  # noqa: E731
        return jax.tree.map(shape, jax.eval_shape(lambda tree: tree, tree))

    def whole(self, tree: Any) -> Any:
        """Convert the shapes with which a step is traced to those of the arrays of a turn."""
        before = () if self.simulation.mesh else (self._num_places,)
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct((*before, *x.shape), x.dtype, weak_type=x.weak_type), tree)

    def over_devices(self, program: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
        """Convert a function of the traced shapes to one of the arrays of a turn.

        Devices that compute runs of their own do so in a `jax.shard_map`, and each of them takes its own branches at a
        condition. Where devices share a run, the compiler divides the function itself.
        """
        if self.simulation.mesh:
            return program

        def of_device(*leaves: Any) -> list[Any]:
            own = program(*(jax.lax.squeeze(x, [0]) for x in leaves))
            return [jax.lax.expand_dims(x, [0]) for x in own]

        of_device.__name__ = of_device.__qualname__ = program.__name__
        split = PartitionSpec(DEVICE)
        return jax.shard_map(of_device, mesh=self.mesh, in_specs=split, out_specs=split, check_vma=False)
