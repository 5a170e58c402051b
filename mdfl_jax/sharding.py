"""Simulations over a mesh of devices: runs side by side along 'seed', each one's clients divided along 'client'.

On a CPU one host device a core is faster than one device with threads, for products of this size; on accelerators the
same mesh serves models or numbers of clients that outgrow one. A round is written as for one device and divided by the
compiler; the local work, which is most of it, and what loops over rows of models are split by hand.

Devices talk to one another in the body of a round and nowhere deeper: no loop and no condition within a round holds a
collective (`by_rows`, `everywhere`, `choose`, `repeat`). XLA's CPU runtime orders the collectives of one computation,
but lets one inside a loop or a condition run beside those that follow it, in another order on each device; then all
wait forever (jax 0.10.2).
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mdfl_jax import target

SEED, CLIENT = "seed", "client"


def client_mesh(devices: list[jax.Device] | None = None, columns: int = 0) -> Mesh | None:
    """A mesh ('seed', 'client') over devices; None where no two of them share a run.

    Args:
      devices: all of the target's where left out.
      columns: devices that share a run, a divisor of their number; 0: all of them, one row.
    """
    devices = devices or target.devices()
    columns = columns or len(devices)
    return Mesh(np.array(devices).reshape(-1, columns), (SEED, CLIENT)) if columns > 1 else None


def size(mesh: Mesh | None) -> int:
    """Devices that share a run, the mesh's columns; 1 where there is no mesh."""
    return mesh.shape[CLIENT] if mesh else 1


def padded(num_clients: int, mesh: Mesh | None) -> int:
    """Rows of what is stacked by client: N, or the next multiple of the devices that divide them."""
    return -(-num_clients // size(mesh)) * size(mesh)


def replicate(tree: Any, mesh: Mesh) -> Any:
    """One copy of every leaf on each device of the mesh."""
    return placed(tree, NamedSharding(mesh, PartitionSpec()))


def placed(tree: Any, where: NamedSharding | None) -> Any:
    """Leaves put where a sharding says, None: left as they are; of a target that is not here their shapes."""
    if not target.current().is_here:
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=where), tree)
    return tree if where is None else jax.device_put(tree, where)


def by_row(mesh: Mesh) -> NamedSharding:
    """Of leaves [rows of the mesh, ...]: each row's part on all devices of the row."""
    return NamedSharding(mesh, PartitionSpec(SEED))


def stacked(tree: Any, rows: int, before: int = 0) -> Any:
    """Which leaves have a row a client: a tree of bool.

    Args:
      tree: leaves [N, ...] and others.
      rows: N, or what it is padded to.
      before: axes before that of the clients.
    """
    return jax.tree.map(lambda x: x.ndim > before and x.shape[before] == rows, tree)


def layout(divided: Any, mesh: Mesh, before: int = 0) -> Any:
    """Where the leaves of a state lie, as shardings.

    Args:
      divided: a tree of bool, which leaves the columns divide along their axis of clients.
      mesh: from `client_mesh`.
      before: axes before that of the clients: none, or those of the mesh's rows and of a row's runs.
    """
    runs = (SEED, None)[:before]
    return jax.tree.map(
        lambda split: NamedSharding(mesh, PartitionSpec(*runs, CLIENT) if split else PartitionSpec(*runs[:1])), divided
    )


def settle(tree: Any, where: Any) -> Any:
    """Says where a state lies: on what `layout` gives; None leaves everything as it is."""
    return tree if where is None else jax.lax.with_sharding_constraint(tree, where)


def over_rows(mesh: Mesh, function: Callable[..., Any], *runs: Any) -> Any:
    """``function`` of each row's runs, leaves [rows, ...]; the rows of the mesh work side by side.

    With several rows it is mapped (`vmap`): both branches of its conditions are computed. With one row it is not.
    """
    if mesh.shape[SEED] == 1:
        return jax.tree.map(lambda x: x[None], function(*jax.tree.map(lambda x: x[0], runs)))
    return jax.vmap(function, spmd_axis_name=SEED)(*runs)


@contextlib.contextmanager
def tracing_over(mesh: Mesh | None) -> Iterator[None]:
    """While a round is traced: lets `by_rows`, `everywhere`, `choose` and `repeat` know the mesh of its simulation."""
    if mesh is None:
        yield
        return
    with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
        yield


def _divided_by() -> Any:
    """The mesh over which the compiler divides what is traced now; None where nothing is or it is done by hand."""
    mesh = jax.sharding.get_abstract_mesh()
    return mesh if CLIENT in mesh.axis_names and CLIENT not in mesh.manual_axes else None


def by_rows(function: Callable[[Any, Any], Any], rows: Any, whole: Any, num_clients: int) -> Any:
    """``function(rows, whole)`` for the rows of N clients; on a mesh each device makes those of its clients.

    For what gathers from everybody's models (left to the compiler, K gathers become K rounds of communication), and for
    loops and conditions, which each device then goes through alone. Where the devices do not divide N: `everywhere`.

    Args:
      function: (rows, whole) -> tree with the leading axis of ``rows``.
      rows: leaves [N, ...].
      whole: leaves that every row may need; they are brought together once.
      num_clients: N.
    """
    mesh = _divided_by()
    if mesh is None or num_clients % mesh.shape[CLIENT]:
        return everywhere(function, rows, whole)
    split, same = PartitionSpec(CLIENT), PartitionSpec()
    return jax.shard_map(function, mesh=mesh, in_specs=(split, same), out_specs=split, check_vma=False)(rows, whole)


def everywhere(function: Callable[..., Any], *args: Any) -> Any:
    """``function(*args)``; on a mesh each device computes all of it for itself.

    For a network's step (its [N, N] matrices are then whole on every device) and draws among N clients.
    """
    mesh = _divided_by()
    if mesh is None:
        return function(*args)
    same = PartitionSpec()
    return jax.shard_map(function, mesh=mesh, in_specs=same, out_specs=same, check_vma=False)(*args)


def choose(condition: jax.Array, yes: Callable[..., Any], no: Callable[..., Any], *args: Any) -> Any:
    """``yes(*args)`` where a condition holds, else ``no(*args)``; one is computed, on a mesh both.

    Args:
      condition: [] bool.
      yes, no: functions with results of one structure.
      *args: what they are given.
    """
    if _divided_by() is None:
        return jax.lax.cond(condition, yes, no, *args)
    return jax.tree.map(lambda y, n: jnp.where(condition, y, n), yes(*args), no(*args))


def repeat(step: Callable[[Any, jax.Array], tuple[Any, Any]], start: Any, num_steps: int) -> tuple[Any, Any]:
    """``step(carry, index)`` so many times: a loop; written out on a mesh, where a step may hold collectives.

    Args:
      step: (carry, [] int32) -> (carry, output).
      start: the first carry.
      num_steps: how many, at least one.

    Returns:
      (the last carry, the first step's output).
    """
    if num_steps > 1 and _divided_by() is None:
        carry, outputs = jax.lax.scan(step, start, jnp.arange(num_steps, dtype=jnp.int32))
        return carry, jax.tree.map(lambda x: x[0], outputs)
    carry, output = step(start, jnp.int32(0))
    for index in range(1, num_steps):
        carry, _ = step(carry, jnp.int32(index))
    return carry, output


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
        return function(shared, own, jax.lax.axis_index(CLIENT) * share)

    split, same = PartitionSpec(CLIENT), PartitionSpec()
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
        return jax.lax.psum(function(shared, own), CLIENT)

    split, same = PartitionSpec(CLIENT), PartitionSpec()
    return jax.shard_map(on_device, mesh=mesh, in_specs=(same, split), out_specs=same, check_vma=False)(shared, parts)
