"""The models that a study keeps (the field `save`): which they are, and how they come from the devices to files.

The compiled programs know nothing of checkpoints: the state of the algorithms is copied to the host, and the models are
taken from it there. With ``save=best`` the best models so far stay on the host until the batch ends, and are a part of
its saved state, so that a killed study continues with the same ones.
"""

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from mdfl_jax.config.checks import Save
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.metrics.history import Metrics
from mdfl_jax.results.lines import accuracy_of
from mdfl_jax.storage.array_files import Arrays
from mdfl_jax.storage.model_files import CLIENTS, GLOBAL, Header, named, write
from mdfl_jax.storage.study_files import model_path
from mdfl_jax.study.study import Run, Study

_BEST = "best/"  # the arrays of a saved state that belong to the best models


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


class Keeper:
    """Finds out at each evaluation of a batch which models must be written.

    Args:
      save: Which models are kept.
      judged: Whose accuracy is the accuracy of a run: "clients" or "global".
      simulation: The simulation of the batch.
      models: A function that returns the state on the devices with NumPy leaves [runs, ...], without the fields
        ``clients`` and ``network``.
    """

    def __init__(self, save: Save, judged: str, simulation: Simulation, models: Callable[[], Any]):
        self.save, self.judged, self.simulation, self.models = save, judged, simulation, models
        self.best: dict[int, Kept] = {}

    def start(self, metrics: Metrics, saved: Arrays | None, last: bool) -> list[Kept]:
        """Take note of the evaluation before the first round, or of the saved state from which a batch continues.

        Args:
          metrics: The metrics until now, NumPy leaves [runs, E, ...].
          saved: The saved state from which the batch continues, if it does.
          last: Whether the batch has ended.
        """
        if self.save.when == "best" and saved is not None:
            self.best = _from_state(saved)
            return list(self.best.values()) if last else []
        return self.see(metrics, last) if self.save.when != "every" else []

    def see(self, metrics: Metrics, last: bool) -> list[Kept]:
        """Return the models that must be written after an evaluation.

        Args:
          metrics: The metrics of this evaluation, NumPy leaves [runs, 1, ...].
          last: As in `start`.
        """
        if self.save.when != "best":
            is_due = last if self.save.when == "final" else metrics.round[0, -1] % self.save.every == 0
            return self._take(metrics, range(len(metrics.round))) if is_due else []
        now = accuracy_of(metrics, self.judged)[:, -1]
        # A comparison with NaN is false: a diverged evaluation never replaces another one.
        better = [i for i, value in enumerate(now) if i not in self.best or value > self._until_now(i)]
        self.best |= {kept.run: kept for kept in self._take(metrics, better)}
        return list(self.best.values()) if last else []

    def state(self) -> Arrays:
        """Return the best models so far as arrays of the batch's saved state."""
        if not self.best:
            return {}
        runs = [self.best[i] for i in range(len(self.best))]
        facts = np.array([[kept.round, kept.accuracy] for kept in runs], np.float64)
        tensors = {name: np.stack([kept.tensors[name] for kept in runs]) for name in runs[0].tensors}
        return {_BEST + "facts": facts} | {f"{_BEST}tensors/{name}": tensor for name, tensor in tensors.items()}

    def _until_now(self, run: int) -> float:
        value = self.best[run].accuracy
        return value if value == value else -np.inf

    def _take(self, metrics: Metrics, rows: Sequence[int]) -> list[Kept]:
        if not rows:
            return []
        state = self.models()
        now, at_round = accuracy_of(metrics, self.judged)[:, -1], int(metrics.round[0, -1])
        of_run = lambda i: jax.tree.map(lambda leaf: leaf[i], state)  # noqa: E731
        return [Kept(i, at_round, float(now[i]), tensors_of(self.simulation, of_run(i))) for i in rows]


def _from_state(saved: Arrays) -> dict[int, Kept]:
    """Return the best models so far from the arrays of `Keeper.state`, by the index of the run."""
    first = _BEST + "tensors/"
    tensors = {name.removeprefix(first): tensor for name, tensor in saved.items() if name.startswith(first)}
    return {
        i: Kept(i, int(at_round), float(accuracy), {name: tensor[i] for name, tensor in tensors.items()})
        for i, (at_round, accuracy) in enumerate(saved[_BEST + "facts"])
    }


def write_models(study: Study, workdir: Path, run: Run, kept: Kept) -> None:
    """Write the models of a run to their file. The state that knows this evaluation is saved later.

    Raises:
      DiskError: If it cannot be written.
    """
    point, name = study.points[run.point].id, study.experiment.name
    header = Header(study.name(run), name, point, run.seed, kept.round, kept.accuracy)
    write(model_path(workdir, header.run, kept.round), header, kept.tensors)
