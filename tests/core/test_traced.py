"""What a traced program depends on. JAX has no public name for it; this test tells if it changes."""

import jax
import jax.numpy as jnp

from mdfl_jax.core.traced import live, sub_programs


def test_live_leaves_out_what_the_outputs_do_not_depend_on():
    def function(x, y, z):
        doubled = jax.lax.scan(lambda total, row: (total + row @ x, None), jnp.zeros(2), y)[0]
        return doubled, z + 1

    closed = jax.make_jaxpr(function)(jnp.ones((3, 2)), jnp.ones((4, 3)), 1.0)
    whole, used = live(closed.jaxpr)
    assert used == [True, True, True]
    assert len(whole.outvars) == 2
    first, used = live(closed.jaxpr, [True, False])
    assert used == [True, True, False]
    (scan,) = (equation for equation in first.eqns if equation.primitive.name == "scan")
    assert any(equation.primitive.name == "dot_general" for equation in sub_programs(scan.params)[0].eqns)
    assert live(closed.jaxpr, [False, True])[1] == [False, False, True]
