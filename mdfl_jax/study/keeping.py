"""The models that a study keeps (the field `save`): which they are, and how they come from the devices to files.

The compiled programs know nothing of checkpoints: the state of the algorithms is copied to the host, and the models are
taken from it there.
"""

import contextlib
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.metrics.history import Metrics
from mdfl_jax.results.lines import accuracy_of
from mdfl_jax.storage.array_files import Arrays
from mdfl_jax.storage.model_files import CLIENTS, GLOBAL, Header, named, write
from mdfl_jax.storage.study_files import model_path
from mdfl_jax.study.study import Run, Study


class Kept(NamedTuple):
    """The models of one run after one round, which must be written to a file.

    Attributes:
      run: The index of the run in its batch.
      round: The rounds that the run has done.
      accuracy: The accuracy of the run at this evaluation (`accuracy_of`).
      tensors: The arrays by their names in the file (`mdfl_jax.storage.model_files`).
    """

    run: int
    round: int
    accuracy: float
    tensors: Arrays


def tensors_of(simulation: Simulation, carry: Any) -> Arrays:
    """Return the tensors of a file: the models of the N clients and the global model, if there is one.

    Args:
      simulation: The simulation.
      carry: The state of one run, with NumPy leaves in its field ``algorithm``.
    """
    try:
        on_host: Any = jax.default_device(jax.devices("cpu")[0])
    except RuntimeError:  # JAX was told to know no CPU
        on_host = contextlib.nullcontext()
    with on_host:
        clients, own = simulation.models(carry)
    found = named(clients, CLIENTS)
    if own is not None:
        found |= named(jax.tree.map(lambda x: x[0], own), GLOBAL)
    return {name: np.asarray(leaf) for name, leaf in found.items()}


def taken(simulation: Simulation, state: Any, metrics: Metrics, judged: str) -> list[Kept]:
    """Return the models of each run of a batch after an evaluation.

    Args:
      simulation: The simulation of the batch.
      state: The state on the devices with NumPy leaves [runs, ...], without the fields ``clients`` and ``network``.
      metrics: The metrics of this evaluation, NumPy leaves [runs, 1, ...].
      judged: Whose accuracy is the accuracy of a run: "clients" or "global".
    """
    now, at_round = accuracy_of(metrics, judged)[:, -1], int(metrics.round[0, -1])
    of_run = lambda i: jax.tree.map(lambda leaf: leaf[i], state)  # noqa: E731
    return [Kept(i, at_round, float(accuracy), tensors_of(simulation, of_run(i))) for i, accuracy in enumerate(now)]


def write_models(study: Study, workdir: Path, run: Run, kept: Kept) -> None:
    """Write the models of a run to their file. The state that knows this evaluation is saved later.

    Raises:
      DiskError: If it cannot be written.
    """
    point, name = study.points[run.point].id, study.experiment.name
    header = Header(study.name(run), name, point, run.seed, kept.round, kept.accuracy)
    write(model_path(workdir, header.run, kept.round), header, kept.tensors)
