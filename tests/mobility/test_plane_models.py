"""The models of the plane: what holds on every trajectory, each one's law, and paths that are reflected at walls."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from mdfl_jax.contrib.mobility.levy_walk import truncated_pareto
from mdfl_jax.contrib.terrains.plane import PlaneStrategyNumbers
from mdfl_jax.core.numbers import fields_of, from_values
from mdfl_jax.mobility import BOUNDARIES, MOBILITIES, Motion, PlaneWorld
from mdfl_jax.mobility.rules.random_waypoint import mean_distance
from mdfl_jax.networks.worlds import typed_motion

FORMS = {  # strategies are in test_strategies.py
    name: form
    for name in MOBILITIES
    for form in MOBILITIES.forms(name)
    if form.world == "plane" and not issubclass(form.numbers, PlaneStrategyNumbers)
}
MODELS = list(FORMS)
WIDTH, HEIGHT, N, ROUNDS = 200.0, 120.0, 400, 60
SMALLEST_P = 1e-4
BASE = {"width": WIDTH, "height": HEIGHT}
OWN = {  # of the models; each takes those that it has
    "speed_min": 2.0, "speed_max": 20.0, "block": 40.0, "flight_max": 150.0, "loop": "10,10; 190,10; 190,110",
    "group_radius": 15.0, "leg_time": 4.0,
}  # fmt: skip


def numbers_of(name, **changes):
    """(those of the plane, those of the model), the changes among them."""
    kind = MOBILITIES.numbers(name)
    assert {*changes} <= {*Motion._fields, *fields_of(kind)}
    motion = Motion(**{**BASE, **{key: value for key, value in changes.items() if key in Motion._fields}})
    return motion, from_values(kind, {**OWN, **changes}).traced()


def make_world(motion, numbers, num_mobile, clients=N):
    motion = typed_motion(motion)
    size = jnp.stack([motion.width, motion.height])
    return PlaneWorld(
        size=size,
        start=jax.random.uniform(jax.random.key(5), (clients, 2)) * size,
        is_mobile=jnp.arange(clients) < num_mobile,
        label_counts=jnp.zeros((clients, 2), jnp.int32),
        radius=jnp.float32(30.0),
        motion=motion,
        numbers=numbers.typed(),
    )


@functools.cache
def program(name):
    """(M, seed, changes) -> the first state, then clients, paths and plans of the rounds; compiled once a model."""
    rule = FORMS[name].make()

    @jax.jit
    def run(motion, numbers, num_mobile, key):
        world = make_world(motion, numbers, num_mobile)
        state = rule.init(jax.random.fold_in(key, 10**6), world)

        def step(state, t):
            state = rule.step(jax.random.fold_in(key, t), world, state)
            return state, (state.clients, rule.path(world, state), getattr(state, "plan", None))

        return state, *jax.lax.scan(step, state, jnp.arange(ROUNDS))[1]

    return lambda num_mobile=N, seed=0, **changes: jax.tree.map(
        np.asarray, run(*numbers_of(name, **changes), num_mobile, jax.random.key(seed))
    )


def uniform_p(values, high):
    return stats.kstest(values / high, "uniform").pvalue


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_paths_hang_together_stay_inside_and_leave_the_others_alone(name):
    mobile = 300
    for boundary in range(len(BOUNDARIES)):
        first, clients, path, _ = program(name)(num_mobile=mobile, boundary=boundary)
        size = np.array([WIDTH, HEIGHT], np.float32)
        assert np.isfinite(path.points).all()
        assert (path.points >= 0).all()
        assert (path.points <= size).all()
        assert (np.diff(path.times, axis=-1) >= 0).all()
        assert (path.times[..., 0] == 0).all()
        assert (path.times[..., -1] == 1).all()
        position = np.concatenate([first.clients.position[None], clients.position])
        np.testing.assert_allclose(path.points[:, :, 0], position[:-1], atol=1e-4)
        np.testing.assert_allclose(path.points[:, :, -1], position[1:], atol=1e-4)
        moved = np.linalg.norm(np.diff(path.points, axis=2), axis=-1)
        assert (moved[:, mobile:] == 0).all() or name == "random_walk"
        assert moved[:, :mobile].max() > 1 or name == "static"
        jumped = (moved > 1e-2) & (np.diff(path.times, axis=-1) <= 0)
        can_jump = BOUNDARIES[boundary] == "wrap" and name in (
            "random_walk", "random_direction", "gauss_markov", "levy_walk"
        )  # fmt: skip
        assert jumped.any() == can_jump


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["random_walk", "random_direction"])
def test_walk_and_direction_stay_uniform(name):
    """A grid of cells, each as likely; and both coordinates, at the last of the rounds."""
    for boundary in (0, 1):
        last = program(name)(boundary=boundary, seed=3)[1].position[-1]
        assert uniform_p(last[:, 0], WIDTH) > SMALLEST_P
        assert uniform_p(last[:, 1], HEIGHT) > SMALLEST_P
        cells = np.histogram2d(*last.T, bins=(4, 4), range=[[0, WIDTH], [0, HEIGHT]])[0]
        assert stats.chisquare(cells.ravel()).pvalue > SMALLEST_P


def test_random_walk_speeds_and_directions():
    first, _, path, _ = program("random_walk")(num_mobile=150, up=0.5, down=0.3, left=0.2, right=0.0, beta=1.5)
    speed = first.clients.memory
    assert stats.kstest(speed[:150], "uniform", (30, 30)).pvalue > SMALLEST_P  # U(1.5 x 20, 3 x 20)
    assert stats.kstest(speed[150:], "uniform", (0, 20)).pvalue > SMALLEST_P
    length = np.linalg.norm(np.diff(path.points, axis=2), axis=-1).sum(-1)
    np.testing.assert_allclose(length, np.broadcast_to(speed, length.shape), rtol=1e-3, atol=1e-3)
    step = path.points[:, :, 1] - path.points[:, :, 0]
    away = np.all((path.points[:, :, 0] > 1e-3) & (path.points[:, :, 0] < np.array([WIDTH, HEIGHT]) - 1e-3), axis=-1)
    step = step[away & (np.abs(step).max(-1) > 1e-3)]
    counts = [(step[:, 1] > 1e-3).sum(), (step[:, 1] < -1e-3).sum(), (step[:, 0] < -1e-3).sum()]
    assert (step[:, 0] < 1e-3).all()
    assert stats.chisquare(counts, np.array([0.5, 0.3, 0.2]) * sum(counts)).pvalue > SMALLEST_P


def test_random_waypoint_is_stationary_from_the_start():
    """Pausing share, speed's 1 / v law and crowding in the middle, at the start and at the end alike."""
    low, high, pause_min, pause_max = 2.0, 20.0, 1.0, 7.0
    first, clients, _, _ = program("random_waypoint")(pause_min=pause_min, pause_max=pause_max)
    travel = float(mean_distance(jnp.array([WIDTH, HEIGHT]))) * np.log(high / low) / (high - low)
    pausing = ((pause_min + pause_max) / 2) / ((pause_min + pause_max) / 2 + travel)
    for moment in (first.clients, jax.tree.map(lambda x: x[-1], clients)):
        speed = np.linalg.norm(moment.velocity, axis=-1)
        assert stats.binomtest(int((speed == 0).sum()), N, pausing).pvalue > SMALLEST_P
        moving = speed[speed > 0]
        assert stats.kstest(np.log(moving / low) / np.log(high / low), "uniform").pvalue > SMALLEST_P
        middle = np.all(np.abs(moment.position / [WIDTH, HEIGHT] - 0.5) < 0.25, axis=-1)
        assert middle.mean() > 0.3  # a quarter of the area
    start, end = first.clients, jax.tree.map(lambda x: x[-1], clients)
    for axis in range(2):
        assert stats.ks_2samp(start.position[:, axis], end.position[:, axis]).pvalue > SMALLEST_P
    left = start.time_left[np.linalg.norm(start.velocity, axis=-1) == 0]
    law = lambda x: np.where(x < 1, x, x - (x - 1) ** 2 / 12) / 4  # noqa: E731  # P(pause > u) / E[pause], summed up
    assert stats.kstest(left, law).pvalue > SMALLEST_P


@pytest.mark.long
def test_gauss_markov_autocorrelation_and_law():
    alpha, std = 0.8, 3.0
    _, clients, _, _ = program("gauss_markov")(alpha=alpha, speed_std=std, mean_speed=4.0, mean_direction=30.0)
    velocity = clients.memory  # without walls: [R, N, 2]
    mean = 4 * np.array([np.cos(np.pi / 6), np.sin(np.pi / 6)])
    for t in (0, ROUNDS - 1):
        for axis in range(2):
            assert stats.kstest((velocity[t, :, axis] - mean[axis]) / std, "norm").pvalue > SMALLEST_P
    deviation = velocity - mean
    for lag in (1, 2, 5):
        got = np.mean(deviation[lag:] * deviation[:-lag]) / std**2
        assert abs(got - alpha**lag) < 0.05
    np.testing.assert_allclose(np.abs(clients.velocity), np.abs(velocity), rtol=1e-6)


@pytest.mark.long
def test_gauss_markov_mean_turns_with_the_reflected_client():
    """alpha = 1 is constant velocity: reflected at walls as a ball, as long as there is nothing else."""
    first, clients, _, _ = program("gauss_markov")(alpha=1.0)
    free = first.clients.position[:, None] + first.clients.memory[:, None] * np.arange(1, ROUNDS + 1)[:, None]
    phase = np.mod(free, 2 * np.array([WIDTH, HEIGHT]))
    expected = np.array([WIDTH, HEIGHT]) - np.abs(phase - [WIDTH, HEIGHT])
    np.testing.assert_allclose(np.swapaxes(clients.position, 0, 1), expected, atol=0.05)


@pytest.mark.long
def test_manhattan_stays_on_streets_and_turns_as_often_as_told():
    """40 m a round at 40 m blocks: one crossing a round, so what is done there is seen from round to round."""
    _, clients, path, _ = program("manhattan")(speed_min=40.0, speed_max=40.0, turn=0.4)
    on = np.abs(path.points / 40 - np.round(path.points / 40)) * 40
    assert (on.min(-1) < 1e-2).all()
    assert path.points[..., 1].max() <= 120.01
    heading = clients.memory.astype(int)
    place = clients.position
    ahead = np.where(heading[:-1] > 0, np.ceil(place[:-1] / 40 - 1e-4), np.floor(place[:-1] / 40 + 1e-4))
    inner = np.all((ahead > 0) & (ahead < np.array([5, 3])), axis=-1) & (heading[:-1] != 0).any(-1)
    turned = (heading[1:] * heading[:-1]).sum(-1) == 0
    back = (heading[1:] * heading[:-1]).sum(-1) < 0
    assert not back.any()  # straight, left or right is always open with turns allowed
    assert stats.binomtest(int(turned[inner].sum()), int(inner.sum()), 0.4).pvalue > SMALLEST_P
    _, clients, _, _ = program("manhattan")(speed_min=40.0, speed_max=40.0, turn=0.0)
    axis = np.abs(clients.memory).argmax(-1)
    assert (axis == axis[0]).all()  # nobody turns off; at the ends they turn back


def test_levy_flights_have_the_tail_they_are_told():
    low, high, exponent = 10.0, 150.0, 1.5
    draws = jax.vmap(lambda k: truncated_pareto(k, exponent, low, high))(jax.random.split(jax.random.key(0), 4000))
    law = lambda x: (1 - (x / low) ** -exponent) / (1 - (high / low) ** -exponent)  # noqa: E731
    assert stats.kstest(np.asarray(draws), law).pvalue > SMALLEST_P


@pytest.mark.long
def test_group_members_are_in_their_disc():
    groups = 7
    first, clients, _, plan = program("group")(num_mobile=300, groups=groups)
    centre = plan.position[:, np.arange(N) % groups]
    offset = np.linalg.norm(clients.position - centre, axis=-1)[:, :300]
    assert offset.max() <= 15.001
    far = np.all((centre > 15) & (centre < np.array([WIDTH, HEIGHT]) - 15), axis=-1)[:, :300]
    assert stats.kstest((offset[far][::50] / 15) ** 2, "uniform").pvalue > SMALLEST_P  # uniform in the disc
    apart = np.linalg.norm(first.clients.position - first.plan.position[np.arange(N) % groups], axis=-1)[:300]
    assert apart.max() <= 15.001


@pytest.mark.long
def test_patrol_comes_round_in_its_period():
    """The triangle is 180 + 100 + sqrt(180^2 + 100^2) metres round; at that speed it takes 20 rounds."""
    length = 180 + 100 + np.hypot(180, 100)
    first, clients, path, _ = program("patrol")(speed_min=length / 20, speed_max=length / 20)
    np.testing.assert_allclose(clients.position[19], first.clients.position, atol=0.05)
    np.testing.assert_allclose(clients.position[20:40], clients.position[:20], atol=0.05)
    corner = np.array([190.0, 10.0])
    near = np.linalg.norm(path.points - corner, axis=-1).min((0, 2))
    assert near.max() < 1e-2  # everybody turns at the waypoint itself
    share = (first.clients.position[:, 1] < 10.01).mean()
    assert stats.binomtest(int(share * N), N, 180 / length).pvalue > SMALLEST_P


@pytest.mark.long
def test_more_legs_than_a_round_holds_stay_inside_and_end_in_place():
    """A thousand metres a second among walls 120 m apart: more than 16 walls, folded at the end."""
    fast = {"speed_min": 5000.0, "speed_max": 6000.0, "leg_time": 1e6}
    for boundary in range(3):
        _, clients, path, _ = program("random_direction")(**fast, boundary=boundary)
        assert (path.points >= 0).all()
        assert (path.points <= [WIDTH, HEIGHT]).all()
        assert (path.times[..., -1] == 1).all()
        np.testing.assert_allclose(path.points[:, :, -1], clients.position, atol=1e-3)
