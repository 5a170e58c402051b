"""One simulation on several devices: clients, or blocks of their samples, split over a mesh axis.

On a CPU one host device a core is faster than one device with threads, for products of this size; on accelerators the
same mesh serves models or numbers of clients that outgrow one. Everything else of a round is written as for one device
and divided by the compiler; only the local work, which is most of it, is split by hand.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

AXIS = "client"


def client_mesh(devices: list[jax.Device] | None = None) -> Mesh | None:
    """A mesh of the axis 'client' over the given devices, all local ones where left out; None for a single one."""
    devices = devices or jax.local_devices()
    return Mesh(np.array(devices), (AXIS,)) if len(devices) > 1 else None


def size(mesh: Mesh | None) -> int:
    """Devices of the mesh; 1 where there is none."""
    return mesh.shape[AXIS] if mesh else 1


def replicate(tree: Any, mesh: Mesh) -> Any:
    """One copy of every leaf on each device of the mesh."""
    return jax.device_put(tree, NamedSharding(mesh, PartitionSpec()))


def divide(tree: Any, num_clients: int, mesh: Mesh | None, before: int = 0) -> Any:
    """Says where a state lies between rounds: leaves of N rows are divided, others copied.

    Args:
      tree: leaves [N, ...] or others.
      num_clients: N.
      mesh: from `client_mesh`; None leaves everything as it is.
      before: axes before that of the clients (runs, say).
    """
    if mesh is None:
        return tree

    def leaf(x: jax.Array) -> jax.Array:
        stacked = x.ndim > before and x.shape[before] == num_clients and num_clients % size(mesh) == 0
        spec = PartitionSpec(*[None] * before, AXIS) if stacked else PartitionSpec()
        return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, spec))

    return jax.tree.map(leaf, tree)


def copied(tree: Any, mesh: Mesh | None) -> Any:
    """Says that a state lies on every device of the mesh."""
    if mesh is None:
        return tree
    return jax.lax.with_sharding_constraint(tree, NamedSharding(mesh, PartitionSpec()))


@contextlib.contextmanager
def tracing_over(mesh: Mesh | None) -> Iterator[None]:
    """While a round is traced: lets the parts of an algorithm (`by_rows`) know the mesh of its simulation."""
    if mesh is None:
        yield
        return
    with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
        yield


def by_rows(function: Callable[[Any, Any], Any], rows: Any, whole: Any, num_clients: int) -> Any:
    """``function(rows, whole)`` for the rows of N clients; on a mesh each device makes those of its clients.

    For what gathers from everybody's models: left to the compiler, K gathers become K rounds of communication.

    Args:
      function: (rows, whole) -> tree with the leading axis of ``rows``.
      rows: leaves [N, ...].
      whole: leaves that every row may need; they are brought together once.
      num_clients: N.
    """
    mesh = jax.sharding.get_abstract_mesh()
    if AXIS not in mesh.axis_names or num_clients % mesh.shape[AXIS]:
        return function(rows, whole)
    split, same = PartitionSpec(AXIS), PartitionSpec()
    return jax.shard_map(function, mesh=mesh, in_specs=(split, same), out_specs=split, check_vma=False)(rows, whole)


def split_map(mesh: Mesh, function: Callable[..., Any], shared: Any, parts: Any) -> Any:
    """``function(shared, own)`` of each device's share of ``parts``, results put together again along the leading axis.

    Args:
      mesh: from `client_mesh`.
      function: (shared, own, first) -> tree with the leading axis of ``own``; ``first`` is where its share begins.
      shared: the same on every device.
      parts: leaves whose leading axis the devices divide.
    """

    def on_device(shared: Any, own: Any) -> Any:
        share = jax.tree.leaves(own)[0].shape[0]
        return function(shared, own, jax.lax.axis_index(AXIS) * share)

    split, same = PartitionSpec(AXIS), PartitionSpec()
    return jax.shard_map(on_device, mesh=mesh, in_specs=(same, split), out_specs=split, check_vma=False)(shared, parts)


def split_sum(mesh: Mesh, function: Callable[..., Any], shared: Any, parts: Any) -> Any:
    """The sum over the devices of ``function(shared, own)``, each with its share of ``parts``; the same on all.

    Args:
      mesh: from `client_mesh`.
      function: (shared, own) -> tree.
      shared: the same on every device.
      parts: leaves whose leading axis the devices divide.
    """

    def on_device(shared: Any, own: Any) -> Any:
        return jax.lax.psum(function(shared, own), AXIS)

    split, same = PartitionSpec(AXIS), PartitionSpec()
    return jax.shard_map(on_device, mesh=mesh, in_specs=(same, split), out_specs=same, check_vma=False)(shared, parts)
