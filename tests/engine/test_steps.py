"""Parts of a run: traced steps without what they do not need, the turns of a device, what a network observes."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import PATTERNS, toy_hparams, toy_simulation, toy_task

from mdfl_jax import Schedule
from mdfl_jax.algorithms.dpsgd import dpsgd
from mdfl_jax.engine.programs import Placement, TracedStep
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.networks.spatial import spatial

PLACEMENT = Placement(toy_simulation(), 4, 1, jax.devices()[:2])


def f(x, both, key):
    """Reads x and the first of both, and returns the second as it is."""
    moved = jax.lax.scan(lambda c, _: ({"a": c["a"] + x, "b": c["b"]}, None), both, None, length=3)[0]
    return moved, {"sum": jnp.sum(x), "one": jnp.float32(1)}


def arguments():
    both = {"a": np.ones((2, 3), np.float32), "b": np.zeros((2, 1), np.float32)}
    keys = jax.vmap(jax.random.key)(np.arange(2, dtype=np.uint32))
    return jax.device_put((np.arange(6, dtype=np.float32).reshape(2, 3), both, keys), PLACEMENT.by_device)


def traced(passes=(), donated=None):
    return TracedStep(PLACEMENT, "f", f, arguments(), passes, donated)


@pytest.mark.parametrize("passes", [(), (1,)])
def test_it_computes_the_function_on_each_device(passes):
    made, args = traced(passes), arguments()
    found = made.call(made.lower().compile(), *args)
    expected = jax.vmap(f)(*args)
    jax.tree.map(np.testing.assert_array_equal, found, expected)
    shapes = jax.tree.map(lambda x: (x.shape, x.dtype), expected)
    assert jax.tree.map(lambda x: (x.shape, x.dtype), made.shapes) == shapes
    assert (found[0]["b"] is args[1]["b"]) == bool(passes)


def test_arrays_without_elements_are_no_inputs_of_a_device():
    """XLA ends the process on such an argument, or a constant, as `.at[:]` makes one (jaxlib 0.11.2)."""

    def f(x, empty):
        last = jax.lax.fori_loop(0, 3, lambda i, row: row.at[:].set(i * x), x)
        return {"last": last, "sum": x + jnp.sum(empty), "empty": empty + 1}

    args = jax.device_put((np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((2, 3, 0))), PLACEMENT.by_device)
    made = TracedStep(PLACEMENT, "f", f, args)
    assert [0 in x.shape for x in (*made.jaxpr.in_avals, *made.jaxpr.consts)] == [False, True, True]
    lowered = made.lower()
    assert not re.search(r"manual_computation.*[<x]0x", lowered.as_text())
    jax.tree.map(np.testing.assert_array_equal, made.call(lowered.compile(), *args), jax.vmap(f)(*args))


def test_what_passes_by_is_not_donated():
    made, (x, both, key) = traced((1,), donated=1), arguments()
    made.call(made.lower().compile(), x, both, key)
    assert both["a"].is_deleted()
    assert not both["b"].is_deleted()
    assert not x.is_deleted()


@pytest.mark.parametrize("num_devices", [1, 3])
@pytest.mark.parametrize(("per_device", "at_once", "axes"), [(4, 1, 1), (4, 2, 2), (2, 2, 2), (1, 1, 1), (1, 2, 2)])
def test_turns_are_put_together_as_they_were_divided(num_devices, per_device, at_once, axes):
    num_runs = num_devices * per_device
    placement = Placement(toy_simulation(), num_runs, at_once, jax.devices()[:num_devices])
    shape = (num_runs, 2, 3)
    tree = {"x": np.arange(np.prod(shape), dtype=np.float32).reshape(shape), "none": np.zeros((num_runs, 0, 2), bool)}
    parts = placement.split(tree)
    assert len(parts) == max(per_device // at_once, 1)
    assert all(part["x"].ndim == axes + 2 for part in parts)
    found = placement.join(parts, num_runs)
    for name, leaf in tree.items():
        assert found[name].dtype == leaf.dtype
        np.testing.assert_array_equal(found[name], leaf)


@pytest.mark.few(1)
@pytest.mark.parametrize("compares", [True, False])
def test_a_network_sees_the_links_the_statistics_and_the_distances_that_it_asks_for(compares):
    """A network that adds what it sees to the distances that its clients have moved."""
    plain, told = spatial(6, 5, PATTERNS), []

    def observe(params, state, seen):
        del params
        told.append((seen.heard.adjacency.shape, seen.stats.details, seen.differences is not None))
        worth = seen.stats.messages + (0 if seen.differences is None else 1000 + 0 * jnp.sum(seen.differences, axis=1))
        places = state.places._replace(distance_moved=state.places.distance_moved + worth)
        return state._replace(places=places)

    watched = plain._replace(observe=observe, compares=compares)
    hparams, key = toy_hparams(0, radius=np.inf), jax.random.key(1)  # static clients that all hear each other
    moved = []
    for network in (plain, watched):
        simulation = Simulation(toy_task(), network, dpsgd(), Schedule(2, 2))
        carry = jax.jit(simulation.first)(simulation.data, hparams, key)
        one_round = jax.jit(simulation.round)
        for _ in range(2):
            carry = one_round(simulation.data, hparams, key, carry)
        moved.append(np.asarray(network.places(carry.network).distance_moved))
    assert told == [((6, 6), None, compares)]
    # Five messages in each of two rounds; the sum with distances is exact.
    np.testing.assert_array_equal(moved[1] - moved[0], 10 + 2000 * compares)
