"""Which clients move, against a sort in NumPy, and that only those do."""

import jax.numpy as jnp
import numpy as np
import pytest
from worlds import ends

from mdfl_jax import UserError
from mdfl_jax.config import default_config
from mdfl_jax.networks.movers import MOVERS, moving
from mdfl_jax.study import make_study


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
            found = moving(jnp.int32(MOVERS.index(name)), jnp.int32(mobile), jnp.asarray(samples), jnp.asarray(place))
            assert set(np.flatnonzero(found)) == set(expected(name, samples, place)[:mobile])


def small(**changes):
    config = default_config()
    changes = {
        **{"rounds": 6, "eval_every": 6, "data.name": "digits", "data.limit_train": 200, "data.partition": "dirichlet"},
        **{"data.alpha": 0.1, "network.num_clients": 8, "network.num_mobile": 3, "network.grid_size": 9},
        **{"network.max_step": 2.0, "model.name": "linear"},
        **changes,
    }
    config.update_from_flattened_dict(changes)
    return config


@pytest.mark.few(1)
@pytest.mark.parametrize("mobility", ["random_movement", "random_waypoint"])
def test_only_the_chosen_ones_move_and_all_choices_share_a_program(mobility):
    sweep = "network.movers=" + ",".join(MOVERS)
    study = make_study(small(**{"network.mobility": mobility, "network.radius": 2.0, "sweep": sweep}))
    for name, (start, end) in zip(MOVERS, ends(study), strict=True):
        before, after = (np.asarray(carry.places.position) for carry in (start, end))
        counts = np.asarray(start.world.label_counts).sum(1)
        world = start.world  # where a client of the plane is at first is not where it was drawn
        drawn = world.grid[world.start] if mobility == "random_movement" else world.start
        chosen = expected(name, counts, np.asarray(drawn))[:3]
        assert set(np.flatnonzero(np.asarray(start.places.is_mobile))) == set(chosen)
        assert set(np.flatnonzero((before != after).any(1))) <= set(chosen)
        assert (before != after).any()


def test_an_unknown_choice_is_one_line():
    with pytest.raises(UserError, match=r"network.movers: unknown movers 'most'.*most_data"):
        make_study(small(**{"network.movers": "most"}))
