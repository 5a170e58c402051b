"""Batteries: energy is conserved, and who has none is silent and stands still, whatever the rule of movement."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.costs import round_joules
from small import toy_hparams, toy_task
from tiny import run_study, tiny_config
from worlds import holding, played

from mdfl_jax import Schedule, UserError
from mdfl_jax.algorithms.dpsgd import dpsgd
from mdfl_jax.core.types import FIXED, Observed
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.mobility import MOBILITIES
from mdfl_jax.mobility.plane import Motion
from mdfl_jax.networks.costs import CostParams, CountedParams, Work, counted
from mdfl_jax.networks.fixed import fixed_graph
from mdfl_jax.networks.graphs import GraphParams
from mdfl_jax.networks.spatial import spatial
from mdfl_jax.networks.wrappers.battery import BatteryParams, powered
from mdfl_jax.study import make_study

N, ROUNDS, BITS, BATCH = 6, 14, 1000, 4
CLIENTS = holding(np.full(N, 9))
RING = fixed_graph(N, "ring")


def with_batteries(network):
    return counted(powered(network), Work(batch_size=BATCH))


MOVING = with_batteries(spatial(N, 5, ("random_movement",)))
COSTS = ("joules_per_sample", "joules_per_bit", "joules_per_bit_received", "joules_per_metre")


def battery(inner, **numbers):
    return BatteryParams(inner, **{name: np.float32(value) for name, value in numbers.items()})


def costs(**numbers):
    return CostParams(**{name: np.float32(value) for name, value in numbers.items()})


amounts = st.floats(0, 3)
numbers = st.fixed_dictionaries(
    {"capacity": st.floats(1, 60), "spread": st.floats(0, 0.75)}
    | {"start": st.floats(0.125, 1)}
    | dict.fromkeys(("harvest", "charge", "charger_range", "joules_per_metre", "joules_per_sample"), amounts)
    | dict.fromkeys(("joules_per_bit", "joules_per_bit_received"), st.floats(0, 1e-3))
)


@pytest.mark.long
@given(numbers, st.integers(0, 2**31 - 1))
@settings(deadline=None, max_examples=60, derandomize=True)
def test_energy_is_conserved_and_the_rounds_are_those_of_a_loop(drawn, seed):
    """A loop over rounds and clients in NumPy fills and empties the batteries, from the links and the places."""
    chargers = np.array([[1, 1], [4, 5]], np.float32)
    own = {name: drawn[name] for name in drawn if name not in COSTS}
    params = battery(toy_hparams(num_mobile=4).network._replace(mobility=np.int32(0)), **own)
    params = CountedParams(params._replace(chargers=chargers), costs(**{name: drawn[name] for name in COSTS}))
    states, links = played(MOVING, params, ROUNDS, CLIENTS, seed, BITS)
    left, used = states.inner.left, states.worked.value + states.moved
    harvested, capacity = states.inner.harvested.value, states.inner.capacity
    np.testing.assert_allclose(capacity[0], drawn["capacity"], rtol=drawn["spread"] + 1e-6)
    np.testing.assert_allclose(left, left[0] + harvested - used, atol=1e-4)
    assert (left <= capacity[0] * (1 + 1e-5) + 1e-4).all()
    place, energy = states.inner.inner.places.position, left[0].astype(float)
    for t in range(ROUNDS):
        alive, heard = left[t] > 0, links.adjacency[t]
        np.testing.assert_array_equal(links.active[t], alive)
        assert not heard[~alive].any()
        assert not heard[:, ~alive].any()
        np.testing.assert_allclose(links.mix[t].sum(axis=1), 1, rtol=1e-6)
        np.testing.assert_array_equal(place[t + 1][~alive], place[t][~alive])
        bits = heard.sum(axis=0) * float(BITS)
        takes = round_joules(drawn, np.where(alive, BATCH, 0), None, bits, heard)
        for i in range(N):
            energy[i] -= takes[i] + drawn["joules_per_metre"] * np.linalg.norm(place[t + 1, i] - place[t, i])
            near = any(np.linalg.norm(place[t + 1, i] - charger) <= drawn["charger_range"] for charger in chargers)
            energy[i] += min(drawn["harvest"] + near * drawn["charge"], max(capacity[0, i] - energy[i], 0))
        np.testing.assert_allclose(left[t + 1], energy, rtol=1e-4, atol=1e-3)


def test_who_harvests_less_than_a_round_takes_takes_part_in_that_share_of_the_rounds():
    """A round takes 8 J of 20 J and brings 2 J: three rounds, and then every fourth one."""
    assert FIXED in RING.gives - powered(RING).gives
    params = CountedParams(battery(GraphParams(), capacity=20, harvest=2), costs(joules_per_sample=2))
    states, links = played(with_batteries(RING), params, ROUNDS, CLIENTS, bits=1000)
    wakes = [0, 1, 2, 3, 7, 11]
    np.testing.assert_array_equal(links.active, np.isin(np.arange(ROUNDS), wakes)[:, None].repeat(N, 1))
    assert states.inner.left[:5, 0].tolist() == [20, 14, 8, 2, -4]


def forms(world):
    """The forms of all rules that move clients in a world."""
    return [form for name in MOBILITIES for form in MOBILITIES.forms(name) if form.world == world]


@pytest.mark.long
@pytest.mark.parametrize("world", ["grid", "plane"])
@pytest.mark.parametrize("part", range(4))
def test_by_every_rule_those_that_are_stopped_stand_still_and_the_others_go_on(world, part):
    rules = forms(world)[part::4]
    network, clients, key = spatial(N, 5, rules, contact="swept"), holding(np.arange(1, N + 1), 3), jax.random.key(1)
    stands = jnp.arange(N) % 2 == 0

    def play(params):
        start = network.hold(network.init(params, key, clients), jnp.zeros(N, bool))

        def body(state, t):
            after = network.step(params, key, t, network.hold(state, stands & (t >= 2)), clients)[0]
            return after, (after.places, after.path.points)

        return jax.lax.scan(body, start, jnp.arange(6))[1]

    program, moves = jax.jit(play), False
    for k, form in enumerate(rules):
        params = toy_hparams(num_mobile=4).network._replace(mobility=np.int32(k), motion=Motion(dt=np.float32(4)))
        places, path = program(params)
        still = np.asarray(places.position)[2:, ::2]
        np.testing.assert_array_equal(still, np.broadcast_to(places.position[1, ::2], still.shape), err_msg=f"{form}")
        np.testing.assert_array_equal(path[2:, ::2], np.broadcast_to(still[:, :, None], path[2:, ::2].shape))
        np.testing.assert_array_equal(places.distance_moved[-1, ::2], places.distance_moved[1, ::2])
        moves |= bool((places.position[-1, 1::2] != places.position[1, 1::2]).any())
    assert moves


def history(*capacities):
    """The metrics of runs whose clients have batteries of these capacities; or none, if there is no capacity."""
    network, inner = spatial(N, 5, ("static", "random_movement")), toy_hparams(num_mobile=3).network
    network = counted(powered(network) if capacities else network, Work())
    task = toy_task(num_clients=N, partition="iid")
    run = jax.jit(Simulation(task, network, dpsgd(), Schedule(8, 1, True, record_mib=1.0)).run)
    for params in [battery(inner, capacity=each, spread=0.5) for each in capacities] or [inner]:
        cost = costs(joules_per_sample=1, joules_per_metre=0.5)
        yield jax.device_get(run(toy_hparams()._replace(network=CountedParams(params, cost)), jax.random.key(0)))


def test_with_enough_energy_nothing_changes_and_with_little_clients_fall_silent():
    plain, enough, little = *history(), *history(1e6, 60)
    for name in plain:
        np.testing.assert_array_equal(plain[name], enough[name], err_msg=name)
    assert set(enough) - set(plain) == {"present", "survivors", "energy_left", "harvested"}
    assert (enough.survivors == 1).all()
    alive = little.energy_left > 0
    np.testing.assert_allclose(little.survivors, alive.mean(axis=1))
    assert ((little.survivors > 0) & (little.survivors < 1)).any()
    assert little.survivors[-1] == 0
    np.testing.assert_array_equal(little.present, alive[:-1])
    gone = ~alive[:-1]
    for each in (little.joules, little.messages, little.distance_moved, little.accuracy):
        np.testing.assert_array_equal(each[1:][gone], each[:-1][gone])
    np.testing.assert_allclose(little.energy_left, little.energy_left[0] - little.joules, atol=1e-3)


def test_batteries_need_costs_around_them():
    with pytest.raises(UserError, match="needs counted costs around it"):
        powered(RING).observe(None, None, Observed(None, None, None))


@pytest.mark.long
@pytest.mark.parametrize("name", ["dpsgd", "adpsgd"])
def test_clients_with_clocks_and_batteries_compute_what_they_have_energy_for(name, tmp_path):
    """A work takes 8 J and one slot, and 4 J are harvested in a slot: every second slot after the first 16 J."""
    fields = {"algorithm.name": name, "algorithm.batch_size": 8, "data.limit_train": 120, "network.mobility": "static"}
    fields |= {"cost.seconds_per_sample": 0.125, "cost.joules_per_sample": 1.0, "clock.joins": "at_once"}
    fields |= {"energy.capacity": 16.0, "energy.harvest": 4.0, "rounds": 24, "eval_every": 24, "seeds": 1}
    run_study(make_study(tiny_config(**fields)), tmp_path)
    with np.load(tmp_path / "history.npz") as found:
        works, left, came, used = (found[f"0/{of}"][0, -1] for of in ("works", "energy_left", "harvested", "joules"))
    np.testing.assert_array_equal(used, 8 * works)
    np.testing.assert_array_equal(left, 16 + came - used)
    assert ((works >= 12) & (works <= 16)).all()
