"""A study that was stopped, killed or moved to other devices ends as one that was left alone."""

import json
import signal
from pathlib import Path

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mdfl_jax.core.errors import UserError
from mdfl_jax.storage import checkpoint
from mdfl_jax.storage.checkpoint import Checkpoints, Saved
from mdfl_jax.storage.checksums import read_state, write_state
from mdfl_jax.study import Interrupted, make_study, run_study
from mdfl_jax.study import workdir as workdirs
from mdfl_jax.study.batch import Program
from mdfl_jax.study.events import Evaluated, MetricsFile
from mdfl_jax.study.manifest import wanted

# Two batches of three runs, three evaluations each. Lines are written four times a batch: before the first round, and
# after each evaluation.
STUDY = {
    "sweep": "network.mobility=static,random_movement",
    "baseline": "network.mobility=static",
    "seeds": 3,
    "engine.runs_per_batch": 3,
    "rounds": 6,
    "algorithm.batch_size": 4,
    "algorithm.momentum": 0.9,
}


class Killed(Exception):  # noqa: N818
    """Stands in for SIGKILL: the study ends where it is, and saves nothing."""


def stop():
    signal.raise_signal(signal.SIGTERM)


def kill():
    raise Killed


def watch(monkeypatch, at=0, do=None):
    """Calls ``do`` when lines are written for the at-th time, counted from 1; returns the list of calls."""
    calls, take = [], MetricsFile.take

    def take_and_do(self, event):
        take(self, event)
        if isinstance(event, Evaluated):
            calls.append(event)
            if len(calls) == at:
                do()

    monkeypatch.setattr(MetricsFile, "take", take_and_do)
    return calls


def go(config, folder):
    """What launch.sweep does."""
    study = make_study(config)
    return run_study(
        study, folder, workdirs.inspect_workdir(folder, wanted(study), False).goes_on, log=lambda line: None
    )


def without_seconds(summary):
    return [{k: v for k, v in point.items() if not k.endswith("_seconds")} for point in summary["points"]]


def assert_same(folder, summary, reference):
    """Byte-equal metrics, equal arrays, an equal summary, and no trace of a checkpoint."""
    expected = reference["folder"]
    assert (folder / "metrics.jsonl").read_bytes() == (expected / "metrics.jsonl").read_bytes()
    with np.load(folder / "history.npz") as found, np.load(expected / "history.npz") as wanted:
        assert found.files == wanted.files
        for key in wanted.files:
            np.testing.assert_array_equal(found[key], wanted[key], err_msg=key)
    assert without_seconds(summary) == without_seconds(reference["summary"])
    assert {path.name for path in folder.iterdir()} == {path.name for path in expected.iterdir()}
    assert json.loads((folder / "config.json").read_text())["status"] == "finished"


@pytest.fixture(scope="module")
def reference(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reference") / "run"
    summary = go(tiny(**STUDY), folder)
    assert not summary["points"][0]["diverged"]
    return {"folder": folder, "summary": summary}


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("at", "saved", "writes"),
    [
        (2, Saved([], {"batch-000-at-00001": 1}), 1 + 2 + 4),
        (4, Saved(["batch-000"]), 1 + 4),  # after the last evaluation of the first batch
        (7, Saved(["batch-000"], {"batch-001-at-00002": 2}), 1 + 2),
    ],
)
def test_a_stopped_study_goes_on_where_it_was(tiny, tmp_path, monkeypatch, reference, at, saved, writes):
    config, folder = tiny(**STUDY), tmp_path / "run"
    handler = signal.getsignal(signal.SIGTERM)
    with monkeypatch.context() as patch:
        watch(patch, at, stop)
        with pytest.raises(Interrupted):
            go(config, folder)
    assert signal.getsignal(signal.SIGTERM) is handler
    assert Checkpoints(folder / "checkpoints").progress() == saved
    assert not (folder / "summary.json").exists()
    calls = watch(monkeypatch)
    summary = go(config, folder)
    assert len(calls) == writes  # once for all that is read back of a batch, then once an evaluation
    assert_same(folder, summary, reference)


def test_a_study_killed_after_checkpoints_goes_on_from_the_last(tiny, tmp_path, monkeypatch, reference):
    config, folder = tiny(**STUDY, **{"engine.checkpoint_minutes": 1e-9}), tmp_path / "run"
    with monkeypatch.context() as patch:
        watch(patch, 7, kill)
        with pytest.raises(Killed):
            go(config, folder)
    assert sorted(path.name for path in (folder / "checkpoints").iterdir()) == [
        "batch-000.npz",
        "batch-001-at-00001.npz",
        "progress-before.json",
        "progress.json",
    ]
    calls = watch(monkeypatch)
    summary = go(config, folder)
    assert len(calls) == 1 + 3
    assert_same(folder, summary, reference)


@pytest.mark.few(1)
@pytest.mark.parametrize("file", ["summary.json", "history.npz", "config.json"])
def test_a_kill_while_the_results_are_written_loses_nothing(tiny, tmp_path, monkeypatch, reference, file):
    """All batches have ended, and no checkpoint was due. What is half written is not taken for a whole file."""
    config, folder, replace = tiny(**STUDY), tmp_path / "run", Path.replace

    def replace_or_die(self, target):
        if Path(target).name == file and (folder / "checkpoints" / "batch-001.npz").exists():
            raise Killed
        return replace(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", replace_or_die)
        with pytest.raises(Killed):
            go(config, folder)
    assert json.loads((folder / "config.json").read_text())["status"] == "running"
    assert Checkpoints(folder / "checkpoints").progress() == Saved(["batch-000", "batch-001"])
    assert file == "config.json" or not (folder / file).exists()
    with monkeypatch.context() as patch:
        patch.setattr(Program, "start", None)  # no batch runs again
        summary = go(config, folder)
    assert_same(folder, summary, reference)


@pytest.mark.long
def test_a_study_goes_on_over_another_number_of_devices(tiny, tmp_path, monkeypatch, reference):
    """Three devices of one run each, then two devices of two, the last of which is padding."""
    config, folder, devices = tiny(**STUDY), tmp_path / "run", jax.local_devices()
    with monkeypatch.context() as patch:
        watch(patch, 3, stop)
        with pytest.raises(Interrupted):
            go(config, folder)
    monkeypatch.setattr(jax, "local_devices", lambda: devices[:2])
    summary = go(config, folder)
    for point, expected in zip(summary["points"], reference["summary"]["points"]):
        np.testing.assert_allclose(
            point["final_accuracy"]["per_seed"], expected["final_accuracy"]["per_seed"], atol=0.01
        )
        assert point["bits_sent_per_client"] == expected["bits_sent_per_client"]
    with np.load(folder / "history.npz") as found, np.load(reference["folder"] / "history.npz") as wanted:
        for key in wanted.files:
            np.testing.assert_allclose(found[key], wanted[key], rtol=1e-3, atol=0.02, err_msg=key)


@pytest.mark.long
@pytest.mark.parametrize("last", [8, 2])
def test_a_state_saved_on_rows_of_four_goes_on_over_other_rows(tiny, tmp_path, monkeypatch, reference, last):
    """Two more rows are held for six clients on four devices or eight, none on two; the rest is no part of the save."""
    config, folder = tiny(**STUDY), tmp_path / "run"
    study = make_study(tiny(**STUDY, **{"engine.client_devices": 4}))
    with monkeypatch.context() as patch:
        watch(patch, 3, stop)
        with pytest.raises(Interrupted):
            run_study(study, folder, log=lambda line: None)
    saved = Checkpoints(folder / "checkpoints")
    carried = [x.shape for name, x in saved.load(*saved.progress().states).items() if name.startswith("carry/")]
    assert carried
    assert not [shape for shape in carried if 8 in shape]
    config.engine.client_devices = last
    summary = run_study(make_study(config), folder, resume=True, log=lambda line: None)
    for point, expected in zip(summary["points"], reference["summary"]["points"]):
        assert point["bits_sent_per_client"] == expected["bits_sent_per_client"]
    with np.load(folder / "history.npz") as found, np.load(reference["folder"] / "history.npz") as wanted:
        for key in wanted.files:
            np.testing.assert_allclose(found[key], wanted[key], rtol=1e-3, atol=0.02, err_msg=key)


# The checkpoint directory alone.


def arrays(value, shape=(2, 3)):
    return {
        "accuracy": np.full(shape, value, np.float32),
        "is_mobile": np.array([[True, False]]),
        "counts": np.arange(4, dtype=np.int32),
        "position": np.zeros((2, 0, 3)),
        "half": np.full(shape, value, jnp.bfloat16),
    }


def test_arrays_come_back_as_they_were_saved(tmp_path):
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    assert checkpoints.progress() == Saved()
    assert not (tmp_path / "checkpoints").exists()
    checkpoints.save({0: arrays(0.25), 1: arrays(0.5)}, {2: (3, arrays(0.75))})
    assert checkpoints.progress() == Saved(["batch-000", "batch-001"], {"batch-002-at-00003": 3})
    for name, value in (("batch-000", 0.25), ("batch-001", 0.5), ("batch-002-at-00003", 0.75)):
        loaded = checkpoints.load(name)
        assert loaded.keys() == arrays(value).keys()
        for key, array in loaded.items():
            assert array.dtype == arrays(value)[key].dtype
            np.testing.assert_array_equal(array, arrays(value)[key])
    checkpoints.save({}, {2: (4, arrays(1.0))})
    checkpoints.save({}, {2: (5, arrays(1.25))})
    kept = sorted(path.stem for path in (tmp_path / "checkpoints").glob("batch-002*"))
    assert kept == ["batch-002-at-00004", "batch-002-at-00005"]  # the last one, and the one before it
    checkpoints.save({2: arrays(2.0)}, {})
    assert Checkpoints(tmp_path / "checkpoints").progress() == Saved(["batch-000", "batch-001", "batch-002"])
    assert len(list((tmp_path / "checkpoints").iterdir())) == 3 + 1 + 2  # results, the state before, what is valid
    checkpoints.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_kill_while_saving_leaves_the_old_state(tmp_path, monkeypatch):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save({}, {0: (1, arrays(0.25))})
    before = checkpoints.progress()

    def killed(path, value):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "write_json", killed)
        with pytest.raises(Killed):
            checkpoints.save({}, {0: (2, arrays(0.5))})
    assert checkpoints.progress() == before
    assert checkpoints.load(*before.states)["accuracy"][0, 0] == 0.25
    checkpoints.save({}, {0: (2, arrays(0.75))})  # over what the kill left
    assert checkpoints.load(*checkpoints.progress().states)["accuracy"][0, 0] == 0.75


def damages(content, every):
    """Files that lack their end, and files with a bit of one byte flipped."""
    for place in range(every // 2, len(content), every):
        yield content[:place]
        yield content[:place] + bytes([content[place] ^ (1 << place % 8)]) + content[place + 1 :]


def test_a_damaged_file_is_told_or_has_the_same_arrays(tmp_path):
    checkpoints, path = Checkpoints(tmp_path), tmp_path / "batch-000.npz"
    with pytest.raises(UserError, match=r"batch-000\.npz: the checkpoint cannot be read; --overwrite"):
        checkpoints.load("batch-000")
    checkpoints.save({0: arrays(0.25)}, {})
    for damaged in damages(path.read_bytes(), 17):
        path.write_bytes(damaged)
        try:
            found = checkpoints.load("batch-000")
        except UserError:
            continue
        chex.assert_trees_all_equal(found, arrays(0.25))  # a byte that says nothing, as a time of day


def test_arrays_that_changed_places_are_told(tmp_path):
    write_state(tmp_path / "whole.npz", {"a": np.arange(3.0), "b": np.arange(3.0) + 1})
    with np.load(tmp_path / "whole.npz") as stored:
        exchanged = {"a": stored["b"], "b": stored["a"], "dtypes": stored["dtypes"]}
    np.savez(tmp_path / "exchanged.npz", **exchanged)  # a whole file, whose own checksums are right
    with pytest.raises(UserError, match=r"exchanged.npz: it is broken"):
        read_state(tmp_path / "exchanged.npz", "it is broken")


@pytest.mark.parametrize("but", ["a", ""])
def test_an_array_that_is_gone_or_too_many_is_told(tmp_path, but):
    write_state(tmp_path / "whole.npz", {"a": np.arange(3.0), "b": np.arange(3.0) + 1})
    with np.load(tmp_path / "whole.npz") as stored:
        kept = {name: stored[name] for name in stored.files if name != but}
    np.savez(tmp_path / "other.npz", **kept if but else kept | {"c": np.arange(3.0)})
    with pytest.raises(UserError, match=r"other.npz: it is broken"):
        read_state(tmp_path / "other.npz", "it is broken")


def test_where_progress_is_damaged_the_one_before_it_is_used(tmp_path):
    told = []
    Checkpoints(tmp_path).save({0: arrays(0.25)}, {1: (1, arrays(0.5))})
    Checkpoints(tmp_path).save({}, {1: (2, arrays(0.75))})
    path = tmp_path / "progress.json"
    for damaged in [*damages(path.read_bytes(), 5), b"[]", b'{"other": 3}', b""]:
        path.write_bytes(damaged)
        assert Checkpoints(tmp_path, told.append).progress() in (
            Saved(["batch-000"], {"batch-001-at-00001": 1}),
            Saved(["batch-000"], {"batch-001-at-00002": 2}),  # white space has changed
        )
    assert told[-1] == f"{path} is damaged; the study goes on from the checkpoint before it"
    (tmp_path / "progress-before.json").write_text("[]")
    with pytest.raises(UserError, match=r"progress\.json: the checkpoint cannot be read; --overwrite"):
        Checkpoints(tmp_path).progress()


def test_a_damaged_file_is_written_again_under_its_name(tmp_path):
    Checkpoints(tmp_path).save({0: arrays(0.25)}, {1: (1, arrays(0.5))})
    Checkpoints(tmp_path).save({}, {1: (2, arrays(0.75))})
    for name in ("batch-000", "batch-001-at-00002"):
        (tmp_path / f"{name}.npz").write_bytes(b"")
    checkpoints = Checkpoints(tmp_path)
    assert checkpoints.finished() == {}
    assert checkpoints.state(1, 2)[0] == 1
    checkpoints.save({0: arrays(1.0)}, {1: (2, arrays(1.25))})
    assert Checkpoints(tmp_path).progress() == Saved(["batch-000"], {"batch-001-at-00002": 2})
    assert Checkpoints(tmp_path).finished()[0]["accuracy"][0, 0] == 1.0
    done, state = Checkpoints(tmp_path).state(1, 2)
    assert (done, state["accuracy"][0, 0]) == (2, 1.25)


def test_where_rounds_were_added_runs_never_begin_anew(tmp_path):
    Checkpoints(tmp_path).save({}, {0: (4, arrays(0.25))}, begun=4)
    for done in (5, 6):
        Checkpoints(tmp_path).save({}, {0: (done, arrays(0.5))})
    (tmp_path / "batch-000-at-00006.npz").write_bytes(b"")
    assert Checkpoints(tmp_path).state(0, 6)[0] == 5
    (tmp_path / "batch-000-at-00005.npz").write_bytes(b"")
    with pytest.raises(UserError, match=r"batch-000-at-00006\.npz: the checkpoint cannot be read"):
        Checkpoints(tmp_path).state(0, 6)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["batch-000", "batch-001-at-00002", "progress"])
def test_a_study_whose_checkpoint_is_damaged_ends_as_one_left_alone(tiny, tmp_path, monkeypatch, reference, name):
    config, folder = tiny(**STUDY, **{"engine.checkpoint_minutes": 1e-9}), tmp_path / "run"
    with monkeypatch.context() as patch:
        watch(patch, 8, kill)
        with pytest.raises(Killed):
            go(config, folder)
    (path,) = (folder / "checkpoints").glob(f"{name}.*")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 16
    path.write_bytes(content)
    told = []
    study = make_study(config)
    summary = run_study(study, folder, True, log=told.append)
    assert [line for line in told if str(path) in line and "is damaged" in line]
    assert_same(folder, summary, reference)
