"""Whether rounds may be added to runs: whether the first rounds are the same in a study with more of them."""

import dataclasses
from collections.abc import Iterable
from functools import partial
from typing import Any

import jax
import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.types import Hparams
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.storage.study_files import run_path
from mdfl_jax.study.prepare.simulation import build_simulation, hparams_of, with_links
from mdfl_jax.study.prepare.traces import TraceFiles
from mdfl_jax.study.run_files import RunFiles
from mdfl_jax.study.study import Group, Run, Study


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
