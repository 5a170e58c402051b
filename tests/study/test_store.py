"""A study is the set of its runs: whatever was done to its folder, it equals a study that was run in one go."""

import contextlib
import itertools
import random
import shutil
import threading
import time

import pytest
from studies import assert_same, go, stop_at

from mdfl_jax.contrib.merge.merge import merge
from mdfl_jax.core.errors import UserError
from mdfl_jax.results.records import read_study
from mdfl_jax.storage import disk
from mdfl_jax.storage.study_files import CONFIG, VIEW_FILES, run_files, state_path
from mdfl_jax.study import Interrupted, states
from mdfl_jax.study.workdir import RunFiles

STUDY = {"algorithm.batch_size": 4, "algorithm.momentum": 0.9, "engine.runs_per_batch": 3}
COSTS = {"cost.seconds_per_sample": 0.5, "cost.bandwidth": 1e4, "cost.joules_per_metre": 1.0}
POINTS = ("2", "3", "inf")


@pytest.fixture(autouse=True)
def _rounds_change_no_program(monkeypatch):
    """That this is looked at, which takes seconds, is tested in test_growing.py."""
    monkeypatch.setattr(states, "is_independent", lambda *_: True)


class Killed(BaseException):
    """A process was killed."""


def killed_at(number, half):
    """A `disk.write` that is not made from some write on: nothing, or half of a file beside its place, is left."""
    real, count = disk.write, itertools.count(1)

    def write(path, make, needs=0):
        if next(count) < number:
            return real(path, make, needs)
        if half and path.parent.is_dir():
            (path.parent / f".{path.name}.0123456789abcdef.part").write_bytes(b"half")
        raise Killed

    return write


class History:
    """A folder that commands are given, and what the last one of them asked for.

    Args:
      base: A folder for all folders.
      seed: The seed of all that is drawn.
    """

    def __init__(self, base, seed):
        self.base, self.draw, self.folder = base, random.Random(seed), base / "0"
        self.study = STUDY | {"save": self.draw.choice(["", "final", "every:2"]), "engine.client_devices": seed % 2}
        self.study |= COSTS if seed % 5 == 4 else {}
        self.wanted = {"seeds": 1, "rounds": 2, "points": ("3",), "title": "", "target": 0.3}

    def changes(self, **other):
        """The configuration that is asked for."""
        wanted = self.wanted | other
        points = ",".join(wanted.pop("points"))
        return self.study | wanted | {"sweep": f"network.radius={points}"}

    def run(self):
        try:
            go(self.folder, **self.changes())
        except UserError as error:  # it was killed between a record and the last state, which more rounds need
            if "was not kept" not in str(error):
                raise
            shutil.rmtree(self.folder)
            go(self.folder, **self.changes())

    def more_seeds(self):
        self.wanted["seeds"] = min(self.wanted["seeds"] + self.draw.randint(1, 2), 4)

    def more_points(self):
        more = list({*self.wanted["points"], self.draw.choice(POINTS)})
        self.wanted["points"] = tuple(self.draw.sample(more, len(more)))

    def more_rounds(self):
        self.wanted["rounds"] = min(self.wanted["rounds"] + 2, 6)

    def other_words(self):
        self.wanted |= {"title": f"title {self.draw.random()}", "target": self.draw.choice([0.2, 0.4])}

    def stop(self):
        """All is saved at some evaluation."""
        with contextlib.suppress(Interrupted, UserError):
            go(self.folder, on_evaluation=stop_at(self.draw.randint(1, 8)), **self.changes())

    def kill(self):
        """Nothing is written any more from some write on."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(disk, "write", killed_at(self.draw.randint(1, 30), self.draw.random() < 0.5))
            saved = {"engine.checkpoint_minutes": 1e-9}
            try:
                go(self.folder, **self.changes() | saved)
            except UserError as error:
                if "was not kept" not in str(error):
                    raise
            except Killed:
                workers = self.folder / "workers"
                workers.mkdir(parents=True, exist_ok=True)
                (workers / "0123456789abcdef.json").write_text('{"machine": "here"}'[: self.draw.randint(0, 19)])

    def copy(self):
        if self.folder.exists():
            self.folder = shutil.copytree(self.folder, self.base / f"{int(self.folder.name) + 1}")

    def move(self):
        if self.folder.exists():
            self.folder = self.folder.rename(self.base / f"{int(self.folder.name) + 1}")

    def merge(self):
        """The next seed is computed elsewhere."""
        if not self.is_whole() or self.wanted["seeds"] == 4:
            return
        other, new = self.base / f"other-{self.folder.name}", self.base / f"{int(self.folder.name) + 1}"
        held = dict(zip(("seeds", "rounds", "points"), self.held()))
        go(other, **self.changes(**held | {"first_seed": held["seeds"], "seeds": 1}))
        merge([other, self.folder], new)
        self.folder, self.wanted["seeds"] = new, max(self.wanted["seeds"], held["seeds"] + 1)

    def lose_views(self):
        for name in VIEW_FILES if self.draw.random() < 0.5 else self.draw.sample(VIEW_FILES, 1):
            (self.folder / name).unlink(missing_ok=True)

    def lose_all_but_the_runs(self):
        for name in (*VIEW_FILES, CONFIG):
            (self.folder / name).unlink(missing_ok=True)

    def lose_a_run(self):
        if found := list(run_files(self.folder)):
            name, path = self.draw.choice(found)
            path.unlink()
            if self.draw.random() < 0.5:
                state_path(self.folder, name).unlink(missing_ok=True)

    def is_whole(self):
        return (self.folder / CONFIG).is_file() and read_study(self.folder)["status"] == "finished"

    def held(self):
        found = read_study(self.folder)
        points = tuple(f"{float(point['overrides']['network.radius']):g}" for point in found["points"])
        return len(found["seeds"]), found["config"]["rounds"], points


COMMANDS = (History.run, History.more_seeds, History.more_points, History.more_rounds, History.other_words,
            History.stop, History.kill, History.kill, History.copy, History.move, History.merge, History.lose_views,
            History.lose_all_but_the_runs, History.lose_a_run)  # fmt: skip


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 5))])
def test_whatever_is_done_to_a_folder_the_study_is_that_of_one_go(tmp_path, seed):
    history, done = History(tmp_path, seed), []
    for _ in range(10):
        command = history.draw.choice(COMMANDS)
        done.append(command.__name__)
        print(done[-1], history.wanted)
        command(history)
    history.run()
    go(tmp_path / "one-go", **history.changes())
    assert_same(history.folder, tmp_path / "one-go", states=not {"lose_a_run", "kill"} & {*done})
    assert go(history.folder, **history.changes())[1]


def test_two_commands_on_one_folder_share_the_runs(tmp_path, monkeypatch):
    """Each run is computed by one of them, both see all results, and one with more seeds may begin meanwhile."""
    monkeypatch.setattr("mdfl_jax.study.runner.WAIT", 0.01)
    changes = STUDY | {"seeds": 3, "rounds": 2, "engine.runs_per_batch": 1}
    changes |= {"sweep": "network.radius=2,3"}
    for seeds in (2, 3):  # what is compiled here the threads have
        go(tmp_path / "one-go", **changes | {"seeds": seeds})
    computed, found, real = [], [], RunFiles.finish

    def finish(files, batch, *more):
        computed.extend(batch.runs)
        real(files, batch, *more)

    monkeypatch.setattr(RunFiles, "finish", finish)

    def command(seeds):
        found.append(go(tmp_path / "run", **changes | {"seeds": seeds})[0])

    threads = [threading.Thread(target=command, args=(seeds,)) for seeds in (2, 2, 3)]
    for thread in threads[:2]:
        thread.start()
    while sum(thread.is_alive() for thread in threads[:2]) == 2 and len([*tmp_path.glob("run/workers/*.json")]) < 2:
        time.sleep(0.01)
    threads[2].start()
    for thread in threads:
        thread.join()
    assert len(computed) == len({*computed}) == 6
    assert sorted(len(of["points"][0]["final_accuracy"]["per_seed"]) for of in found) == [2, 2, 3]
    go(tmp_path / "run", **changes)
    assert_same(tmp_path / "run", tmp_path / "one-go")


def test_a_folder_that_is_moved_away_under_a_command_is_told(tmp_path):
    def move(info):
        if info.round == 2:
            (tmp_path / "run").rename(tmp_path / "moved")

    with pytest.raises(UserError, match=r"it was removed or moved while this process was|cannot be writ"):
        go(tmp_path / "run", on_evaluation=move, **STUDY)
    go(tmp_path / "moved", **STUDY)
    go(tmp_path / "one-go", **STUDY)
    assert_same(tmp_path / "moved", tmp_path / "one-go")
