"""The section cost: what is refused, what is said, what shares a program, and the files of whole small studies."""

import json

import jax
import numpy as np
import pytest
from tiny import run_study

from mdfl_jax import UserError
from mdfl_jax.config.points import group_points, points
from mdfl_jax.config.resolve import resolve
from mdfl_jax.study import make_study

DROP = {"cost.short_contact": "drop", "cost.bandwidth": 100.0}
SOME = {"cost.latency": 0.1}
SERVER = {"algorithm.name": "fedmobile", "server.pattern": "fixed"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"cost.short_contact": "dorp"}, r"cost\.short_contact: unknown .*'dorp'.*did you mean 'drop'"),
        ({**DROP, "network.graph": "ring"}, r"cost\.short_contact is drop; with network\.graph ring it must be ignore"),
        ({**DROP, **SERVER}, r"cost\.short_contact is drop; with server\.pattern fixed it must be ignore"),
        ({"cost.deadline": 3.0, **SERVER}, r"cost\.deadline is 3; with server\.pattern fixed it must be inf"),
        ({"cost.joules_per_bit_received": 1.0, **SERVER}, r"cost\.joules_per_bit_received is 1; with server\.pattern"),
        ({"x_axis": "seconds"}, r"x_axis is seconds, which needs a field of cost that is set"),
        ({"x_axis": "joules"}, r"x_axis is joules"),
        ({"cost.speeds": "none.txt"}, r"cost\.speeds 'none\.txt' cannot be read: No such file"),
    ],
)
def test_mistakes_are_one_line(tiny, changes, expected):
    with pytest.raises(UserError, match=expected) as error:
        resolve(tiny(**changes))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1\n2\n", r"holds 2 numbers; network\.num_clients is 6"),
        ("1 2 3 4 5 x", r"'x' is not a number"),
        ("1 2 3 4 5 0", r"0 is no speed"),
        ("1 2 3 4 5 nan", r"nan is no speed"),
        ("1 2 3 4 5 1e39", r"1e39 is no speed"),  # in single precision
        ("1 2 3 4 5 1e-40", r"1e-40 is no speed"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_mistakes_in_a_file_of_speeds_are_one_line(tiny, tmp_path, text, expected):
    file = tmp_path / "speeds.txt"
    file.write_text(text)
    with pytest.raises(UserError, match=expected):
        resolve(tiny(**{"cost.speeds": str(file)}))
    file.write_text("1 2 3 4 5 6")
    with pytest.raises(UserError, match=r"cost\.speed_spread is 0\.5; it must be 0"):
        resolve(tiny(**{"cost.speeds": str(file), "cost.speed_spread": 0.5}))


def test_a_contact_list_has_no_durations(tiny, tmp_path):
    contacts = tmp_path / "contacts.csv"
    contacts.write_text("round,i,j\n0,0,1\n")
    with pytest.raises(UserError, match=r"with network\.mobility contacts it must be ignore"):
        resolve(tiny(**DROP, **{"network.mobility": "contacts", "trace.file": str(contacts)}))


def test_an_algorithm_with_copies_of_its_neighbours_needs_links_that_stay(tiny):
    """Static clients keep their links with a deadline, but not with short contacts."""
    static = {"algorithm.name": "choco", "network.mobility": "static"}
    make_study(tiny(**static, **{"cost.deadline": 0.5}))
    with pytest.raises(UserError, match=r"choco needs the same links.*cost\.short_contact=drop"):
        make_study(tiny(**static, **DROP))


def test_points_share_a_program_unless_it_differs(tiny):
    """Numbers are traced. A deadline, a rule and given speeds make a program of their own."""

    def programs(sweep, **changes):
        return len(group_points(points(resolve(tiny(sweep=sweep, **changes)))))

    assert programs("cost.bandwidth=100,1e6,inf; cost.latency=0,1; cost.speed_spread=0,0.5") == 1
    assert programs("cost.joules_per_bit=0,1; network.mobility=static,dam") == 1
    assert programs("cost.deadline=1,2") == 1
    assert programs("cost.deadline=1,2,inf") == 2
    assert programs("cost.short_contact=ignore,drop,resume", **SOME) == 3


def test_a_study_without_costs_counts_nothing(tiny):
    """Its state has no leaf more, and its numbers are those of the network itself."""
    simulation, hparams = make_study(tiny()).groups[0][1:3]
    assert not {"seconds", "joules"} & {metric.name for metric in simulation.metrics}
    assert hparams[0].network.link_filter is None
    carry = jax.eval_shape(simulation.init, simulation.data, hparams[0], jax.random.key(0))[0]
    assert carry.network.filtered is None


@pytest.fixture(scope="module")
def workdir(tmp_path_factory, tiny):
    """A sweep over the bandwidth whose last value is free; rounds last two seconds."""
    folder = tmp_path_factory.mktemp("costs")
    changes = {"motion.dt": 2.0, "cost.short_contact": "drop", "network.contact": "swept", "target": 0.1}
    run_study(make_study(tiny(sweep="cost.bandwidth=10000,inf", x_axis="seconds", **changes)), folder / "run")
    return folder / "run"


@pytest.mark.long
def test_seconds_and_joules_are_in_the_files(workdir):
    summary = json.loads((workdir / "summary.json").read_text())
    lines = [json.loads(text) for text in (workdir / "metrics.jsonl").read_text().splitlines()]
    assert sorted(line["seconds"] for line in lines if line["point"] == "bandwidth=inf") == [0, 0, 4, 4, 8, 8]
    assert {line["joules"] for line in lines} == {0}
    with np.load(workdir / "history.npz") as arrays:
        assert arrays["0/seconds"].shape == (2, 3)
        assert arrays["0/joules"].shape == (2, 3, 6)
        bits, seconds = arrays["0/bits_sent"][:, -1].max(axis=1), arrays["0/seconds"][:, -1]
    assert (seconds >= np.maximum(8, bits / 10_000)).all()
    for point in summary["points"]:
        rounds, each = point["rounds_to_target"], point["rounds_to_target_per_seed"]
        found = [line["seconds"] for line in lines if line["point"] == point["id"] and line["round"] == rounds]
        assert point["seconds_to_target"] == np.mean(found)
        assert [value is None for value in point["seconds_to_target_per_seed"]] == [value is None for value in each]
        assert point["joules_to_target"] == 0
    assert summary["points"][1]["seconds_to_target"] == 2 * summary["points"][1]["rounds_to_target"]
