"""Sweeps: which points there are, what they are called, what they are compared with, which share a program."""

import pytest

from mdfl_jax.config.points import baseline_of, group_points, parse_axes, points
from mdfl_jax.config.resolve import resolve
from mdfl_jax.core.errors import UserError
from mdfl_jax.study import make_study


def swept(tiny, sweep, **changes):
    experiment = resolve(tiny(sweep=sweep, **changes))
    return experiment, points(experiment)


def test_points_are_all_combinations_the_last_axis_fastest(tiny):
    _, found = swept(tiny, "network.mobility=static,dcm; data.alpha=0.05, 0.1 ;")
    assert [p.id for p in found] == ["static, alpha=0.05", "static, alpha=0.1", "dcm, alpha=0.05", "dcm, alpha=0.1"]
    assert found[3].overrides == {"network.mobility": "dcm", "data.alpha": 0.1}
    assert found[3].experiment.network.mobility == "dcm"
    assert found[3].experiment.data.alpha == 0.1


def test_values_have_the_type_of_their_field():
    axes = parse_axes("network.radius=1,inf,2.5; network.num_mobile=0,2; model.widths=4x8,16; model.name=cnn")
    assert axes == {
        ("network.radius",): [(1.0,), (float("inf"),), (2.5,)],
        ("network.num_mobile",): [(0,), (2,)],
        ("model.widths",): [((4, 8),), ((16,),)],
        ("model.name",): [("cnn",)],
    }
    assert [type(v) for (v,) in axes["network.num_mobile",]] == [int, int]


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


@pytest.mark.parametrize(
    ("sweep", "expected"),
    [
        ("network.mobility", "sweep: 'network.mobility' is not of the form field=value,value"),
        ("network.mobility=", "is not of the form field=value,value"),
        (";;", "sweep is ';;'; it must be of the form"),
        ("=static", "sweep: unknown config key ''"),
        ("network.mobilty=static", "sweep: unknown config key 'network.mobilty' (did you mean 'network.mobility'?)"),
        ("network=static", "sweep: network is a section; set its fields, as in network.FIELD=VALUE"),
        (
            "network.mobility=static,dcn",
            "unknown mobility 'dcn' (did you mean 'dcm'?); known:",
        ),
        ("network.mobility=static,", "unknown mobility ''"),
        ("network.mobility=static,static", "sweep: network.mobility holds a value twice: static,static"),
        ("network.radius=1,1.0", "holds a value twice"),
        ("network.mobility=static; network.mobility=dcm", "sweep: network.mobility is given twice"),
        ("network.radius+network.radius=1+1", "sweep: network.radius is given twice"),
        ("network.radius=1; network.num_mobile+network.radius=1+1", "sweep: network.radius is given twice"),
        ("network.num_mobile+network.radius=1", "takes 2 values tied by '+', not '1'"),
        ("network.num_mobile+network.radius=1+2+3", "takes 2 values tied by '+', not '1+2+3'"),
        ("network.radius=1,x", "sweep: network.radius is 'x'; it must be a number"),
        ("network.radius=nan", "sweep: network.radius is nan; it must be at least 0"),
        ("network.radius=-1,2", "sweep: network.radius is -1.0; it must be at least 0"),
        ("network.num_mobile=2.5", "sweep: network.num_mobile is '2.5'; it must be a whole number"),
        ("network.num_mobile=1,9", "point 'num_mobile=9': network.num_mobile is 9; it must be at most"),
        ("network.num_clients=1,6", "point 'num_clients=1': network.num_mobile is 2; it must be at most"),
        ("data.alpha=inf", "data.alpha is inf"),
        ("model.widths=4xa", "sweep: model.widths is '4xa'; it must be whole numbers, as in 16x32"),
        ("seeds=1,2", "sweep: seeds cannot be an axis; known axes: algorithm.aggregation,"),
        ("engine.tile=1,2", "sweep: engine.tile cannot be an axis"),
        ("data.name=digits,digts", "unknown data.name 'digts'"),
    ],
)
def test_a_wrong_sweep_is_told(tiny, sweep, expected, monkeypatch):
    monkeypatch.delenv("MDFL_DATA_DIR", raising=False)
    with pytest.raises(UserError) as caught:
        make_study(tiny(sweep=sweep))
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("baseline", "expected"),
    [
        ("network.mobility", "baseline is 'network.mobility'; it must be of the form field=value"),
        ("network.mobilty=static", "baseline: unknown config key 'network.mobilty' (did you mean"),
        ("network.mobility=statc", "unknown mobility 'statc' (did you mean 'static'?)"),
        ("network.radius=abc", "baseline: network.radius is 'abc'; it must be a number"),
        ("network.radius=-1", "baseline: network.radius is -1.0; it must be at least 0"),
        ("seeds=3", "baseline: seeds cannot be an axis"),
    ],
)
def test_a_wrong_baseline_is_told(tiny, baseline, expected):
    with pytest.raises(UserError) as caught:
        make_study(tiny(sweep="network.mobility=static,dcm", baseline=baseline))
    assert expected in str(caught.value)


def test_every_point_has_the_baseline_of_its_other_settings(tiny):
    sweep = "data.alpha=0.1,1; network.mobility=static,random_movement,dcm"
    experiment, found = swept(tiny, sweep, baseline="network.mobility=random_movement")
    assert baseline_of(experiment, found) == [1, 1, 1, 4, 4, 4]
    experiment, found = swept(tiny, "network.radius=1,2", baseline="network.radius = 2")
    assert baseline_of(experiment, found) == [1, 1]
    experiment, found = swept(tiny, "network.radius=1,2", baseline="network.radius=3")
    assert baseline_of(experiment, found) == [None, None]
    experiment, found = swept(tiny, "network.radius=1,2", baseline="network.mobility=dcm")
    assert baseline_of(experiment, found) == [None, None]
    experiment, found = swept(tiny, "network.radius=1,2")
    assert baseline_of(experiment, found) == [None, None]


@pytest.mark.parametrize(
    ("sweep", "groups"),
    [
        ("network.mobility=static,random_movement,dam,dcm", 1),
        ("network.radius=0,1,inf; network.max_step=1,inf; network.num_mobile=0,6; data.alpha=0.1,1", 1),
        ("algorithm.lr=0.1,0.2; algorithm.weight_decay=0,0.1; algorithm.momentum=0.5,0.9", 1),
        ("algorithm.momentum=0,0.5,0.9", 2),
        ("network.mixing=metropolis_hastings,fedavg", 2),
        ("network.num_clients=6,8", 2),
        ("algorithm.batch_size=0,4; network.mobility=static,dcm", 2),
        ("data.partition=iid,dirichlet,shards", 3),
    ],
)
def test_points_that_differ_in_traced_numbers_share_a_program(tiny, sweep, groups):
    _, found = swept(tiny, sweep)
    grouped = group_points(found)
    assert len(grouped) == groups
    assert sorted(i for indices in grouped for i in indices) == list(range(len(found)))


def test_batches_hold_every_run_once(tiny):
    study = make_study(tiny(sweep="network.radius=1,2,3", seeds=3, **{"engine.runs_per_batch": 4}))
    batches = list(study.groups[0].batches(study.to_do()))
    assert [len(runs) for runs in batches] == [3, 3, 3]
    assert [tuple(run) for runs in batches for run in runs] == [(p, s) for p in range(3) for s in range(3)]


@pytest.mark.parametrize(("seeds", "points", "size"), [(1, 4, 4), (6, 4, 8), (3, 4, 6), (20, 2, 20), (5, 4, 7)])
def test_default_batches_are_of_one_size(tiny, seeds, points, size):
    radii = ",".join(str(r) for r in range(points))
    study = make_study(tiny(sweep=f"network.radius={radii}", seeds=seeds))
    assert study.groups[0].runs_per_batch == size


def test_seeds_begin_where_the_config_says(tiny):
    assert make_study(tiny(first_seed=7, seeds=3)).seeds == [7, 8, 9]
