"""`mdfl sweep --dry_run`: what a study needs on the devices that are there. Nothing runs, and nothing is written."""

import dataclasses
from typing import TYPE_CHECKING

import jax

from mdfl_jax.cli import common
from mdfl_jax.cli.commands import DRY_RUNS
from mdfl_jax.config.checks import keys_of
from mdfl_jax.core.flops import count_flops
from mdfl_jax.core.trees import chosen_leaves, trained
from mdfl_jax.study import make_study
from mdfl_jax.study.memory import MIB, footprint
from mdfl_jax.study.plan import plan
from mdfl_jax.study.prepare.task import build_task
from mdfl_jax.study.signals import apart
from mdfl_jax.study.study import ONE, Group, Study, build_simulation

if TYPE_CHECKING:
    from ml_collections import ConfigDict

    from mdfl_jax.core.devices import Wanted


def _run(wanted: "Wanted | None", config: "ConfigDict", effort: str) -> int:
    """Print the plan of a study, and what its programs need.

    Args:
      wanted: not used: the devices are those of this process.
      config: the configuration of the study.
      effort: not used.

    Returns:
      The exit status, 1 if a program does not fit.
    """
    del wanted, effort
    study = make_study(config)
    print(plan(study, given=common.fields_of_user(common.flag_value("config"))))
    told, fits = apart(lambda: _describe(study)) or ("", True)
    print(told)
    return 0 if fits else 1


for _kind in ("here", "cpu"):
    DRY_RUNS.register(_kind)(_run)


def _describe(study: Study) -> tuple[str, bool]:
    """Describe what every group needs, and tell whether a run of each fits."""
    lines, fits = list[str](), True
    for group in study.groups:
        plan = footprint(study, group)
        lines += [
            f"  {'; '.join(study.points[i].id for i in group.points)}",
            f"    parameters a client  {plan.num_params:>16,}",
            *_by_kind(study, group),
            f"    GFLOP a round        {round_flops(study, group) / 1e9:>16,.3f}",
            f"    MiB of a run: models {plan.models / MIB:.1f}, optimiser and other state {plan.optimiser / MIB:.1f}",
            f"    MiB of a device for one run at a time: data {plan.need.data / MIB:.1f}, state "
            f"{plan.need.state / MIB:.1f}, activations and gradients {plan.need.temporary / MIB:.1f}; "
            f"in all {plan.need.total / MIB:.1f} of {plan.limit / MIB:,.0f}",
            f"    runs that fit together: {plan.most_runs:,}; a batch has {group.runs_per_batch}"
            if plan.most_runs
            else f"    does not fit: {plan.need.advice()}",
        ]
        fits &= plan.most_runs > 0
    return "\n".join(lines), fits


def _by_kind(study: Study, group: Group) -> list[str]:
    """Return a line with the parameters that are frozen, trained and exchanged, if these are not all."""
    experiment, simulation = study.points[group.points[0]].experiment, group.simulation
    if not (experiment.model.trainable or experiment.model.shared):
        return []
    model = dataclasses.replace(experiment.model, trainable="")
    whole = build_task(dataclasses.replace(experiment, model=model), group.dataset)
    learnt = trained(simulation.model)
    sent = chosen_leaves(learnt, experiment.model.shared) if experiment.model.shared else learnt
    everything = trained(jax.eval_shape(whole.init, whole.data, jax.random.key(0)))
    trees = everything, learnt, sent
    of_all, of_trained, of_sent = (sum(leaf.size for leaf in jax.tree.leaves(tree)) for tree in trees)
    return [f"    of them frozen {of_all - of_trained:,} (once a run), trained {of_trained:,}, exchanged {of_sent:,}"]


def round_flops(study: Study, group: Group) -> float:
    """Return the FLOPs of a round of one run, which are the same for every form, mapping, tile and number of devices.

    Each sample counts once, convolutions count as those of the library, and nothing counts as computed again. With a
    full batch, one sample too many counts for each client, where its last block is filled up. In epochs, every client
    counts as the one that takes the most steps (`epoch_steps`).

    This builds the simulation once more and puts its data on the device, which is meant for a dry run, not for a study.
    """
    experiment, hparams = study.points[group.points[0]].experiment, group.hparams[0]
    engine = dataclasses.replace(
        experiment.engine,
        convolution="library",
        mapping="scan",
        remat=False,
        block_size=experiment.algorithm.batch_size or 1,
    )
    data = dataclasses.replace(experiment.data, crop=0, flip=False)  # on accelerators, matrix products compute these
    listed = ONE if group.simulation.network.lists else 0
    algorithm = experiment.algorithm
    if steps := epoch_steps(study, group):  # a loop whose end only the run knows would count once
        algorithm = dataclasses.replace(algorithm, local_epochs=0, local_steps=steps)
    member = dataclasses.replace(experiment, engine=engine, data=data, algorithm=algorithm)
    plain = build_simulation(member, build_task(member, group.dataset), group.rules, listed)
    key = jax.random.key(0)
    carry = jax.eval_shape(plain.first, plain.data, hparams, key)
    return count_flops(jax.make_jaxpr(plain.round)(plain.data, hparams, key, carry))


def epoch_steps(study: Study, group: Group) -> int:
    """Return the steps of a round of local epochs, those of the largest client of the first seed; 0 without epochs."""
    point = study.points[group.points[0]].experiment
    if not point.algorithm.local_epochs:
        return 0
    alone = build_task(point, group.dataset)  # without a mesh, whose devices need not be there
    drawn = dataclasses.replace(group.simulation, task=alone).partition
    clients = jax.jit(drawn)(alone.data, group.hparams[0], keys_of(point, study.seeds[:1])[0])
    return point.algorithm.local_epochs * -(-int(clients.num_samples.max()) // point.algorithm.batch_size)
