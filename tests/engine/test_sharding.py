"""Parts of a program over several devices: no empty inputs, and no collective where it could run beside another."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from collectives import unordered
from jax.sharding import NamedSharding, PartitionSpec

from mdfl_jax.core.sharding import CLIENT, by_rows, choose, client_mesh, everywhere, replicate, tracing_over

N = 8


def test_arrays_without_elements_are_no_inputs_of_what_is_divided():
    """Of arguments, of what a function takes from around it, and of constants: such an input ends jaxlib 0.11.2."""
    mesh = client_mesh(jax.devices()[:2])
    x, none = replicate((np.arange(N, dtype=np.float32), np.zeros((N, 0), np.float32)), mesh)

    def whole(x, empty):
        with tracing_over(mesh):
            alike = everywhere(lambda x, own: x.at[:].add(jnp.sum(own) + jnp.sum(empty)), x, empty)
            return by_rows(lambda rows, own: rows[0] + jnp.sum(rows[1], axis=1) + jnp.sum(own), (alike, empty), none)

    traced = jax.make_jaxpr(whole)(x, none)
    inputs = [var.aval.shape for each in traced.eqns if each.primitive.name == "shard_map" for var in each.invars]
    assert inputs == [(N,)] * 2
    np.testing.assert_array_equal(jax.jit(whole)(x, none), np.arange(N))


def over_two(inner):
    """A program over two devices: what `inner` makes of x, and a sum over all rows beside it."""
    mesh = client_mesh(jax.devices()[:2])
    lies = NamedSharding(mesh, PartitionSpec(CLIENT))

    def whole(flag, x):
        with tracing_over(mesh):
            return inner(flag, jax.lax.with_sharding_constraint(x, lies)), jnp.sum(jnp.sin(x))

    x = jax.ShapeDtypeStruct((4, 3), jnp.float32, sharding=lies)
    return jax.jit(whole).lower(jax.ShapeDtypeStruct((), bool, sharding=NamedSharding(mesh, PartitionSpec())), x)


def total(x):
    return jnp.sum(jnp.cos(x)) * x


@pytest.mark.parametrize(
    ("inner", "apart"),
    [
        (lambda flag, x: jax.lax.cond(flag, total, lambda x: x, x), True),
        (lambda flag, x: choose(flag, total, lambda x: x, x), False),
        (lambda flag, x: by_rows(lambda x, _: jax.lax.cond(flag, total, lambda x: x, x), x, ()), False),
        (lambda flag, x: everywhere(lambda x: jax.lax.cond(flag, total, lambda x: x, x), x), False),
    ],
)
def test_collectives_in_loops_and_conditions_run_beside_others(inner, apart):
    """What the search for them finds, and what keeps them out."""
    number, found = unordered(over_two(inner).compile().as_text())
    assert number > 0
    assert bool(found) == apart
