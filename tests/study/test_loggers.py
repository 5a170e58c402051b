"""Loggers: what TensorBoard, Weights & Biases and MLflow get equals metrics.jsonl, also after a stop or a kill."""

import importlib.util
import itertools
import json
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mdfl_jax
from mdfl_jax import Interrupted, UserError
from mdfl_jax.config.checks import LOGGERS
from mdfl_jax.study.loggers.line_logger import WORDS, LineLogger

SWEEP = {"sweep": "network.mobility=static,dcm", "engine.checkpoint_minutes": 1e-9}


def expected(workdir):
    """{(point, seed): {key: {round: value}}} of the finite numbers of metrics.jsonl."""
    found = {}
    for line in map(json.loads, (workdir / "metrics.jsonl").read_text().splitlines()):
        of_run = found.setdefault((line["point"], line["seed"]), {})
        for key, value in line.items():
            if key not in WORDS and isinstance(value, int | float) and np.isfinite(value):
                of_run.setdefault(key, {})[line["round"]] = value
    return found


def stopped_at_2(config, workdir):
    """Runs a study until round 2 of its first batch, where its state is saved."""
    with pytest.raises(Interrupted):
        mdfl_jax.run(config, workdir, progress=False, on_evaluation=lambda info: info.round == 2)


def killed_later(config, tmp_path, name):
    """A workdir whose logger knows all evaluations, as if it was killed at the end, but whose saved state is older."""
    early, late = tmp_path / "early", tmp_path / "late"
    stopped_at_2(config, early)
    shutil.copytree(early, late, symlinks=True)
    mdfl_jax.run(config, late, progress=False)
    shutil.rmtree(early / "loggers" / name)
    shutil.copytree(late / "loggers" / name, early / "loggers" / name, symlinks=True)
    return early


# TensorBoard.


def in_tensorboard(workdir, point, seed):
    """The accumulator of TensorBoard itself, with the events of a run."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(workdir / "loggers" / "tensorboard" / point / f"seed-{seed}"))
    return events.Reload()


def assert_tensorboard_has_all(workdir, runs=4):
    found = expected(workdir)
    assert len(found) == runs
    for (point, seed), keys in found.items():
        events = in_tensorboard(workdir, point, seed)
        assert set(events.Tags()["scalars"]) == set(keys)
        for key, by_round in keys.items():
            told = [(event.step, event.value) for event in events.Scalars(key)]
            assert told == [(r, pytest.approx(value, rel=1e-6)) for r, value in sorted(by_round.items())]


@pytest.mark.long
def test_tensorboard_reads_what_metrics_jsonl_has_once_after_a_stop(tiny, tmp_path):
    pytest.importorskip("tensorboardX")
    config = tiny(loggers="tensorboard", **SWEEP)
    stopped_at_2(config, tmp_path)
    assert [event.step for event in in_tensorboard(tmp_path, "dcm", 0).Scalars("accuracy")] == [0, 2]
    mdfl_jax.run(config, tmp_path, progress=False)
    assert_tensorboard_has_all(tmp_path)
    text = in_tensorboard(tmp_path, "dcm", 1).Tensors("config/text_summary")[0].tensor_proto.string_val[0]
    told = json.loads(text.decode().removeprefix("```json\n").removesuffix("\n```"))
    assert (told["network"]["mobility"], told["seed"], told["algorithm"]["lr"]) == ("dcm", 1, 0.1)


@pytest.mark.long
def test_after_a_kill_tensorboard_has_no_step_twice(tiny, tmp_path):
    pytest.importorskip("tensorboardX")
    config = tiny(loggers="tensorboard", **SWEEP)
    workdir = killed_later(config, tmp_path, "tensorboard")
    mdfl_jax.run(config, workdir, progress=False)
    assert_tensorboard_has_all(workdir)


# Weights & Biases, offline.


def records(path):
    """The records of a file of wandb: seven bytes of its own, then LevelDB's log format, blocks of 32 KiB of pieces."""
    data, at, record = path.read_bytes(), 7, b""
    assert data[:4] == b":W&B"
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:  # no header fits into the rest of the block
            at += 32768 - at % 32768
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        record += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # a whole record, or its last piece
            yield record
            record = b""


def in_wandb(workdir):
    """{name of the run: (config, {key: [(step, value)]})} of all files that wandb has written for a study."""
    pytest.importorskip("wandb")
    from wandb.proto import wandb_internal_pb2

    found, ids = {}, {}
    for path in sorted((workdir / "loggers" / "wandb").rglob("*.wandb"), key=lambda path: path.stat().st_mtime_ns):
        for data in records(path):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            kind = record.WhichOneof("record_type")
            if kind == "run":
                name = record.run.display_name
                config = {item.key: json.loads(item.value_json) for item in record.run.config.update}
                found.setdefault(name, (config, {}))
                assert ids.setdefault(name, record.run.run_id) == record.run.run_id
                assert (record.run.run_group, record.run.project) == ("tiny", "mdfl_jax")
            elif kind == "history":
                values = {(item.key or item.nested_key[0]): json.loads(item.value_json) for item in record.history.item}
                for key, value in values.items():
                    if not key.startswith("_"):
                        found[name][1].setdefault(key, []).append((values["_step"], value))
    return found


def assert_wandb_has_all(workdir):
    runs, told = expected(workdir), in_wandb(workdir)
    assert set(told) == {f"{point}, seed {seed}" for point, seed in runs}
    for (point, seed), keys in runs.items():
        config, values = told[f"{point}, seed {seed}"]
        assert (config["network"]["mobility"], config["seed"]) == (point, seed)
        assert values == {key: sorted(by_round.items()) for key, by_round in keys.items()}


@pytest.mark.long
def test_wandb_has_what_metrics_jsonl_has_once_after_a_kill(tiny, tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    for name in ("WANDB_PROJECT", "WANDB_RUN_GROUP"):
        monkeypatch.delenv(name, raising=False)
    config = tiny(loggers="wandb", **SWEEP)
    workdir = killed_later(config, tmp_path, "wandb")
    mdfl_jax.run(config, workdir, progress=False)
    assert_wandb_has_all(workdir)


@pytest.mark.long
def test_wandb_without_an_account_is_one_line_before_anything_is_compiled(tiny, tmp_path):
    """In a process of its own, whose home has no account."""
    pytest.importorskip("wandb")
    program = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
import mdfl_jax
from tiny import tiny_config
from mdfl_jax.study import batch
batch.Program.start = None
try:
    mdfl_jax.run(tiny_config(loggers="wandb"), {str(tmp_path / "run")!r})
except mdfl_jax.UserError as error:
    print(error)
"""
    hidden = {"WANDB_MODE", "WANDB_API_KEY", "WANDB_BASE_URL"}
    environment = {name: value for name, value in os.environ.items() if name not in hidden} | {"HOME": str(tmp_path)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.stdout.startswith("loggers has wandb: "), done.stderr
    assert done.stdout.endswith("; with WANDB_MODE=offline no account and no network are needed\n")
    assert done.stdout.count("\n") == 1


# MLflow, in its database.

SECONDS = itertools.count(1000)


def in_mlflow(workdir):
    """{name of the run: (status, parameters, {key: [(step, value)]})} of all runs in the database of a study."""
    from mlflow import MlflowClient

    file = workdir / "loggers" / "mlflow" / "mlflow.db"
    client = MlflowClient(f"sqlite:///{file}?timeout={next(SECONDS)}")  # not what it has read before
    found = {}
    for run in client.search_runs([client.get_experiment_by_name("tiny").experiment_id]):
        history = {key: client.get_metric_history(run.info.run_id, key) for key in run.data.metrics}
        values = {key: sorted((each.step, each.value) for each in of_key) for key, of_key in history.items()}
        assert run.info.run_name not in found
        found[run.info.run_name] = (run.info.status, run.data.params, values)
    return found


def assert_mlflow_has_all(workdir):
    runs, told = expected(workdir), in_mlflow(workdir)
    assert set(told) == {f"{point}, seed {seed}" for point, seed in runs}
    for (point, seed), keys in runs.items():
        status, params, values = told[f"{point}, seed {seed}"]
        assert (status, params["network.mobility"], params["seed"]) == ("FINISHED", point, str(seed))
        assert values == {key: sorted(by_round.items()) for key, by_round in keys.items()}


@pytest.mark.long
def test_mlflow_has_what_metrics_jsonl_has_once_after_a_stop_a_kill_and_an_overwrite(tiny, tmp_path, monkeypatch):
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")  # nothing goes to a server
    config = tiny(loggers="mlflow", **SWEEP)
    stopped_at_2(config, tmp_path / "stopped")
    assert {status for status, *_ in in_mlflow(tmp_path / "stopped").values()} == {"KILLED"}
    workdir = killed_later(config, tmp_path, "mlflow")
    mdfl_jax.run(config, workdir, progress=False)
    assert_mlflow_has_all(workdir)
    assert_mlflow_has_all(tmp_path / "late")  # it went on from the stop
    mdfl_jax.run(config, workdir, overwrite=True, progress=False)
    assert_mlflow_has_all(workdir)
    assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "true"


# The field.


@pytest.mark.parametrize("name", ["mlflow", "tensorboard", "wandb"])
def test_a_missing_package_is_one_line_that_names_the_extra(tiny, tmp_path, monkeypatch, name):
    there = importlib.util.find_spec
    hidden = {"tensorboard": "tensorboardX"}.get(name, name)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == hidden else there(name, *more))
    with pytest.raises(UserError, match=rf"loggers is '{name}'; .* pip install 'mdfl_jax\[{name}\]'") as told:
        mdfl_jax.run(tiny(loggers=name), tmp_path / "run", progress=False)
    assert "\n" not in str(told.value)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_logger_is_one_line_with_a_suggestion(tiny, tmp_path):
    with pytest.raises(UserError, match=r"loggers: unknown logger 'tensorbord' \(did you mean 'tensorboard'\?\); "):
        mdfl_jax.run(tiny(loggers="wandb, tensorbord"), tmp_path / "run", progress=False)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def own():
    """A logger of the user's own."""

    class Own(LineLogger):
        """Keeps nothing."""

    LOGGERS.register("own")(Own)
    yield Own
    LOGGERS.remove("own")


@pytest.mark.long
def test_a_logger_is_no_part_of_a_study_which_is_not_run_again_for_it(tiny, tmp_path):
    pytest.importorskip("tensorboardX")
    results, calls = mdfl_jax.run(tiny(), tmp_path, progress=False), []
    again = mdfl_jax.run(tiny(loggers="tensorboard"), tmp_path, progress=False, on_evaluation=calls.append)
    assert calls == []
    np.testing.assert_array_equal(again.array("accuracy"), results.array("accuracy"))
