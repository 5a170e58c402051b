"""Loggers: what TensorBoard and Weights & Biases get equals metrics.jsonl, also after a stop or a kill."""

import importlib.util
import json
import shutil
import struct

import numpy as np
import pytest
from forked import Started
from small import TINY, told

import mdfl_jax
from mdfl_jax import Interrupted
from mdfl_jax.contrib.loggers.line_logger import WORDS

SWEEP = {"sweep": "network.mobility=static,dcm", "engine.checkpoint_minutes": 1e-9}
PACKAGES = {"tensorboard": "tensorboardX", "wandb": "wandb"}
HERE = [name for name, package in PACKAGES.items() if importlib.util.find_spec(package)]


def expected(workdir):
    """{"point, seed N": {key: [(round, value)]}} of the finite numbers of metrics.jsonl."""
    found = {}
    for line in map(json.loads, (workdir / "metrics.jsonl").read_text().splitlines()):
        of_run = found.setdefault(f"{line['point']}, seed {line['seed']}", {})
        for key, value in line.items():
            if key not in WORDS and isinstance(value, int | float) and np.isfinite(value):
                of_run.setdefault(key, []).append((line["round"], value))
    return found


def in_tensorboard(workdir):
    """As TensorBoard's own accumulator reads the events."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = {}
    for folder in (workdir / "loggers" / "tensorboard").glob("*/seed-*"):
        events, point, seed = EventAccumulator(str(folder)).Reload(), folder.parent.name, folder.name[5:]
        found[f"{point}, seed {seed}"] = {
            key: [(event.step, event.value) for event in events.Scalars(key)] for key in events.Tags()["scalars"]
        }
        text = events.Tensors("config/text_summary")[0].tensor_proto.string_val[0].decode()
        told = json.loads(text.removeprefix("```json\n").removesuffix("\n```"))
        assert (told["network"]["mobility"], told["seed"], told["algorithm"]["lr"]) == (point, int(seed), 0.1)
    return found


def records(path):
    """The records of a file of wandb: seven bytes of its own, then LevelDB's log format, blocks of 32 KiB of pieces."""
    data, at, record = path.read_bytes(), 7, b""
    while at + 7 <= len(data):
        if (left := 32768 - at % 32768) < 7:  # no header fits into the rest of the block
            at += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        record += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # a whole record, or its last piece
            yield record
            record = b""


def in_wandb(workdir):
    """Of all files that wandb has written for a study, offline."""
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
                assert name == f"{config['network']['mobility']}, seed {config['seed']}"
                found.setdefault(name, {})
                assert ids.setdefault(name, record.run.run_id) == record.run.run_id
                assert (record.run.run_group, record.run.project) == ("tiny", "mdfl_jax")
            elif kind == "history":
                values = {(item.key or item.nested_key[0]): json.loads(item.value_json) for item in record.history.item}
                for key, value in values.items():
                    if not key.startswith("_"):
                        found[name].setdefault(key, []).append((values["_step"], value))
    return found


READ = {"tensorboard": in_tensorboard, "wandb": in_wandb}


@pytest.fixture(scope="module")
def folders(tiny, tmp_path_factory):
    """The workdirs of a study that was stopped and went on, and of one whose loggers know more than its saved state."""
    base = tmp_path_factory.mktemp("logged")
    stopped, late, killed = (base / name for name in ("stopped", "late", "killed"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WANDB_MODE", "offline")
        for name in ("WANDB_PROJECT", "WANDB_RUN_GROUP"):
            patch.delenv(name, raising=False)
        config = tiny(loggers=",".join(HERE), **SWEEP)
        with pytest.raises(Interrupted):
            mdfl_jax.run(config, stopped, progress=False, on_evaluation=lambda info: info.round == 2)
        shutil.copytree(stopped, late, symlinks=True)
        mdfl_jax.run(config, late, progress=False)
        shutil.copytree(stopped, killed, symlinks=True)
        shutil.rmtree(killed / "loggers")
        shutil.copytree(late / "loggers", killed / "loggers", symlinks=True)
        mdfl_jax.run(config, killed, progress=False)
    return stopped, late, killed


def assert_has_all(workdir, read):
    wanted, told = expected(workdir), read(workdir)
    assert len(wanted) == 4
    assert told.keys() == wanted.keys()
    for name, keys in wanted.items():
        assert told[name].keys() == keys.keys(), name
        for key, values in keys.items():
            assert told[name][key] == [(r, pytest.approx(value, rel=1e-6)) for r, value in sorted(values)]


@pytest.mark.long
@pytest.mark.parametrize("name", HERE)
def test_it_has_what_metrics_jsonl_has_once_after_a_stop_and_a_kill(folders, name):
    stopped, late, killed = folders
    assert_has_all(late, READ[name])
    assert_has_all(killed, READ[name])
    told = READ[name](stopped)
    assert [step for step, _ in told["dcm, seed 0"]["accuracy"]] == [0, 2]


@pytest.mark.long
def test_wandb_without_an_account_is_one_line(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    for name in ("WANDB_MODE", "WANDB_API_KEY", "WANDB_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "tiny.py").write_text(TINY)
    words = f"--config={tmp_path / 'tiny.py'}", f"--workdir={tmp_path / 'run'}", "--noreport", "--config.loggers=wandb"
    ended = Started(tmp_path / "said", "sweep", *words, variables={"HOME": str(tmp_path)}).ended()
    line = ended.err.splitlines()[-1]
    assert "loggers has wandb: " in line, ended
    assert line.endswith("; with WANDB_MODE=offline no account and no network are needed")
    assert not list((tmp_path / "run").glob("runs/*"))


def test_a_missing_package_and_an_unknown_logger_are_one_line(tiny, tmp_path, monkeypatch):
    there = importlib.util.find_spec
    for name, hidden in PACKAGES.items():
        with monkeypatch.context() as patch:
            patch.setattr(
                importlib.util, "find_spec", lambda of, *more, no=hidden: None if of == no else there(of, *more)
            )
            line = told(mdfl_jax.run, tiny(loggers=name), tmp_path / "run", progress=False)
        assert line.startswith(f"loggers is '{name}'; ")
        assert f"pip install 'mdfl_jax[{name}]'" in line
    line = told(mdfl_jax.run, tiny(loggers="wandb, tensorbord"), tmp_path / "run", progress=False)
    assert line.startswith("loggers: unknown logger 'tensorbord' (did you mean 'tensorboard'?); ")
    assert list(tmp_path.iterdir()) == []
