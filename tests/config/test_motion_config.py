"""The fields of the plane: what each model takes, what shares a program, and that a study in the plane runs."""

import numpy as np
import pytest
from tiny import run_study

from mdfl_jax.core.errors import UserError
from mdfl_jax.study import make_study

WRONG = [
    ("random_walk", {"motion.up": 0.5}, "sum to 1.25 (up 0.5, down 0.25, left 0.25, right 0.25); probabilities must"),
    ("random_walk", {"motion.speed_max": 5000.0}, "motion.speed_max is 5000; the fastest client would meet 35 walls"),
    (
        "random_waypoint",
        {"motion.speed_min": 60.0},
        "motion.speed_min is 60.0; it must be at most motion.speed_max, which is 50.0",
    ),
    ("random_waypoint", {"motion.speed_min": 0.0}, "motion.speed_min is 0.0; random_waypoint needs it greater than 0"),
    ("random_direction", {"motion.pause_min": 2.0}, "motion.pause_min is 2.0; it must be at most motion.pause_max"),
    ("manhattan", {"motion.block": 501.0}, "motion.block is 501; it must be at most motion.width and motion.height"),
    ("manhattan", {"motion.block": 2.0}, "would pass 25 crossings a round"),
    ("levy_walk", {"motion.flight_min": 600.0}, "motion.flight_min is 600.0; it must be at most motion.flight_max"),
    ("levy_walk", {"motion.pause_max": 1.0}, "motion.pause_min is 0.0; with pauses, levy_walk needs it greater"),
    ("patrol", {"motion.loop": "1,2; 3"}, "motion.loop: '3' is not of the form x,y"),
    ("patrol", {"motion.loop": "1,2; 1,2"}, "it must hold two different waypoints or more"),
    ("patrol", {"motion.loop": "1,2; 600,2"}, "the waypoint 600,2 is outside of the 500 x 500 metres"),
    ("patrol", {"motion.loop": "1,2; nan,2"}, "the waypoint nan,2 is outside"),
]


@pytest.mark.parametrize(("rule", "changes", "expected"), WRONG)
def test_a_wrong_setting_is_told_in_one_line(tiny, rule, changes, expected):
    with pytest.raises(UserError) as caught:
        make_study(tiny(**{"network.mobility": rule, **changes}))
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("sweep", "groups"),
    [
        ("network.mobility=random_walk,random_waypoint,static; network.world=plane", 1),
        ("network.mobility=random_walk,static,random_waypoint,dcm", 2),
        ("motion.boundary=reflect,wrap; motion.speed_max=10,20; motion.width=400,500; network.ratio=0,1", 1),
        ("network.contact=disc,swept", 2),
        ("network.link_failure=0,0.1,0.2", 2),
        ("network.radius_spread=0,0.5", 1),
    ],
)
def test_what_shares_a_program(tiny, sweep, groups):
    assert len(make_study(tiny(**{"network.mobility": "random_walk", "sweep": sweep})).groups) == groups


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
    summary = run_study(study, tmp_path / "run")
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
