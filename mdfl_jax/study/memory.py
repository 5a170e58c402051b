"""Estimates what a study needs from its compiled programs: parameters, FLOPs, bytes by part, runs that fit."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax

from mdfl_jax.core import devices, stages
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.sharding import SEED
from mdfl_jax.engine.programs import Placement, TracedStep, in_turns, traced_steps
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.storage.disk import host_memory
from mdfl_jax.study.study import Group, Study, evenly

MIB = 2**20
SHARE = 0.9  # of a device's memory that a study may use; the allocator and the runtime need the rest


class Need(NamedTuple):
    """The bytes that a batch of runs needs on one device, from the compiler's analysis.

    Attributes:
      data: The data set.
      state: The state between rounds (models, optimiser, world) of all its runs, and the results of one turn.
      temporary: The activations, gradients and copies while a program runs.
    """

    data: int
    state: int
    temporary: int

    @property
    def total(self) -> int:
        """The sum of the parts."""
        return self.data + self.state + self.temporary

    def advice(self) -> str:
        """Say what to change if not even one run fits, depending on the largest part."""
        largest = max(self._fields, key=lambda part: getattr(self, part))
        return {
            "data": "the data is the largest part: a smaller data.limit_train",
            "state": "models and optimiser are the largest part: more devices with engine.client_devices, fewer "
            "network.num_clients, or algorithm.momentum=0",
            "temporary": "activations and gradients are the largest part: a smaller engine.tile or "
            "algorithm.batch_size, engine.remat=true, engine.precision=bfloat16, or more devices with "
            "engine.client_devices",
        }[largest]


class TooLargeError(UserError):
    """Not even one run of a study fits the devices."""


class Footprint(NamedTuple):
    """What a group of points needs.

    Attributes:
      num_params: The number of parameters of one client's model, d.
      models: The bytes of the models of a run.
      optimiser: The bytes of the rest of the algorithm's state of a run.
      need: The bytes on a device that computes one run.
      most_runs: The number of runs that fit on all devices together.
      limit: The bytes of a device that the study may use.
    """

    num_params: int
    models: int
    optimiser: int
    need: Need
    most_runs: int
    limit: int


def device_limit(bound_mib: int = 0) -> int:
    """Return the bytes of one device that a study may use: the user's limit, or `SHARE` of what the device has."""
    if bound_mib:
        return bound_mib * MIB
    aim = devices.current()
    shares = aim.name == "cpu" and aim.is_here  # the host's memory
    return int(SHARE * (min(aim.memory, host_memory() // jax.local_device_count()) if shares else aim.memory))


def need(group: Group, runs: int, at_once: int) -> Need:
    """Compile a group's rounds and evaluation for a batch of runs, and return the bytes that they need on a device.

    Args:
      group: The points that share the programs.
      runs: The number of runs in the batch.
      at_once: As in `mdfl_jax.engine.programs.Placement`.
    """
    placement = Placement(group.simulation, runs, at_once)
    options = devices.compiler_options(group.simulation.alone)
    steps = main_steps(group, placement)
    return need_of(steps, [step.lower().compile(options) for step in steps])


def main_steps(group: Group, placement: Placement) -> list[TracedStep]:
    """Return the rounds and the evaluation of a turn: the two programs that a study spends its time in."""
    num_runs = placement.num_runs
    turn = placement.inputs([group.hparams[0]] * num_runs, list(range(num_runs)))[0]
    steps = {step.name: step for step in traced_steps(placement, turn, turn, before=False)}
    return [steps[name] for name in ("rounds", "evaluate")]


def need_of(steps: Sequence[TracedStep], compiled: Sequence[Any]) -> Need:
    """Return the bytes that a batch of runs needs on a device.

    Args:
      steps: the rounds and the evaluation of a turn, from `main_steps`.
      compiled: their programs.
    """
    placement = steps[0].placement
    rounds, evaluation = (program.memory_analysis() for program in compiled)
    state = sum(steps[0].sizes[1:])  # all but the data
    results = rounds.output_size_in_bytes - rounds.alias_size_in_bytes + evaluation.output_size_in_bytes
    temporary = max(temporary_bytes(rounds), temporary_bytes(evaluation))
    return Need(_bytes(placement.simulation.data), len(placement.turns) * state + results, temporary)


def temporary_bytes(memory: Any) -> int:
    """Return the bytes that a program needs beside its arguments and results.

    What a TPU's compiler calls temporary includes what it puts in the place of arguments and results that are no longer
    needed or not yet there: with a state of 4.5 GiB, 13.5 GiB of 15.75. So there it is the peak less these.
    """
    if devices.backend() != "tpu" or not memory.peak_memory_in_bytes:
        return memory.temp_size_in_bytes
    around = memory.argument_size_in_bytes + memory.output_size_in_bytes - memory.alias_size_in_bytes
    return max(memory.peak_memory_in_bytes - around, 0)


@stages.stage("compiling, to plan the memory")
def footprint(study: Study, group: Group) -> Footprint:
    """Compile a group's program for one run on each device, and return what it needs.

    If one run fits, and the runs of a device are mapped together, the programs are also compiled for two.
    """
    engine = study.experiment.engine
    simulation, carry = group.simulation, group.carry
    models = 4 * simulation.num_params * carry.messages.shape[0]
    algorithm = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(carry.algorithm))
    places = _places(simulation)
    one = need(group, places, engine.runs_at_once)
    limit, most = device_limit(engine.memory_mib), 0
    if one.total <= limit:
        if in_turns(simulation, engine.runs_at_once):
            most = places * following(one, limit)
        else:
            a_run = max(need(group, 2 * places, engine.runs_at_once).total - one.total, 1)
            most = places * (1 + (limit - one.total) // a_run)
    return Footprint(simulation.num_params, models, algorithm - models, one, most, limit)


def following(one: Need, limit: int) -> int:
    """Return how many runs can follow one another on a device, from what the first one needs: each adds its state.

    Args:
      one: The bytes that one run needs.
      limit: The bytes of the device that the study may use.
    """
    return max(limit - one.data - one.temporary, 0) // max(one.state, 1)


def fit(study: Study, log: Callable[[str], None]) -> Study:
    """Return the study with batches that fit the devices, and log a line for each group whose batches are split.

    Programs are compiled for this only if the user sets a memory limit, if a rough count comes near the devices' memory
    (half of it), or if activations may need most of it (on an accelerator, or if much is mapped together).

    Raises:
      TooLargeError: If not even one run fits. The message says what one client needs, and what to change.
    """
    engine = study.experiment.engine
    limit = device_limit(engine.memory_mib)
    groups = []
    for group in study.groups:
        unlike_rough = devices.backend() != "cpu" or engine.mapping == "vmap" or engine.runs_at_once > 1
        num_runs = len(group.runs(study.seeds))
        if engine.memory_mib or unlike_rough or _rough(group) > limit / 2:
            plan = footprint(study, group)
            if not plan.most_runs:
                raise _too_small(study, group, plan)
            if plan.most_runs < group.runs_per_batch:
                size = evenly(num_runs, plan.most_runs)
                log(
                    f"{group.runs_per_batch} runs at once would not fit {plan.limit / MIB:.0f} MiB a device: "
                    f"split into batches of {size}"
                )
                group = group._replace(runs_per_batch=size)
        groups.append(group)
    return study._replace(groups=groups)


def _places(simulation: Simulation) -> int:
    """Return how many runs are computed side by side: one on each device, or on each row of the mesh."""
    return simulation.mesh.shape[SEED] if simulation.mesh else len(devices.devices())


def _bytes(tree: Any) -> int:
    return sum(leaf.nbytes for leaf in jax.tree.leaves(tree))


def _rough(group: Group) -> int:
    """Estimate bytes of a device from shapes: the data, and four states for each run (results, gradients, copies)."""
    simulation, carry = group.simulation, group.carry
    held, where = (carry.algorithm, carry.clients), simulation.layout(carry)
    lies = [place.shard_shape for place in jax.tree.leaves((where.algorithm, where.clients))] if where else None
    state = 0
    for i, leaf in enumerate(jax.tree.leaves(held)):
        state += math.prod(lies[i](leaf.shape) if lies else leaf.shape) * leaf.dtype.itemsize
    return _bytes(simulation.data) + 4 * state * -(-group.runs_per_batch // _places(simulation))


def _too_small(study: Study, group: Group, plan: Footprint) -> TooLargeError:
    """Return an error with the limit, and what one run needs."""
    clients = study.points[group.points[0]].experiment.network.num_clients
    set_by = "engine.memory_mib" if study.experiment.engine.memory_mib else "the memory of a device, in MiB,"
    return TooLargeError(
        f"{set_by} is {plan.limit // MIB}; one run of {clients} clients needs {plan.need.total / MIB:.1f} (data "
        f"{plan.need.data / MIB:.1f}, state {plan.need.state / MIB:.1f}, activations and gradients "
        f"{plan.need.temporary / MIB:.1f}); {plan.need.advice()}"
    )
