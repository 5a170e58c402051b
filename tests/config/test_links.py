"""The form of a study's links, and the length of its neighbour lists."""

import pytest

from mdfl_jax import UserError
from mdfl_jax.config.checks import wants_lists
from mdfl_jax.config.resolve import resolve
from mdfl_jax.study.study import make_study


def test_lists_that_are_too_short_are_refused_with_the_number_that_is_needed(tiny):
    config = tiny(**{"network.radius": 4.0, "engine.links": "lists", "engine.max_neighbours": 1})
    with pytest.raises(UserError, match=r"^engine.max_neighbours is 1; a client has \d neighbours") as error:
        make_study(config)
    config.engine.max_neighbours = int(str(error.value).split()[-3])
    assert make_study(config).groups[0].simulation.list_bound == config.engine.max_neighbours + 1


def test_lists_are_for_many_clients_with_few_neighbours(tiny):
    for clients, changes, lists in (
        (512, {}, False),
        (513, {}, True),
        (5000, {"network.graph": "star"}, False),
        (5000, {"network.graph": "ring"}, True),
        (5000, {"engine.links": "dense"}, False),
    ):
        assert wants_lists(resolve(tiny(**{"network.num_clients": clients}, **changes))) == lists, (clients, changes)
