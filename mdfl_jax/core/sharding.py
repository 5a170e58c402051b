"""Simulations over a mesh of devices with two axes: 'seed' divides the runs, and 'client' the clients of each run.

On a CPU, one host device for each core is faster than one device with threads, for matrix products of this size. On
accelerators, the same mesh serves models or numbers of clients that are too large for one device. A round is written
for one device, and the compiler divides it. The local work, which is most of a round, and loops over rows of models are
divided explicitly.

Devices communicate only at the top level of a round: no loop and no condition within a round contains a collective
operation. `by_rows`, `everywhere`, `choose` and `take_steps` ensure this. XLA's CPU runtime orders the collectives of
one computation. But it may execute a collective inside a loop or a condition at the same time as later collectives, in
a different order on each device; all devices then wait forever (jax 0.10.2).

The number of devices that share a run divides the number of clients, so all of them have equally many rows.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
from jax.experimental.layout import Layout, with_layout_constraint
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mdfl_jax.core import hosts
from mdfl_jax.core.devices import current
from mdfl_jax.core.links import Senders

SEED, CLIENT = "seed", "client"
SPLIT, SAME = PartitionSpec(CLIENT), PartitionSpec()  # leaves divided by client, leaves equal on all devices


def client_mesh(devices: list[jax.Device] | None = None, columns: int = 0) -> Mesh | None:
    """Make a mesh ('seed', 'client') of devices. Return None if each run has a single device.

    Args:
      devices: the devices; by default all devices of the target.
      columns: the number of devices that share a run, a divisor of the number of devices and of the number of clients;
        0: all, in one row.
    """
    devices = devices or current().devices
    columns = columns or len(devices)
    return Mesh(np.array(devices).reshape(-1, columns), (SEED, CLIENT)) if columns > 1 else None


def size(mesh: Mesh | None) -> int:
    """Return the number of devices that share a run, the mesh's columns; 1 without a mesh."""
    return mesh.shape[CLIENT] if mesh else 1


def replicate(tree: Any, mesh: Mesh) -> Any:
    """Put one copy of every leaf on each device of the mesh."""
    return placed(tree, NamedSharding(mesh, SAME))


def placed(tree: Any, where: Any) -> Any:
    """Put the leaves on the devices of a sharding, or of a tree of shardings, one for each leaf.

    For a target that is not present, the result is the leaves' shapes with these shardings.
    """
    if current().is_here:
        if hosts.many() == 1:
            return jax.device_put(tree, where)
        return jax.tree.map(hosts.put, tree, jax.tree.broadcast(where, tree))
    shape = lambda x, lies: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=lies)  # noqa: E731
    return jax.tree.map(shape, tree, jax.tree.broadcast(where, tree))


def stacked(tree: Any, rows: int, before: int = 0) -> Any:
    """Return which leaves have one row for each client.

    Args:
      tree: leaves [rows, ...] and others.
      rows: the number of clients.
      before: the number of axes before the client axis.

    Returns:
      A tree of bool of the same structure.
    """
    return jax.tree.map(lambda x: x.ndim > before and x.shape[before] == rows, tree)


def layout(divided: Any, mesh: Mesh, before: int = 0) -> Any:
    """Return the shardings of the leaves of a state.

    Args:
      divided: a tree of bool that says which leaves the mesh's columns divide along the client axis.
      mesh: from `client_mesh`.
      before: the number of axes before the client axis: 1 for the mesh's rows, 2 if the runs of a row are mapped.
    """
    runs = (SEED, None)[:before]
    return jax.tree.map(
        lambda split: NamedSharding(mesh, PartitionSpec(*runs, CLIENT) if split else PartitionSpec(*runs[:1])), divided
    )


def settle(tree: Any, where: Any) -> Any:
    """Fix the sharding of a state for the compiler, as `layout` returns it; None leaves the state as it is."""
    return tree if where is None else jax.lax.with_sharding_constraint(tree, where)


def over_rows(mesh: Mesh, function: Callable[..., Any], *runs: Any) -> Any:
    """Apply a function to the runs of each row of the mesh; all rows work at the same time.

    With several rows the function is mapped (`vmap`), so both branches of its conditions are computed. With one row it
    is called directly.

    Args:
      mesh: from `client_mesh`.
      function: (*runs of one row) -> tree.
      *runs: trees with leaves [rows, ...].

    Returns:
      The results, leaves [rows, ...].
    """
    if mesh.shape[SEED] == 1:
        return jax.tree.map(lambda x: x[None], function(*jax.tree.map(lambda x: x[0], runs)))
    return jax.vmap(function, spmd_axis_name=SEED)(*runs)


def tracing_over(mesh: Mesh | None) -> contextlib.AbstractContextManager[Any]:
    """Tell `by_rows`, `everywhere`, `choose` and `take_steps` the mesh of a simulation while its round is traced."""
    return jax.sharding.use_abstract_mesh(mesh.abstract_mesh) if mesh else contextlib.nullcontext()


def _divided_by() -> Any:
    """Return the mesh over which the compiler divides the current trace, or None where the compiler does not.

    The compiler does not divide code without a mesh, or code that is divided explicitly.
    """
    mesh = jax.sharding.get_abstract_mesh()
    return mesh if CLIENT in mesh.axis_names and CLIENT not in mesh.manual_axes else None


def _shard_map(function: Callable[..., Any], mesh: Any, in_specs: Any, out_specs: Any, *args: Any) -> Any:
    """Compute ``function(*args)`` by `jax.shard_map`, with arrays without elements made inside.

    XLA removes an input without elements before Shardy, which needs every input and ends the process (jaxlib 0.11.2).
    A constant is an input too, and ``.at[:]`` of JAX makes one without elements.
    """
    leaves, tree = jax.tree.flatten(args)
    specs = jax.tree.leaves(jax.tree.broadcast(in_specs, args))
    kept = [place for place, x in enumerate(leaves) if np.size(x)]

    def inside(*full: Any) -> Any:
        own = [None if np.size(x) else _nothing(x, NamedSharding(mesh, spec)) for x, spec in zip(leaves, specs)]
        for place, x in zip(kept, full, strict=True):
            own[place] = x
        closed, shapes = jax.make_jaxpr(function, return_shape=True)(*jax.tree.unflatten(tree, own))
        consts = [x if np.size(x) else jnp.zeros(x.shape, x.dtype) for x in closed.consts]
        found = jex.jaxpr_as_fun(jex.ClosedJaxpr(closed.jaxpr, consts))(*own)
        return jax.tree.unflatten(jax.tree.structure(shapes), found)

    mapped = jax.shard_map(
        inside, mesh=mesh, in_specs=tuple(specs[place] for place in kept), out_specs=out_specs, check_vma=False
    )
    return mapped(*(leaves[place] for place in kept))


def _nothing(x: jax.Array, lies: NamedSharding) -> jax.Array:
    """Return a device's share of an array without elements."""
    return jnp.zeros(lies.shard_shape(x.shape), x.dtype)


def by_rows(function: Callable[[Any, Any], Any], rows: Any, whole: Any) -> Any:
    """Compute ``function(rows, whole)`` for the rows of N clients; on a mesh, each device computes its own rows.

    Use it for code that gathers from the models of all clients, because the compiler alone would turn K gathers into K
    rounds of communication. Use it also for loops and conditions, which each device then executes alone.

    Args:
      function: (rows, whole) -> tree with the leading axis of ``rows``.
      rows: leaves [N, ...].
      whole: leaves that every row may need; they are gathered on all devices once.
    """
    mesh = _divided_by()
    if mesh is None:
        return function(rows, whole)
    return _shard_map(function, mesh, (SPLIT, SAME), SPLIT, rows, whole)


def by_near_rows(function: Callable[[Any, jax.Array, Any], Any], rows: Any, senders: Senders, models: Any) -> Any:
    """Compute ``function(rows, ids, models)`` for the rows of N clients, as `by_rows`; ``ids`` are indices of models.

    If all senders are near by index (`Senders.reach`), as on a ring, each device receives only the models next to its
    own: the last ones of the device before and the first ones of the device after (a halo exchange). Otherwise it
    receives all models.

    Args:
      function: (rows, ids, models) -> tree with the leading axis of ``rows``. ``ids`` are indices of the models that
        the device has; the index of a model that it does not have is beyond the last one.
      rows: leaves [N, ...].
      senders: neighbour lists, which have the ``ids``.
      models: leaves [N, ...].
    """
    mesh, ids, reach = _divided_by(), senders.ids, senders.reach.rows if senders.reach else 0
    assert ids is not None
    num_clients = len(ids)
    own = num_clients // mesh.shape[CLIENT] if mesh else 0  # the rows of a device
    if not mesh or not 0 < reach <= own or own + 2 * reach >= num_clients:
        return by_rows(lambda of_rows, whole: function(of_rows[0], of_rows[1], whole), (rows, ids), models)
    columns = mesh.shape[CLIENT]
    onward = [(i, (i + 1) % columns) for i in range(columns)]
    back = [(to, source) for source, to in onward]

    def near(x: jax.Array) -> jax.Array:
        before = jax.lax.ppermute(x[-reach:], CLIENT, onward)
        return jnp.concatenate([before, x, jax.lax.ppermute(x[:reach], CLIENT, back)])

    def on_device(rows: Any, ids: jax.Array, models: Any) -> Any:
        first = jax.lax.axis_index(CLIENT) * own - reach
        return function(rows, (ids - first) % num_clients, jax.tree.map(near, models))

    return _shard_map(on_device, mesh, SPLIT, SPLIT, rows, ids, models)


def everywhere(function: Callable[..., Any], *args: Any) -> Any:
    """Compute ``function(*args)``; on a mesh, every device computes the whole result.

    Use it for a network's step, whose [N, N] matrices are then complete on every device, and for draws among N clients.
    """
    mesh = _divided_by()
    if mesh is None:
        return function(*args)
    return _shard_map(function, mesh, SAME, SAME, *args)


def choose(condition: jax.Array, yes: Callable[..., Any], no: Callable[..., Any], *args: Any) -> Any:
    """Return ``yes(*args)`` if a condition holds, else ``no(*args)``. On a mesh both are computed, otherwise only one.

    Args:
      condition: [] bool.
      yes, no: functions whose results have the same structure.
      *args: the arguments of both functions.
    """
    if _divided_by() is None:
        return jax.lax.cond(condition, yes, no, *args)
    return jax.tree.map(lambda y, n: jnp.where(condition, y, n), yes(*args), no(*args))


def choose_of(index: jax.Array, branches: Sequence[Callable[..., Any]], *args: Any) -> Any:
    """Return ``branches[index](*args)``. On a mesh all are computed, otherwise only this one.

    Args:
      index: [] int32.
      branches: functions whose results have the same structure.
      *args: the arguments of all functions.
    """
    if _divided_by() is None:
        return jax.lax.switch(index, branches, *args)
    found = [branch(*args) for branch in branches]
    return jax.tree.map(lambda *each: jnp.select([index == k for k in range(len(each))], each), *found)


def take_steps(
    step: Callable[[Any, jax.Array], tuple[Any, Any]], start: Any, num_steps: int | jax.Array
) -> tuple[Any, Any]:
    """Compute ``step(carry, index)`` ``num_steps`` times in a loop.

    On a mesh the loop is unrolled, because a step may contain collectives. With a traced number of steps it stays a
    loop, so its steps must contain no collectives.

    Args:
      step: (carry, [] int32) -> (carry, output).
      start: the first carry.
      num_steps: the number of steps, at least 1; or [] int32, which may be 0.

    Returns:
      (the last carry, the output of the first step; zero if there was no step).
    """
    if not isinstance(num_steps, int):
        nothing = jax.tree.map(jnp.zeros_like, jax.eval_shape(step, start, jnp.int32(0))[1])

        def one(index: jax.Array, held: tuple[Any, Any]) -> tuple[Any, Any]:
            carry, output = step(held[0], index)
            return carry, jax.tree.map(lambda new, old: jnp.where(index == 0, new, old), output, held[1])

        return jax.lax.fori_loop(0, num_steps, one, (start, nothing))
    if num_steps > 1 and _divided_by() is None:
        carry, outputs = jax.lax.scan(step, start, jnp.arange(num_steps, dtype=jnp.int32))
        return carry, jax.tree.map(lambda x: x[0], outputs)
    carry, output = step(start, jnp.int32(0))
    for index in range(1, num_steps):
        carry, _ = step(carry, jnp.int32(index))
    return carry, output


def in_axis_order(tree: Any) -> Any:
    """Ask the compiler to store all leaves in the order of their axes, as arguments and results of programs are."""

    def leaf(x: jax.Array) -> jax.Array:
        is_key = jnp.issubdtype(x.dtype, jax.dtypes.prng_key)  # a typed key has a hidden axis
        return x if is_key else with_layout_constraint(x, Layout(tuple(range(x.ndim))))

    return jax.tree.map(leaf, tree)


@jax.custom_batching.custom_vmap
def largest_of_runs(value: jax.Array) -> jax.Array:
    """Return a flag or a number, []; if runs are mapped together, the largest of all runs.

    The mapped runs then share one value. So a `jax.lax.cond` on it stays a condition and computes one branch, and a
    loop with this number of steps selects no results.
    """
    return value


@largest_of_runs.def_vmap
def _of_runs(axis_size: int, is_mapped: list[bool], value: jax.Array) -> tuple[jax.Array, bool]:
    del axis_size
    return jnp.max(value, axis=0) if is_mapped[0] else value, False


def split_map(mesh: Mesh, function: Callable[..., Any], shared: Any, parts: Any) -> Any:
    """Apply a function to each device's share of ``parts`` and join the results along the leading axis.

    Args:
      mesh: from `client_mesh`.
      function: (shared, own, first) -> tree with the leading axis of ``own``, the device's share of ``parts``;
        ``first`` is the index at which the share begins.
      shared: a tree that is the same on every device.
      parts: leaves whose leading axis is a multiple of the number of devices.
    """

    def on_device(shared: Any, own: Any) -> Any:
        share = jax.tree.leaves(own)[0].shape[0]
        return function(shared, own, jax.lax.axis_index(CLIENT) * share)

    return _shard_map(on_device, mesh, (SAME, SPLIT), SPLIT, shared, parts)


def split_sum(mesh: Mesh, function: Callable[..., Any], shared: Any, parts: Any) -> Any:
    """Apply a function to each device's share of ``parts`` and return the sum of the results, on every device.

    Args:
      mesh: from `client_mesh`.
      function: (shared, own) -> tree, where ``own`` is the device's share of ``parts``.
      shared: a tree that is the same on every device.
      parts: leaves whose leading axis is a multiple of the number of devices.
    """

    def on_device(shared: Any, own: Any) -> Any:
        return jax.lax.psum(function(shared, own), CLIENT)

    return _shard_map(on_device, mesh, (SAME, SPLIT), SAME, shared, parts)
