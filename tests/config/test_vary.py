"""The fields `vary` and `held_seed`: only the named random streams follow the seed; the rest of a run is as ever."""

import jax
import numpy as np
import pytest

from mdfl_jax import UserError, run
from mdfl_jax.config.checks import keys_of
from mdfl_jax.config.points import group_points, points, program_key
from mdfl_jax.config.resolve import resolve
from mdfl_jax.core import rng
from mdfl_jax.core.section import SWITCHES
from mdfl_jax.study import make_study
from mdfl_jax.study.ahead.partitions import draw
from mdfl_jax.theory import network

SEEDS = (5, 0, 9)


def data(keys):
    return np.asarray(jax.random.key_data(keys))


@pytest.mark.parametrize(
    ("vary", "names"),
    [
        ("placement", {"placement"}),
        ("batch init", {"batch", "init"}),
        ("all but partition", set(rng.SOURCES) - {"partition"}),
        ("all but cost,link", set(rng.SOURCES) - {"cost", "link"}),
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


def test_points_with_other_streams_share_a_program(tiny):
    axes = "vary=all,placement,all but init; held_seed=0,1; network.mobility=static,dcm"
    with pytest.raises(UserError, match=r"^sweep, point 'all, held_seed=1, static': held_seed is 1; it must be 0"):
        points(resolve(tiny(sweep=axes)))
    found = points(resolve(tiny(sweep=axes.replace("all,", "").replace("=0,", "=2,"))))
    assert group_points(found) == [list(range(8))]
    assert program_key(resolve(tiny())) != program_key(found[0].experiment)  # a run has one key, or one for each stream
    mixed = points(resolve(tiny(sweep="vary=all,placement,init")))
    assert group_points(mixed) == [[0], [1, 2]]


def test_what_a_program_may_leave_out_is_a_part_of_its_key(tiny, monkeypatch):
    """A number that is traced splits the points of a sweep where a function that was declared tells it of them."""
    steps = points(resolve(tiny(sweep="algorithm.lr=0.1,0.2,0.3,0.4")))
    assert group_points(steps) == [[0, 1, 2, 3]]
    monkeypatch.setitem(SWITCHES, "is_large", lambda experiment: experiment.algorithm.lr > 0.25)
    assert group_points(steps) == [[0, 1], [2, 3]]
    both = points(resolve(tiny(sweep="algorithm.momentum=0,0.5,0.9;network.link_failure=0,0.1,0.2")))
    monkeypatch.delitem(SWITCHES, "is_large")
    assert group_points(both) == [[0], [1, 2], [3, 6], [4, 5, 7, 8]]


def test_a_partition_that_does_not_vary_is_shown_alike_for_all_seeds(tiny):
    drawn = draw(make_study(tiny(seeds=3, vary="init", sweep="vary=placement,partition", held_seed=1)))
    held, free = ([tuple(map(tuple, counts)) for counts in of.counts] for of in drawn)
    assert len(set(held)) == 1
    assert len(set(free)) == 3
    assert held[0] == free[1]  # that of the held seed


@pytest.mark.long
def test_only_what_follows_the_seed_differs_between_seeds(tiny):
    """Who has which samples, where clients start, who is mobile, the first model, the paths, the minibatches."""
    sources = ("partition", "placement", "init", "mobility", "batch")
    config = tiny(seeds=3, **{"data.partition": "dirichlet", "data.alpha": 0.3, "algorithm.batch_size": 8})
    everything = run(config)
    config.vary, config.sweep, config.held_seed = "init", f"vary={','.join(sources)}", 1
    found = run(config)
    for source in sources:
        of = {key: found.array(key, source) for key in ("label_counts", "position", "accuracy")}
        first = {
            "partition": of["label_counts"],
            "placement": of["position"][:, 0],
            "init": of["accuracy"][:, 0],
        }
        for name, values in first.items():
            assert any((values[0] != values[k]).any() for k in (1, 2)) == (name == source), (name, source)
        paths = any((of["position"][0] != of["position"][k]).any() for k in (1, 2))
        assert paths == (source in ("placement", "mobility")), source
        assert (of["accuracy"][0, -1] != of["accuracy"][2, -1]).any(), source  # everything matters in the end
        np.testing.assert_array_equal(of["accuracy"][1], everything.array("accuracy")[1])  # the held seed itself


@pytest.mark.long
def test_the_keys_of_streams_give_the_runs_of_one_key(tiny):
    """Bit by bit: nothing is drawn for costs here, so that all other streams are everything."""
    one = run(tiny(**{"algorithm.batch_size": 8}))
    many = run(tiny(vary="all but cost", held_seed=9, **{"algorithm.batch_size": 8}))
    for key in ("accuracy", "loss", "position", "label_counts", "bits_sent"):
        np.testing.assert_array_equal(one.array(key), many.array(key), err_msg=key)


@pytest.mark.long
def test_theory_sees_the_networks_of_the_study(tiny):
    config = tiny(sweep="vary=partition,placement", **{"network.mobility": "random_movement"})
    config = network.alone(config, 3, 8)
    held, free = (of.values["degree"] for of in network.of_config(config, points(resolve(config))))
    assert len(set(held)) == 1
    assert len(set(free)) > 1
