"""Ten thousand clients on 40,000 points: no array of all pairs of clients, or of all clients and points."""

import jax
import jax.numpy as jnp
import pytest
from array_sizes import largest

from mdfl_jax.mobility import MOBILITIES, Motion
from mdfl_jax.mobility.contact_list import on_circle
from mdfl_jax.mobility.grid import GridWorld, grid_points
from mdfl_jax.mobility.plane import PlaneWorld
from mdfl_jax.mobility.strategy import StrategyNumbers
from mdfl_jax.mobility.trace import no_tracks
from mdfl_jax.networks.worlds import typed

NUM_CLIENTS, SIZE, CLASSES = 10_000, 200, 10
POINTS = SIZE * SIZE
LINEAR = 2 * NUM_CLIENTS * SIZE  # a hundredth of all clients and points, and a twenty-fifth of all pairs of clients
BITS = {"dam_met": NUM_CLIENTS * -(-NUM_CLIENTS // 32), "dcm_met": NUM_CLIENTS * -(-POINTS // 32)}


def is_for_few(name):
    """Whether a rule refuses so many clients, as strategies do (tests/mobility/test_strategies.py)."""
    return issubclass(MOBILITIES.numbers(name), StrategyNumbers)


def world_for(name):
    """The shapes of a world in which the rule lives."""
    numbers = MOBILITIES.numbers(name)().typed()
    shared = {
        "is_mobile": jax.ShapeDtypeStruct((NUM_CLIENTS,), bool),
        "label_counts": jax.ShapeDtypeStruct((NUM_CLIENTS, CLASSES), jnp.int32),
        "radius": jax.ShapeDtypeStruct((), jnp.float32),
        "numbers": numbers,
    }
    kind = MOBILITIES[name]().world
    if kind == "grid":
        start, step = jax.ShapeDtypeStruct((NUM_CLIENTS,), jnp.int32), jax.ShapeDtypeStruct((), jnp.float32)
        return GridWorld(jax.eval_shape(lambda: grid_points(SIZE)), start, max_step=step, **shared)
    if kind == "contacts":
        return jax.eval_shape(lambda: on_circle(NUM_CLIENTS))
    place = jax.ShapeDtypeStruct((NUM_CLIENTS, 2), jnp.float32)
    shared["trace"] = no_tracks(NUM_CLIENTS, substeps=2, rounds=3) if name.endswith("trace") else None
    return PlaneWorld(jax.ShapeDtypeStruct((2,), jnp.float32), place, motion=typed(Motion()), **shared)


def programs(name):
    """The functions of a rule that a study compiles, with the shapes of their arguments."""
    rule, world, key = MOBILITIES[name](), world_for(name), jax.eval_shape(lambda: jax.random.key(0))
    state = jax.eval_shape(rule.init, key, world)
    yield rule.init, (key, world)
    yield rule.step, (key, world, state)
    for told in (rule.position, rule.path, rule.presence, rule.is_mobile, rule.destination, rule.centres):
        if told:
            yield told, (world,) if told is rule.is_mobile else (world, state)


@pytest.mark.few(6)
@pytest.mark.parametrize("name", [name for name in MOBILITIES if not is_for_few(name)])
def test_no_array_of_all_pairs(name):
    """Who knows whom is inherently a bit a pair; nothing else grows faster than clients times rows of the grid."""
    for function, args in programs(name):
        entries, shape = largest(function, *args)
        assert entries <= BITS.get(name, LINEAR), (name, function, shape)


@pytest.mark.parametrize("name", ["dam", "dcm_met"])
def test_the_check_sees_such_arrays(name, monkeypatch):
    monkeypatch.setattr("mdfl_jax.mobility.many.LARGEST_AT_ONCE", 2**40)
    monkeypatch.setattr("mdfl_jax.mobility.many.LARGEST_DENSE", 2**40)
    found = [largest(function, *args) for function, args in programs(name)]
    assert max(found)[0] >= NUM_CLIENTS * NUM_CLIENTS
