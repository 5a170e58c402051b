"""A study as an environment, in which policies for mobile clients are trained with tools for reinforcement learning.

Its functions are those of the library gymnax: ``reset`` and ``step`` are pure, can be compiled and mapped, and an
episode that ends begins again by itself. Each mobile client is an agent, and all agents share one reward. An action is
the point of the map for which a client heads.

There is no second simulation. The agents are a strategy (`mdfl_jax.mobility.choosing`) whose numbers are the actions,
and a step of the environment is `Simulation.advance`, the rounds of the study from one evaluation to the next.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.config.resolve import Config, as_config
from mdfl_jax.config.sections import Experiment, flat, setting_of
from mdfl_jax.contrib.strategies.learnt import features
from mdfl_jax.contrib.terrains.plane import POINTS
from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.core.numbers import from_values, number
from mdfl_jax.core.sharding import largest_of_runs
from mdfl_jax.core.types import Hparams
from mdfl_jax.engine.simulation import Carry, Simulation
from mdfl_jax.metrics.history import Metrics
from mdfl_jax.mobility.choosing import TERRAINS, Movers, Sight, Strategy, StrategyNumbers, StrategyState, forms_of
from mdfl_jax.mobility.registry import movement_of, world_in
from mdfl_jax.networks.wrappers.attacked import AttackConfig
from mdfl_jax.networks.wrappers.roadside import ServerConfig
from mdfl_jax.study.prepare.task import build_task
from mdfl_jax.study.study import Study, build_simulation, make_study

Observe = Callable[[Sight], Any]


class AgentNumbers(StrategyNumbers):
    """The numbers of agents: what they do in this step."""

    goal: int = number(0, "for each mobile client, the index of the point for which it heads: [A]")


def _head_for_goal(key: jax.Array, sight: Sight) -> jax.Array:
    return sight.numbers.goal[sight.rank]


AGENTS = Strategy(_head_for_goal, everywhere=True, replans=True)


class EnvParams(NamedTuple):
    """What an environment is told anew in each step, so that no compiled program contains it.

    Attributes:
      hparams: the traced numbers of the study, such as the radius and alpha. They may differ among mapped environments;
        the number of mobile clients may not.
      data: the data of the task.
    """

    hparams: Hparams
    data: Any


class EnvState(NamedTuple):
    """The state of an episode.

    Attributes:
      key: the key of the run; that of a seed is ``jax.random.key(seed)``.
      carry: the state of the simulation.
      level: [] float32, the value whose change is the reward.
    """

    key: jax.Array
    carry: Carry
    level: jax.Array


class Observation(NamedTuple):
    """What the agents know, each of its own.

    Attributes:
      seen: a tree of [A, ...], by default the eight features of each point that ``learnt`` sees, [A, K, 8].
      action_mask: [A, K] bool, the points that an agent may choose.
    """

    seen: Any
    action_mask: jax.Array


def _waited(memory: StrategyState, is_mobile: jax.Array) -> jax.Array:
    """Return how many rounds static clients have waited for a mobile client, the mean over all pairs of them."""
    pairs = is_mobile[:, None] & ~is_mobile
    return jnp.sum(jnp.where(pairs, memory.round - memory.last, 0)) / jnp.maximum(jnp.sum(pairs), 1)


REWARDS = {
    "accuracy": "the change of the judged accuracy, as a share",
    "consensus": "how much smaller the distance between the models has become",
    "waiting": "minus the rounds that static clients have waited for a mobile client, the mean over all pairs of them",
}


@dataclasses.dataclass(frozen=True, eq=False)
class Environment:
    """A study whose mobile clients are moved from outside. `environment` makes it.

    Attributes:
      simulation: the simulation of the study, with agents in place of the mobility rule.
      movers: the agents' world, and what they know.
      num_agents: A, the number of mobile clients.
      num_actions: K, the points of the map: those of the grid row by row, or of the lattice over the plane.
      reward: one of `REWARDS`.
      observe: what an agent sees of what it knows.
    """

    simulation: Simulation
    movers: Movers
    num_agents: int
    num_actions: int
    reward: str
    observe: Observe

    @property
    def num_steps(self) -> int:
        """The steps of an episode."""
        return self.simulation.num_evaluations

    def reset(self, key: jax.Array, params: EnvParams) -> tuple[Observation, EnvState]:
        """Begin the run of a key.

        Args:
          key: the key of the run. It draws everything, as the key of a seed does in a study.
          params: from `environment`.
        """
        state = self._reset(key, params)
        return self._observation(state, params), state

    def step(
        self, key: jax.Array, state: EnvState, action: jax.Array, params: EnvParams
    ) -> tuple[Observation, EnvState, jax.Array, jax.Array, Metrics]:
        """Compute the rounds until the next evaluation, in which each agent heads for its point.

        Args:
          key: the key of the run that begins if this one ends.
          state: from `reset` or from this function.
          action: [A] int32, the index of a point for each agent, in the order of the clients.
          params: from `environment`.

        Returns:
          (observation, state, reward [] float32, done [] bool, the metrics of the study's evaluation by name). An
          episode ends after the rounds of the study, or when its run has diverged, which gives no reward. Observation
          and state are then those of the run that begins.
        """
        simulation, (hparams, data) = self.simulation, params
        agents = _innermost(hparams.network).rules[0].replace(goal=action)
        told = hparams._replace(network=_with_agents(hparams.network, agents))
        carry, metrics = simulation.advance(data, told, state.key, state.carry)
        after = EnvState(state.key, carry, self._level(carry, metrics))
        diverged = carry.divergence.is_there
        reward = jnp.where(diverged, 0.0, after.level - (0.0 if self.reward == "waiting" else state.level))
        done = diverged | (carry.round >= simulation.schedule.rounds)
        begun = jax.lax.cond(largest_of_runs(done), lambda: self._reset(key, params), lambda: after)
        state = jax.tree.map(lambda new, old: jnp.where(done, new, old), begun, after)
        return self._observation(state, params), state, reward, done, metrics

    def _reset(self, key: jax.Array, params: EnvParams) -> EnvState:
        carry, metrics = self.simulation.init(params.data, params.hparams, key)
        return EnvState(key, carry, self._level(carry, metrics))

    def _level(self, carry: Carry, metrics: Metrics) -> jax.Array:
        if self.reward == "accuracy":
            name = "mean_model_accuracy" if self.simulation.schedule.global_only else "accuracy"
            return jnp.mean(metrics[name])
        if self.reward == "consensus":
            return -metrics["consensus_distance"]
        return -_waited(_innermost(carry.network).rules[0], self._mobile(carry))

    def _mobile(self, carry: Carry) -> jax.Array:
        return self.simulation.network.places(carry.network).is_mobile

    def _observation(self, state: EnvState, params: EnvParams) -> Observation:
        """Let each agent look at the world before it chooses, as a strategy does."""
        network, movers = _innermost(state.carry.network), self.movers
        world = network.world._replace(numbers=_innermost(params.hparams.network).rules[0].typed())
        memory = network.rules[0]
        memory = memory._replace(clients=movers.terrain.stand(world, memory)[0])
        chart = movers.terrain.chart(world, memory.body)
        (agents,) = jnp.nonzero(self._mobile(state.carry), size=self.num_agents, fill_value=0)

        def look(agent: jax.Array) -> Observation:
            sight, _ = movers.sight(state.key, chart, memory, agent, memory.clients.destination)
            return Observation(self.observe(sight), sight.valid)

        return jax.vmap(look)(agents.astype(jnp.int32))


def _innermost(network: Any) -> Any:
    """Return the numbers or the state of the network in space, which others may wrap."""
    return _innermost(network.inner) if hasattr(network, "inner") else network


def _with_agents(network: Any, numbers: AgentNumbers) -> Any:
    """Return the numbers of a network whose only mobility rule are the agents."""
    if hasattr(network, "inner"):
        return network._replace(inner=_with_agents(network.inner, numbers))
    return network._replace(rules=(numbers,), mobility=0)


def _refused(study: Study, experiment: Experiment) -> Iterator[tuple[str, bool, str]]:
    """Yield what an environment cannot have: the field, whether it has it, and what it must be."""
    network = experiment.network
    yield "sweep", len(study.points) > 1, "'', or have one point"
    yield "network.graph", bool(network.graph), "'': agents move in space"
    yield "server.pattern", bool(ServerConfig.of(experiment).pattern), "'': meetings are computed before anybody moves"
    elsewhere = not network.graph and world_in(experiment) not in TERRAINS
    yield "network.mobility", elsewhere, "a rule of the grid or the plane"
    yield "network.num_mobile", network.num_mobile < 1, "at least 1: each mobile client is an agent"
    yield "network.order", network.order != "mix_first", "mix_first: clients else move before an agent acts"
    yield "motion.warm_up", experiment.motion.warm_up > 0, "0: clients else move before an agent acts"
    yield "model.pretrained", any(study.groups[0].starts), "'' or a file of weights: checkpoints belong to seeds"
    yield "attack.name", bool(AttackConfig.of(experiment).name), "'': rewards are of all clients"
    yield "eval_clients", experiment.eval_clients > 0, "0: rewards are of all clients"
    yield "eval_samples", experiment.eval_samples > 0, "0: rewards are of all test samples"
    yield "vary", experiment.vary != "all", "all: the key of a run is all that differs"


def environment(config: Config, reward: str = "accuracy", observe: Observe = features) -> tuple[Environment, EnvParams]:
    """Make an environment of a study in which mobile clients are agents.

    Args:
      config: as of `mdfl_jax.run`, with one sweep point. ``network.mobility`` says in which world clients move, and
        ``motion.knowledge`` what agents know; a step is ``eval_every`` rounds, and an episode ``rounds``. Links are
        matrices.
      reward: one of `REWARDS`.
      observe: (what ONE agent knows, a `mdfl_jax.mobility.Sight`) -> any tree of arrays.

    Returns:
      (the environment, the numbers that its functions take).

    Raises:
      UserError: if anything is wrong with the configuration, or an environment cannot have it.

    >>> env, params = environment({"rounds": 2, "eval_every": 1, "model.name": "linear"})
    >>> env.num_agents, env.num_actions, env.num_steps
    (5, 324, 2)
    """
    if reward not in REWARDS:
        raise UserError(unknown_name("reward", reward, REWARDS))
    study = make_study(as_config(config))
    experiment, group = study.points[0].experiment, study.groups[0]
    for path, is_there, allowed in _refused(study, experiment):
        if is_there:
            value = flat(dataclasses.asdict(experiment))[path]
            raise UserError(f"{path} is {value!r}; in an environment it must be {allowed}")
    world, knowledge = world_in(experiment), movement_of(experiment).knowledge
    (form,) = forms_of(AGENTS, AgentNumbers, (world,), (knowledge,))
    numbers = from_values(form.numbers, vars(experiment.motion))
    numbers.check(setting_of(experiment, experiment.network.mobility))
    tree = group.pretrained.tree if group.pretrained else None
    simulation = build_simulation(experiment, build_task(experiment, group.dataset, pretrained=tree), [form])
    count, hparams = experiment.network.num_mobile, group.hparams[0]
    numbers = numbers.replace(goal=[0] * count).traced()
    hparams = hparams._replace(network=_with_agents(hparams.network, numbers))
    points = experiment.network.grid_size**2 if world == "grid" else POINTS
    movers = Movers(AGENTS, TERRAINS[world], knowledge)
    made = Environment(simulation, movers, count, points, reward, observe)
    return made, EnvParams(hparams, simulation.data)
