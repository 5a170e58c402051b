"""The partitions in a study: what is shown without training is what is drawn."""

import numpy as np
import pytest
from small import told
from tiny import run_study

from mdfl_jax.contrib.describe.partitions import draw
from mdfl_jax.study import make_study

AXES = "data.partition+data.alpha=dirichlet+0.1,dirichlet+1.0,dirichlet_balanced+0.1; network.mobility=static,dcm"
OF_PLACES = {"data.partition": "by_place", "data.place_spread": 0.15}


@pytest.mark.long
@pytest.mark.parametrize(
    ("changes", "points"),
    [
        (OF_PLACES, [[0]]),
        (OF_PLACES | {"network.graph": "ring"}, [[0]]),
        ({"sweep": AXES}, [[0, 1], [2, 3], [4, 5]]),  # points that differ in movement alone draw the same
    ],
)
def test_what_is_shown_is_what_a_study_draws(tiny, tmp_path, changes, points):
    study = make_study(tiny(first_seed=3, rounds=2, **changes))
    shown = draw(study)
    run_study(study, tmp_path)
    assert [drawn.points for drawn in shown] == points
    with np.load(tmp_path / "history.npz") as history:
        for drawn in shown:
            for point in drawn.points:
                np.testing.assert_array_equal(history[f"{point}/label_counts"], drawn.counts)


def test_natural_owners_are_at_least_as_many_as_clients(tiny, tmp_path):
    images, labels = np.zeros((60, 4, 4), np.uint8), np.arange(60) % 3
    np.savez(tmp_path / "owned.npz", x_train=images, y_train=labels, x_test=images, y_test=labels, client=labels)
    of_owners = {"data.name": "owned", "data.dir": str(tmp_path), "data.limit_train": 0, "data.limit_test": 0}
    config = tiny(**of_owners, **{"data.partition": "by_owner", "network.num_clients": 4, "network.num_mobile": 1})
    assert "come from 3 owners, fewer than network.num_clients, which is 4" in told(make_study, config)
