"""The files of a study's runs: the record of each finished run, and the state from which a run can go on.

A record is written once, when its run has ended. A state is saved while the run is under way. After the end it is kept
too if the states of all runs are small enough (``engine.states_mib``): rounds can then be added to the run. Each file
is of one run, so nothing that is saved knows which runs were on the devices together, or which devices these were.

Rounds may be added to a run if its first rounds are the same in a study with more of them (`check_more_rounds`).
"""

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import jax
import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.metric import Metric
from mdfl_jax.core.types import Hparams, RunFacts
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.metrics import BUILT_IN
from mdfl_jax.metrics.history import Metrics
from mdfl_jax.mobility.registry import movement_of
from mdfl_jax.results.records import RunRecord, from_devices, joined, write_record
from mdfl_jax.storage import array_files, disk
from mdfl_jax.storage.array_files import Arrays
from mdfl_jax.storage.study_files import (
    MODELS,
    RUNS,
    STATE_SUFFIX,
    run_files,
    run_name,
    run_path,
    state_path,
)
from mdfl_jax.study.events import lines_of
from mdfl_jax.study.identity import other_config, run_config, without_rounds
from mdfl_jax.study.prepare.network import TraceFiles
from mdfl_jax.study.study import Batch, Group, Run, Study, build_simulation, hparams_of, with_links
from mdfl_jax.tasks.losses import LOSSES, loss_named

FORMAT = "state 2"
MIB = 2**20
SECONDS = "wall/seconds"  # the saved seconds [2] of compiling and of running; no metric's name has a slash
_LEAF = "carry/"
_ROUND = "carry/0000"  # the round is the first field of a state (`mdfl_jax.engine.simulation.Carry`)
_RULE = ".rules["  # in the names of leaves: those of a mobility rule


class BatchResult(NamedTuple):
    """The result of a batch: metrics, NumPy leaves [runs, E, ...]; facts, leaves [runs, ...]; the seconds it took."""

    metrics: Metrics
    facts: RunFacts
    compile_seconds: float
    run_seconds: float


def to_arrays(result: BatchResult) -> Arrays:
    """Convert a result to named arrays [runs, ...]; 'wall/seconds' is [2]."""
    seconds = np.array([result.compile_seconds, result.run_seconds])
    return {**result.metrics, **result.facts._asdict(), SECONDS: seconds}


def from_arrays(arrays: Arrays, declared: tuple[Metric, ...]) -> BatchResult:
    """Make a result from the arrays of `to_arrays`, for the metrics of the study.

    Raises:
      UserError: If a metric is missing, since another version of a program saved the arrays.
    """
    if missing := [metric.name for metric in declared if metric.name not in arrays]:
        raise UserError(f"the saved state knows no metric {missing[0]!r}; --overwrite starts the study anew")
    values = {"round": arrays["round"], **{metric.name: arrays[metric.name] for metric in declared}}
    facts = RunFacts(**{name: arrays[name] for name in RunFacts._fields})
    return BatchResult(Metrics(declared, values), facts, *(float(s) for s in arrays[SECONDS]))


_SHAPES: WeakKeyDictionary[Simulation, Any] = WeakKeyDictionary()


def _shapes_of_state(group: Group) -> Any:
    """Return the shapes of a run's state, without the data of the clients, which are drawn again."""
    simulation = group.simulation
    if simulation not in _SHAPES:  # it is traced, which takes a second for a large model
        carry = jax.eval_shape(simulation.first, simulation.data, group.hparams[0], jax.random.key(0))
        _SHAPES[simulation] = jax.eval_shape(simulation.kept, carry)
    return _SHAPES[simulation]


def _with_unknown(group: Group, found: Arrays, eval_every: int) -> Arrays:
    """Return the arrays of a state with the metrics of the program that the run does not have, which are NaN.

    These are the records of mobility rules other than the run's own one, which its program did not have before.

    Args:
      group: The group in whose program the run goes on.
      found: The arrays of the state.
      eval_every: The rounds from one evaluation to the next.
    """
    simulation, added = group.simulation, {}
    absent = [metric for metric in simulation.metrics if metric.optional and metric.name not in found]
    if absent:
        _, first = jax.eval_shape(simulation.init, simulation.data, group.hparams[0], jax.random.key(0))
        evaluations = len(found["round"])
        for metric in absent:
            like = first[metric.name]
            shape = (evaluations, *like.shape)
            if metric.by_round:
                begin = like.shape[0] if found["round"][0] == 0 else 1
                shape = (begin + (evaluations - 1) * eval_every, *like.shape[1:])
            added[metric.name] = np.full(shape, np.nan, like.dtype)
    return found | added


def states_mib(study: Study) -> float:
    """Return about how many MiB the last states of all runs of a study take, whichever of them are to be done."""
    sizes = [
        len(group.points) * sum(math.prod(x.shape) * x.dtype.itemsize for x in jax.tree.leaves(_shapes_of_state(group)))
        for group in study.groups
    ]
    return len(study.seeds) * sum(sizes) / MIB


def notes(study: Study) -> list[str]:
    """Return a line for the plan if the last states are not kept, so that rounds cannot be added later."""
    size, most = states_mib(study), study.experiment.engine.states_mib
    if size <= most:
        return []
    return [f"  last states take {size:,.1f} MiB, and engine.states_mib is {most}: no rounds can be added later"]


def leaf_names(group: Group) -> dict[str, jax.ShapeDtypeStruct]:
    """Return the shapes and types of the leaves of a run's state by their name, in their order.

    A name is the path of the leaf, in which the mobility rules of the program have their names in place of an index. So
    a state can go on in a program with further rules: only the state of a run's own rule ever changes.
    """
    leaves = jax.tree_util.tree_leaves_with_path(_shapes_of_state(group))
    by_rule = lambda found: f".rules[{group.rules[int(found[1])]}]"  # noqa: E731
    return {re.sub(r"\.rules\[(\d+)\]", by_rule, jax.tree_util.keystr(path)): leaf for path, leaf in leaves}


class Beginning(NamedTuple):
    """Where a run goes on.

    Attributes:
      evaluations: The number of evaluations that it has made, without the one before the first round.
      state: The name of the run whose state it takes: its own, or that of the same run with fewer rounds; "": none.
      earlier: The name of the run with fewer rounds whose record has the evaluations before those of the state; "":
        the state has all.
    """

    evaluations: int = 0
    state: str = ""
    earlier: str = ""


class RunFiles:
    """The files of the runs of a study in a workdir.

    Args:
      study: The study.
      workdir: The folder.
      made: How the runs are made here (`mdfl_jax.storage.provenance`).
      log: A function that takes a line for the user about a damaged file.
    """

    def __init__(self, study: Study, workdir: Path, made: Mapping[str, Any], log: Callable[[str], None]):
        self.study, self.workdir, self.made, self.log = study, workdir, dict(made), log
        self.keeps_states = states_mib(study) <= study.experiment.engine.states_mib
        self._leaves: dict[int, dict[str, jax.ShapeDtypeStruct]] = {}
        self._fewer: dict[str, list[int]] | None = None

    def finished(self) -> set[str]:
        """Return the names of all runs in the folder that have a record."""
        return {name for name, _ in run_files(self.workdir)}

    def record(self, run: Run) -> RunRecord:
        """Return the record of a run, which is there.

        Raises:
          UserError: If it cannot be read.
        """
        try:
            return RunRecord(run_path(self.workdir, self.study.name(run)))
        except UserError as error:
            raise UserError(f"{error}; remove the file, and the same command runs it again") from error.__cause__

    def fewer_rounds(self, run: Run) -> list[int]:
        """Return the rounds of the same run with fewer rounds that have a record or a state, in their order."""
        if self._fewer is None:
            self._fewer = {}
            for path in sorted((self.workdir / RUNS).glob("*-r*")):
                base, _, rounds = path.name.removesuffix(STATE_SUFFIX).removesuffix(array_files.SUFFIX).rpartition("-r")
                if rounds.isdecimal():
                    self._fewer.setdefault(base, []).append(int(rounds))
        found = self._fewer.get(without_rounds(self.study.name(run)), ())
        return sorted({rounds for rounds in found if rounds < self.study.experiment.rounds})

    def name_with(self, run: Run, rounds: int) -> str:
        """Return the name of the same run with another number of rounds."""
        return run_name(without_rounds(self.study.name(run)).rpartition("-s")[0], run.seed, rounds)

    def beginning(self, run: Run) -> Beginning:
        """Find the state from which a run goes on: its own, or that of the same run with fewer rounds."""
        name = self.study.name(run)
        own = state_path(self.workdir, name)
        if own.is_file():
            try:
                header, _ = array_files.read(own, FORMAT, only=())
                if not header["ended"]:  # otherwise it has the last evaluation alone, and its record is gone
                    return Beginning(int(header["evaluations"]), name, str(header["earlier"]))
            except (UserError, KeyError, TypeError, ValueError):
                self.log(f"{own} is damaged; its run begins anew")
                own.unlink(missing_ok=True)
        for rounds in reversed(self.fewer_rounds(run)):
            fewer = self.name_with(run, rounds)
            if not state_path(self.workdir, fewer).is_file():
                continue
            header, _ = array_files.read(state_path(self.workdir, fewer), FORMAT, only=())
            if header["ended"] and run_path(self.workdir, fewer).is_file():
                return Beginning(rounds // self.study.experiment.eval_every, fewer, fewer)
            if not header["ended"] and not self.study.experiment.save.startswith("every"):  # models have the run's name
                return Beginning(int(header["evaluations"]), fewer, str(header["earlier"]))
        return Beginning()

    def read_states(self, batch: Batch, beginnings: Sequence[Beginning]) -> Arrays | None:
        """Read the states of runs as the arrays from which their batch goes on; None if they begin anew.

        Args:
          batch: The runs, which have all made the same number of evaluations. Their program may have mobility rules
            that an earlier one did not have.
          beginnings: Where each of them goes on.

        Raises:
          UserError: If a file is damaged, or if a state does not fit the program.
        """
        if not beginnings[0].state:
            return None
        each, leaves = [], self._leaves_of(batch.group)
        for run, beginning in zip(batch.runs, beginnings):
            path = state_path(self.workdir, beginning.state)
            header, found = array_files.read(path, FORMAT)
            if header["run"] != beginning.state:
                raise UserError(f"{path}: it is the state of the run {header['run']!r}")
            own_rule = str(movement_of(self.study.points[run.point].experiment))
            if wrong := _misfit(found, leaves, own_rule):
                raise UserError(f"{path}: the state does not fit the program ({wrong}): another version has saved it")
            each.append(_with_unknown(batch.group, found, self.study.experiment.eval_every))
        shared = [name for name in each[0] if not name.startswith(_LEAF) and all(name in of_run for of_run in each)]
        arrays = {name: np.stack([of_run[name] for of_run in each]) for name in shared}
        for i, (name, leaf) in enumerate(leaves.items()):
            rows = [of_run.get(_LEAF + name) for of_run in each]
            arrays[f"{_LEAF}{i:04d}"] = np.stack(
                [np.zeros(leaf.shape, leaf.dtype) if row is None else row for row in rows]
            )
            arrays[f"start/{i:04d}"] = np.array([row is None for row in rows])
        arrays[SECONDS] = arrays[SECONDS].sum(axis=0)
        if beginnings[0].state == beginnings[0].earlier:  # the record has the seconds until then
            arrays[SECONDS] = np.zeros(2)
        return arrays

    def save_states(
        self, batch: Batch, arrays: Arrays, evaluations: int, beginnings: Sequence[Beginning], ended: bool = False
    ) -> None:
        """Save the state of each run of a batch.

        Args:
          batch: The batch.
          arrays: Its state, from which it can go on.
          evaluations: The number of evaluations that it has made.
          beginnings: Where its runs began here.
          ended: Whether the runs have ended.

        Raises:
          DiskError: If a file cannot be written.
        """
        named = {key: values for key, values in arrays.items() if key != SECONDS}
        for i, name in enumerate(self._leaves_of(batch.group)):
            named[_LEAF + name] = named.pop(f"{_LEAF}{i:04d}")
        compiling, running = arrays[SECONDS]
        for i, (run, beginning) in enumerate(zip(batch.runs, beginnings)):
            name = self.study.name(run)
            seconds = np.array([0.0 if i else compiling, running / len(batch.runs)])
            header = {"run": name, "evaluations": evaluations, "earlier": beginning.earlier, "ended": ended}
            values = {key: of_batch[i] for key, of_batch in named.items()} | {SECONDS: seconds}
            array_files.write(state_path(self.workdir, name), FORMAT, header, values, compress=False)

    def finish(
        self, batch: Batch, result: BatchResult, state: Callable[[], Arrays], beginnings: Sequence[Beginning]
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
        lines = lines_of(self.study, batch, result.metrics, result.facts)
        for i, (run, beginning) in enumerate(zip(batch.runs, beginnings)):
            metrics, facts = jax.tree.map(lambda leaf, i=i: leaf[i], (result.metrics, result.facts))
            seconds = (0.0 if i else result.compile_seconds, result.run_seconds / len(batch.runs))
            measured = from_devices(run.seed, metrics, facts, lines[i], *seconds)
            if beginning.earlier:
                measured = joined(RunRecord(run_path(self.workdir, beginning.earlier)).measured(), measured)
            path = run_path(self.workdir, self.study.name(run))
            write_record(path, measured, self._header(batch.group, run, beginning))
        if self.keeps_states:
            arrays = state()
            for name, values in result.metrics.items():
                arrays[name] = values[:, -1:]
            # Of a batch whose runs have all stopped, the host has counted the further rounds.
            arrays[_ROUND] = result.metrics.round[:, -1].astype(arrays[_ROUND].dtype)
            self.save_states(batch, arrays, batch.group.simulation.num_evaluations, beginnings, ended=True)
        for run, beginning in zip(batch.runs, beginnings):
            own = self.study.name(run)
            for name in {beginning.state or own, own} - ({own} if self.keeps_states else set()):
                state_path(self.workdir, name).unlink(missing_ok=True)

    def tidy(self) -> None:
        """Remove what killed processes have left: incomplete files, and states of finished runs if none are kept.

        The caller has locked the workdir, and no other worker is there.
        """
        for folder in ("", RUNS, MODELS, "tables", "figures"):
            disk.remove_parts(self.workdir / folder)
        if not self.keeps_states:
            for name in {self.study.name(run) for run in self.study.to_do()} & self.finished():
                state_path(self.workdir, name).unlink(missing_ok=True)

    def _leaves_of(self, group: Group) -> dict[str, jax.ShapeDtypeStruct]:
        if id(group.simulation) not in self._leaves:
            self._leaves[id(group.simulation)] = leaf_names(group)
        return self._leaves[id(group.simulation)]

    def _earlier_names(self, run: str) -> list[str]:
        """Return the names of a run and of those with fewer rounds that it went on from; [] for no run."""
        return [run, *RunRecord(run_path(self.workdir, run)).header["goes_on_from"]] if run else []

    def _header(self, group: Group, run: Run, beginning: Beginning) -> dict[str, Any]:
        own = [metric.described._asdict() for metric in group.simulation.metrics if metric not in BUILT_IN]
        return {
            "config": run_config(self.study.points[run.point].experiment),
            "other": other_config(self.study.points[run.point].experiment),
            "metrics": own,
            "accuracy_is": accuracy_is(self.study, [group]),
            "goes_on_from": self._earlier_names(beginning.earlier),
            "made": self.made,
        }


def accuracy_is(study: Study, groups: Iterable[Group]) -> str:
    """Return what is called accuracy in some programs, if it is not the share of labels that are right; else ""."""
    found = []
    for group in groups:
        if group.dataset is not None:
            asked = study.points[group.points[0]].experiment.model.loss
            found.append(LOSSES[loss_named(asked, group.dataset.targets)].accuracy_is)
    return "; ".join(filter(None, dict.fromkeys(found)))


def _misfit(found: Arrays, leaves: Mapping[str, jax.ShapeDtypeStruct], own_rule: str) -> str:
    """Name the first leaf of a state that does not fit a program, or return '' if all fit.

    Only the leaves of mobility rules other than the run's own one may be in the program or in the state alone.
    """
    stored = {name.removeprefix(_LEAF): leaf for name, leaf in found.items() if name.startswith(_LEAF)}
    for name in dict.fromkeys([*leaves, *stored]):
        here, there = leaves.get(name), stored.get(name)
        if here is None or there is None:
            if _RULE not in name or f"{_RULE}{own_rule}]" in name:
                return name
        elif (here.shape, here.dtype) != (there.shape, there.dtype):
            return name
    return ""


def _text(simulation: Simulation, hparams: Any) -> str:
    """Return the programs of a simulation as text. Equal texts are equal programs, with the same constants."""
    key = jax.random.key(0)
    first = jax.jit(simulation.init).lower(simulation.data, hparams, key)
    carry, _ = jax.eval_shape(simulation.init, simulation.data, hparams, key)
    return first.as_text() + jax.jit(simulation.advance).lower(simulation.data, hparams, key, carry).as_text()


def is_independent(study: Study, group: Group, rounds: int) -> bool:
    """Tell whether the programs and the numbers of a group are the same for a study of so many rounds."""
    members = [dataclasses.replace(study.points[p].experiment, rounds=rounds) for p in group.points]
    tree, files = group.pretrained.tree if group.pretrained else None, TraceFiles()
    make = partial(build_simulation, members[0], group.dataset, group.rules, group.simulation.mesh, tree)

    def numbers_of(simulation: Simulation) -> list[Hparams]:
        traces = files.of_points(members, group.rules)
        return [hparams_of(m, group.rules, trace, simulation.link_load) for m, trace in zip(members, traces)]

    try:
        simulation = with_links(make, members, numbers_of, study.seeds)  # lists of another length: another program
        numbers = numbers_of(simulation)
    except UserError:
        return False
    for mine, other in zip(group.hparams, numbers):
        here, there = (jax.tree.flatten(tree) for tree in (mine, other))
        equal = (np.array_equal(x, y, equal_nan=True) for x, y in zip(here[0], there[0]))
        if str(here[1]) != str(there[1]) or not all(equal):
            return False
    return _text(simulation, numbers[0]) == _text(group.simulation, group.hparams[0])


def check_more_rounds(study: Study, files: RunFiles, missing: Iterable[Run]) -> dict[int, int]:
    """Check the runs that are there with fewer rounds, to which rounds are to be added.

    Args:
      study: The study.
      files: The files of its runs.
      missing: The runs that have no record.

    Returns:
      How many runs go on from a state of fewer rounds, by the round of this state.

    Raises:
      UserError: If the last state of a run was not kept, or if anything depends on the number of rounds in all, so that
        the first rounds would be others in a study of more rounds.
    """
    group_of = {p: group for group in study.groups for p in group.points}
    checked = set()
    found: dict[int, int] = {}
    for run in {study.name(run): run for run in missing}.values():
        beginning, fewer = files.beginning(run), files.fewer_rounds(run)
        lost = [rounds for rounds in fewer if run_path(files.workdir, files.name_with(run, rounds)).is_file()]
        if not (lost or beginning.state) or beginning.state == study.name(run):  # an unfinished run may begin anew
            continue
        group, point = group_of[run.point], study.points[run.point].id
        words = f"--workdir={files.workdir}: rounds is {fewer[-1]} there and {study.experiment.rounds} here"
        if not beginning.state:
            raise UserError(
                f"{words}, and the last state of point {point!r}, seed {run.seed}, was not kept (engine.states_mib); "
                "rounds cannot be added"
            )
        asked = id(group), fewer[-1]
        if asked not in checked and not is_independent(study, group, fewer[-1]):
            raise UserError(
                f"{words}, and rounds cannot be added, since the first ones of point {point!r} depend on the number of "
                "rounds in all, as with a cosine step size, with road-side units, with a trace, with eval_clients or "
                "eval_samples, or if neighbour lists must be longer for the further rounds"
            )
        checked.add(asked)
        at_round = beginning.evaluations * study.experiment.eval_every
        found[at_round] = found.get(at_round, 0) + 1
    return found
