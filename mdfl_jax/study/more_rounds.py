"""Further rounds of finished runs: whether they may be added, and the unfinished study from which they are run."""

import dataclasses
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.types import Hparams
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.storage import disk
from mdfl_jax.storage.checkpoint import Checkpoints
from mdfl_jax.storage.checksums import Arrays
from mdfl_jax.storage.disk import write_json
from mdfl_jax.storage.study_files import CHECKPOINTS
from mdfl_jax.study import states
from mdfl_jax.study.batch import batches_of
from mdfl_jax.study.manifest import manifest_of
from mdfl_jax.study.prepare.simulation import build_simulation, hparams_of, with_links
from mdfl_jax.study.prepare.traces import TraceFiles
from mdfl_jax.study.study import Group, Study


def _text(simulation: Simulation, hparams: Any) -> str:
    """Return the programs of a simulation as text. Equal texts are equal programs, with the same constants."""
    key = jax.random.key(0)
    first = jax.jit(simulation.init).lower(simulation.data, hparams, key)
    carry, _ = jax.eval_shape(simulation.init, simulation.data, hparams, key)
    return first.as_text() + jax.jit(simulation.advance).lower(simulation.data, hparams, key, carry).as_text()


def _is_independent(study: Study, group: Group, rounds: int) -> bool:
    """Tell whether the programs and the numbers of a group are the same for a study of so many rounds."""
    members = [dataclasses.replace(study.points[p].experiment, rounds=rounds) for p in group.points]
    tree, files = group.pretrained.tree if group.pretrained else None, TraceFiles()
    make = partial(build_simulation, members[0], group.dataset, group.rules, group.simulation.mesh, tree)

    def numbers_of(simulation: Simulation) -> list[Hparams]:
        return [hparams_of(m, group.rules, files.params(m, group.rules), simulation.link_load) for m in members]

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


def _check(study: Study, workdir: Path, names: Sequence[str], rounds: int) -> None:
    """Check that the runs of a study in a workdir can go on.

    Args:
      study, workdir, rounds: As in `prepare`.
      names: The names of the states' files, as `states.names` returns them.

    Raises:
      UserError: If a last state is not there, or if anything depends on the number of rounds in all, so that the first
        rounds would be others in a study of more rounds.
    """
    words = f"rounds is {rounds} there and {study.experiment.rounds} here"
    if absent := states.missing(workdir, names, study.to_do(), rounds):
        point, seed = study.points[absent[0].point].id, absent[0].seed
        raise UserError(
            f"--workdir={workdir}: {words}, and the last state of point {point!r}, seed {seed}, was not kept "
            "(engine.states_mib); rounds cannot be added"
        )
    for group in study.groups:
        if study.to_do(group) and not _is_independent(study, group, rounds):
            raise UserError(
                f"--workdir={workdir}: {words}, and rounds cannot be added, since the first ones of point "
                f"{study.points[group.points[0]].id!r} depend on the number of rounds in all, as with a cosine step "
                "size, with road-side units, with a trace, with eval_clients or eval_samples, or if neighbour lists "
                "must be longer for the further rounds"
            )


def prepare(study: Study, workdir: Path, folder: Path, rounds: int) -> None:
    """Check that runs can go on, and makes the folder of an unfinished study whose batches wait for further rounds.

    Args:
      study: The study with more rounds, of which the runs that go on are to be done.
      workdir: The folder with their last states.
      folder: The folder to make. It appears when it is complete.
      rounds: The rounds that the runs have done.

    Raises:
      UserError: If a last state is not there, cannot be read or does not fit the program, or if anything depends on the
        number of rounds in all.
    """
    names = states.names(study)
    _check(study, workdir, names, rounds)
    making = folder.with_name(folder.name + ".tmp")
    shutil.rmtree(making, ignore_errors=True)
    disk.attempt(making, partial(making.mkdir, parents=True))
    checkpoints = Checkpoints(making / CHECKPOINTS)
    done = rounds // study.experiment.eval_every
    waiting: dict[int, tuple[int, Arrays | None]] = {}
    for batch in batches_of(study):
        arrays = states.read_batch(workdir, study, names, batch, rounds)
        checkpoints.save({}, waiting | {batch.number: (done, arrays)}, begun=done)
        waiting[batch.number] = (done, None)
    write_json(making / "config.json", manifest_of(study, {}))  # how it is made is written when it is run
    making.replace(folder)
