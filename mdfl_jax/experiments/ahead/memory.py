"""What a study will take, from its compiled programs: parameters, FLOPs a round, bytes by part, seeds that fit."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from mdfl_jax import target
from mdfl_jax.errors import UserError
from mdfl_jax.experiments.ahead.flops import round_flops
from mdfl_jax.experiments.build.simulation import build_simulation, hparams_of
from mdfl_jax.experiments.run.study import Group, Study
from mdfl_jax.montecarlo import monte_carlo
from mdfl_jax.sharding import SEED
from mdfl_jax.simulation import Simulation

MIB = 2**20
SHARE = 0.9  # of a device's memory that a study may plan with; the rest is the allocator's and the runtime's


class Need(NamedTuple):
    """Bytes on one device, as the compiler's analysis of a program gives them.

    Attributes:
      data: the data set.
      state: what lies between rounds (models, optimiser, world) of all its runs, arguments and results.
      temporary: activations, gradients and copies while it runs.
    """

    data: int
    state: int
    temporary: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.data + self.state + self.temporary


class Footprint(NamedTuple):
    """A group's plan.

    Attributes:
      num_params: d, of one client.
      models: bytes of the models of a run.
      optimiser: bytes of the rest of the algorithm's state of a run.
      need: of one run on a device.
      most_runs: runs that fit on all devices together.
      limit: bytes of a device that may be planned with.
    """

    num_params: int
    models: int
    optimiser: int
    need: Need
    most_runs: int
    limit: int


def device_limit(bound_mib: int = 0) -> int:
    """Bytes of one device that a study may take: the user's bound, or `SHARE` of what the device has."""
    return bound_mib * MIB if bound_mib else int(SHARE * target.current().memory)


def need(group: Group, runs: int, at_once: int) -> Need:
    """Bytes on a device for a batch of runs, from the compiled program.

    Args:
      group: the points of a program.
      runs: of the batch.
      at_once: as `mdfl_jax.montecarlo.monte_carlo`.
    """
    mc = monte_carlo(group.simulation, runs, at_once)
    batch = mc.runs([group.hparams[0]] * runs, list(range(runs)))
    return need_of(
        group,
        mc.advance.lower(mc.data, *batch, mc.state(batch)).compile(target.compiler_options(group.simulation.alone)),
    )


def need_of(group: Group, compiled: Any) -> Need:
    """Bytes on a device, from a group's compiled program."""
    analysis = compiled.memory_analysis()
    data = _bytes(group.simulation.data)
    arguments = analysis.argument_size_in_bytes
    results = analysis.output_size_in_bytes - analysis.alias_size_in_bytes
    return Need(data, max(arguments - data, 0) + results, analysis.temp_size_in_bytes)


def footprint(study: Study, group: Group) -> Footprint:
    """Compiles a group's program for one run a device, and tells what it takes.

    And for two, where one fits; not where runs follow one another on an accelerator (`following`).
    """
    engine = study.experiment.engine
    simulation: Simulation = group.simulation
    key = jax.random.key(0)
    carry = jax.eval_shape(simulation.init, simulation.data, group.hparams[0], key)[0]
    models = 4 * simulation.num_params * carry.messages.shape[0]
    of_clients = jax.eval_shape(simulation.kept, carry).algorithm
    algorithm = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(of_clients))
    places = _places(simulation)
    one = need(group, places, engine.runs_at_once)
    limit, most = device_limit(engine.memory_mib), 0
    if one.total <= limit:
        if simulation.alone and not engine.runs_at_once:
            most = places * following(one, limit)
        else:
            a_run = max(need(group, 2 * places, engine.runs_at_once).total - one.total, 1)
            most = places * (1 + (limit - one.total) // a_run)
    return Footprint(simulation.num_params, models, algorithm - models, one, most, limit)


def following(one: Need, limit: int) -> int:
    """Runs that follow one another on a device within a limit, by what the first one needs: a bound from below.

    From the second on their loop keeps the states that come in beside those that go out: it adds up to four states,
    each further run two (measured on a CPU, 3.4 and 2). Compiling for two would tell, and take minutes more.
    """
    spare, state = limit - one.total, max(one.state, 1)
    return 0 if spare < 0 else 1 if spare < 4 * state else 2 + (spare - 4 * state) // (2 * state)


def fit(study: Study, log: Callable[[str], None]) -> Study:
    """The study with batches that fit the devices; a line where one had to be split.

    Programs are compiled for it only where the memory is bounded, a rough count comes near the devices', or activations
    may be most of it (an accelerator, much mapped together).

    Args:
      study: from `make_study`.
      log: takes lines for the user.

    Raises:
      UserError: where not even one run fits; it tells what one client needs.
    """
    engine = study.experiment.engine
    limit = device_limit(engine.memory_mib)
    groups = []
    for group in study.groups:
        unlike_rough = target.backend() != "cpu" or engine.mapping == "vmap" or engine.runs_at_once > 1
        if engine.memory_mib or unlike_rough or _rough(group) > limit / 2:
            plan = footprint(study, group)
            if not plan.most_runs:
                raise _too_small(study, group, plan)
            if plan.most_runs < group.runs_per_batch:
                num_runs = len(group.points) * len(study.seeds)
                size = -(-num_runs // -(-num_runs // plan.most_runs))
                log(
                    f"{group.runs_per_batch} runs at once would not fit {plan.limit / MIB:.0f} MiB a device: "
                    f"split into batches of {size}"
                )
                group = group._replace(runs_per_batch=size)
        groups.append(group)
    return study._replace(groups=groups)


def _places(simulation: Simulation) -> int:
    """How many runs go on side by side: one a device, or one a row of the mesh."""
    return simulation.mesh.shape[SEED] if simulation.mesh else len(target.devices())


def _bytes(tree: Any) -> int:
    return sum(leaf.nbytes for leaf in jax.tree.leaves(tree))


def _rough(group: Group) -> int:
    """Bytes a device from shapes alone: the data, and four times the state of each run (results, gradients, copies)."""
    simulation = group.simulation
    carry, _ = jax.eval_shape(simulation.init, simulation.data, group.hparams[0], jax.random.key(0))
    held, where = (carry.algorithm, carry.clients), simulation.layout(carry)
    lies = [place.shard_shape for place in jax.tree.leaves((where.algorithm, where.clients))] if where else None
    state = 0
    for i, leaf in enumerate(jax.tree.leaves(held)):
        state += math.prod(lies[i](leaf.shape) if lies else leaf.shape) * leaf.dtype.itemsize
    return _bytes(simulation.data) + 4 * state * -(-group.runs_per_batch // _places(simulation))


def _too_small(study: Study, group: Group, plan: Footprint) -> UserError:
    """Names the bound, what one run needs, and what one client alone needs with one block in flight."""
    member = study.points[group.points[0]].experiment
    alone = dataclasses.replace(
        member,
        network=dataclasses.replace(member.network, num_clients=1, num_mobile=0, mobility="static", graph=""),
        server=dataclasses.replace(member.server, pattern="fixed", file="") if member.server.file else member.server,
        engine=dataclasses.replace(member.engine, mapping="scan"),
    )
    rules = [alone.network.mobility]
    tree = group.pretrained.tree if group.pretrained else None
    single = group._replace(
        simulation=build_simulation(alone, group.dataset, rules, pretrained=tree),
        hparams=[hparams_of(alone, rules)],
        points=[0],
    )
    client = need(single, 1, 1)
    set_by = "engine.memory_mib" if study.experiment.engine.memory_mib else "the memory of a device, in MiB,"
    return UserError(
        f"{set_by} is {plan.limit // MIB}; one run of {member.network.num_clients} clients needs "
        f"{plan.need.total / MIB:.1f} (data {plan.need.data / MIB:.1f}, state {plan.need.state / MIB:.1f}, activations "
        f"and gradients {plan.need.temporary / MIB:.1f}), one client alone {client.total / MIB:.1f}"
    )


def describe(study: Study) -> str:
    """The plan of every group, for ``launch.sweep --dry_run``."""
    lines = []
    for group in study.groups:
        plan = footprint(study, group)
        lines += [
            f"  {'; '.join(study.points[i].id for i in group.points)}",
            f"    parameters a client  {plan.num_params:>16,}",
            f"    GFLOP a round        {round_flops(study, group) / 1e9:>16,.3f}",
            f"    MiB of a run: models {plan.models / MIB:.1f}, optimiser and other state {plan.optimiser / MIB:.1f}",
            f"    MiB of a device for one run at a time: data {plan.need.data / MIB:.1f}, state "
            f"{plan.need.state / MIB:.1f}, activations and gradients {plan.need.temporary / MIB:.1f}; "
            f"in all {plan.need.total / MIB:.1f} of {plan.limit / MIB:.0f}",
            f"    seeds (runs) that fit together: {plan.most_runs:,}; a batch has {group.runs_per_batch}",
        ]
    return "\n".join(lines)
