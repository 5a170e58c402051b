"""A traced function of the runs of a device, without what it does not need: the piece of a simulation that is compiled.

The inputs that a piece does not read are none of its program, and inputs that it returns as they are do not pass
through it. So a step that does not depend on the algorithm, such as an evaluation, is one program for all algorithms.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.extend.core as jex
import numpy as np
from jax.interpreters.partial_eval import dce_jaxpr
from jax.sharding import Mesh, NamedSharding, PartitionSpec


class Piece:
    """A traced function.

    Args:
      name: the name of its program.
      function: (*args) -> tree, for the runs of one device.
      args: the arguments as arrays or shapes, leaves [R, ...].
      passes: the places of those arguments whose leaves may be results as they are. They must not be donated to any
        other piece as long as the result is used.

    Attributes:
      shapes: the result, as a tree of shapes.
    """

    def __init__(self, name: str, function: Callable[..., Any], args: Sequence[Any], passes: Sequence[int] = ()):
        leaves, self.in_tree = jax.tree.flatten(tuple(args))
        results: list[Any] = []

        def flat(*leaves: Any) -> list[Any]:
            found, tree = jax.tree.flatten(function(*jax.tree.unflatten(self.in_tree, leaves)))
            results.append(tree)
            return found

        closed = jax.make_jaxpr(flat)(*leaves)
        self.name, self.out_tree = name, results[-1]
        self.owners = [place for place, arg in enumerate(args) for _ in jax.tree.leaves(arg)]
        inputs = {var: i for i, var in enumerate(closed.jaxpr.invars) if self.owners[i] in passes}
        outs = closed.jaxpr.outvars
        self.passed = [inputs.get(var) if isinstance(var, jex.Var) else None for var in outs]
        self.shapes = jax.tree.unflatten(
            self.out_tree, [jax.ShapeDtypeStruct(x.shape, x.dtype, weak_type=x.weak_type) for x in closed.out_avals]
        )
        needed, used = dce_jaxpr(closed.jaxpr, [i is None for i in self.passed])
        self.used = [i for i, read in enumerate(used) if read]
        self.jaxpr = jex.ClosedJaxpr(needed, closed.consts)

    def lower(self, devices: Sequence[jax.Device], donated: int | None = None) -> Any:
        """Lower the program for devices that compute their runs at the same time, inputs and results [D, R, ...].

        Args:
          devices: D devices.
          donated: the place of an argument whose leaves are donated, except for those that are results as they are.
        """
        mesh = Mesh(np.array(devices), ("device",))
        split = PartitionSpec("device")
        of_device = jex.jaxpr_as_fun(self.jaxpr)

        def program(*leaves: Any) -> list[Any]:
            own = of_device(*(jax.lax.squeeze(x, [0]) for x in leaves))
            return [jax.lax.expand_dims(x, [0]) for x in own]

        program.__name__ = program.__qualname__ = self.name
        whole = jax.shard_map(program, mesh=mesh, in_specs=split, out_specs=split, check_vma=False)
        lies = NamedSharding(mesh, split)
        given = [j for j, i in enumerate(self.used) if self.owners[i] == donated and i not in self.passed]
        shapes = [self.jaxpr.in_avals[j] for j in range(len(self.used))]
        inputs = [jax.ShapeDtypeStruct((len(devices), *x.shape), x.dtype, weak_type=x.weak_type) for x in shapes]
        return jax.jit(whole, in_shardings=lies, out_shardings=lies, donate_argnums=given).lower(*inputs)

    def call(self, program: Callable[..., Any], *args: Any) -> Any:
        """Call the compiled program with the whole arguments, and return the whole result."""
        leaves = jax.tree.leaves(args)
        inputs = [leaves[i] for i in self.used]
        jax.block_until_ready(inputs)  # on a CPU, launching the program would wait for them too (jax 0.10.2)
        computed = iter(program(*inputs))
        found = [next(computed) if i is None else leaves[i] for i in self.passed]
        return jax.tree.unflatten(self.out_tree, found)


def of_a_device(tree: Any) -> Any:
    """Return the shapes [R, ...] of one device, of arrays or shapes [D, R, ...]."""
    shapes = jax.eval_shape(lambda tree: tree, tree)
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype, weak_type=x.weak_type), shapes)
