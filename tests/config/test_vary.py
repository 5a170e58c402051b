"""The fields `vary` and `held_seed`: only the named random streams follow the seed; the rest of a run is as ever."""

import jax
import numpy as np
import pytest

from mdfl_jax.config.checks import keys_of
from mdfl_jax.config.points import group_points, points
from mdfl_jax.config.resolve import resolve
from mdfl_jax.core import rng
from mdfl_jax.core.section import SWITCHES

SEEDS = (5, 0, 9)


def data(keys):
    return np.asarray(jax.random.key_data(keys))


@pytest.mark.parametrize(
    ("vary", "names"),
    [
        ("batch init", {"batch", "init"}),
        ("all but cost,link", set(rng.SEED_STREAMS) - {"cost", "link"}),
    ],
)
def test_each_stream_is_that_of_the_seed_or_of_the_held_seed(tiny, vary, names):
    """Oracle: the streams of a key for the seed, or of one for the held seed; also mapped over runs."""
    keys = keys_of(resolve(tiny(vary=vary, held_seed=7)), SEEDS)
    for name in rng.STREAMS:
        source = "batch" if name in ("algorithm", "augmentation", "dropout", "epochs") else name
        own = [jax.random.key(seed if source in names else 7) for seed in SEEDS]
        expected = np.array([data(rng.stream_at(key, name, 3)) for key in own])
        np.testing.assert_array_equal([data(rng.stream_at(key, name, 3)) for key in keys], expected, err_msg=name)
        mapped = jax.vmap(lambda key, name=name: rng.stream_at(key, name, 3))(keys)
        np.testing.assert_array_equal(data(mapped), expected, err_msg=name)


def test_what_a_program_may_leave_out_is_a_part_of_its_key(tiny, monkeypatch):
    """A number that is traced splits the points of a sweep where a function that was declared tells it of them."""
    steps = points(resolve(tiny(sweep="algorithm.lr=0.1,0.2,0.3,0.4")))
    assert group_points(steps) == [[0, 1, 2, 3]]
    monkeypatch.setitem(SWITCHES, "is_large", lambda experiment: experiment.algorithm.lr > 0.25)
    assert group_points(steps) == [[0, 1], [2, 3]]
    both = points(resolve(tiny(sweep="algorithm.momentum=0,0.5,0.9;network.link_failure=0,0.1,0.2")))
    monkeypatch.delitem(SWITCHES, "is_large")
    assert group_points(both) == [[0], [1, 2], [3, 6], [4, 5, 7, 8]]
