"""Sweeps: which points there are, what they are called, what they are compared with, which share a program."""

import pytest
from tables import cases, with_fields

from mdfl_jax.config.points import baseline_of, group_points, points
from mdfl_jax.config.resolve import resolve
from mdfl_jax.core.errors import UserError


def swept(tiny, sweep, **changes):
    experiment = resolve(tiny(sweep=sweep, **changes))
    return experiment, points(experiment)


def test_points_are_all_combinations_the_last_axis_fastest(tiny):
    _, found = swept(tiny, "network.mobility=static,dcm; data.alpha=0.05, 0.1 ;")
    assert [p.id for p in found] == ["static, alpha=0.05", "static, alpha=0.1", "dcm, alpha=0.05", "dcm, alpha=0.1"]
    assert found[3].overrides == {"network.mobility": "dcm", "data.alpha": 0.1}
    assert found[3].experiment.network.mobility == "dcm"
    assert found[3].experiment.data.alpha == 0.1


def test_a_study_has_at_most_ten_thousand_points_and_a_million_runs(tiny):
    with pytest.raises(UserError, match=r"sweep has 10,002 points; at most 10,000 are allowed"):
        swept(tiny, f"network.radius={','.join(map(str, range(5001)))}; data.alpha=1,2", baseline="")
    with pytest.raises(UserError, match=r"seeds is 500,001, which makes 1,000,002 runs of the 2 points of the sweep"):
        swept(tiny, "data.alpha=1,2", seeds=500_001, baseline="")
    assert len(swept(tiny, "data.alpha=1,2", seeds=500_000, baseline="")[1]) == 2


def test_tied_fields_make_one_axis(tiny):
    _, found = swept(tiny, "network.num_mobile+network.radius=1+1,2+3; data.alpha=0.1,0.2")
    assert [p.overrides for p in found[:2]] == [
        {"network.num_mobile": 1, "network.radius": 1.0, "data.alpha": 0.1},
        {"network.num_mobile": 1, "network.radius": 1.0, "data.alpha": 0.2},
    ]
    assert [p.id for p in found][2] == "num_mobile=2, radius=3, alpha=0.1"
    assert found[3].experiment.network.num_mobile == 2
    assert len(found) == 4


def test_names_tell_values_apart(tiny):
    _, found = swept(tiny, "network.radius=1,inf,1.0000001; model.widths=4x8")
    assert [p.id.split(", ")[0] for p in found] == ["radius=1", "radius=inf", "radius=1.0000001"]
    assert found[0].id.endswith("widths=4x8")
    assert swept(tiny, "")[1][0].id == "base"


def test_every_point_has_the_baseline_of_its_other_settings(tiny):
    grid = "data.alpha=0.1,1; network.mobility=static,random_movement,dcm"
    for sweep, baseline, expected in (
        (grid, "network.mobility=random_movement", [1, 1, 1, 4, 4, 4]),
        ("network.radius=1,2", "network.radius = 2", [1, 1]),
        ("network.radius=1,2", "network.radius=3", [None, None]),
        ("network.radius=1,2", "network.mobility=dcm", [None, None]),
    ):
        assert baseline_of(*swept(tiny, sweep, baseline=baseline)) == expected, baseline


PROGRAMS = """
sweep=network.mobility=static,random_movement,dam,dcm => 1
sweep=network.radius=0,1,inf; network.max_step=1,inf; network.num_mobile=0,6; data.alpha=0.1,1 => 1
sweep=algorithm.momentum=0,0.5,0.9 => 2
sweep=cost.bandwidth=100,1e6,inf; cost.latency=0,1; cost.speed_spread=0,0.5 => 1
sweep=cost.deadline=1,2,inf => 2
cost.latency=0.1 | sweep=cost.short_contact=ignore,drop,resume => 3
& network.mobility=random_walk
sweep=network.mobility=random_walk,random_waypoint,static; network.world=plane => 1
sweep=motion.boundary=reflect,wrap; motion.speed_max=10,20; motion.width=400,500; network.ratio=0,1 => 1
& network.graph=small_world
sweep=network.graph=ring,star => 2
& network.mobility=trace | trace.file=town.csv
sweep=network.mobility+network.world=trace+trace,static+trace,random_waypoint+plane; trace.gaps=hold,absent => 1
& algorithm.name=fedmobile | server.pattern=random
sweep=server.pairs=0.1,0.9; server.gap_max=40,50; algorithm.upload_until=30,40; algorithm.max_upload=1,3 => 1
sweep=server.known_next=true,false => 2
"""


@pytest.mark.parametrize(("fields", "programs"), list(cases(PROGRAMS)))
def test_points_that_differ_in_traced_numbers_share_a_program(tiny, fields, programs):
    found = points(resolve(with_fields(tiny(), fields)))
    grouped = group_points(found)
    assert len(grouped) == int(programs)
    assert sorted(i for indices in grouped for i in indices) == list(range(len(found)))
