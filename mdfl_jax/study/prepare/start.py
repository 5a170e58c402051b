"""The first models of a study that are not drawn: pretrained weights, or kept models of an earlier study.

The field `model.pretrained` names them. Each file of pretrained weights is read once and matched with the model of each
program. Kept models are one file of one run (all seeds start from it), the folder of one sweep point (models/POINT in
the workdir of the earlier study), or that workdir. In a folder, a seed starts from the file of the same seed, and of
several rounds from the last one. In a workdir with several sweep points, a point starts from the one whose settings it
shares.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.config.checks import MEAN, OWN, names_saved
from mdfl_jax.config.families import effective
from mdfl_jax.config.sections import Experiment
from mdfl_jax.core.errors import UserError, errors_about
from mdfl_jax.data.dataset import Dataset
from mdfl_jax.models.pretrained import Report, match, read_tensors
from mdfl_jax.results.results import StudyResults, models_of
from mdfl_jax.storage.array_files import SUFFIX
from mdfl_jax.storage.model_files import CLIENTS, GLOBAL, Header, mean_of, read
from mdfl_jax.storage.model_files import read_header as header_of
from mdfl_jax.storage.study_files import CONFIG, MODELS
from mdfl_jax.study.keeping import named
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
        if file not in self.read:
            with errors_about("model.pretrained"):
                self.read[file] = read_tensors(file)
        with errors_about(f"model.pretrained: {file!r}"):
            tree, report = match(self.read[file], shapes)
        return Pretrained(tree, file, report)


class Start(NamedTuple):
    """The kept models from which the runs of one sweep point start.

    Attributes:
      given: The value of `model.pretrained`.
      files: The file of each seed.
      headers: What each file says of itself, by seed.
      model: The shapes of one model, a tree of `jax.ShapeDtypeStruct`.
      clients: "own": each client starts from its own model; "mean": all start from the global model of the file, or
        from the mean of its models if it has none.
    """

    given: str
    files: dict[int, Path]
    headers: dict[int, Header]
    model: Any
    clients: str

    def models(self, seed: int) -> Any:
        """Read the models from which a run starts: the tree of ``model`` with NumPy leaves [N, ...], or [1, ...]."""
        tensors = read(self.files[seed])
        if self.clients == MEAN:
            means = {name: x for name, x in tensors.items() if name.startswith(GLOBAL)} or mean_of(tensors)
            tensors = {CLIENTS + name.split("/", 1)[1]: x[None] for name, x in means.items()}
        leaves = [tensors[name].astype(leaf.dtype) for name, leaf in named(self.model, CLIENTS).items()]
        return jax.tree.unflatten(jax.tree.structure(self.model), leaves)

    def describe(self) -> str:
        """Describe in one line which models are the start of which seeds."""
        first = next(iter(self.headers.values()))
        rounds = sorted({header.round for header in self.headers.values()})
        after = f"round {rounds[0]}" if len(rounds) == 1 else f"rounds {rounds[0]} to {rounds[-1]}"
        who = "each client from its own" if self.clients == OWN else "all clients from the mean or global one"
        one = len(set(self.files.values())) == 1
        seeds = f"all seeds start from those of seed {first.seed}" if one else "each seed starts from those of its own"
        return (
            f"model.pretrained {self.given!r}: models of the study {first.name!r}, point {first.point!r}, after "
            f"{after}; {seeds}, {who}"
        )


def start_of(experiment: Experiment, model: Any, seeds: Sequence[int]) -> Start | None:
    """Find the models from which a sweep point starts, and check their names and sizes.

    Args:
      experiment: The configuration of the point.
      model: The shapes of one model (`mdfl_jax.engine.simulation.Simulation.model`).
      seeds: The seeds of the study.

    Returns:
      The start; None if `model.pretrained` names no kept models.

    Raises:
      UserError: If there are no such models, or if they do not fit the point's model or its number of clients.
    """
    text, clients = experiment.model.pretrained, experiment.model.pretrained_clients
    if not names_saved(text):
        return None
    headers: dict[int, Header] = {}
    with errors_about("model.pretrained"):
        files = _files(Path(text), experiment, seeds)
        for path in dict.fromkeys(files.values()):
            header, shapes = header_of(path)
            _check(path, shapes, experiment, model)
            headers |= {seed: header for seed, file in files.items() if file == path}
    return Start(text, files, headers, model, clients)


def _files(path: Path, experiment: Experiment, seeds: Sequence[int]) -> dict[int, Path]:
    """Return the file from which each seed starts: the last one that a run of the same seed has kept."""
    if path.is_file() or path.suffix == SUFFIX:
        return dict.fromkeys(seeds, path)
    workdir, wanted = (path.parent.parent, path.name) if path.parent.name == MODELS else (path, "")
    if not (workdir / CONFIG).exists():
        raise UserError(f"{str(path)!r}: it is no file, and {str(workdir)!r} is no folder of a study")
    results = StudyResults.open(workdir)
    if not (workdir / MODELS).is_dir():
        raise UserError(f"{str(workdir)!r}: it has kept no models; a study with save=final, best or every:K does")
    point = (
        _point(results, experiment)
        if not wanted
        else next((p for p in range(len(results.points)) if wanted == _settings(results, p)), None)
    )
    if point is None:
        raise UserError(f"{str(path)!r}: no sweep point of {str(workdir)!r} has runs of this name")
    runs = dict(zip(results.seeds_of(point), results.manifest["points"][point]["runs"]))
    found = {seed: models_of(workdir, runs[seed]) if seed in runs else {} for seed in seeds}
    missing = [str(seed) for seed, files in found.items() if not files]
    if missing:
        shown = ", ".join(missing[:5]) + (", ..." if missing[5:] else "")
        what = f"point {results.points[point]!r}"
        raise UserError(f"{str(workdir)!r}: {what} has no models of seed {shown}, from which the same seed would start")
    return {seed: files[max(files)] for seed, files in found.items()}


def _settings(results: StudyResults, point: int) -> str:
    """Return what the names of a sweep point's runs have in common: all but the seed and the rounds."""
    return results.manifest["points"][point]["runs"][0].rpartition("-s")[0]


def _point(results: StudyResults, experiment: Experiment) -> int:
    """Return the index of the only sweep point of an earlier study whose settings a sweep point shares."""
    points, workdir = results.manifest["points"], results.workdir
    assert workdir is not None
    agree = [
        p for p, point in enumerate(points) if all(_agrees(experiment, *item) for item in point["overrides"].items())
    ]
    if len(agree) == 1:
        return agree[0]
    known = "; ".join(f"{workdir / MODELS / _settings(results, p)} ({point['id']})" for p, point in enumerate(points))
    many = "several of its points have" if agree else "none of its points has"
    raise UserError(f"{str(workdir)!r}: {many} the settings of this point; name the models of one: {known}")


def _agrees(experiment: Experiment, path: str, value: Any) -> bool:
    """Tell whether a field has a value, as config.json writes it."""
    own: Any = experiment
    for name in path.split("."):
        own = getattr(own, name, None)
    own = effective(experiment).get(path) if own is None else own
    own = list(own) if isinstance(own, tuple) else own
    return own == value or str(own) == value  # infinity is the text "inf"


def _check(path: Path, shapes: dict[str, tuple[int, ...]], experiment: Experiment, model: Any) -> None:
    """Raise a `UserError` of one line if a file does not fit the model or the number of clients."""
    where, name, N = f"{str(path)!r}", experiment.model.name, experiment.network.num_clients
    wanted = {of: tuple(leaf.shape) for of, leaf in named(model, CLIENTS).items()}
    held = {of: shape for of, shape in shapes.items() if of.startswith(CLIENTS)}
    if missing := [of for of in wanted if of not in held]:
        raise UserError(f"{where}: it has no tensor {missing[0]}, which the model {name} has")
    if extra := [of for of in held if of not in wanted]:
        raise UserError(f"{where}: it has a tensor {extra[0]}, which the model {name} does not have")
    for of, shape in wanted.items():
        if held[of][1:] != shape:
            is_now, must = list(held[of][1:]), list(shape)
            raise UserError(f"{where}: {of} is {is_now} for each client; in the model {name} it is {must}")
    clients = {shape[0] for shape in held.values()}
    if experiment.model.pretrained_clients == OWN and clients != {N}:
        there = ", ".join(map(str, sorted(clients)))
        raise UserError(
            f"{where}: it holds the models of {there} clients, and network.num_clients is {N}; "
            f"model.pretrained_clients={MEAN} takes any number"
        )
