"""Traces and contact lists by configuration: the places and links of a run are those of the file."""

import jax
import numpy as np
import pytest
from tiny import run_study

from mdfl_jax.mobility.trace import tracks
from mdfl_jax.networks.contact import disc
from mdfl_jax.study import make_study
from mdfl_jax.study.plan import plan
from mdfl_jax.study.prepare.task import load_dataset
from mdfl_jax.traces import load, resample

VEHICLES, SECONDS = 8, 6


def write_trace(path, text=None):
    """Eight vehicles for six seconds, whose places tell which and when; the last one leaves after second 2."""
    rows = [
        f"{t},v{i},{(100 * i + (37 * i + 20) * t) % 400},{(60 * i + 11 * t * i) % 300}"
        for t in range(SECONDS + 1)
        for i in range(VEHICLES)
        if i < VEHICLES - 1 or t <= 2
    ]
    path.write_text(text if text is not None else "\n".join(["time,id,x,y", *rows]) + "\n")
    return str(path)


@pytest.fixture
def traced(tiny, tmp_path):
    """The tiny study along a trace, changed by path."""
    file = write_trace(tmp_path / "town.csv")

    def make(**changes):
        start = {"network.mobility": "trace", "trace.file": file, "network.radius": 120.0, "seeds": 1}
        return tiny(**start | changes)

    return make


MOVES = "network.mobility+network.world=trace+trace,static+trace"
CONTACT_LIST = "round,i,j\n0,0,1\n1,2,3\n2,4,5\n3,0,5\n"


def places_and_neighbours(workdir, p):
    with np.load(workdir / "history.npz") as history:
        return history[f"{p}/position"][0], history[f"{p}/num_neighbours"][0, 1:], history[f"{p}/distance_moved"][0, -1]


@pytest.mark.long
def test_a_study_runs_along_its_trace(traced, tmp_path):
    """Places, neighbours and distances are those of the resampled table, for each choice of a sweep."""
    config = traced(sweep=f"{MOVES}; trace.gaps=hold,absent", eval_every=1)
    study = make_study(config)
    assert load_dataset(study.experiment.data).name == "digits"
    run_study(study, tmp_path / "run")
    for p, point in enumerate(study.points):
        gaps = point.overrides["trace.gaps"]
        trace = load(config.trace.file)
        table = resample(trace, 1.0, 4, 6, gaps=gaps)
        direct = tracks(table)
        moves = point.overrides["network.mobility"] == "trace"
        position, neighbours, moved = places_and_neighbours(tmp_path / "run", p)
        np.testing.assert_array_equal(position, table.position if moves else table.position[[0] * 5])
        there = direct.present[:4] if moves else np.ones((4, 6), bool)
        near = np.array([np.asarray(disc(place, 120.0)) for place in position[:4]])
        expected = (near & there[:, None] & there[:, :, None]).sum(axis=2)
        np.testing.assert_array_equal(neighbours, expected)
        length = np.linalg.norm(np.diff(table.position, axis=0), axis=-1) * table.goes
        np.testing.assert_allclose(moved, length.sum(axis=0) * moves, rtol=1e-5)


@pytest.mark.long
def test_the_absent_meet_nobody_and_all_else_of_the_plane_works(traced, tmp_path):
    config = traced(
        **{
            "network.num_clients": VEHICLES,
            "network.radius": float("inf"),
            "network.contact": "swept",
            "network.mixing": "speed_aware_auto",
            "network.link_failure": 0.5,
            "network.radius_spread": 0.2,
            "trace.gaps": "absent",
            "trace.at_end": "hold",
            "trace.substeps": 2,
            "rounds": 8,
            "eval_every": 1,
        }
    )
    run_study(make_study(config), tmp_path / "run")
    _, neighbours, _ = places_and_neighbours(tmp_path / "run", 0)
    assert (neighbours[0] == 0).all()  # swept: nobody before the first movement
    assert (neighbours[3:, -1] == 0).all()  # left after second 2
    assert neighbours[1:3, -1].sum() > 0
    assert 2 < neighbours[3:, :-1].mean() < 4  # half of the six others


@pytest.mark.long
def test_a_contact_list_is_the_links(tiny, tmp_path):
    (tmp_path / "list.csv").write_text(CONTACT_LIST)
    changes = {"network.mobility": "contacts", "trace.file": str(tmp_path / "list.csv"), "trace.at_end": "repeat"}
    config = tiny(**changes, seeds=1, rounds=6, eval_every=1, sweep="trace.directed=false,true")
    study = make_study(config)
    assert len(study.groups) == 2  # lists of two lengths
    run_study(study, tmp_path / "run")
    pairs = [(0, 1), (2, 3), (4, 5), (0, 5), (0, 1), (2, 3)]
    for p, directed in enumerate((False, True)):
        _, neighbours, moved = places_and_neighbours(tmp_path / "run", p)
        expected = np.zeros((6, 6))
        for k, (i, j) in enumerate(pairs):
            expected[k, i] = 1
            expected[k, j] = not directed
        np.testing.assert_array_equal(neighbours, expected)
        assert not moved.any()


def test_points_that_follow_no_trace_fit_the_program_of_those_that_do(traced):
    group = make_study(traced(sweep="network.mobility=trace,random_waypoint")).groups[0]
    shapes = [jax.tree.map(np.shape, hparams) for hparams in group.hparams]
    assert shapes[0] == shapes[1]


@pytest.mark.long
def test_clients_that_are_never_present_train_and_meet_nobody(traced, tmp_path):
    """One of eight vehicles leaves before the rounds begin: its client learns, and sends nothing."""
    late = {"network.num_clients": 8, "trace.gaps": "absent", "trace.start": 3.0, "trace.at_end": "hold"}
    study = make_study(traced(**late, sweep="", baseline=""))
    alone = ~np.asarray(study.groups[0].hparams[0].network.trace.present).any(axis=0)
    assert alone.sum() == 1
    run_study(study, tmp_path / "run")
    with np.load(tmp_path / "run" / "history.npz") as history:
        bits, accuracy = history["0/bits_sent"][0, -1], history["0/accuracy"][0]
    assert bits[alone] == 0 < bits.max()
    assert accuracy[0, alone] != accuracy[-1, alone]


def test_a_study_tells_how_it_read_its_file(traced, tmp_path):
    """The note is in the plan; so is what may be a mistake, and who leaves."""
    study = make_study(traced(sweep="trace.gaps=hold,absent", baseline=""))
    lines = plan(study).splitlines()
    file = f"  note: trace.file {tmp_path / 'town.csv'}: "
    columns = "time is column 1, id is column 2, x is column 3, y is column 4 (by the header)"
    assert f"{file}8 ids, read as csv: a header of columns; {columns}" in lines
    assert any(line.startswith(f"{file}22 of 44 steps are faster than 150 m/s, up to ") for line in lines)
    leaves = f"{file}median 6 s an id; 0 come after the beginning, 1 leave before the end: they "
    assert f"{leaves}stand there until then, or from then on (trace.gaps=hold)" in lines
    assert f"{leaves}are gone (trace.gaps=absent)" in lines


def test_heights_go_to_the_radio_that_reads_them(traced, tmp_path):
    """Every client of these rows climbs, and is assigned its own; the plan says what counts and what does not."""
    rows = [f"{t},v{i},{50 * i + t},0,{10 * i + t}" for t in range(6) for i in range(6)]
    (tmp_path / "up.csv").write_text("\n".join(["time,id,x,y,z", *rows, ""]))
    up = {"trace.file": str(tmp_path / "up.csv"), "baseline": "", "sweep": "network.mobility=trace,random_waypoint"}
    study = make_study(traced(**up, **{"radio.name": "air_to_ground", "radio.height": 50.0}))
    climbs, other = (hparams.network.trace.height for hparams in study.groups[0].hparams)
    np.testing.assert_array_equal(climbs, 10 * np.arange(6) + np.arange(5)[:, None])
    assert climbs.shape == other.shape
    assert np.isnan(other).all()
    file = f"trace.file {tmp_path / 'up.csv'}"
    lines = plan(study).splitlines()
    assert f"  note: {file}: heights from the ground, 0.0 to 55.0 m, are those of radio.name air_to_ground" in lines
    assert f"  note: radio.height is 50.0; it has no effect: '{tmp_path / 'up.csv'}' has heights" in lines
    assert not any("radio.flying" in line or "height_spread" in line for line in lines)
    left_out = make_study(traced(**up))
    assert all(hparams.network.trace.height is None for hparams in left_out.groups[0].hparams)
    assert f"  note: {file}: its heights are left out: radio.name is disc" in plan(left_out).splitlines()


def test_a_list_in_seconds_says_how_long_contacts_last(tiny, tmp_path):
    (tmp_path / "list.csv").write_text("start,end,i,j\n0,1.5,0,1\n1,4,2,3\n1.25,1.5,2,3\n2,3,0,5\n2.5,3.5,0,5\n")
    changes = {"network.mobility": "contacts", "trace.file": str(tmp_path / "list.csv"), "cost.short_contact": "drop"}
    study = make_study(tiny(**changes, seeds=1, sweep="", baseline="", **{"cost.bandwidth": 1e6}))
    listed = study.groups[0].hparams[0].network.inner.trace
    rounds = [slice(*listed.offsets[k : k + 2]) for k in range(4)]
    found = [dict(zip(map(tuple, listed.edges[k].tolist()), listed.seconds[k].tolist())) for k in rounds]
    both = lambda *rows: {pair: s for i, j, s in rows for pair in ((i, j), (j, i))}  # noqa: E731
    assert found == [
        both((0, 1, 1)),
        both((0, 1, 0.5), (2, 3, 1)),
        both((0, 5, 1), (2, 3, 1)),
        both((0, 5, 0.5), (2, 3, 1)),
    ]


def test_a_part_of_a_file_has_the_vehicles_of_the_study(traced, tmp_path):
    rows = [f"{t},v{i},{10 * i + t},0,{'bus' if i % 3 else 'car'}" for t in range(20) for i in range(9)]
    (tmp_path / "types.csv").write_text("\n".join(["time,id,x,y,type", *rows, ""]))
    part = {"trace.file": str(tmp_path / "types.csv"), "trace.types": "bus", "trace.times": "5,12"}
    study = make_study(traced(**part, sweep="", baseline=""))
    places = study.groups[0].hparams[0].network.trace.position
    np.testing.assert_array_equal(places[0, 0, :, 0], [10 * i + 5 for i in range(9) if i % 3])
