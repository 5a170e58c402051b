"""The states of runs, from which they can go on: what a file of one holds, and how a batch goes on from several.

Each file is of one run, so nothing that is saved knows which runs were on the devices together, or which devices these
were. Rounds may be added to a run if its first rounds are the same in a study with more of them (`is_independent`).
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import jax
import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.metric import Metric
from mdfl_jax.core.types import RunFacts
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.metrics.history import Metrics
from mdfl_jax.mobility.registry import movement_of
from mdfl_jax.storage import array_files
from mdfl_jax.storage.array_files import Arrays
from mdfl_jax.storage.study_files import state_path
from mdfl_jax.study.prepare.network import TraceFiles
from mdfl_jax.study.prepare.task import build_task
from mdfl_jax.study.study import Group, RunBatch, Study, build_simulation, hparams_of_points, with_links

STATE_FORMAT = "state 2"
_MIB = 2**20
SECONDS = "wall/seconds"  # the saved seconds [2] of compiling and of running; no metric's name has a slash
_LEAF = "carry/"
ROUND = "carry/0000"  # the round is the first field of a state (`mdfl_jax.engine.simulation.Carry`)
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


_LEAVES: WeakKeyDictionary[Simulation, dict[str, jax.ShapeDtypeStruct]] = WeakKeyDictionary()


def leaves_of(group: Group) -> dict[str, jax.ShapeDtypeStruct]:
    """Return the shapes and types of the leaves of a run's state by their name, in their order.

    It lacks the data of the clients, which are drawn again. A name is the path of the leaf, in which the mobility rules
    of the program have their names in place of an index. So a state can go on in a program with further rules: only the
    state of a run's own rule ever changes.
    """
    if group.simulation not in _LEAVES:  # its carry is traced, which takes a second for a large model
        leaves = jax.tree_util.tree_leaves_with_path(group.carry._replace(clients=None))
        by_rule = lambda found: f".rules[{group.rules[int(found[1])]}]"  # noqa: E731
        names = (re.sub(r"\.rules\[(\d+)\]", by_rule, jax.tree_util.keystr(path)) for path, _ in leaves)
        _LEAVES[group.simulation] = {name: leaf for name, (_, leaf) in zip(names, leaves)}
    return _LEAVES[group.simulation]


def mib(study: Study) -> float:
    """Return about how many MiB the last states of all runs of a study take, whichever of them are to be done."""
    sizes = (len(of.points) * x.size * x.dtype.itemsize for of in study.groups for x in leaves_of(of).values())
    return len(study.seeds) * sum(sizes) / _MIB


def notes(study: Study) -> list[str]:
    """Return a line for the plan if the last states are not kept, so that with more rounds the runs begin anew."""
    size, most = mib(study), study.experiment.engine.states_mib
    if size <= most:
        return []
    return [f"  last states take {size:,.1f} MiB, and engine.states_mib is {most}: with more rounds, runs begin anew"]


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


def read(study: Study, workdir: Path, batch: RunBatch, beginnings: Sequence[Beginning]) -> Arrays:
    """Read the states of runs as the arrays from which their batch goes on.

    Args:
      study, workdir: The study and its folder.
      batch: The runs, which have all made the same number of evaluations. Their program may have mobility rules that an
        earlier one did not have.
      beginnings: Where each of them goes on.

    Raises:
      UserError: If a file is damaged, or if a state does not fit the program.
    """
    each, leaves = [], leaves_of(batch.group)
    for run, beginning in zip(batch.runs, beginnings):
        path = state_path(workdir, beginning.state)
        header, found = array_files.read(path, STATE_FORMAT)
        if header["run"] != beginning.state:
            raise UserError(f"{path}: it is the state of the run {header['run']!r}")
        own_rule = str(movement_of(study.points[run.point].experiment))
        if wrong := _misfit(found, leaves, own_rule):
            raise UserError(f"{path}: the state does not fit the program ({wrong}): another version has saved it")
        each.append(_with_unknown(batch.group, found, study.experiment.eval_every))
    shared = [name for name in each[0] if not name.startswith(_LEAF) and all(name in of_run for of_run in each)]
    arrays = {name: np.stack([of_run[name] for of_run in each]) for name in shared}
    for i, (name, leaf) in enumerate(leaves.items()):
        rows = [of_run.get(_LEAF + name) for of_run in each]
        arrays[f"{_LEAF}{i:04d}"] = np.stack([np.zeros(leaf.shape, leaf.dtype) if row is None else row for row in rows])
        arrays[f"start/{i:04d}"] = np.array([row is None for row in rows])
    arrays[SECONDS] = arrays[SECONDS].sum(axis=0)
    if beginnings[0].state == beginnings[0].earlier:  # the record has the seconds until then
        arrays[SECONDS] = np.zeros(2)
    return arrays


def _with_unknown(group: Group, found: Arrays, eval_every: int) -> Arrays:
    """Return the arrays of a state with the metrics of the program that the run does not have, which are NaN.

    These are the records of mobility rules other than the run's own one, which its program did not have before.
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


def save(
    study: Study, workdir: Path, batch: RunBatch, arrays: Arrays, evaluations: int, beginnings: Sequence[Beginning]
) -> None:
    """Save the state of each run of a batch.

    Args:
      study, workdir: The study and its folder.
      batch: The batch.
      arrays: Its state, from which it can go on.
      evaluations: The number of evaluations that it has made, without the one before the first round.
      beginnings: Where its runs began here.

    Raises:
      DiskError: If a file cannot be written.
    """
    named = {key: values for key, values in arrays.items() if key != SECONDS}
    for i, name in enumerate(leaves_of(batch.group)):
        named[_LEAF + name] = named.pop(f"{_LEAF}{i:04d}")
    compiling, running = arrays[SECONDS]
    ended = evaluations == batch.group.simulation.num_evaluations
    for i, (run, beginning) in enumerate(zip(batch.runs, beginnings)):
        name = study.name(run)
        seconds = np.array([0.0 if i else compiling, running / len(batch.runs)])
        header = {"run": name, "evaluations": evaluations, "earlier": beginning.earlier, "ended": ended}
        values = {key: of_batch[i] for key, of_batch in named.items()} | {SECONDS: seconds}
        array_files.write(state_path(workdir, name), STATE_FORMAT, header, values, compress=False)


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
    of_members = partial(hparams_of_points, members, group.rules, files)
    try:
        task = build_task(members[0], group.dataset, group.simulation.mesh, tree)
        make = partial(build_simulation, members[0], task, group.rules)
        simulation = with_links(make, members, of_members, study.seeds)  # lists of another length: another program
        numbers = of_members(simulation)
    except UserError:
        return False
    for mine, other in zip(group.hparams, numbers):
        here, there = (jax.tree.flatten(tree) for tree in (mine, other))
        equal = (np.array_equal(x, y, equal_nan=True) for x, y in zip(here[0], there[0]))
        if str(here[1]) != str(there[1]) or not all(equal):
            return False
    return _text(simulation, numbers[0]) == _text(group.simulation, group.hparams[0])
