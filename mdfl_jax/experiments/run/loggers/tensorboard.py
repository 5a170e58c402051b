"""The logger for TensorBoard. It writes event files with the package tensorboardX, which needs no TensorFlow."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mdfl_jax.experiments.run.loggers import LOGGERS
from mdfl_jax.experiments.run.loggers.line_logger import LineLogger, LoggedRun, numbers_of
from mdfl_jax.experiments.run.study import Study

EVENTS = "events.out.tfevents.*"


@LOGGERS.register("tensorboard")
class TensorBoard(LineLogger):
    """Event files for TensorBoard: a folder for each sweep point and seed, the values by round.

    The values have single precision, as in all event files. The configuration of a run is its text "config", and the
    values of the swept fields are its hyperparameters. A run that continues is written anew from its first evaluation,
    so that no step is there twice. If rounds are added to a finished run, a further file takes the place of its last
    step (TensorBoard's "purge step").
    """

    package, install = "tensorboardX", "mdfl_jax[tensorboard]"

    def __init__(self, study: Study, folder: Path, log: Callable[[str], None]):
        from tensorboardX import SummaryWriter

        super().__init__(study, folder, log)
        self._make, self._writers = SummaryWriter, dict[str, Any]()

    def line(self, run: LoggedRun, line: dict[str, Any]) -> None:
        """Adds the values of an evaluation."""
        writer = self._writers.get(run.folder) or self._begin(run, line["round"])
        for key, value in numbers_of(line):
            writer.add_scalar(key, value, line["round"])

    def _begin(self, run: LoggedRun, first_round: int) -> Any:
        from tensorboardX.summary import hparams

        folder = self.folder / run.folder
        for earlier in () if first_round else folder.glob(EVENTS):
            earlier.unlink()
        writer = self._writers[run.folder] = self._make(str(folder), purge_step=first_round or None)
        writer.add_text("config", f"```json\n{json.dumps(run.config, indent=2)}\n```")
        for summary in hparams({**run.overrides, "seed": run.seed}, {"accuracy": None, "loss": None}):
            writer.file_writer.add_summary(summary)
        return writer

    def flush(self) -> None:
        """Writes the values to the files, so that a killed study has them."""
        for writer in self._writers.values():
            writer.flush()

    def end(self, run: LoggedRun) -> None:
        """Closes the file of a run."""
        if writer := self._writers.pop(run.folder, None):
            writer.close()

    def close(self) -> None:
        """Closes the files that are open."""
        for writer in self._writers.values():
            writer.close()
