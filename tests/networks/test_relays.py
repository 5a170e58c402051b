"""Which clients move, against a sort; where relays stand, against loops; relays hold no data and never move."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import told
from tiny import tiny_config
from worlds import ends

from mdfl_jax.networks.worlds import MOVERS, RELAY_PLACES, moving, places_of_relays
from mdfl_jax.study import make_study


def groups_of(links):
    """The connected components of a graph, by walking."""
    left, found = set(range(len(links))), []
    while left:
        group, edge = set(), [left.pop()]
        while edge:
            i = edge.pop()
            group.add(i)
            edge += [j for j in left if links[i][j]]
            left -= set(edge)
        found.append(group)
    return found


def allowed(name, standing, relays, candidates, radius):
    """The candidates among which a rule may take the next relay, given who stands and the relays so far."""
    away = lambda p, q: (p[0] - q[0]) ** 2 + (p[1] - q[1]) ** 2  # noqa: E731
    near = lambda p, q: away(p, q) <= radius**2 * (1 + 1e-6)  # noqa: E731
    everyone = standing + relays
    score = []
    for point in candidates:
        if name == "gaps":
            score.append(min((away(point, q) for q in everyone), default=np.inf))
        elif name == "hubs":
            score.append(sum(near(point, q) and not any(near(q, r) for r in relays) for q in standing))
        else:
            groups = groups_of([[near(p, q) for q in everyone] for p in everyone])
            joined = sum(any(near(point, everyone[i]) for i in group) for group in groups)
            score.append((joined, sum(near(point, q) for q in everyone)))
    return {i for i, value in enumerate(score) if value == max(score)}


@pytest.mark.parametrize("name", RELAY_PLACES[1:])
def test_each_relay_takes_one_of_the_best_places(name):
    rng = np.random.default_rng(5)
    candidates = np.stack(np.meshgrid(np.arange(7.0), np.arange(7.0), indexing="ij"), -1).reshape(-1, 2)
    rule = jax.jit(places_of_relays, static_argnums=4)
    for case in range(12):
        clients, relays, radius = (1, 4, 8)[case % 3], 3, [1.0, 2**0.5, 2.0, 9.0][case % 4]
        place = candidates[rng.integers(0, 49, clients)]
        stands = rng.random(clients) < (0.8 if case else 0.0)
        chosen = rule(
            jnp.int32(RELAY_PLACES.index(name)),
            jax.random.key(case),
            jnp.asarray(place, jnp.float32),
            jnp.asarray(stands),
            relays,
            jnp.asarray(candidates, jnp.float32),
            jnp.float32(radius),
        )
        before: list = []
        standing = [tuple(p) for p, still in zip(place, stands) if still]
        for index in np.asarray(chosen).tolist():
            assert index in allowed(name, standing, before, [tuple(c) for c in candidates], radius)
            before.append(tuple(candidates[index]))


def test_equal_places_are_drawn():
    draw = lambda key: places_of_relays(  # noqa: E731
        jnp.int32(2), key, jnp.zeros((1, 2)), jnp.ones(1, bool), 1, jnp.eye(2), jnp.float32(2)
    )
    drawn = np.asarray(jax.vmap(draw)(jax.random.split(jax.random.key(0), 200))).ravel()
    assert 60 < drawn.sum() < 140


def small(**changes):
    start = {"rounds": 6, "eval_every": 6, "data.limit_train": 200, "data.partition": "dirichlet", "seeds": 1,
             "network.num_clients": 11, "network.num_mobile": 3, "network.grid_size": 9, "network.radius": 2.0,
             "network.relays": 3, "network.max_step": 2.0, "network.movers": "least_data",
             "network.mobility": "random_movement"}  # fmt: skip
    return make_study(tiny_config(**start | changes))


@pytest.mark.long
def test_relays_hold_no_data_and_stand_and_all_else_is_as_without_them():
    ((start, end),) = ends(small())
    ((without, _),) = ends(small(**{"network.relays": 0, "network.num_clients": 8}))
    counts = np.asarray(start.world.label_counts)
    assert (counts[8:] == 0).all()
    np.testing.assert_array_equal(counts[:8], without.world.label_counts)
    before, after = (np.asarray(carry.places.position) for carry in (start, end))
    np.testing.assert_array_equal(before[8:], after[8:])
    np.testing.assert_array_equal(start.world.start[:8], without.world.start)
    np.testing.assert_array_equal(start.places.is_mobile[:8], without.places.is_mobile)
    assert (before[:8] != after[:8]).any()


def test_more_places_than_relays_can_look_at_are_one_line():
    line = told(lambda: ends(small(**{"network.grid_size": 2000})))
    assert "network.relays is 3; with 11 clients and 4,000,000 places it must be 0" in line


def expected(name, samples, place):
    """The clients in the order in which they are chosen; of equal ones the first."""
    away = [sum(float(np.sum((p - q) ** 2)) for q in place) for p in place]  # from all others, and not from the middle
    keys = {
        "first": lambda i: 0,
        "most_data": lambda i: -samples[i],
        "least_data": lambda i: samples[i],
        "most_central": lambda i: away[i],
        "least_central": lambda i: -away[i],
    }
    return sorted(range(len(samples)), key=keys[name])


@pytest.mark.parametrize("name", MOVERS)
def test_the_first_in_the_order_move(name):
    rng = np.random.default_rng(3)
    for clients in (1, 3, 9, 40):
        samples, place = rng.integers(0, 6, clients), rng.random((clients, 2)).astype(np.float32)
        for mobile in (0, 1, clients // 2, clients):
            found = jax.jit(moving)(
                jnp.int32(MOVERS.index(name)), jnp.int32(mobile), jnp.asarray(samples), jnp.asarray(place)
            )
            assert set(np.flatnonzero(found)) == set(expected(name, samples, place)[:mobile])
