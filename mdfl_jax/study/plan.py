"""Says in words what a study will run, keep and take, before it starts."""

import math
from collections import Counter
from collections.abc import Collection

import jax
import numpy as np

from mdfl_jax.config.checks import config_notes, parse_save, told_idle
from mdfl_jax.config.sections import has_momentum, member_notes
from mdfl_jax.core import devices, hosts
from mdfl_jax.core.outcomes import baseline_values
from mdfl_jax.core.sharding import size
from mdfl_jax.data.dataset import Targets
from mdfl_jax.metrics.evaluation import Records
from mdfl_jax.mobility.trace import Tracks
from mdfl_jax.networks.costs import IGNORE, SHORT_CONTACTS, CostConfig, most_bits_a_second
from mdfl_jax.networks.wrappers.attacked import AttackConfig
from mdfl_jax.study import states
from mdfl_jax.study.prepare.network import few_heard, graph_notes, outnumbered
from mdfl_jax.study.progress import few_of
from mdfl_jax.study.study import Group, Study
from mdfl_jax.tasks.losses import LOSSES, loss_named


def plan(study: Study, on: str = "", given: Collection[str] | None = None) -> str:
    """Describe in words what will be run: points x seeds, rounds, parameters and memory.

    Args:
      study: The study.
      on: What it is run on; "": the devices of this process.
      given: The fields that the user has set, of which a note says so if no sweep point uses them; None: all.
    """
    experiment, found = study.experiment, devices.devices()
    num_runs = len(study.points) * len(study.seeds)
    lines = [
        f"{experiment.name}: {len(study.points)} points x {len(study.seeds)} seeds = {num_runs} runs "
        f"of {experiment.rounds} rounds, evaluated every {experiment.eval_every}; "
        f"{len(study.groups)} compiled program{'s' if len(study.groups) > 1 else ''}",
    ]
    for group in study.groups:
        data, models, params = group_bytes(study, group)
        lines.append(
            f"  {few_of([study.points[i].id for i in group.points])}: {group.simulation.num_params:,} parameters "
            f"a client, {params} clients; data {data / 2**20:.1f} MiB a device, models and optimiser about "
            f"{models / 2**20:.1f} MiB"
        )
    lines += [*_attacked(study), *_sampled(study), *_models_kept(study), *_records(study), *states.notes(study)]
    compared = sum(b is not None for b in study.baselines)
    if experiment.baseline and not compared:
        varied = baseline_values(experiment.baseline).keys() <= study.points[0].overrides.keys()
        why = "no point has the baseline's" if varied else "the sweep does not vary the field of the baseline,"
        lines.append(f"  no differences: {why} {experiment.baseline}")
    lines += [f"  note: {line}" for line in noted(study, given)]
    shared = sorted({size(group.simulation.mesh) for group in study.groups} - {1})
    sharing = f", of which {' or '.join(map(str, shared))} share a run" if shared else ""
    of_hosts = f" of {hosts.many()} hosts" if hosts.many() > 1 else ""
    here = f"{len(found)} {found[0].device_kind} device{'s' if len(found) > 1 else ''}{of_hosts}{sharing}"
    lines.append(f"  on {on or here}")
    return "\n".join(lines)


def noted(study: Study, given: Collection[str] | None = None) -> list[str]:
    """Return the notes about a study: how files were read, and what has no effect or may be a mistake.

    Args:
      study: The study.
      given: The fields that the user has set, as in `plan`.
    """
    experiments = [point.experiment for point in study.points]
    lines = [line for path, line in told_idle(experiments).items() if given is None or path in given]
    held = {p: len(group.dataset.y_train) for group in study.groups if group.dataset for p in group.points}
    for p, one in enumerate(experiments):
        lines += [
            *config_notes(one, held.get(p, 0)),
            *member_notes(one),
            few_heard(one),
            outnumbered(one),
            *graph_notes(one),
        ]
    lines += [*_never_carried(study), *_targets(study), *_beyond_the_data(study, given)]
    lines += [*study.traces, *_absent(study), *study.pretrained]
    return list(filter(None, dict.fromkeys(lines)))


def _attacked(study: Study) -> list[str]:
    """Return a line that says who attacks, and of whom the results are, if some points have attackers."""
    all_points = [point.experiment for point in study.points]
    attacked = [experiment for experiment in all_points if AttackConfig.of(experiment).in_use(experiment)]
    if not attacked:
        return []
    where = "" if len(attacked) == len(study.points) else f" in {len(attacked)} of the {len(study.points)} points"
    counts = " or ".join(map(str, sorted({AttackConfig.of(one).count(one) for one in attacked})))
    who = " or ".join(dict.fromkeys(AttackConfig.of(one).who for one in attacked))
    told = f"{counts} of the clients attack ({who}){where}"
    return [f"  {told}; accuracies and losses are those of the honest ones"]


def _never_carried(study: Study) -> list[str]:
    """Return a note for each message that fits no contact, however near the clients are, with the numbers."""
    lines = []
    for group in study.groups:
        for p, hparams in zip(group.points, group.hparams):
            experiment, rule = study.points[p].experiment, CostConfig.of(study.points[p].experiment).short_contact
            if rule == IGNORE:
                continue
            cost, rate = hparams.network.cost, most_bits_a_second(experiment)
            in_parts = SHORT_CONTACTS[rule].in_parts
            bits, what = (cost.link_least, "coordinate") if in_parts else (cost.link_bits, "model")
            need = float(cost.latency * cost.link_messages) + float(bits) / rate
            rounds = experiment.rounds if SHORT_CONTACTS[rule].goes_on else 1
            if need > experiment.motion.dt * rounds:
                span = "the study" if rounds > 1 else "a round"
                takes = f"its {int(bits):,} bits take {need:.4g} s at {rate:.4g} bit/s, the most"
                lasts = f"{span} lasts {experiment.motion.dt * rounds:g} s"
                lines.append(f"cost.short_contact is {rule}; no contact ever carries a {what}: {takes}, and {lasts}")
    return lines


def _sampled(study: Study) -> list[str]:
    """Return a line about the sample that is evaluated between the first and the last evaluation; none without one."""
    counts = {"clients": study.experiment.eval_clients, "test samples": study.experiment.eval_samples}
    sample = " and ".join(f"{count:,} {what}" for what, count in counts.items() if count)
    return [f"  between the first and the last evaluation a sample of {sample} is evaluated"] if sample else []


def _models_kept(study: Study) -> list[str]:
    """Return a line about the models that the study keeps and their size on the disk; none if it keeps none."""
    config = study.experiment
    files = parse_save(config.save, config.rounds, config.eval_every).files_of_a_run(config.rounds)
    if not files:
        return []
    sizes = {file_bytes(group) for group in study.groups}
    count = files * len(study.runs)
    total = sum(files * len(group.runs(study.seeds)) * file_bytes(group) for group in study.groups)
    of_one = " or ".join(f"{size / 2**20:,.1f}" for size in sorted(sizes))
    return [f"  save={config.save}: {count:,} files of models, {of_one} MiB each, {total / 2**20:,.1f} MiB in all"]


def _records(study: Study) -> list[str]:
    """Return a line for each different size of the records of the rounds, or for the reason why they are not kept."""
    engine, runs = study.experiment.engine, Counter[Records]()
    for group in study.groups if engine.record_positions and engine.record_mib else ():
        runs[group.simulation.records] += len(group.runs(study.seeds))
    lines = []
    for found, count in runs.items():
        what, size = ", ".join(found.names), found.size / 2**20
        if found.kept:
            lines.append(
                f"  recorded in every round, for the map: {what}; {size:,.2f} MiB a run, {count * size:,.1f} MiB in all"
            )
        elif found.why:
            lines.append(f"  recorded in every round, for the map: only the places; {what} {found.why}")
    return lines


def file_bytes(group: Group) -> int:
    """Return the bytes of the arrays in a file of checkpoints: those of N clients and of the global model, if any."""
    leaves = jax.tree.leaves(jax.eval_shape(group.simulation.models, group.carry))
    return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves)


def _absent(study: Study) -> list[str]:
    """Return a line for each number of clients that no vehicle of a trace is, or whose vehicle is never present."""
    lines, what = [], "clients are never present in the trace; they train and meet nobody"
    for hparams in (own for group in study.groups for own in group.hparams):
        for found in jax.tree.leaves(hparams, is_leaf=lambda part: isinstance(part, Tracks)):
            never = np.sum(~np.asarray(found.present).any(axis=0)) if isinstance(found, Tracks) else 0
            if never:
                lines.append(f"{never:,} of {found.present.shape[1]:,} {what}")
    return list(dict.fromkeys(lines))


def _targets(study: Study) -> list[str]:
    """Return what the columns of a table are, and what targets are that are not one label a sample."""
    lines = []
    for group in study.groups:
        experiment, dataset = study.points[group.points[0]].experiment, group.dataset
        if dataset is not None and dataset.about:
            lines.append(f"{experiment.data.name}: {dataset.about}")
        if dataset is not None and dataset.targets is not Targets.LABELS:
            loss = loss_named(experiment.model.loss, dataset.targets)
            accuracy = f", and accuracy means {LOSSES[loss].accuracy_is}" if LOSSES[loss].accuracy_is else ""
            whole = dataset.targets is Targets.NUMBERS and np.all(dataset.y_train == np.round(dataset.y_train))
            hint = "; all of them are whole numbers: with an integer dtype they would be labels" if whole else ""
            lines.append(f"{experiment.data.name} has {dataset.targets.value}; the loss is {loss}{accuracy}{hint}")
    return list(dict.fromkeys(lines))


def _beyond_the_data(study: Study, given: Collection[str] | None) -> list[str]:
    """Return a line for each limit of a data set that the user has set and that is larger than the data set."""
    lines = []
    for group in study.groups:
        experiment, dataset = study.points[group.points[0]].experiment, group.dataset
        data = experiment.data
        held = (len(dataset.y_train) + data.validation, len(dataset.y_test)) if dataset else ()
        for field, limit, count in zip(("limit_train", "limit_test"), (data.limit_train, data.limit_test), held):
            if limit > count and (given is None or f"data.{field}" in given):
                lines.append(f"data.{field} is {limit}; {data.name} has {count} such samples, and all are used")
    return lines


def group_bytes(study: Study, group: Group) -> tuple[int, int, int]:
    """Estimate the memory of a group: bytes of the data, bytes of the models of a batch of runs, and N.

    The models count as parameters, gradients, the mixed copy, and momentum or Adam's moments if there are any.
    """
    member = study.points[group.points[0]].experiment
    copies = 3 + (2 if member.algorithm.optimizer == "adam" else int(has_momentum(member)))
    num_clients = member.network.num_clients
    models = group.runs_per_batch * num_clients * group.simulation.num_params * 4 * copies
    data = sum(leaf.nbytes for leaf in jax.tree.leaves(group.simulation.data))
    return data, models, num_clients
