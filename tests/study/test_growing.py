"""Seeds, sweep points and rounds are added to a study: the result is that of one go, or the command says why not."""

import shutil

import numpy as np
import pytest
from small import told
from studies import assert_same, contents, go, names_of, stop_at, without_seconds
from tiny import tiny_config

from mdfl_jax.core.errors import UserError
from mdfl_jax.storage import array_files
from mdfl_jax.storage.study_files import run_path, state_path
from mdfl_jax.study import Interrupted, make_study, states
from mdfl_jax.study.runner import Program
from mdfl_jax.study.states import STATE_FORMAT, is_independent

STUDY = {"sweep": "", "seeds": 2, "algorithm.batch_size": 4, "algorithm.momentum": 0.9}
STUDY |= {"engine.runs_per_batch": 1, "engine.client_devices": 1}  # so that all runs of as many rounds have one program


@pytest.fixture
def computed(monkeypatch):
    """The numbers of runs that were on the devices, one for each step of two rounds."""
    seen, real = [], Program.advance

    def advance(program):
        seen.append(program.num_runs)
        return real(program)

    monkeypatch.setattr(Program, "advance", advance)
    return seen


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    folder = tmp_path_factory.mktemp("short") / "run"
    go(folder, **STUDY, rounds=2)
    return folder


@pytest.fixture
def less(short, tmp_path):
    return shutil.copytree(short, tmp_path / "run")


def test_a_program_is_independent_of_the_rounds_unless_its_steps_change_over_all_of_them():
    small = {"data.name": "synthetic:linear", "network.graph": "ring", "network.num_mobile": 0}
    for schedule, is_the_same in (("constant", True), ("cosine", False)):
        study = make_study(tiny_config(**small, **{"algorithm.lr_schedule": schedule}))
        assert is_independent(study, study.groups[0], 2) == is_the_same


@pytest.fixture
def independent(monkeypatch):
    """What the test above sees to takes seconds for each study."""
    monkeypatch.setattr(states, "is_independent", lambda *_: True)


@pytest.mark.usefixtures("independent")
def test_rounds_and_seeds_are_added_to_a_finished_and_to_an_unfinished_study(less, tmp_path, computed):
    """From the last states, or those in its middle; of the evaluations that are there none is made again."""
    grown, said = STUDY | {"rounds": 6, "seeds": 3}, []
    with pytest.raises(Interrupted):
        go(less, said.append, on_evaluation=stop_at(1), **grown)
    go(less, **grown)
    assert sum(computed) == 9 - 2  # those of the first two seeds are there
    assert f"2 of the runs in {less} go on from round 2" in said
    go(tmp_path / "one-go", **grown)
    assert_same(less, tmp_path / "one-go")
    with pytest.raises(UserError, match="rounds is 6 there and 4 here"):
        go(less, **grown | {"rounds": 4})


@pytest.mark.long
def test_points_whose_rules_are_others_go_on_in_one_program(tmp_path):
    """A state knows neither the state nor the records of a rule that its program did not have."""
    changes = STUDY | {"engine.runs_per_batch": 4, "engine.client_devices": 0}
    go(tmp_path / "run", **changes | {"sweep": "network.mobility=static,dam"}, rounds=2)
    points = {"sweep": "network.mobility=dcm,static,random_movement,dam"}
    go(tmp_path / "run", **changes | points, rounds=4)
    go(tmp_path / "one-go", **changes | points, rounds=4)
    assert_same(tmp_path / "run", tmp_path / "one-go")


def test_equal_runs_of_two_points_are_computed_once(tmp_path, computed):
    """The points differ in a field on which no run depends."""
    summary, _ = go(tmp_path, **STUDY | {"sweep": "data.dir=/one,/two", "rounds": 2})
    assert (sum(computed), len(names_of(tmp_path)), len({*names_of(tmp_path)})) == (2, 4, 2)
    one, other = (without_seconds(point)["final_accuracy"] for point in summary["points"])
    assert one == other
    assert [line.count("accuracy_min") for line in (tmp_path / "metrics.jsonl").read_text().splitlines()] == [1] * 8


def test_what_is_no_part_of_the_wanted_study_is_told_before_anything_is_written(less, tmp_path, monkeypatch):
    damaged = shutil.copytree(less, tmp_path / "damaged")
    path = run_path(damaged, names_of(damaged)[0])
    path.write_bytes(path.read_bytes()[:-1])
    for folder, changes, line in (
        (less, {"network.radius": 2.0, "rounds": 4}, r"(tiny): network.radius is 3.0 there and 2.0 here;"),
        (less, {"seeds": 1}, "seeds is 2 there and 1 here"),
        (less, {"seeds": 3, "first_seed": 1}, "first_seed is 0 there and 1 here"),
        (less, {"algorithm.lr_schedule": "cosine"}, "algorithm.lr_schedule is 'constant' there and 'cosine' here"),
        (less, {"sweep": "network.mobility=dcm,dam"}, "network.mobility"),
        (less, {"rounds": 4}, "4 here, and rounds cannot be added, since the first"),
        (damaged, {"rounds": 4}, "; remove the file, and the command of the study runs it again"),
    ):
        before = contents(folder)
        monkeypatch.setattr(states, "is_independent", lambda *_, independent=folder == damaged: independent)
        said = told(go, folder, **STUDY | {"rounds": 2} | changes)
        assert line in said
        assert folder != less or "rounds" in changes or said.endswith("choose another folder, or add --overwrite")
        assert contents(folder) == before


@pytest.mark.usefixtures("independent")
def test_a_state_that_does_not_fit_is_refused_and_named(less):
    runs = [run_path(less, name) for name in names_of(less)]
    one = state_path(less, names_of(less)[0])
    header, arrays = array_files.read(one, STATE_FORMAT)
    name = next(name for name in arrays if name.startswith("carry/.algorithm"))
    absent = {key: values for key, values in arrays.items() if key != name}
    for wrong in (absent, arrays | {"carry/.old_name": np.zeros(3)}, arrays | {name: np.float64(arrays[name])}):
        kept = {key: header[key] for key in ("run", "evaluations", "earlier", "ended")}
        array_files.write(one, STATE_FORMAT, kept, wrong, compress=False)
        with pytest.raises(UserError, match=r"state\.safetensors: the state does not fit"):
            go(less, **STUDY, rounds=4)
    assert all(path.is_file() for path in runs)


def test_a_damaged_or_missing_state_is_one_that_is_not_there(less, tmp_path):
    """Whatever has become of the states of shorter runs, the study is that of one go, and one note says it."""
    go(tmp_path / "one-go", **STUDY, rounds=4)
    paths = [state_path(less, name) for name in names_of(less)]
    whole = [path.read_bytes() for path in paths]
    middle = len(whole[0]) - 100  # of the arrays: the header is as it was
    flipped = whole[0][:middle] + bytes([whole[0][middle] ^ 1]) + whole[0][middle + 1 :]
    for content in (None, flipped, whole[1]):
        folder, said = shutil.copytree(less, tmp_path / "copy"), list[str]()
        path = folder / paths[0].relative_to(less)
        path.unlink()
        if content is not None:
            path.write_bytes(content)
        go(folder, said.append, **STUDY, rounds=4)
        assert [line for line in said if "begin anew" in line] == [
            f"1 of the runs in {folder} begin anew: their last states are missing or damaged"
        ]
        assert f"1 of the runs in {folder} go on from round 2" in said
        assert_same(folder, tmp_path / "one-go")
        shutil.rmtree(folder)
