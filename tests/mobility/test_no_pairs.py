"""Ten thousand clients on 40,000 points: no array of all pairs of clients, or of all clients and points."""

import jax
import jax.numpy as jnp
import pytest
from array_sizes import largest

from mdfl_jax.mobility import MOBILITIES, Motion, Movement, rule_numbers
from mdfl_jax.mobility.choosing import PlaneStrategyNumbers, StrategyNumbers
from mdfl_jax.mobility.grid import GridWorld, grid_points
from mdfl_jax.mobility.plane import PlaneWorld
from mdfl_jax.mobility.trace import no_tracks, on_circle
from mdfl_jax.networks.worlds import typed

NUM_CLIENTS, SIZE, CLASSES = 10_000, 200, 10
POINTS = SIZE * SIZE
LINEAR = 2 * NUM_CLIENTS * SIZE  # a hundredth of all clients and points, and a twenty-fifth of all pairs of clients
BITS = {
    Movement("dam", "met", "grid"): NUM_CLIENTS * -(-NUM_CLIENTS // 32),
    Movement("dcm", "met", "grid"): NUM_CLIENTS * -(-POINTS // 32),
}


FORMS = [  # strategies refuse so many clients
    Movement(name, form.knowledge or "oracle", form.world)
    for name in MOBILITIES
    for form in MOBILITIES.forms(name)
    if not issubclass(form.numbers, StrategyNumbers | PlaneStrategyNumbers)
]


def world_for(movement):
    """The shapes of a world in which the rule lives."""
    numbers, kind = rule_numbers((movement,))[0].typed(), movement.world
    shared = {
        "is_mobile": jax.ShapeDtypeStruct((NUM_CLIENTS,), bool),
        "label_counts": jax.ShapeDtypeStruct((NUM_CLIENTS, CLASSES), jnp.int32),
        "radius": jax.ShapeDtypeStruct((), jnp.float32),
        "numbers": numbers,
    }
    if kind == "grid":
        start, step = jax.ShapeDtypeStruct((NUM_CLIENTS,), jnp.int32), jax.ShapeDtypeStruct((), jnp.float32)
        return GridWorld(jax.eval_shape(lambda: grid_points(SIZE)), start, max_step=step, **shared)
    if kind == "contacts":
        return jax.eval_shape(lambda: on_circle(NUM_CLIENTS))
    place = jax.ShapeDtypeStruct((NUM_CLIENTS, 2), jnp.float32)
    shared["trace"] = no_tracks(NUM_CLIENTS, substeps=2, rounds=3) if kind == "trace" else None
    return PlaneWorld(jax.ShapeDtypeStruct((2,), jnp.float32), place, motion=typed(Motion()), **shared)


def programs(movement):
    """The functions of a rule that a study compiles, with the shapes of their arguments."""
    rule, world, key = MOBILITIES.form(movement).make(), world_for(movement), jax.eval_shape(lambda: jax.random.key(0))
    state = jax.eval_shape(rule.init, key, world)
    yield rule.init, (key, world)
    yield rule.step, (key, world, state)
    for told in (rule.position, rule.path, rule.presence, rule.is_mobile, rule.destination, rule.centres):
        if told:
            yield told, (world,) if told is rule.is_mobile else (world, state)


@pytest.mark.few(6)
@pytest.mark.parametrize("movement", FORMS, ids=str)
def test_no_array_of_all_pairs(movement):
    """Who knows whom is inherently a bit a pair; nothing else grows faster than clients times rows of the grid."""
    for function, args in programs(movement):
        entries, shape = largest(function, *args)
        assert entries <= BITS.get(movement, LINEAR), (movement, function, shape)
