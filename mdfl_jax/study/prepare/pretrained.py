"""Reads the pretrained weights of a study, each file once, and matches them with the model of each program."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.config.checks import names_saved
from mdfl_jax.config.sections import Experiment
from mdfl_jax.core.errors import UserError
from mdfl_jax.data.dataset import Dataset
from mdfl_jax.models.pretrained import Report, match, read_tensors
from mdfl_jax.study.prepare.task import build_model, sample_of


class Pretrained(NamedTuple):
    """The weights that a model takes from a file.

    Attributes:
      tree: The variables of the model as float32 NumPy arrays, with None for those that are drawn at random.
      file: The file, as the configuration names it.
      report: Says which tensors of the file were used, and how.
    """

    tree: Any
    file: str
    report: Report

    def describe(self) -> str:
        """Describe the file and the use of its tensors in one line."""
        return f"model.pretrained {self.file!r}: {self.report.describe()}"


class PretrainedFiles:
    """The files of pretrained weights of a study. Each file is read once."""

    def __init__(self) -> None:
        self.read: dict[str, dict[str, np.ndarray]] = {}

    def weights(self, experiment: Experiment, dataset: Dataset | None) -> Pretrained | None:
        """Return the weights from which a point's model starts, or None if all weights are drawn at random.

        Raises:
          UserError: If the file cannot be used, or does not fit the point's model.
        """
        file = experiment.model.pretrained
        if dataset is None or not file or names_saved(file):
            return None
        model = build_model(experiment, dataset)
        shapes = jax.eval_shape(model.init, jax.random.key(0), jnp.zeros((1, *sample_of(dataset).shape)))
        try:
            if file not in self.read:
                self.read[file] = read_tensors(file)
        except UserError as error:
            raise UserError(f"model.pretrained: {error}") from None
        try:
            tree, report = match(self.read[file], shapes)
        except UserError as error:
            raise UserError(f"model.pretrained: {file!r}: {error}") from None
        return Pretrained(tree, file, report)
