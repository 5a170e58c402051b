"""The form of a study's links, and the length of its neighbour lists."""

import pytest

from mdfl_jax import UserError
from mdfl_jax.config.checks import wants_lists
from mdfl_jax.config.resolve import resolve
from mdfl_jax.study.study import make_study


def lists_of(config, **engine):
    config.engine.links = "lists"
    config.engine.update(engine)
    return config


def test_lists_that_are_too_short_are_refused_with_the_number_that_is_needed(tiny):
    config = lists_of(tiny(sweep="", baseline="", **{"network.radius": 4.0}), max_neighbours=1)
    with pytest.raises(UserError, match=r"^engine.max_neighbours is 1; a client has \d neighbours") as error:
        make_study(config)
    config.engine.max_neighbours = int(str(error.value).split()[-3])
    assert make_study(config).groups[0].simulation.list_bound == config.engine.max_neighbours + 1


@pytest.mark.parametrize(
    ("changes", "lists"),
    [
        ({"network.num_clients": 512}, False),
        ({"network.num_clients": 513}, True),
        ({"network.num_clients": 5000, "network.graph": "star"}, False),
        ({"network.num_clients": 5000, "network.graph": "ring"}, True),
        ({"network.num_clients": 5000, "engine.links": "dense"}, False),
    ],
)
def test_lists_are_for_many_clients_with_few_neighbours(tiny, changes, lists):
    assert wants_lists(resolve(tiny(sweep="", baseline="", **changes))) == lists
