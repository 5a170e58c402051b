"""Prepares a study: its points, their groups and its data. Errors of the user are found here, before any run."""

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
from jax.sharding import Mesh
from ml_collections import ConfigDict

from mdfl_jax import own_files, target
from mdfl_jax.data.dataset import Dataset
from mdfl_jax.errors import UserError
from mdfl_jax.experiments.build.pretrained import Pretrained, PretrainedFiles
from mdfl_jax.experiments.build.simulation import build_simulation, hparams_of
from mdfl_jax.experiments.build.task import load_dataset
from mdfl_jax.experiments.build.traces import TraceFiles, check_used
from mdfl_jax.experiments.config import families
from mdfl_jax.experiments.config.checks import check_graph_used, notes
from mdfl_jax.experiments.config.families import has_momentum, numbers_in, task_of
from mdfl_jax.experiments.config.points import Point, baseline_of, check_select, group_points, points, static_key
from mdfl_jax.experiments.config.resolve import resolve
from mdfl_jax.experiments.config.sections import DataConfig, Experiment
from mdfl_jax.experiments.run.traced import check_traced, own_origins, told
from mdfl_jax.models import MODELS
from mdfl_jax.sharding import client_mesh, size
from mdfl_jax.simulation import Simulation
from mdfl_jax.types import Hparams


class Run(NamedTuple):
    """One sweep point under one seed. ``point`` is the index of the point."""

    point: int
    seed: int


class Group(NamedTuple):
    """Points that share a compiled program.

    Attributes:
      points: The indices of the points.
      simulation: The simulation from which the program is compiled.
      hparams: The traced numbers of each point, in the order of ``points``.
      runs_per_batch: The number of runs that are on the devices together.
      rules: The mobility rules that the points use.
      dataset: The data set from which the simulation was built; None if the task draws its data.
      pretrained: The pretrained weights from which the simulation was built, if any.
    """

    points: list[int]
    simulation: Simulation
    hparams: list[Hparams]
    runs_per_batch: int
    rules: list[str]
    dataset: Dataset | None
    pretrained: Pretrained | None = None

    def double_bits(self, point: int) -> float | None:
        """Returns the bits of one message of a point as PaME counts them, or None if that count is not defined."""
        count = self.simulation.double_bits
        return count(self.hparams[self.points.index(point)].algorithm) if count else None

    def batches(self, seeds: list[int]) -> Iterator[list[Run]]:
        """Yields the batches of the group's runs, point after point."""
        runs = [Run(point, seed) for point in self.points for seed in seeds]
        for start in range(0, len(runs), self.runs_per_batch):
            yield runs[start : start + self.runs_per_batch]


class Study(NamedTuple):
    """A checked study.

    Attributes:
      experiment: The base configuration.
      points: The sweep points, one for every combination of the axes' values.
      baselines: For each point the index of the point that it is compared with, or None.
      groups: The points by compiled program.
      seeds: The seeds of every point.
    """

    experiment: Experiment
    points: list[Point]
    baselines: list[int | None]
    groups: list[Group]
    seeds: list[int]

    @property
    def config(self) -> dict[str, Any]:
        """The resolved configuration, as it is written to config.json.

        With members of the user's own it has the digests of their files, so that a study does not go on with others.
        """
        files = own_files.digests(own_origins(point.experiment for point in self.points))
        return dataclasses.asdict(self.experiment) | ({"own_files": files} if files else {})

    @property
    def pretrained(self) -> list[str]:
        """Lines that say how the tensors of pretrained weights were used, one line for each file and model."""
        return list(dict.fromkeys(group.pretrained.describe() for group in self.groups if group.pretrained))

    @property
    def baseline(self) -> str:
        """The name of the baseline: the id of its point if all points have the same one, else the setting itself."""
        ids = {self.points[i].id for i in self.baselines if i is not None}
        return ids.pop() if len(ids) == 1 else self.experiment.baseline


def runs_per_batch(experiment: Experiment, num_points: int, processes: int = 1) -> int:
    """Returns the number of runs in a batch of a group: engine.runs_per_batch, or the seeds of a point (at least 8).

    The number is reduced so that the batches are of similar size and can be shared evenly among the processes. It does
    not depend on the number of devices, so that a study can continue on other devices.
    """
    num_runs = num_points * experiment.seeds
    wanted = experiment.engine.runs_per_batch or max(experiment.seeds, 8)
    turns = -(-num_runs // (wanted * processes))
    return -(-num_runs // min(turns * processes, num_runs))


def mesh_for(experiment: Experiment, num_runs: int) -> Mesh | None:
    """Returns the mesh of a batch of runs, with as many columns as the configuration sets.

    If it sets none, all devices share a run if there are fewer runs than devices and the task is not light. Otherwise
    there is no mesh (None), and each device has runs of its own.

    Raises:
      UserError: If the number of columns does not divide the number of devices.
    """
    devices, wanted = target.devices(), experiment.engine.client_devices
    fitting = [str(k) for k in range(1, len(devices) + 1) if len(devices) % k == 0]
    if wanted and str(wanted) not in fitting:
        allowed = " or ".join([", ".join(fitting[:-1]), fitting[-1]] if fitting[1:] else fitting)
        number = f"the {len(devices)} devices" if len(devices) > 1 else "the one device"
        raise UserError(f"engine.client_devices is {wanted}; it must divide {number}: {allowed}")
    few = num_runs < len(devices) and not task_of(experiment).is_light
    return client_mesh(devices, wanted or (len(devices) if few else 1))


def set_precision(experiment: Experiment) -> None:
    """Enables JAX's 64-bit numbers for a study in float64, and disables them for any other."""
    jax.config.update("jax_enable_x64", experiment.engine.precision == "float64")


@own_files.told()
def make_study(config: ConfigDict, processes: int = 1) -> Study:
    """Checks a configuration, loads its data and builds its simulations. Nothing is compiled or written.

    Args:
      config: The configuration.
      processes: The number of processes that share the study.

    Raises:
      UserError: If anything in the configuration is wrong.
    """
    experiment = resolve(config)
    set_precision(experiment)
    all_points = points(experiment)
    ids = [point.id for point in all_points]
    if len(set(ids)) < len(ids):  # two axes have values with the same text
        raise UserError(f"sweep: two points are called {next(i for i in ids if ids.count(i) > 1)!r}")
    check_select(experiment, all_points)
    baselines = baseline_of(experiment, all_points)
    check_used([point.experiment for point in all_points])
    check_graph_used([point.experiment for point in all_points])
    datasets: dict[DataConfig, Dataset | None] = {}
    files, weight_files = TraceFiles(), PretrainedFiles()
    groups = []
    with told(own_origins(point.experiment for point in all_points)):
        by_program = group_points(all_points)
    for indices in by_program:
        members = [all_points[i].experiment for i in indices]
        rules = list(dict.fromkeys(member.network.mobility for member in members))
        source = static_key(members[0]).data  # the fields that choose the samples, without traced numbers
        if source not in datasets:
            datasets[source] = load_dataset(source)
        dataset = datasets[source]
        if dataset is not None:
            model = members[0].model.name
            numbers_in(members[0], MODELS, model).check_image(dataset.x_train.shape[1:3], model, dataset.name)
        num_runs = runs_per_batch(members[0], len(members), processes)
        pretrained = weight_files.weights(members[0], dataset)
        tree, mesh = pretrained.tree if pretrained else None, mesh_for(members[0], num_runs)
        origins = own_origins(members)
        with told(origins):
            simulation = build_simulation(members[0], dataset, rules, mesh, tree)
            hparams = [hparams_of(member, rules, files.params(member, rules)) for member in members]
            if origins:
                check_traced(simulation, hparams)
        groups.append(Group(indices, simulation, hparams, num_runs, rules, dataset, pretrained))
    seeds = [experiment.first_seed + s for s in range(experiment.seeds)]
    return Study(experiment, all_points, baselines, groups, seeds)


def plan(study: Study, processes: int = 1) -> str:
    """Describes in words what will be run: points x seeds, rounds, parameters and memory."""
    experiment, devices = study.experiment, target.devices()
    num_runs = len(study.points) * len(study.seeds)
    lines = [
        f"{experiment.name}: {len(study.points)} points x {len(study.seeds)} seeds = {num_runs} runs "
        f"of {experiment.rounds} rounds, evaluated every {experiment.eval_every}; "
        f"{len(study.groups)} compiled program{'s' if len(study.groups) > 1 else ''}",
    ]
    for group in study.groups:
        data, models, params = group_bytes(study, group)
        lines.append(
            f"  {'; '.join(study.points[i].id for i in group.points)}: {group.simulation.num_params:,} parameters "
            f"a client, {params} clients; data {data / 2**20:.1f} MiB a device, models and optimiser about "
            f"{models / 2**20:.1f} MiB"
        )
    compared = sum(b is not None for b in study.baselines)
    if experiment.baseline and not compared:
        lines.append(f"  no differences: no point has the baseline's {experiment.baseline}")
    told = dict.fromkeys(line for p in study.points for line in (*notes(p.experiment), *families.notes(p.experiment)))
    lines += [f"  note: {line}" for line in (*told, *_beyond_the_data(study), *study.pretrained)]
    shared = sorted({size(group.simulation.mesh) for group in study.groups} - {1})
    sharing = f", of which {' or '.join(map(str, shared))} share a run" if shared else ""
    hosts = f" in each of {processes} processes" if processes > 1 else ""
    lines.append(
        f"  on {len(devices)} {devices[0].device_kind} device{'s' if len(devices) > 1 else ''}{hosts}{sharing}"
    )
    return "\n".join(lines)


def _beyond_the_data(study: Study) -> list[str]:
    """Returns a line for each limit of a data set that is larger than the data set."""
    lines = []
    for group in study.groups:
        data, dataset = study.points[group.points[0]].experiment.data, group.dataset
        held = (len(dataset.y_train) + data.validation, len(dataset.y_test)) if dataset else ()
        for field, limit, count in zip(("limit_train", "limit_test"), (data.limit_train, data.limit_test), held):
            if limit > count:
                lines.append(f"data.{field} is {limit}; {data.name} has {count} such samples, and all are used")
    return lines


def group_bytes(study: Study, group: Group) -> tuple[int, int, int]:
    """Estimates the memory of a group: bytes of the data, bytes of the models of a batch of runs, and N.

    The models count as parameters, gradients, the mixed copy, and momentum or Adam's moments if there are any.
    """
    member = study.points[group.points[0]].experiment
    copies = 3 + (2 if member.algorithm.optimizer == "adam" else int(has_momentum(member)))
    num_clients = member.network.num_clients
    models = group.runs_per_batch * num_clients * group.simulation.num_params * 4 * copies
    data = sum(leaf.nbytes for leaf in jax.tree.leaves(group.simulation.data))
    return data, models, num_clients
