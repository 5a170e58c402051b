"""The form of a study's links, and the length of its neighbour lists."""

import numpy as np
import pytest

from mdfl_jax import UserError, run
from mdfl_jax.config.checks import wants_lists
from mdfl_jax.config.resolve import resolve
from mdfl_jax.study.states import is_independent
from mdfl_jax.study.study import make_study, rounded


def lists_of(config, **engine):
    config.engine.links = "lists"
    config.engine.update(engine)
    return config


@pytest.mark.long
def test_lists_have_the_length_that_the_movement_needs(tiny):
    config = tiny(eval_every=1, **{"network.num_clients": 20, "network.grid_size": 8, "network.radius": 2.0})
    dense = run(config)
    config = lists_of(config)
    listed = run(config)
    most = int(np.nanmax(dense["num_neighbours"]))
    assert make_study(config).groups[0].simulation.list_bound == rounded(most) + 1
    assert int(np.max(listed["list_places"])) == most + 1
    for metric in ("messages", "num_neighbours", "num_heard", "bits_sent", "lambda_2"):
        np.testing.assert_array_equal(dense[metric], listed[metric], err_msg=metric)
    np.testing.assert_allclose(dense["loss"], listed["loss"], rtol=1e-5)


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
        ({"network.num_clients": 5000, "network.radius": float("inf")}, False),
        ({"network.num_clients": 5000, "network.graph": "star"}, False),
        ({"network.num_clients": 5000, "network.graph": "ring"}, True),
        ({"network.num_clients": 5000, "engine.links": "dense"}, False),
        ({"network.num_clients": 20, "engine.links": "lists"}, True),
    ],
)
def test_lists_are_for_many_clients_with_few_neighbours(tiny, changes, lists):
    assert wants_lists(resolve(tiny(sweep="", baseline="", **changes))) == lists


@pytest.mark.long
@pytest.mark.parametrize("changes", [{"engine.max_neighbours": 5}, {"network.graph": "ring"}])
def test_rounds_can_be_added_to_studies_with_lists(tiny, changes):
    study = make_study(lists_of(tiny(sweep="", baseline="", rounds=4, **changes)))
    assert is_independent(study, study.groups[0], 2)
