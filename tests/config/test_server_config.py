"""The section server: what is refused, what is said, what shares a program, and whole small studies of each pattern."""

import numpy as np
import pytest
from tiny import run_study

from mdfl_jax.config.families import movement_of
from mdfl_jax.config.resolve import resolve
from mdfl_jax.core.errors import UserError
from mdfl_jax.study import make_study
from mdfl_jax.study.prepare.server import read_meetings
from mdfl_jax.study.prepare.simulation import hparams_of

ROADSIDE = {"server.pattern": "roadside", "server.units": "2,2", "server.unit_range": 1.5}
MOBILE = {"algorithm.name": "fedmobile"}
WRONG = [
    (
        {**MOBILE, "algorithm.upload_from": 41},
        r"algorithm\.upload_from is 41; it must be at most algorithm\.upload_until, .* 40",
    ),
    (
        {**MOBILE, "algorithm.download_from": 26},
        r"algorithm\.download_from is 26; .* algorithm\.download_until, which is 25",
    ),
    ({"algorithm.max_upload": -1}, r"algorithm\.max_upload is -1; it must be at least 0"),
    ({"server.pairs": 1.5}, r"server\.pairs is 1\.5; it must be at least 0 and at most 1"),
    ({"server.pairs": -0.1}, r"server\.pairs is -0\.1"),
    ({"server.pattern": "fixd"}, r"server\.pattern: unknown .*fixd.*did you mean 'fixed'"),
    ({"server.interval": 0}, r"server\.interval is 0; it must be at least 1"),
    ({"server.pattern": "random", "server.gap_min": 60}, r"server\.gap_min is 60; .* server\.gap_max, which is 50"),
    ({"server.pattern": "table"}, r"server\.file is ''; server\.pattern table needs a file"),
    ({"server.file": "meetings.csv"}, r"server\.file is 'meetings\.csv'; server\.pattern is ''"),
    ({"server.pattern": "roadside"}, r"server\.units is ''; .* needs a unit or more"),
    ({**ROADSIDE, "server.units": "1;2"}, r"server\.units: '1' is not of the form x,y"),
    ({**ROADSIDE, "server.units": "nan,1"}, r"server\.units: 'nan,1' is not a place"),
    ({**ROADSIDE, "server.units": "2,6"}, r"the unit 2,6 is outside of the area 1\.\.5 x 1\.\.5"),
    ({**ROADSIDE, "network.mobility": "manhattan", "server.units": "2,501"}, r"2,501 is outside of the area 0\.\.500"),
    ({"server.pattern": "fixed", "network.link_failure": 0.1}, r"link_failure and link_fading must be 0"),
]


@pytest.mark.parametrize(("changes", "expected"), WRONG)
def test_what_does_not_fit_is_told(tiny, changes, expected):
    with pytest.raises(UserError, match=expected) as error:
        resolve(tiny(**changes))
    assert "\n" not in str(error.value)


def test_an_algorithm_with_a_server_needs_one(tiny):
    with pytest.raises(UserError, match="fedmobile needs meetings with a server"):
        make_study(tiny(**{"algorithm.name": "fedmobile"}))


def test_road_side_units_need_places(tiny, tmp_path):
    contacts = tmp_path / "contacts.csv"
    contacts.write_text("round,i,j\n0,0,1\n")
    changes = {"network.mobility": "contacts", "trace.file": str(contacts), "trace.format": "auto"}
    with pytest.raises(UserError, match="contacts knows no places"):
        resolve(tiny(**ROADSIDE, **changes))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("client,slot\n6,0\n", "client is 6; it must be in 0..5"),
        ("0,-1\n", "slot is -1"),
        ("client,slot\n0,1,2\n", "line 2: '0,1,2' is not client,slot"),
        ("0,soon\n", "line 1: '0,soon' is not client,slot"),
        ("client,slot\n", "holds no meeting"),
    ],
)
def test_a_bad_table_is_told(tiny, tmp_path, text, expected):
    file = tmp_path / "meetings.csv"
    file.write_text(text)
    with pytest.raises(UserError) as error:
        make_study(tiny(**{"server.pattern": "table", "server.file": str(file), "algorithm.name": "async_fl"}))
    assert expected in str(error.value)
    with pytest.raises(UserError, match="cannot be read"):
        read_meetings(str(tmp_path / "none.csv"), 6)


def test_zero_is_a_value_of_the_search_intervals(tiny):
    """The algorithm's own stands where nothing is said, and 0 is 0."""
    zeros = {"algorithm.compressor": "qsgd", "algorithm.upload_from": 0, "algorithm.max_download": 0}
    experiment = resolve(tiny(**MOBILE, **zeros))
    numbers = hparams_of(experiment, [movement_of(experiment)]).algorithm
    assert (numbers.upload_from, numbers.upload_until) == (0, 40)
    assert (numbers.max_upload, numbers.max_download) == (1, 0)
    assert numbers.compressor.levels == 16


def test_numbers_of_a_pattern_share_a_program(tiny):
    meet = {"server.pattern": "random", "algorithm.name": "fedmobile"}
    numbers = "server.pairs=0.1,0.9; server.gap_max=40,50; algorithm.upload_until=30,40; algorithm.max_upload=1,3"
    study = make_study(tiny(**meet, sweep=numbers))
    assert (len(study.points), len(study.groups)) == (16, 1)
    assert len(make_study(tiny(**meet, sweep="server.known_next=true,false")).groups) == 2


@pytest.mark.long
def test_studies_of_every_pattern_run(tiny, tmp_path):
    """Finite results, the server's model judged, and gossip over the same pairs."""
    file = tmp_path / "meetings.csv"
    file.write_text("client,slot\n0,1\n1,2\n1,0\n")
    fast = {
        "algorithm.upload_from": 0, "algorithm.download_from": 0, "rounds": 8, "eval_every": 4, "seeds": 1,
        "server.interval": 3, "server.pairs": 1.0,
    }  # fmt: skip
    cases = {
        "gossip": {"server.pattern": "fixed", "algorithm.name": "dpsgd"},
        "fixed": {"server.pattern": "fixed", "algorithm.name": "fedmobile_auto"},
        "table": {"server.pattern": "table", "server.file": str(file), "algorithm.name": "fedmobile"},
        "grid": {**ROADSIDE, "algorithm.name": "fedmobile", "network.mobility": "random_movement"},
        "all": {**ROADSIDE, "algorithm.name": "fedmobile_local", "server.one_at_a_time": False},
    }
    for name, changes in cases.items():
        lines = []
        summary = run_study(make_study(tiny(**fast, **changes)), tmp_path / name, log=lines.append)
        point = summary["points"][0]
        assert np.isfinite(point["mean_model_accuracy"]["mean"])
        assert not point["diverged"]
        assert point["messages_per_client"] > 0
        said = [line for line in lines if "never meet the server" in line]
        assert bool(said) == (name in ("table", "grid", "all"))
        if name == "table":
            assert "4 of 6 clients" in said[0]
            with np.load(tmp_path / name / "history.npz") as history:
                assert history["0/reached"][0].tolist() == [True, True, False, False, False, False]
