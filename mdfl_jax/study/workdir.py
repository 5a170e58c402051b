"""The workdir of a study: what its config.json says, whose folder it is, the files of its runs, what may be removed."""

import contextlib
import dataclasses
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import jax

from mdfl_jax.config.points import Point, program_key, to_cite
from mdfl_jax.config.sections import effective, flat
from mdfl_jax.core.errors import UserError
from mdfl_jax.metrics import BUILT_IN
from mdfl_jax.results.records import RunRecord, from_devices, joined, write_record
from mdfl_jax.storage import array_files, disk
from mdfl_jax.storage.array_files import Arrays
from mdfl_jax.storage.disk import is_part, plain, writing
from mdfl_jax.storage.provenance import provenance
from mdfl_jax.storage.study_files import (
    CONFIG,
    FIGURES,
    FOLDERS,
    LOCK,
    LOGGER_FOLDER,
    MODEL_FOLDER,
    RUNS,
    STREETS,
    STUDY_SCHEMA,
    TABLES,
    VIEW_FILES,
    WORKERS,
    begun_runs,
    read_config,
    run_files,
    run_name,
    run_path,
    runs_in,
    state_path,
    written_files,
)
from mdfl_jax.study import states
from mdfl_jax.study.events import evaluation_lines
from mdfl_jax.study.identity import (
    GROWS,
    Field,
    compare_configs,
    digest,
    not_in_runs,
    other_config,
    run_config,
    without_rounds,
)
from mdfl_jax.study.states import ROUND, STATE_FORMAT, BatchResult, Beginning
from mdfl_jax.study.study import Group, Run, RunBatch, Study
from mdfl_jax.tasks.losses import LOSSES, loss_named


def accuracy_is(study: Study, groups: Iterable[Group]) -> str:
    """Return what is called accuracy in some programs, if it is not the share of labels that are right; else ""."""
    found = []
    for group in groups:
        if group.dataset is not None:
            asked = study.points[group.points[0]].experiment.model.loss
            found.append(LOSSES[loss_named(asked, group.dataset.targets)].accuracy_is)
    return "; ".join(filter(None, dict.fromkeys(found)))


def _program(point: Point) -> str:
    """Return what is the same for points that share a compiled program."""
    key, left_out = program_key(point.experiment), not_in_runs().union(GROWS)
    fields = {
        path: value for path, value in plain(flat(dataclasses.asdict(key.settings))).items() if path not in left_out
    }
    return digest(fields | {"switches": list(key.switches)})


def manifest_of(study: Study, how_made: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of config.json for a study that is to be run.

    Args:
      study: The study.
      how_made: The entries that say how its results are made (`mdfl_jax.storage.provenance`).
    """
    points = [
        {
            "id": point.id,
            "overrides": point.overrides,
            "numbers": effective(point.experiment),
            "program": _program(point),
            "runs": study.names[p],
        }
        for p, point in enumerate(study.points)
    ]
    metrics = {metric.name: metric for group in study.groups for metric in group.simulation.metrics}
    own = [m.described._asdict() for m in metrics.values() if m not in BUILT_IN]
    meaning = accuracy_is(study, study.groups)
    found: dict[str, Any] = {
        "schema": STUDY_SCHEMA,
        "name": study.experiment.name,
        "title": study.experiment.title,
        "status": "running",
        "config": study.config,
        "cite": to_cite(study.points),
        "points": points,
        "seeds": list(study.seeds),
        **({"metrics": own} if own else {}),
        **({"accuracy_is": meaning} if meaning else {}),
        "pretrained": study.pretrained,
        "runs_per_batch": [group.runs_per_batch for group in study.groups],
        **how_made,
        "compile_seconds": None,
        "run_seconds": None,
    }
    return plain(found)


_OURS = {LOCK, WORKERS, RUNS, MODEL_FOLDER, LOGGER_FOLDER, STREETS}
"""What may be in a folder without a study: files of runs, which a command takes over if they are of its study."""
_MADE = {*VIEW_FILES, TABLES, FIGURES, "report.html"}
"""What is made of records, and may thus lie beside them."""


def check_place(workdir: Path) -> None:
    """Check that a directory can be created, read and written.

    Raises:
      UserError: If it cannot.
    """
    if str(workdir).startswith("-"):  # --workdir has no value, so this is the next flag
        raise UserError(f"--workdir={workdir}: a value is missing")
    ancestor = workdir
    try:
        while not ancestor.exists() and not ancestor.is_symlink() and ancestor != ancestor.parent:
            ancestor = ancestor.parent
    except OSError as error:  # a name that is too long
        raise UserError(f"--workdir={workdir}: {error.strerror or error}") from error
    if not ancestor.is_dir():
        raise UserError(f"--workdir={workdir}: {ancestor} is not a directory")
    if not os.access(ancestor, os.R_OK | os.W_OK | os.X_OK):
        raise UserError(f"--workdir={workdir}: {ancestor} cannot be read and written")


class WorkdirContent(NamedTuple):
    """What a workdir holds, in view of a wanted study.

    Attributes:
      manifest: The content of its config.json; None if it holds no study, or one that is to be overwritten.
      changed: The fields in which the study there differs from the wanted one.
    """

    manifest: dict[str, Any] | None = None
    changed: Sequence[Field] = ()


def inspect_workdir(
    workdir: Path, wanted: Mapping[str, Any], overwrite: bool = False, alive: bool | None = None
) -> WorkdirContent:
    """Return what a workdir holds, without writing anything.

    Args:
      workdir: The directory, which need not exist.
      wanted: The content of config.json of the wanted study.
      overwrite: Whether a study in the directory is to be removed.
      alive: Whether other processes compute its runs; None: whether a worker has a file there.

    Raises:
      UserError: If the directory holds something else, or cannot be written.
    """
    check_place(workdir)
    try:
        names = {path.name for path in workdir.iterdir() if not is_part(path)} if workdir.exists() else set()
    except OSError as error:
        raise UserError(f"--workdir={workdir}: {error.strerror or error}") from error
    if link := next((name for name in FOLDERS if (workdir / name).is_symlink()), ""):
        raise UserError(
            f"--workdir={workdir}: {link} is a link, and no file is written through it; remove the link, or choose a "
            "workdir on the other disk"
        )
    if CONFIG not in names:
        ours = _OURS | _MADE if any(run_files(workdir)) else _OURS
        if other := sorted(names - ours):
            raise UserError(
                f"--workdir={workdir}: it holds files of something else ({other[0]}); choose another folder"
            )
        known = {without_rounds(run) for _, _, run in runs_in(wanted)}
        foreign = next((run for run, _ in run_files(workdir) if without_rounds(run) not in known), "")
        if foreign and not overwrite:
            raise UserError(f"--workdir={workdir}: it holds runs of another study ({foreign}); choose another folder")
        return WorkdirContent()
    try:
        held = read_config(workdir)
    except UserError as error:
        if not _is_of_a_study(workdir):
            said = f"--workdir={workdir}: it holds files of something else ({CONFIG}); choose another folder"
            raise UserError(said) from error
        if not overwrite:
            raise
    if overwrite:
        return WorkdirContent()
    alive = any((workdir / WORKERS).glob("*.json")) if alive is None else alive
    begun = None if alive else begun_runs(workdir)
    differs, changed = compare_configs(held, wanted, begun, {run for run, _ in run_files(workdir)})
    if differs:
        if not differs.endswith("has begun"):
            differs = f"it holds another study ({held.get('name')}): {differs}"
        raise UserError(f"--workdir={workdir}: {differs}; choose another folder, or add --overwrite")
    return WorkdirContent(held, changed)


def _is_of_a_study(workdir: Path) -> bool:
    """Tell whether a config.json that cannot be read is that of a study: damaged, or of an earlier version."""
    try:
        content = json.loads((workdir / CONFIG).read_text())
        is_earlier = content.get("schema") == 1 and {"config", "points"} <= content.keys()
    except (OSError, ValueError, AttributeError, RecursionError):
        is_earlier = False
    return is_earlier or any(run_files(workdir))


def clear(workdir: Path) -> None:
    """Remove the files that a study has written to a workdir, and no others. The caller has locked the workdir.

    Raises:
      UserError: If they cannot be removed.
    """
    try:
        listed = read_config(workdir).get("files") or ()
    except UserError:  # damaged, or of another version
        listed = ()
    for path in list(written_files(workdir, [str(name) for name in listed])):
        with writing(path):
            path.unlink(missing_ok=True)
        for folder in path.parents:
            if folder == workdir:
                break
            with contextlib.suppress(OSError):  # it holds other files
                folder.rmdir()


class RunFiles:
    """The files of a study in its workdir: its config.json, and the records and the states of its runs.

    A record is written once, when its run has ended. A state is saved while the run is under way. After the end it is
    kept too if the states of all runs are small enough (``engine.states_mib``): rounds can then be added to the run.

    Args:
      study: The study.
      workdir: The folder.
      log: A function that takes a line for the user about a damaged file.

    Attributes:
      manifest: The content of config.json while the study runs.
      made: What of it says how the runs are made here.
    """

    def __init__(self, study: Study, workdir: Path, log: Callable[[str], None]):
        self.workdir, self.log = workdir, log
        self.made = provenance()
        self._noted = set[Path]()
        self.set_study(study)

    def set_study(self, study: Study) -> None:
        """Take the study, or later the same one with batches of other sizes."""
        self.study, self.manifest = study, manifest_of(study, self.made)
        self._fewer: dict[str, list[int]] | None = None  # the folder is looked at anew

    @cached_property
    def keeps_states(self) -> bool:
        """Whether the last states of all runs are kept."""
        return states.mib(self.study) <= self.study.experiment.engine.states_mib

    def finished(self) -> set[str]:
        """Return the names of all runs in the folder that have a record."""
        return {name for name, _ in run_files(self.workdir)}

    def record(self, run: Run) -> RunRecord:
        """Return the record of a run, which is there.

        Raises:
          UserError: If it cannot be read.
        """
        return RunRecord(run_path(self.workdir, self.study.name(run)))

    def fewer_rounds(self, run: Run) -> list[int]:
        """Return the rounds of the same run with fewer rounds that have a record or a state, in their order."""
        if self._fewer is None:
            self._fewer = {}
            for name in begun_runs(self.workdir):
                self._fewer.setdefault(without_rounds(name), []).append(int(name.rpartition("-r")[2]))
        found = self._fewer.get(without_rounds(self.study.name(run)), ())
        return sorted(rounds for rounds in found if rounds < self.study.experiment.rounds)

    def name_with(self, run: Run, rounds: int) -> str:
        """Return the name of the same run with another number of rounds."""
        return run_name(without_rounds(self.study.name(run)).rpartition("-s")[0], run.seed, rounds)

    def _state(self, name: str) -> dict[str, Any] | None:
        """Return what the file of a state says of it; None if the state is missing or damaged."""
        path = state_path(self.workdir, name)
        try:
            header, _ = array_files.read(path, STATE_FORMAT)
            if header["run"] != name:
                raise ValueError("it is the state of another run")
            return {**header, "evaluations": int(header["evaluations"]), "earlier": str(header["earlier"])}
        except (UserError, KeyError, TypeError, ValueError):
            is_noted = not path.exists() or path in self._noted or run_path(self.workdir, name).is_file()
            if not is_noted:  # a run with a record is counted by `check_more_rounds`
                self.log(f"{path} is damaged; its run begins anew")
                self._noted.add(path)
        return None

    def beginning(self, run: Run) -> Beginning:
        """Find the state from which a run goes on: its own, or that of the same run with fewer rounds.

        A damaged state is one that is not there.
        """
        name = self.study.name(run)
        own = self._state(name)
        if own and not own["ended"]:  # otherwise it has the last evaluation alone, and its record is gone
            return Beginning(own["evaluations"], name, own["earlier"])
        for rounds in reversed(self.fewer_rounds(run)):
            fewer = self.name_with(run, rounds)
            state = self._state(fewer)
            if state is None:
                continue
            if state["ended"] and run_path(self.workdir, fewer).is_file():
                return Beginning(rounds // self.study.experiment.eval_every, fewer, fewer)
            if not state["ended"] and not self.study.experiment.save.startswith("every"):  # models have the run's name
                return Beginning(state["evaluations"], fewer, state["earlier"])
        return Beginning()

    def check_more_rounds(self, missing: Iterable[Run]) -> dict[int, int]:
        """Check the runs that are there with fewer rounds, to which rounds are to be added.

        Args:
          missing: The runs that have no record.

        Returns:
          How many runs go on from a state of fewer rounds, by the round of this state.

        Raises:
          UserError: If anything depends on the number of rounds in all, so that the first rounds would be others in a
            study of more rounds; if a record to which rounds are added is damaged.
        """
        study = self.study
        group_of = {p: group for group in study.groups for p in group.points}
        checked = set()
        found: dict[int, int] = {}
        anew = 0
        for run in {study.name(run): run for run in missing}.values():
            beginning, fewer = self.beginning(run), self.fewer_rounds(run)
            lost = [rounds for rounds in fewer if run_path(self.workdir, self.name_with(run, rounds)).is_file()]
            if beginning.state == study.name(run):  # an unfinished run may begin anew
                continue
            if not beginning.state:
                anew += bool(lost)
                continue
            group, point = group_of[run.point], study.points[run.point].id
            words = f"--workdir={self.workdir}: rounds is {fewer[-1]} there and {study.experiment.rounds} here"
            asked = id(group), fewer[-1]
            if asked not in checked and not states.is_independent(study, group, fewer[-1]):
                raise UserError(
                    f"{words}, and rounds cannot be added, since the first ones of point {point!r} depend on the "
                    "number of rounds in all, as with a cosine step size, with road-side units, with a trace, with "
                    "eval_clients or eval_samples, or if neighbour lists must be longer for the further rounds"
                )
            checked.add(asked)
            if beginning.earlier:
                RunRecord(run_path(self.workdir, beginning.earlier)).measured()  # what is damaged is told now
            at_round = beginning.evaluations * study.experiment.eval_every
            found[at_round] = found.get(at_round, 0) + 1
        if anew:
            self.log(f"{anew} of the runs in {self.workdir} begin anew: their last states are missing or damaged")
        return found

    def finish(
        self, batch: RunBatch, result: BatchResult, state: Callable[[], Arrays], beginnings: Sequence[Beginning]
    ) -> None:
        """Write the records of a batch that has ended, and its last states if they are kept.

        Args:
          batch: The batch.
          result: Its result.
          state: A function that returns the arrays from which it could go on.
          beginnings: Where its runs began here.

        Raises:
          DiskError: If a file cannot be written.
        """
        lines = evaluation_lines(self.study, batch, result.metrics, result.facts)
        for i, (run, beginning) in enumerate(zip(batch.runs, beginnings)):
            metrics, facts = jax.tree.map(lambda leaf, i=i: leaf[i], (result.metrics, result.facts))
            seconds = (0.0 if i else result.compile_seconds, result.run_seconds / len(batch.runs))
            measured = from_devices(run.seed, metrics, facts, lines[i], *seconds)
            if beginning.earlier:
                before = RunRecord(run_path(self.workdir, beginning.earlier)).measured()
                measured = joined(before, measured, result.metrics.declared)
            path = run_path(self.workdir, self.study.name(run))
            write_record(path, measured, self._header(batch.group, run, beginning))
        if self.keeps_states:
            arrays = state()
            for name, values in result.metrics.items():
                arrays[name] = values[:, -1:]
            # Of a batch whose runs have all stopped, the host has counted the further rounds.
            arrays[ROUND] = result.metrics.round[:, -1].astype(arrays[ROUND].dtype)
            evaluations = batch.group.simulation.num_evaluations
            states.save(self.study, self.workdir, batch, arrays, evaluations, beginnings)
        for run, beginning in zip(batch.runs, beginnings):
            own = self.study.name(run)
            for name in {beginning.state or own, own} - ({own} if self.keeps_states else set()):
                state_path(self.workdir, name).unlink(missing_ok=True)

    def tidy(self) -> None:
        """Remove what killed processes have left: incomplete files, and states of finished runs if none are kept.

        The caller has locked the workdir, and no other worker is there.
        """
        for folder in ("", RUNS, MODEL_FOLDER, TABLES, FIGURES):
            disk.remove_parts(self.workdir / folder)
        ended = {self.study.name(run) for run in self.study.runs} & self.finished()
        for name in ended if ended and not self.keeps_states else ():
            state_path(self.workdir, name).unlink(missing_ok=True)

    def _header(self, group: Group, run: Run, beginning: Beginning) -> dict[str, Any]:
        """Return what the record of a run says of it beside what it has measured."""
        experiment, earlier = self.study.points[run.point].experiment, beginning.earlier
        before = RunRecord(run_path(self.workdir, earlier)).header["goes_on_from"] if earlier else []
        return {
            "config": run_config(experiment),
            "other": other_config(experiment),
            "metrics": [metric.described._asdict() for metric in group.simulation.metrics if metric not in BUILT_IN],
            "accuracy_is": accuracy_is(self.study, [group]),
            "goes_on_from": [earlier, *before] if earlier else [],
            "made": self.made,
        }
