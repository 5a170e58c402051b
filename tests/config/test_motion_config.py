"""The fields of the plane: what each model takes, what shares a program, and that a study in the plane runs."""

import numpy as np
import pytest

from mdfl_jax.study import make_study, run_study


@pytest.mark.long
def test_a_study_in_the_plane_runs(tiny, tmp_path):
    rules = ["random_walk", "patrol", "static"]
    config = tiny(
        **{
            "sweep": "network.mobility+network.world=random_walk+plane,patrol+plane,static+plane,static+grid",
            "network.contact": "swept",
            "network.mixing": "speed_aware_auto",
            "network.radius": 120.0,
            "network.radius_spread": 0.2,
            "network.link_failure": 0.1,
            "network.link_fading": 0.2,
            "motion.warm_up": 2,
            "motion.pause_max": 1.0,
            "motion.pause_min": 0.5,
            "seeds": 1,
        }
    )
    study = make_study(config)
    assert [len(group.points) for group in study.groups] == [len(rules), 1]
    summary = run_study(study, tmp_path / "run", log=lambda line: None)
    with np.load(tmp_path / "run" / "history.npz") as history:
        for p, name in enumerate(rules):
            place = history[f"{p}/position"]
            assert place.max() > 18
            assert place.min() >= 0
            assert place.max() <= 500
            moved = history[f"{p}/distance_moved"][0, -1]
            assert (moved[:2] > 0).all() == (name != "static")
            assert (moved[2:] > 0).all() == (name == "random_walk")
    assert len(summary["points"]) == len(rules) + 1
