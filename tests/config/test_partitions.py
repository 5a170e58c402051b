"""The partitions in a study: what is shown without training is what is drawn, and mistakes are told in one line."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dealing import counts_of, deal
from tiny import run_study

from mdfl_jax import UserError
from mdfl_jax.core.rng import stream
from mdfl_jax.data.sources import load
from mdfl_jax.study import make_study
from mdfl_jax.study.ahead.partitions import draw


@pytest.mark.few(1)
@pytest.mark.parametrize("graph", ["", "ring"])
def test_by_place_draws_with_the_places_of_the_run(tiny, graph):
    """Oracle: the partition of the first places that the network itself tells."""
    config = tiny(**{"data.partition": "by_place", "data.place_spread": 0.15, "network.graph": graph})
    study = make_study(config)
    (drawn,), (group,) = draw(study), study.groups
    labels = jnp.asarray(load("digits", limit_train=120).y_train)
    init = jax.jit(lambda key: group.simulation.init(group.simulation.data, group.hparams[0], key))
    for seed, counts in zip(study.seeds, drawn.counts):
        key = jax.random.key(seed)
        owner = deal(
            "by_place", stream(key, "partition"), labels, 6, 10, places=init(key)[1].position[0], place_spread=0.15
        )
        np.testing.assert_array_equal(counts, counts_of(np.asarray(owner), np.asarray(labels), 6, 10))


@pytest.mark.long
def test_what_is_shown_is_what_a_study_draws(tiny, tmp_path):
    """Points of two programs and of two numbers; those that differ in movement alone draw the same."""
    axes = "data.partition+data.alpha=dirichlet+0.1,dirichlet+1.0,dirichlet_balanced+0.1; network.mobility=static,dcm"
    study = make_study(tiny(sweep=axes, first_seed=3))
    shown = draw(study)
    run_study(study, tmp_path / "run")
    assert [drawn.points for drawn in shown] == [[0, 1], [2, 3], [4, 5]]
    with np.load(tmp_path / "run" / "history.npz") as history:
        for drawn in shown:
            for point in drawn.points:
                np.testing.assert_array_equal(history[f"{point}/label_counts"], drawn.counts)


def test_natural_owners_decide(tiny, tmp_path):
    """Also those of a subset, in which one owner has no sample, and without the validation samples."""
    images = np.zeros((60, 4, 4), np.uint8)
    images[:, 0, 0] = np.arange(60)
    labels, client = np.arange(60) % 3, np.arange(60) // 6 * 10
    np.savez(tmp_path / "owned.npz", x_train=images, y_train=labels, x_test=images, y_test=labels, client=client)
    changes = {"data.name": "owned", "data.dir": str(tmp_path), "data.limit_train": 45, "data.limit_test": 0}
    changes |= {"data.validation": 5, "data.partition": "by_owner", "network.num_clients": 4}
    study = make_study(tiny(**changes))
    owners = len(np.unique(study.groups[0].dataset.client))
    (drawn,) = draw(study)
    assert drawn.counts.sum(axis=(1, 2)).tolist() == [40, 40]
    assert owners < 10, "an owner is missing in the subset"
    with pytest.raises(UserError, match=rf"come from {owners} owners, fewer than network\.num_clients, which is 11"):
        make_study(tiny(**changes | {"network.num_clients": 11}))
