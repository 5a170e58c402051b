"""Radios: path loss by hand and by standards, laws of shadowing and fading, heights, rates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import radio as oracle
from scipy import stats
from tiny import tiny_config
from worlds import played

from mdfl_jax.contrib.radios import air_to_ground
from mdfl_jax.contrib.radios.fading import NakagamiNumbers
from mdfl_jax.contrib.radios.its_g5 import ITS_G5_RATES
from mdfl_jax.contrib.radios.log_distance import LogDistanceNumbers, loss, reach
from mdfl_jax.contrib.radios.nr_sidelink import SIDELINK_RATES
from mdfl_jax.contrib.radios.radio import FADINGS, HEIGHTS, RadioParams, RadioParts, best_rate, radio
from mdfl_jax.contrib.radios.rates import ShannonNumbers, TableNumbers, by_table, check_table, shannon
from mdfl_jax.contrib.radios.shadowing import draw_waves, shadowing
from mdfl_jax.core.links import ALL_PAIRS
from mdfl_jax.core.rng import stream_at
from mdfl_jax.core.types import Held
from mdfl_jax.mobility.plane import Motion
from mdfl_jax.mobility.trace import tracks
from mdfl_jax.networks.contact import Met
from mdfl_jax.networks.spatial import SpatialParams, spatial
from mdfl_jax.study import make_study
from mdfl_jax.study.plan import plan
from mdfl_jax.traces import TraceTable

N, ROUNDS = 24, 5
PLANE = SpatialParams(16, radius=np.float32(150.0), motion=Motion(500.0, 500.0, 5.0))


def test_losses_are_those_of_the_standards_and_by_hand():
    """23 dBm - (51.42 + 60) dB + 95 dBm at 100 m; 5 dB are left at 10^(61.58 / 30) m."""
    default, distance = LogDistanceNumbers(), np.array([1, 17, 100, 350.5], np.float32)
    road = LogDistanceNumbers(exponent=2.0, reference_loss=oracle.highway(1, 5.9))
    free = LogDistanceNumbers(exponent=2.0, reference_loss=oracle.free_space(0.001, 2400))
    np.testing.assert_allclose(loss(default, distance), [oracle.streets(d, 5.9) for d in distance], atol=0.01)
    np.testing.assert_allclose(loss(road, distance), [oracle.highway(d, 5.9) for d in distance], atol=1e-3)
    np.testing.assert_allclose(loss(free, distance), [oracle.free_space(d / 1000, 2400) for d in distance], atol=1e-3)
    np.testing.assert_allclose(reach(default, loss(default, distance)), distance, rtol=1e-4)
    np.testing.assert_allclose(loss(default, np.float32([100, 0])), [111.42, 51.42], atol=1e-3)
    np.testing.assert_allclose(reach(default, np.float32([23 + 95 - 5, 51])), [10 ** (61.58 / 30), 0], rtol=1e-4)


def test_shadowing_is_normal_and_falls_with_what_both_clients_move():
    """Of Wang, Tameh and Nix (2008): exp(-(m_i + m_j) / 25) for pairs that are far apart."""
    place = jnp.array([[0, 0], [300, 0], [10, 0], [300, 15], [0, 40], [3, 0]], jnp.float32)
    met = Met(ALL_PAIRS, jnp.ones((6, 6), bool), position=place)
    field = jax.jit(jax.vmap(lambda key: shadowing(draw_waves(key, jnp.float32(25.0)), met)))
    drawn = np.asarray(field(jax.random.split(jax.random.key(3), 4000)))
    np.testing.assert_array_equal(drawn, drawn.swapaxes(1, 2))
    pairs = {(0, 1): 0, (2, 1): 10, (0, 3): 15, (2, 3): 25, (4, 1): 40}
    for (i, j), moved in pairs.items():
        assert np.mean(drawn[:, 0, 1] * drawn[:, i, j]) == pytest.approx(np.exp(-moved / 25), abs=0.06)
    for i, j in [(0, 1), (0, 5), (2, 3)]:  # at 300 m, and at 3 m
        assert drawn[:, i, j].var() == pytest.approx(1, abs=0.08)
        assert stats.kstest(drawn[:, i, j], "norm").pvalue > 0.001


def test_what_is_drawn_once_for_a_seed_has_keys_that_no_round_has():
    """Shadowing and heights are drawn from the stream "link", as the links of each round are."""
    numbers = air_to_ground.AirToGroundNumbers(shadowing=4.0).traced()
    key, clients = jax.random.key(3), Held(jnp.ones(N, jnp.int32), jnp.ones((N, 2), jnp.int32))
    state = radio(RadioParts("air_to_ground", shadowed=True)).init(RadioParams(numbers), key, clients, 0)
    for of_round in (stream_at(key, "link", r) for r in range(ROUNDS)):
        again = draw_waves(of_round, jnp.float32(numbers.shadowing_distance))
        assert not any((new == old).all() for new, old in zip(again[:3], state.waves[:3]))
        assert not (jax.random.uniform(jax.random.fold_in(of_round, HEIGHTS), (N,)) == state.drawn).any()


@pytest.mark.parametrize("shape", [0.5, 1.0, 1.5, 3.0])
def test_gains_are_gamma_numbers(shape):
    draw = lambda k: jax.random.uniform(jax.random.fold_in(jax.random.key(0), k), (4000,))  # noqa: E731
    gains = np.asarray(FADINGS["nakagami"](NakagamiNumbers(fading_shape=shape).typed(), draw))
    assert stats.kstest(gains, "gamma", args=(shape, 0, 1 / shape)).pvalue > 0.01
    if shape == 1:
        assert stats.kstest(np.asarray(FADINGS["rayleigh"](None, draw)), "expon").pvalue > 0.01


@pytest.mark.parametrize("environment", sorted(oracle.BUILDINGS))
def test_losses_between_air_and_ground(environment):
    """Urban by hand at 45 degrees and 141.4 m: P = 1 / (1 + 9.61 exp(-0.16 35.39)) = 0.968; 81.47 + P + 20 (1 - P)."""
    numbers = air_to_ground.AirToGroundNumbers(environment=environment)
    ground, air = jnp.float32(1.5), jnp.float32(101.5)
    for distance in (0.0, 3.0, 100.0, 180.0, 2500.0):
        expected = oracle.air_to_ground(environment, distance, 100.0)
        for pair in ((ground, air), (air, ground)):
            lost = air_to_ground.ground_loss(numbers, jnp.float32(distance), *pair)
            np.testing.assert_allclose(lost, expected, atol=2e-3)
            if distance:
                np.testing.assert_allclose(air_to_ground.ground_reach(numbers, lost, *pair), distance, rtol=3e-3)
    urban = 81.47 + 0.9677 + 20 * 0.0323
    assert environment != "urban" or oracle.air_to_ground("urban", 100, 100) == pytest.approx(urban, abs=0.02)
    seen = oracle.BUILDINGS[environment][2]
    free = oracle.free_space(0.3, 2000) + seen
    np.testing.assert_allclose(air_to_ground.ground_loss(numbers, jnp.float32(300), air, air), free, atol=0.06)
    np.testing.assert_allclose(
        air_to_ground.ground_loss(numbers, jnp.float32(60), ground, ground), oracle.streets(60, 2), atol=0.02
    )
    assert float(air_to_ground.ground_reach(numbers, jnp.float32(60.0), ground, air)) == 0  # not even from below


def lost_between(distance, *heights):
    """The loss between two clients among high houses; who is at 1.5 m or below is in a street."""
    low, high = sorted(max(height, 1.5) for height in heights)
    if high <= 1.5:
        return oracle.streets(distance, 2)
    if low <= 1.5:
        return oracle.air_to_ground("high_rise", distance, high - 1.5)
    return oracle.free_space(np.hypot(distance, high - low) / 1000, 2000) + 2.3


FLYING = spatial(N, mobility=("random_waypoint",), link_filter=radio(RadioParts("air_to_ground")))


@pytest.mark.few(1)
@pytest.mark.parametrize("flying", ["mobile", "static"])
def test_who_flies_is_heard_by_the_elevation(flying):
    """Of 16 mobile and 8 static clients, those in the air at about 100 m between high houses; others in the streets."""
    own = air_to_ground.AirToGroundNumbers(environment="high_rise", height_spread=0.2, flying=flying).traced()
    numbers = PLANE._replace(radius=np.float32(600.0), link_filter=RadioParams(own))
    states, links = played(FLYING, numbers, ROUNDS)
    flies = states.places.is_mobile[0] == (flying == "mobile")
    height = np.where(flies, 100 * (0.8 + 0.4 * states.filtered.drawn[0].astype(float)), 1.5)
    assert ((height[flies] >= 80) & (height[flies] <= 120)).all()
    assert np.ptp(height[flies]) > 10
    kinds = {}
    for t in range(ROUNDS):
        apart = np.linalg.norm(states.places.position[t][:, None] - states.places.position[t][None], axis=-1)
        for i in range(N):
            for j in range(i):
                d = apart[i, j]
                lost = lost_between(max(d, 1), height[i], height[j])
                if abs(lost - 113) > 0.1:
                    assert links.adjacency[t, i, j] == links.adjacency[t, j, i] == (lost <= 113 and d <= 600)
                kinds.setdefault(int(flies[i]) + int(flies[j]), set()).add(bool(links.adjacency[t, i, j]))
    assert kinds[1] == {True, False}


def rising(rows=4):
    """A client in a street, one on a mast, two drones that rise and sink, at each second."""
    t = np.arange(rows)[:, None]
    position = np.stack([np.hstack([0 * t, 5 + 0 * t, 100 + 30 * t, 200 - 20 * t]), np.hstack([0 * t] * 4)], axis=-1)
    height = np.hstack([0 * t, 25 + 0 * t, 1 + 20 * t, 90 - 29.5 * t])
    return TraceTable(position.astype(np.float32), np.ones((rows, 4), bool), 0.0, 1.0, height=height)


@pytest.mark.parametrize("lists", [0, 3])
def test_the_heights_of_a_trace_decide_the_elevation(lists):
    """The rate of each link tells its loss, in rounds with other heights of the drones; 1 m is on the ground."""
    table, parts = rising(), RadioParts("air_to_ground", "", "shannon")
    own = air_to_ground.AirToGroundNumbers(environment="high_rise", threshold=-90.0).traced()
    filtered = RadioParams(own, None, ShannonNumbers(width=1e6, gap=0.0).traced())
    network = spatial(4, mobility=("trace",), link_filter=radio(parts), max_neighbours=lists)
    found = played(network, SpatialParams(4, np.float32(1e4), trace=tracks(table), link_filter=filtered), 3)[1]
    kinds = set()
    for k in range(3):
        for i, place in np.ndindex(4, 4):
            j = place if found.senders.ids is None else int(found.senders.ids[k, i, place])
            if i == j:
                continue
            d, heights = abs(table.position[k, i, 0] - table.position[k, j, 0]), table.height[k, [i, j]]
            lost = lost_between(d, *heights)
            kinds.add(int(np.sum(heights <= 1.5)))
            assert found.adjacency[k, i, place]
            snr = 10 * np.log10(2 ** (float(found.channel.rate[k, i, place]) / 1e6) - 1)
            np.testing.assert_allclose(23 + 95 - snr, lost, atol=0.05)
    assert len(kinds) == 3


def test_rates_by_hand_and_by_the_tables():
    numbers = ShannonNumbers(width=10e6, gap=3.0)
    for snr in (-5.0, 3.0, 20.0):
        expected = 10e6 * np.log2(1 + 10 ** ((snr - 3) / 10))
        assert float(shannon(numbers, jnp.float32(snr))) == pytest.approx(expected, rel=1e-5)
    for table in (ITS_G5_RATES, SIDELINK_RATES):
        check_table("table", table)
    assert by_table(ITS_G5_RATES, jnp.array([4.0, 4.1, 9.5, 40.0])).tolist() == [0, 3e6, 9e6, 27e6]
    efficiencies = [
        bits * 180 / 168 for _, bits in SIDELINK_RATES
    ]  # of 3GPP TS 38.214, table 5.1.3.1-1: MCS 0, 4, 10, 28
    np.testing.assert_allclose([efficiencies[k] for k in (0, 4, 10, -1)], [0.2344, 0.6016, 1.3281, 5.5547], atol=1e-4)
    own = TableNumbers(mcs="1,10; 4,30")
    assert by_table(own.rows, jnp.array([0.9, 3.0, 4.0])).tolist() == [0, 10, 30]


PLANNED = {"network.mobility": "random_waypoint", "network.radius": 50.0, "motion.dt": 0.0015}
PLANNED |= {"radio.name": "log_distance", "radio.rate": "its_g5", "radio.threshold": 3.0}
PLANNED |= {"radio.shadowing_distance": 9.0, "radio.burst_end": 0.5, "cost.short_contact": "drop"}


def test_heights_say_how_far_a_signal_reaches_and_no_link_has_more_than_the_best_rate():
    """Drones of other heights reach as far as these let them; a trace may have two of them on the ground."""
    drones = PLANNED | {"radio.name": "air_to_ground", "radio.height_spread": 0.5, "radio.flying": "all"}
    assert "a signal reaches" not in plan(make_study(tiny_config(**drones)))
    numbers = air_to_ground.AirToGroundNumbers(flying="all", reference_loss=20.0).traced()
    params = RadioParams(numbers, rate=ShannonNumbers(width=1e6, gap=0.0).traced())
    at_antennas = 23 - 20 + 95  # dB
    best = best_rate(RadioParts("air_to_ground", rate="shannon"), params)
    np.testing.assert_allclose(best, 1e6 * np.log2(1 + 10 ** (at_antennas / 10)), rtol=1e-5)
