"""Builds the task of a configuration: its data set, its model, and first models that are not drawn.

Pretrained weights, or checkpoints of an earlier study: the field `model.pretrained` names them. Each file of pretrained
weights is read once and matched with the model of each program. Checkpoints are one file of one run (all seeds start
from it), the folder of one sweep point (models/POINT in the workdir of the earlier study), or that workdir. In a
folder, a seed starts from the file of the same seed, and of several rounds from the last one. In a workdir with several
sweep points, a point starts from the one whose settings it shares.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from mdfl_jax.config.checks import MEAN, OWN, keys_of, names_saved
from mdfl_jax.config.sections import (
    DataConfig,
    Experiment,
    effective,
    numbers_in,
    task_numbers,
    task_of,
)
from mdfl_jax.core.contract import where
from mdfl_jax.core.errors import UserError, errors_about
from mdfl_jax.core.numbers import from_values
from mdfl_jax.core.own_files import is_own
from mdfl_jax.core.section import Section, sections_in
from mdfl_jax.core.types import Hparams, Task
from mdfl_jax.data.augment import Augmentation
from mdfl_jax.data.dataset import Dataset, Targets, hold_out
from mdfl_jax.data.formats import columns_of
from mdfl_jax.data.partition import PARTITIONS
from mdfl_jax.data.sources import load
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.models import MODELS, ModelSettings, client_model
from mdfl_jax.models.weights import WEIGHTS, Used
from mdfl_jax.results.results import Results, models_of
from mdfl_jax.storage.array_files import SUFFIX
from mdfl_jax.storage.model_files import CLIENTS, GLOBAL, Header, client_mean, is_saved, named, read
from mdfl_jax.storage.model_files import read_header as header_of
from mdfl_jax.storage.study_files import CONFIG, MODEL_FOLDER
from mdfl_jax.tasks import GRADIENTS, TASKS, TaskRequest, spec_of, task_named
from mdfl_jax.tasks.gradients import Tiling
from mdfl_jax.tasks.losses import LOSSES, check_loss, loss_named


def load_dataset(config: DataConfig) -> Dataset | None:
    """Load the data set that a configuration names, and hold out its validation samples.

    Returns:
      The data set, or None for a task that draws its data from the seed.

    Raises:
      UserError: As `mdfl_jax.data.sources.load`. Also if the validation samples would leave no training samples, or if
        the data set has validation samples of its own.
    """
    if not TASKS[task_named(config.name)].of_datasets:
        return None
    columns = columns_of(config.target, config.owner, config.drop, config.categories)
    dataset = load(config.name, config.dir, config.limit_train, config.limit_test, columns, config.layout)
    if config.validation >= len(dataset.y_train):
        raise UserError(f"data.validation is {config.validation}; there are {len(dataset.y_train)} training samples")
    if config.validation and dataset.x_validation is not None:
        raise UserError(
            f"data.validation is {config.validation}; {dataset.name} has {len(dataset.x_validation)} validation "
            "samples of its own, so it must be 0"
        )
    return hold_out(dataset, config.validation)._replace(normalize=config.normalize)


def loss_of(experiment: Experiment, dataset: Dataset) -> tuple[str, Any]:
    """Return the name and the numbers of a point's loss.

    Raises:
      UserError: If the loss cannot be used with the targets of the data set.
    """
    name = loss_named(experiment.model.loss, dataset.targets)
    check_loss(name, dataset)
    numbers = from_values(LOSSES.numbers(name), vars(experiment.model))
    numbers.validate("model.")
    return name, numbers


def build_model(experiment: Experiment, dataset: Dataset) -> list[Any]:
    """Build the model of a point for a data set: as its factory has made it, and after each section that wraps it.

    Raises:
      UserError: If the factory of the model returns nothing that is a model; the message names the user's file. If a
        section does not fit the model.
    """
    model, engine = experiment.model, experiment.engine
    form = "" if engine.convolution == "auto" else engine.convolution
    numbers = from_values(MODELS.numbers(model.name), vars(model))
    num_outputs = LOSSES[loss_of(experiment, dataset)[0]].num_outputs(dataset)
    per_position = dataset.targets is Targets.POSITIONS
    make = MODELS[model.name]
    settings = ModelSettings(num_outputs, numbers, form, engine.remat, spec_of(dataset), per_position)
    made = make(settings)
    try:
        models = [client_model(made)]
    except UserError as error:
        place = "" if error.__cause__ else where(make).rpartition(": ")[0]
        raise UserError(f"{place}: {error}" if place else str(error)) from error.__cause__
    for each in _model_wrappers(experiment):
        models.append(each.wrap_model(models[-1], experiment, settings))
    return models


def _model_wrappers(experiment: Experiment) -> list[Section]:
    """Return the sections in use that wrap the model."""
    return [each for each in sections_in(experiment) if type(each).wrap_model is not Section.wrap_model]


def check_owners(experiment: Experiment, simulation: Simulation, hparams: Hparams, seeds: list[int]) -> None:
    """Check that a partition of the user's own gives samples to the clients that there are.

    Raises:
      UserError: If it gives a sample to a client that there is not. The message names the function.
    """
    if simulation.task.hooks.owner is None or not is_own(PARTITIONS.origin(experiment.data.partition)):
        return
    owner, last = simulation.owner, experiment.network.num_clients - experiment.network.relays - 1

    def ends(data: Any, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        found = owner(data, hparams, key)
        return jnp.min(found), jnp.max(found)

    low, high = jax.jit(lambda data: jax.lax.map(partial(ends, data), keys_of(experiment, seeds)))(simulation.data)
    wrong = [k for k in range(len(seeds)) if low[k] < -1 or high[k] > last]
    if wrong:
        k = wrong[0]
        raise UserError(
            f"{where(PARTITIONS[experiment.data.partition])} returned owners from {low[k]} to {high[k]} with seed "
            f"{seeds[k]}; they must be -1 (nobody) to {last}"
        )


def build_task(
    experiment: Experiment,
    dataset: Dataset | None,
    mesh: Mesh | None = None,
    pretrained: Any = None,
    made: dict[Any, Task] | None = None,
) -> Task:
    """Build the task of a group of points.

    Args:
      experiment: The configuration of any point of the group.
      dataset: The data set, from `load_dataset`.
      mesh: The devices that share each run, if any.
      pretrained: The variables from which the model starts, as `mdfl_jax.models.weights.WeightFormat.match` returns
        them; None: all are drawn at random.
      made: The tasks of the study so far, by what was asked for. Groups that learn the same share a task, so its arrays
        lie on the device once and its model is traced once. Those with pretrained variables have tasks of their own.

    Raises:
      UserError: If a minibatch is larger than the data set, if the data set cannot be divided as configured, or if the
        task refuses what it is asked.
    """
    data, engine, batch_size = experiment.data, experiment.engine, experiment.algorithm.batch_size
    if dataset is not None and batch_size > len(dataset.y_train):
        raise UserError(
            f"algorithm.batch_size is {batch_size}; all clients together have {len(dataset.y_train)} training samples "
            "(0: full batch)"
        )
    clients, relays = experiment.network.num_clients, experiment.network.relays
    wrappers = [each for each in sections_in(experiment) if type(each).wrap_task is not Section.wrap_task]
    num_owners, others = next((each.owners(experiment) for each in wrappers), None) or (clients, relays)
    if dataset is not None:
        task_numbers(experiment).check_dataset(dataset, num_owners - others)
    loss, loss_numbers = ("", None) if dataset is None else loss_of(experiment, dataset)
    asked = TaskRequest(
        num_clients=num_owners,
        num_relays=others,
        numbers=numbers_in(experiment, TASKS, task_named(data.name)),
        batch_size=batch_size,
        precision=engine.precision,
        mesh=mesh,
        tiling=Tiling(engine.block_size, engine.tile, engine.mapping),
        partition=data.partition,
        augmentation=Augmentation(data.crop, data.flip),
        loss=loss,
        loss_numbers=loss_numbers,
        trainable=experiment.model.trainable,
    )
    of_study = made if made is not None and pretrained is None else {}
    of_model = experiment.model, engine.convolution, engine.remat
    key = (
        data.name,
        asked,
        id(dataset),
        (*of_model, *_model_wrappers(experiment)),
        (*wrappers, clients, relays) if wrappers else (),
    )
    if key not in of_study:
        model = None if dataset is None else build_model(experiment, dataset)[-1]
        task = task_of(experiment).make(asked._replace(dataset=dataset, model=model, pretrained=pretrained))
        for each in wrappers:
            task = each.wrap_task(task, experiment, dataset.num_strata if dataset is not None else 0)
        of_study[key] = task
    return GRADIENTS[experiment.algorithm.gradient](of_study[key], batch_size)


def task_params(experiment: Experiment) -> Any:
    """Return the traced numbers of a point's task, `Hparams.task`."""
    numbers = task_numbers(experiment).traced()
    for each in sections_in(experiment):
        numbers = each.task_params(numbers, experiment)
    return numbers


class Pretrained(NamedTuple):
    """The weights that a model takes from a file.

    Attributes:
      tree: The variables of the model as float32 NumPy arrays, with None for those that are drawn at random.
      file: The file, as the configuration names it.
      report: Says which tensors of the file were used, and how.
    """

    tree: Any
    file: str
    report: Used

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
        model, *wrapped = build_model(experiment, dataset)
        shapes = jax.eval_shape(model.init, jax.random.key(0), jnp.zeros((1, *spec_of(dataset).shape)))
        weights = WEIGHTS[Path(file).suffix]
        if file not in self.read:
            with errors_about("model.pretrained"):
                self.read[file] = weights.read(file)
        with errors_about(f"model.pretrained: {file!r}"):
            tree, report = weights.match(self.read[file], shapes)
        for each in wrapped:
            tree = each.around(tree)
        return Pretrained(tree, file, report)


class Start(NamedTuple):
    """The checkpoints from which the runs of one sweep point start.

    Attributes:
      given: The value of `model.pretrained`.
      files: The file of each seed.
      headers: What each file says of itself, by seed.
      model: The shapes of one model, a tree of `jax.ShapeDtypeStruct`.
      clients: "own": each client starts from its own model; "mean": all start from the global model of the file, or
        from the mean of its models if it has none.
      frozen: Whether the model has leaves that are not trained, which no checkpoint has.
    """

    given: str
    files: dict[int, Path]
    headers: dict[int, Header]
    model: Any
    clients: str
    frozen: bool = False

    def models(self, seed: int) -> Any:
        """Read the models from which a run starts: the tree of ``model`` with NumPy leaves [N, ...], or [1, ...]."""
        tensors = read(self.files[seed])
        if self.clients == MEAN:
            means = {name: x for name, x in tensors.items() if name.startswith(GLOBAL)} or client_mean(tensors)
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
            f"{after}; {seeds}, {who}{'; each seed draws the leaves that are not trained' if self.frozen else ''}"
        )


def start_of(experiment: Experiment, model: Any, seeds: Sequence[int]) -> Start | None:
    """Find the models from which a sweep point starts, and check their names and sizes.

    Args:
      experiment: The configuration of the point.
      model: The shapes of one model (`mdfl_jax.engine.simulation.Simulation.model`).
      seeds: The seeds of the study.

    Returns:
      The start; None if `model.pretrained` names no checkpoints.

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
    return Start(text, files, headers, model, clients, bool(experiment.model.trainable))


def _files(path: Path, experiment: Experiment, seeds: Sequence[int]) -> dict[int, Path]:
    """Return the file from which each seed starts: the last one that a run of the same seed has kept."""
    if path.is_file() and (lacks := WEIGHTS.lacks()) and not is_saved(path):
        raise UserError(f"{str(path)!r}: it holds no models of a study{lacks}")
    if path.is_file() or path.suffix == SUFFIX:
        return dict.fromkeys(seeds, path)
    workdir, wanted = (path.parent.parent, path.name) if path.parent.name == MODEL_FOLDER else (path, "")
    if not (workdir / CONFIG).exists():
        raise UserError(f"{str(path)!r}: it is no file, and {str(workdir)!r} is no folder of a study")
    results = Results.open(workdir)
    if not (workdir / MODEL_FOLDER).is_dir():
        raise UserError(f"{str(workdir)!r}: it has kept no models; a study with save=final or every:K does")
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


def _settings(results: Results, point: int) -> str:
    """Return what the names of a sweep point's runs have in common: all but the seed and the rounds."""
    return results.manifest["points"][point]["runs"][0].rpartition("-s")[0]


def _point(results: Results, experiment: Experiment) -> int:
    """Return the index of the only sweep point of an earlier study whose settings a sweep point shares."""
    points, workdir = results.manifest["points"], results.workdir
    assert workdir is not None
    agree = [
        p for p, point in enumerate(points) if all(_agrees(experiment, *item) for item in point["overrides"].items())
    ]
    if len(agree) == 1:
        return agree[0]
    known = "; ".join(
        f"{workdir / MODEL_FOLDER / _settings(results, p)} ({point['id']})" for p, point in enumerate(points)
    )
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
