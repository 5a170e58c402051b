"""Many processes on one folder: every run is there once, as one process computes it, whoever is killed meanwhile."""

import json
import os
import platform
import random
import signal
import time

import pytest
from forked import Started
from shell import ROOT
from small import TINY
from studies import assert_same

from mdfl_jax.config.resolve import read_file
from mdfl_jax.contrib.cluster.crew import TallyOfFiles
from mdfl_jax.study import make_study, workers
from mdfl_jax.study.workers import Workers

ROUNDS = 400
LONGER = f"""    config.seeds, config.rounds, config.eval_every = 4, {ROUNDS}, 4
    config.engine.runs_per_batch, config.engine.checkpoint_minutes = 4, 1e-9
    return config
"""
STUDY = TINY.replace("    return config\n", LONGER)  # eight runs, in two batches of two on each of two devices
TWO = {"JAX_NUM_CPU_DEVICES": "2", "PYTHONPATH": str(ROOT)}


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A folder with the study."""
    folder = tmp_path_factory.mktemp("workers")
    (folder / "study.py").write_text(STUDY)
    return folder


@pytest.fixture(scope="module")
def alone(here):
    """The results of the study by one process."""
    assert begin(here, here / "alone").ended().status == 0
    return here / "alone"


def begin(here, workdir, *more, **variables):
    """Starts `mdfl sweep` on two host devices."""
    words = [f"--config={here / 'study.py'}", f"--workdir={workdir}", "--noreport", *more]
    return Started(here / "said", "sweep", *words, variables=TWO | variables)


def lines(workdir):
    path = workdir / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def processes(workdir):
    """The workers of a folder that have taken runs."""
    found = []
    for path in workdir.glob("workers/*.json"):
        about = json.loads(path.read_text())
        found += [about["process"]] if about["runs"] else []
    return found


@pytest.mark.long
def test_commands_on_one_folder_under_kills_are_one_study(here, alone, tmp_path):
    """Each killed one is followed by another one, which takes its runs; some are killed while they compile."""
    many, drawn, workdir = 3, random.Random(4), tmp_path / "run"
    commands = [begin(here, workdir) for _ in range(many)]
    for _ in range(2 * many):
        seen = lines(workdir) + drawn.choice([0, 20])
        end = time.monotonic() + 20
        while lines(workdir) < seen and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(drawn.random() / 2)
        k = drawn.randrange(many)
        commands[k].kill()
        if (status := commands[k].ended().status) == 0:
            break
        assert status == -signal.SIGKILL
        commands[k] = begin(here, workdir)
    for each in commands:
        ended = each.ended()
        assert ended.status == 0, ended
    assert_same(workdir, alone)


@pytest.mark.long
def test_a_crew_replaces_who_is_killed_and_saves_all_when_it_is_stopped(here, alone, tmp_path):
    workdir = tmp_path / "run"
    command = begin(here, workdir, "--workers=2")
    command.until(lambda: lines(workdir) > 40 and processes(workdir))
    os.kill(processes(workdir)[0], signal.SIGKILL)
    command.until(lambda: "another one takes its place" in command.err.read_text())
    command.kill(signal.SIGTERM)
    ended = command.ended()
    assert ended.status == 130
    said = ended.said().splitlines()
    assert "was lost: it was ended by SIGKILL" in said[0]
    assert said[-1] == f"stopped; the same command, without --overwrite, goes on where {workdir} was left"
    assert not (workdir / "workers").exists()
    assert list(workdir.glob("runs/*.state.safetensors"))
    ended = begin(here, workdir, "--workers=2").ended()
    assert ended.status == 0, ended
    assert "going on with the unfinished study" in ended.out
    assert_same(workdir, alone)


@pytest.mark.long
def test_a_worker_ends_when_nobody_waits_for_it(here, tmp_path):
    workdir = tmp_path / "run"
    command = begin(here, workdir, "--workers=2")
    command.until(lambda: lines(workdir) > 20 and len(processes(workdir)) == 2)
    command.kill()
    end = time.monotonic() + 120
    while (workdir / "workers").exists():
        assert time.monotonic() < end
        time.sleep(0.02)
    assert list(workdir.glob("runs/*.state.safetensors"))


@pytest.mark.long
def test_what_a_worker_says_is_wrong_is_said_once(here, tmp_path):
    """Of a file that can be imported by the command, and not by its workers."""
    own = tmp_path / "own.py"
    own.write_text('import os\n\nif "MDFL_JAX_WORKER" in os.environ:\n    raise ImportError("no such module here")\n')
    ended = begin(here, tmp_path / "run", "--workers=2", f"--use={own}").ended()
    assert ended.status == 2
    assert ended.said().startswith("error: ")
    assert ended.said().endswith("own.py:4: ImportError: no such module here\n")


def test_a_worker_of_another_machine_is_alive_as_long_as_its_file_is_touched(tmp_path, monkeypatch):
    """What the clocks of the two machines say does not matter: its file may be from another year."""
    folder, about = tmp_path / "workers", {"host": "far", "process": 7, "machine": "another", "runs": ["a-run"]}
    with Workers(tmp_path) as mine:
        path = folder / f"{'0' * 16}.json"
        path.write_text(json.dumps(about))
        for k in range(3):
            os.utime(path, (k, k))
            (found,) = mine.others()
            assert (str(found), found.runs) == ("process 7 of far", {"a-run"})
            monkeypatch.setattr(workers, "WATCH", 0)  # from now on, each look must find the file touched
        assert mine.others() == []
        assert not path.exists()
    assert not folder.exists()


def test_a_worker_of_this_machine_is_alive_as_long_as_its_process(tmp_path):
    with Workers(tmp_path) as mine, Workers(tmp_path) as other:
        other.take(["b", "a"])
        (found,) = mine.others()
        assert (found.runs, str(found)) == ({"a", "b"}, f"process {os.getpid()} of {platform.node()}")
        other._alive.release()  # as the system does when a process ends, however it ends
        assert mine.others() == []


def test_the_progress_of_workers_is_that_of_the_files(here, tmp_path):
    study, now = make_study(read_file(f"{here / 'study.py'}:")), [0.0]
    tally = TallyOfFiles(study, tmp_path, lambda: now[0])
    tally.look()
    path, line = tmp_path / "metrics.jsonl", {"point": "dcm", "seed": 0, "round": 8, "accuracy": 0.5}
    foreign, unfinished = json.dumps(line | {"point": "another", "round": 80}), json.dumps(line | {"seed": 1})[:20]
    path.write_text(f"{json.dumps(line)}\n{foreign}\n{{nothing\n{unfinished}")
    now[0] = 2.0
    tally.look()
    assert (tally.done, tally.rate, tally.values()) == (8, 4.0, "accuracy (%): dcm 50.0")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / f"{study.name(study.runs[0])}.safetensors").touch()
    tally.look()
    assert (tally.done, tally.where()) == (8 + ROUNDS, "1 of 8 runs have ended")
