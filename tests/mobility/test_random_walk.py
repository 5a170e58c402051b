"""`bounce` and the thesis's random walk against the unfolding oracle, and their laws."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import plane_world

from mdfl_jax.core.errors import UserError
from mdfl_jax.mobility.rules.random_walk import bounce

JIT_BOUNCE = jax.jit(bounce)
SIZE = np.array([50.0, 80.0], np.float32)


def check_path(times, points, position, velocity, size):
    """In order, inside, as fast as the velocity, and where the oracle is at every breakpoint and in between."""
    times, points = np.asarray(times), np.asarray(points)
    assert (times[:, 0] == 0).all()
    assert (times[:, -1] == 1).all()
    assert (np.diff(times, axis=1) >= 0).all()
    assert (points >= 0).all()
    assert (points <= size).all()
    for i in range(len(times)):
        t = np.concatenate([times[i], np.linspace(0, 1, 41)])
        got = plane_world.place_at(times[i], points[i], t)
        expected = [plane_world.bounced(position[i], velocity[i], size, instant) for instant in t]
        np.testing.assert_allclose(got, expected, atol=2e-3)
    length = np.linalg.norm(np.diff(points, axis=1), axis=-1).sum(1)
    np.testing.assert_allclose(length, np.linalg.norm(velocity, axis=1), rtol=1e-4, atol=1e-3)


@given(st.integers(0, 10**6), st.sampled_from([10.0, 100.0, 300.0]))
@settings(deadline=None, max_examples=20, derandomize=True)
def test_bounce_equals_the_oracle(seed, speed):
    """Up to ceil(300 / 50) + ceil(300 / 80) = 10 walls in a round, jitted."""
    rng = np.random.default_rng(seed)
    position = (rng.uniform(0, 1, (5, 2)) * SIZE).astype(np.float32)
    position[0], position[1] = [0, 80], [50, 0]  # in corners
    velocity = rng.uniform(-speed, speed, (5, 2)).astype(np.float32)
    velocity[3], velocity[4, 0] = 0, 0
    times, points = JIT_BOUNCE(position, velocity, SIZE)
    check_path(times, points, position, velocity, SIZE)


@pytest.mark.parametrize("speed", [0.0, 40.0, 5000.0])
def test_bounce_makes_room_for_as_many_walls_as_it_needs(speed):
    position = np.array([[10.0, 20.0], [3.0, 70.0]], np.float32)
    velocity = np.array([[speed, 0.0], [0.0, -speed]], np.float32)
    times, points = bounce(position, velocity, SIZE)
    assert times.shape[1] == 2 * int(np.ceil(speed / 50)) + 3
    check_path(times[:, :], points, position, velocity, SIZE) if speed < 5000 else None
    end = [plane_world.bounced(position[i], velocity[i], SIZE, 1.0) for i in range(2)]
    np.testing.assert_allclose(points[:, -1], end, atol=0.05)


def test_bounce_with_too_few_walls_ends_in_the_right_place():
    position, velocity = np.array([[10.0, 20.0]], np.float32), np.array([[470.0, 90.0]], np.float32)
    times, points = bounce(position, velocity, SIZE, max_bounces=3)
    assert times.shape == (1, 9)
    np.testing.assert_allclose(points[0, -1], plane_world.bounced(position[0], velocity[0], SIZE, 1.0), atol=1e-3)
    exact = plane_world.bounced(position[0], velocity[0], SIZE, float(times[0, 3]))
    np.testing.assert_allclose(points[0, 3], exact, atol=1e-3)
    length = np.linalg.norm(np.diff(points[0], axis=0), axis=-1).sum()
    assert length < np.linalg.norm(velocity)


@pytest.mark.parametrize(("velocity", "told"), [(1e6, "at most 1000"), (np.nan, "finite"), (np.inf, "finite")])
def test_bounce_refuses_what_it_cannot_hold(velocity, told):
    with pytest.raises(UserError, match=told):
        bounce(np.ones((1, 2)), np.array([[velocity, 0.0]]), SIZE)
