"""One simulation: a task, a network, an algorithm and a schedule, and everything that is computed with them.

A run has five steps. `Simulation.draw` makes the clients' data and the first model, `Simulation.world` the network's
first state, and `Simulation.begin` the algorithm's. `Simulation.rounds` computes the rounds until the next evaluation,
and `Simulation.evaluate` measures. All steps are pure functions of hyperparameters and a key. `draw` and `world` depend
on the algorithm only in whether it has a server of its own. Studies compile each step by itself, so that equal steps of
several sweep points are compiled once (`mdfl_jax.engine.programs`).
"""

import dataclasses
import math
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from mdfl_jax.core import contract, sharding
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.message_bits import Bits, add_bits, no_bits, words
from mdfl_jax.core.metric import HOLDS, Metric
from mdfl_jax.core.rng import stream, stream_at
from mdfl_jax.core.sharding import largest_of_runs
from mdfl_jax.core.stopping import (
    Divergence,
    StopState,
    initial_stop_state,
    largest_norm,
    no_divergence,
    rounds_computed,
    update_divergence,
    update_stop_state,
)
from mdfl_jax.core.trees import exchanged, of_types, trained
from mdfl_jax.core.types import (
    FIXED,
    SYMMETRIC,
    Algorithm,
    ClientParams,
    Gradient,
    Held,
    Hparams,
    Links,
    Network,
    Observed,
    Params,
    RoundContext,
    RoundStats,
    RunFacts,
    Schedule,
    Score,
    Task,
)
from mdfl_jax.exchange.active import computed_by, heard_links, in_round, links_of_active
from mdfl_jax.metrics.declare import check_metrics, list_metrics
from mdfl_jax.metrics.evaluation import (
    Evaluation,
    MetricRows,
    Records,
    RoundView,
    Sample,
    Sums,
    add_round,
    choose_records,
    measured,
    metrics_by_round,
    no_rows,
    no_sums,
    rows_before,
    rows_of_round,
    rows_without_round,
)
from mdfl_jax.metrics.history import Metrics, as_history, by_round
from mdfl_jax.metrics.sampling import check_sampling, everyone, is_sampled, metrics_of_sample, sampled_scores
from mdfl_jax.metrics.values import differences, mean_model
from mdfl_jax.networks.costs import LinkLoad, probe
from mdfl_jax.tasks.scoring import MANY_MODELS

_NEEDS = {
    "adjacency": "links between clients",
    "mix": "mixing weights",
    "server": "meetings with a server",
    SYMMETRIC: "symmetric mixing weights",
    FIXED: "the same links in every round",
}
"""What an algorithm may need from a network, in the words of error messages."""
LIST_PLACES = Metric(
    "list_places",
    lambda at: at.network.lists.needed(at.network_state),
    HOLDS,
    shape=(),
    label="places that a neighbour list needed",
    summary=False,
)
"""The largest number of neighbour slots that a client has needed so far, its own slot included."""


class Carry(NamedTuple):
    """The complete state of a run between two rounds.

    Attributes:
      round: [] int32 index of the next round.
      clients: the samples that each client holds, from ``Task.partition``; None if they are passed beside the state.
      network: the network's state.
      algorithm: the algorithm's state.
      messages: [N] int32 messages that each client has sent so far.
      bits: [N] counts of the bits of these messages.
      stop_state: the state of the stop rule; None without a stop rule.
      divergence: whether the run has diverged.
      memory: what the aggregation rule keeps of pairs of clients; None for a rule without a memory.
      task: the state of a task with `TaskHooks.changes`; None for other tasks.
    """

    round: jax.Array
    clients: Any
    network: Any
    algorithm: Any
    messages: jax.Array
    bits: Bits
    stop_state: StopState | None
    divergence: Divergence
    memory: Any = None
    task: Any = None


@dataclasses.dataclass(frozen=True, eq=False)
class Simulation:
    """A task, a network, an algorithm and a schedule that fit together, with the steps of a run as pure methods.

    In the methods, ``data`` is the task's data; it is an argument, so that a compiled program does not contain it.
    ``hparams`` are the hyperparameters of the run, and ``key`` is the key of its seed.

    Attributes:
      task: the learning problem.
      network: the links between the clients in each round.
      algorithm: the computation and communication of a round.
      schedule: the number of rounds, and how often the models are evaluated.

    Raises:
      UserError: if the parts do not fit together, or if a metric is declared wrongly.
    """

    task: Task
    network: Network
    algorithm: Algorithm
    schedule: Schedule

    def __post_init__(self) -> None:
        """Check that the parts fit together."""
        check_fit(self.task, self.network, self.algorithm, self.schedule)
        _ = self._measured
        if _size(self.model) >= 2**32:
            numbers = f"the model has {_size(self.model):,} numbers"
            raise UserError(f"{numbers}; what messages take is counted below 2^32 only")

    # What is known before a run.

    @property
    def data(self) -> Any:
        """The task's data, the first argument of most methods."""
        return self.task.data

    @property
    def mesh(self) -> Mesh | None:
        """The devices that share each run; None for one device."""
        return self.task.hooks.spread.mesh

    @property
    def alone(self) -> bool:
        """Whether one run keeps a device busy, so that runs are computed one after another."""
        return self.task.hooks.spread.alone

    @property
    def num_clients(self) -> int:
        """The number of clients, N."""
        return self.task.num_clients

    @property
    def num_evaluations(self) -> int:
        """The number of evaluations after the one before the first round."""
        return self.schedule.rounds // self.schedule.eval_every

    @cached_property
    def model(self) -> Any:
        """The shapes of one model, as ``Task.init`` returns it: a tree of `jax.ShapeDtypeStruct`."""
        return jax.eval_shape(self.task.init, self.task.data, jax.random.key(0))

    @cached_property
    def num_params(self) -> int:
        """The number of parameters of one model, d, without batch statistics."""
        return _size(trained(self.model))

    @cached_property
    def _measured(self) -> tuple[tuple[Metric, ...], Records]:
        task, network, schedule = self.task, self.network, self.schedule
        of_sample = metrics_of_sample(schedule.eval_clients, schedule.eval_samples, network.hooks.counted is not None)
        of_lists = (LIST_PLACES,) if self.counts_places else ()
        metrics = list_metrics(network.metrics, self.algorithm.metrics, of_sample, of_lists, asked=schedule.metrics)
        check_metrics(task, metrics, schedule.eval_clients)
        positions, limit_mib = schedule.record_positions, schedule.record_mib
        return choose_records(metrics, task.num_clients, schedule.rounds, positions, limit_mib)

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics that are measured, in this order."""
        return self._measured[0]

    @property
    def records(self) -> Records:
        """The records of the rounds besides the positions, their size, and whether they are kept."""
        return self._measured[1]

    @property
    def by_round(self) -> tuple[Metric, ...]:
        """The metrics whose value is kept for each round. Without positions, no record is kept."""
        return metrics_by_round(self.metrics, self.schedule.record_positions)

    @property
    def list_bound(self) -> int:
        """The slots of the network's neighbour lists, K; 0 if the lists can never be too short."""
        return self.network.lists.bound if self.network.lists else 0

    @property
    def counts_places(self) -> bool:
        """Whether the network counts the slots that neighbour lists need (`places_needed`)."""
        return bool(self.network.lists and self.network.lists.needed)

    @property
    def double_bits(self) -> Callable[[Any], float] | None:
        """(hparams.algorithm) -> the bits of a message as PaME counts them, or None as `Traits.double_bits`."""
        traits = self.algorithm.traits
        count, size = traits.double_bits, _size(exchanged(self.model, traits.local_statistics))
        return (lambda numbers: count(numbers, size)) if count else None

    @cached_property
    def link_load(self) -> Callable[[Any], LinkLoad]:
        """(hparams.algorithm) -> the messages that a link carries in a round (`mdfl_jax.networks.costs.probe`)."""
        return probe(self.algorithm, self.model)

    # The five steps of a run.

    def draw(self, data: Any, hparams: Hparams, key: jax.Array) -> tuple[Any, Params]:
        """Draw the clients' data, as ``Task.partition`` returns it, and the first model, as ``Task.init`` does."""
        return self.partition(data, hparams, key), self.task.init(data, stream(key, "init"))

    def world(self, hparams: Hparams, key: jax.Array, clients: Any) -> tuple[Any, RunFacts]:
        """Return the network's state before the first round, and the facts about the run."""
        with sharding.tracing_over(self.mesh):  # else the compiler would put collectives into its loops
            held = Held.by(clients)
            state = sharding.everywhere(self.network.init, hparams.network, key, held)
        return state, self._facts(clients, state)

    def begin(self, hparams: Hparams, model: Params, network: Any) -> tuple[Carry, Sums, MetricRows]:
        """Return the state before the first round, and the sums and rows that its evaluation reads.

        Args:
          hparams: the hyperparameters of the run, perhaps with models from which the clients start.
          model: the first model, from `draw`.
          network: the network's state, from `world`.

        Returns:
          (state without the clients' data, sums over no rounds, the rows of the metrics with one value for each round).
        """
        num_clients, client_params = self.num_clients, self._first_models(hparams, model)
        carry = Carry(
            round=jnp.int32(0),
            clients=None,
            network=network,
            algorithm=self.algorithm.init(hparams.algorithm, client_params),
            messages=jnp.zeros(num_clients, jnp.int32),
            bits=no_bits(num_clients),
            stop_state=initial_stop_state(jax.tree.leaves(model)[0].dtype) if self.schedule.stop_std else None,
            divergence=no_divergence(),
            memory=self.algorithm.traits.memory and self.algorithm.traits.memory(hparams.algorithm, num_clients),
            task=self.task.hooks.changes and self.task.hooks.changes.start,
        )
        before = rows_before(self.by_round, self.network, hparams.network, network, num_clients)
        none = no_rows(self.metrics, num_clients)
        return self._settle(carry), no_sums(self.metrics, self.network), none | before

    def rounds(
        self, data: Any, hparams: Hparams, key: jax.Array, clients: Any, carry: Carry
    ) -> tuple[Carry, Sums, MetricRows]:
        """Compute ``eval_every`` rounds. The rounds of a run that has stopped or diverged are only counted.

        Args:
          data, hparams, key: as in the other steps.
          clients: the clients' data, which never change; outside of the loop's state they are not copied.
          carry: the state without the clients' data.

        Returns:
          (state without the clients' data, sums over these rounds, values of the metrics with one value for each
          round).
        """
        schedule, num_clients, mesh = self.schedule, self.num_clients, self.mesh

        def go(state: tuple[Carry, Sums]) -> tuple[tuple[Carry, Sums], MetricRows]:
            carry, sums, rows = self.one_round(data, hparams, key, state[0]._replace(clients=clients), state[1])
            if self.alone and mesh is None:  # else the loop copies large models to another layout
                carry = carry._replace(algorithm=sharding.in_axis_order(carry.algorithm))
            return (carry._replace(clients=None), sums), rows

        def hold(state: tuple[Carry, Sums]) -> tuple[tuple[Carry, Sums], MetricRows]:
            carry, sums = state
            rows = rows_without_round(self.by_round, self.network, hparams.network, carry.network, num_clients)
            return (carry._replace(round=carry.round + 1), sums), rows

        has_diverged = carry.divergence.is_there

        def body(state: tuple[Carry, Sums], _: None) -> tuple[tuple[Carry, Sums], MetricRows]:
            stop_state = state[0].stop_state
            if stop_state is None and mesh is None:
                return go(state)
            ended = stop_state.stopped if stop_state is not None else has_diverged
            with sharding.tracing_over(mesh):
                return sharding.choose(ended, hold, go, state)

        def all_rounds(carry: Carry) -> tuple[tuple[Carry, Sums], MetricRows]:
            start = (carry, no_sums(self.metrics, self.network))
            return jax.lax.scan(body, start, None, length=schedule.eval_every)

        def no_rounds(carry: Carry) -> tuple[tuple[Carry, Sums], MetricRows]:
            after, rows = hold((carry, no_sums(self.metrics, self.network)))
            carry = after[0]._replace(round=carry.round + schedule.eval_every)
            return (carry, after[1]), jax.tree.map(lambda x: jnp.broadcast_to(x, (schedule.eval_every, *x.shape)), rows)

        if mesh is not None:  # no condition may contain collectives (`sharding`), so each round chooses
            (carry, sums), rows = all_rounds(carry)
        else:
            (carry, sums), rows = jax.lax.cond(has_diverged, no_rounds, all_rounds, carry)
        return self._settle(carry), sums, no_rows(self.metrics, num_clients) | rows

    def evaluate(self, data: Any, key: jax.Array, clients: Any, carry: Carry, sums: Sums, rows: MetricRows) -> Metrics:
        """Evaluate the models of a run and compute all metrics.

        Before the first round, it evaluates the models of all clients although they are equal. So one program serves
        all evaluations.

        Args:
          data: the task's data.
          key: the seed's key; it draws the sample, if only a sample is evaluated, and what `Scoring.adapt` draws.
          clients: the clients' data.
          carry: the state without the clients' data.
          sums: the sums over the rounds since the last evaluation.
          rows: the values, since the last evaluation, of the metrics with one value for each round.

        Raises:
          UserError: if the value of a metric does not have the declared shape or a suitable type.
        """
        params, one = self.algorithm.params(carry.algorithm), self._judged_model(carry.algorithm, carry.network)
        clients = self._holding(data, clients, carry.task)
        if adapt := self.task.scoring.adapt:
            with sharding.tracing_over(self.mesh):
                params = adapt(data, clients, params, stream(key, "evaluation"))
        computed = rounds_computed(carry.divergence, carry.round, self.schedule.eval_every)
        score, of_one, sample = self._scores(data, key, clients, carry, params, one)
        if (counted := self._counted(carry.network)) is not None:
            sample = sample or everyone(self.num_clients)
            sample = sample._replace(stands_for=jnp.where(counted, sample.stands_for, 0))
        score, of_one = (jax.tree.map(carry.divergence.result, found) for found in (score, of_one))
        at = Evaluation(
            task=self.task,
            network=self.network,
            algorithm=self.algorithm,
            data=data,
            clients=clients,
            models=params,
            model=one,
            score=score,
            model_score=of_one,
            network_state=carry.network,
            algorithm_state=carry.algorithm,
            round=carry.round,
            rounds_done=carry.stop_state.rounds if carry.stop_state else computed,
            divergence=carry.divergence,
            messages=carry.messages,
            bits=words(carry.bits),
            sums=sums,
            rows=rows,
            sample=sample,
        )
        values = {metric.name: measured(metric, at) for metric in self.metrics}
        return Metrics(self.metrics, {"round": carry.round} | values)

    # The steps put together.

    def first(self, data: Any, hparams: Hparams, key: jax.Array) -> Carry:
        """Return the whole state before the first round, without an evaluation."""
        return self._first(data, hparams, key)[0]

    def init(self, data: Any, hparams: Hparams, key: jax.Array) -> tuple[Carry, Metrics]:
        """Return the whole state before the first round, and its evaluation."""
        carry, sums, rows = self._first(data, hparams, key)
        return carry, self.evaluate(data, key, carry.clients, carry._replace(clients=None), sums, rows)

    def advance(self, data: Any, hparams: Hparams, key: jax.Array, carry: Carry) -> tuple[Carry, Metrics]:
        """Compute ``eval_every`` rounds and an evaluation, on a whole state from `init` or from this function."""
        clients = carry.clients
        carry, sums, rows = self.rounds(data, hparams, key, clients, carry._replace(clients=None))
        metrics = self.evaluate(data, key, clients, carry, sums, rows)
        return carry._replace(clients=clients), metrics

    def run(self, hparams: Hparams, key: jax.Array) -> Metrics:
        """Compute a whole run.

        Returns:
          The metrics, with a leading axis of 1 + rounds / eval_every evaluations; the first evaluation is before any
          round. A recorded ``position`` is [R + 1, N, 2]; other records are [R, ...].
        """
        carry, start = self.init(self.data, hparams, key)
        advance = lambda c, _: self.advance(self.data, hparams, key, c)  # noqa: E731
        _, rest = jax.lax.scan(advance, carry, None, length=self.num_evaluations)
        rest = rest.replace({name: x.reshape(-1, *x.shape[2:]) for name, x in by_round(rest).items()})
        return jax.tree.map(lambda *parts: jnp.concatenate(parts), as_history(start, 0), rest)

    def _first(self, data: Any, hparams: Hparams, key: jax.Array) -> tuple[Carry, Sums, MetricRows]:
        clients, model = self.draw(data, hparams, key)
        carry, sums, rows = self.begin(hparams, model, self.world(hparams, key, clients)[0])
        return self._settle(carry._replace(clients=clients)), sums, rows

    # One round.

    def round(self, data: Any, hparams: Hparams, key: jax.Array, carry: Carry) -> Carry:
        """Return the state after one round, without metrics; for benchmarks and plans."""
        return self.one_round(data, hparams, key, carry, no_sums(self.metrics, self.network))[0]

    def one_round(
        self, data: Any, hparams: Hparams, key: jax.Array, carry: Carry, sums: Sums
    ) -> tuple[Carry, Sums, MetricRows]:
        """Compute one round: the network's links, then the algorithm, then whether the run has diverged or stops.

        Args:
          data, hparams, key: as in the other steps.
          carry: the state before the round, with the clients' data.
          sums: the sums over the rounds since the last evaluation.

        Returns:
          (state after the round, sums that include the round, values of the metrics with one value for each round).
        """
        task, network = self.task, self.network
        task_state = self._changed(data, hparams, key, carry)
        clients = self._holding(data, carry.clients, task_state)
        with jax.named_scope("round"), sharding.tracing_over(self.mesh):
            held = Held.by(clients)
            network_state, links = sharding.everywhere(
                network.step, hparams.network, key, carry.round, carry.network, held
            )
            contract.like(network.step, network_state, carry.network)
            network_state = of_types(network_state, carry.network)
            links = links_of_active(links)
            learnt = task.hooks.in_round(data, clients, links) if task.hooks.in_round else data
            of_round = stream_at(key, "batch", carry.round)
            gradient = partial(task.gradient, learnt, clients)
            context = RoundContext(
                of_round,
                gradient,
                progress=carry.round.astype(jnp.float32) / self.schedule.rounds,
                loss=_judge(gradient, of_round, clients),
                passes=task.hooks.passes and partial(task.hooks.passes, learnt, clients),
                memory=carry.memory,
                first_models=lambda: self._first_models(hparams, task.init(data, stream(key, "init"))),
            )
            algorithm = in_round(self.algorithm, links)
            algorithm_state, stats = algorithm.round(hparams.algorithm, carry.algorithm, links, context)
            contract.like(self.algorithm.round, algorithm_state, carry.algorithm)
            contract.arrays(self.algorithm.round, stats.loss, (self.num_clients,), float)
            contract.arrays(self.algorithm.round, stats.messages, (self.num_clients,), int)
        heard = heard_links(links, stats)
        has_samples = held.num_samples > 0
        stats = computed_by(has_samples, stats._replace(heard=None))
        network_state = self._observed(hparams, carry, network_state, heard, stats)
        divergence = self._diverged(carry, algorithm_state)
        stop_state = self._stopped(data, clients, carry, algorithm_state, divergence)
        counted = self._counted(network_state)
        counts = has_samples if counted is None else has_samples & counted
        loss = jnp.where(counts, stats.loss, jnp.nan)
        view = RoundView(links, heard, stats, loss, network, hparams.network, carry.network, network_state)
        sums = add_round(self.metrics, sums, view)
        recorded = rows_of_round(self.by_round, view, self.num_clients)
        messages, bits = carry.messages + stats.messages, add_bits(carry.bits, stats.bits)
        after = Carry(
            round=carry.round + 1,
            clients=None,
            network=network_state,
            algorithm=algorithm_state,
            messages=messages,
            bits=bits,
            stop_state=stop_state,
            divergence=divergence,
            memory=None if carry.memory is None else of_types(stats.report.memory, carry.memory),
            task=task_state,
        )
        return self._settle(after)._replace(clients=carry.clients), sums, recorded

    def _changed(self, data: Any, hparams: Hparams, key: jax.Array, carry: Carry) -> Any:
        """Return the state of a task with `TaskHooks.changes` at the beginning of a round."""
        changes, network = self.task.hooks.changes, self.network
        if changes is None:
            return None
        with jax.named_scope("changes"), sharding.tracing_over(self.mesh):
            there = network.hooks.there(carry.network) if network.hooks.there else jnp.ones(self.num_clients, bool)
            where = network.places(carry.network).position, there
            return sharding.everywhere(
                changes.step, data, hparams.task, key, carry.round, carry.clients, *where, carry.task
            )

    def _holding(self, data: Any, clients: Any, task_state: Any) -> Any:
        """Return the clients with the samples that they hold in this round; ``clients`` are from ``Task.partition``."""
        if self.task.hooks.changes is None:
            return clients
        with sharding.tracing_over(self.mesh):
            return sharding.everywhere(self.task.hooks.changes.held, data, clients, task_state)

    def _first_models(self, hparams: Hparams, model: Params) -> ClientParams:
        """Return the models with which clients begin, [N, ...]: the task's first model, or the given models."""
        models = jax.tree.map(lambda p: jnp.broadcast_to(p, (self.num_clients, *p.shape)), model)
        given = lambda x, like: jnp.broadcast_to(x, like.shape).astype(like.dtype)  # noqa: E731 -- [N, ...] or [1, ...]
        return models if hparams.start is None else jax.tree.map(given, hparams.start, models)

    def _observed(self, hparams: Hparams, carry: Carry, network_state: Any, heard: Links, stats: RoundStats) -> Any:
        """Pass the computed round to the network's hook ``observe``, if it has one, and return the network's state."""
        network = self.network
        if network.hooks.observe is None:
            return network_state
        with jax.named_scope("observe"), sharding.tracing_over(self.mesh):
            apart = differences(self.algorithm.params(carry.algorithm)) if network.hooks.compares else None
            seen = Observed(heard, stats._replace(report=stats.report._replace(details=None)), apart)
            state = sharding.everywhere(network.hooks.observe, hparams.network, network_state, seen)
        return of_types(state, carry.network)

    def _diverged(self, carry: Carry, algorithm_state: Any) -> Divergence:
        """Check the norms of the models after a round: those of the clients that count, and of the global model."""
        algorithm = self.algorithm
        with jax.named_scope("divergence"):
            norm = largest_norm(algorithm.params(algorithm_state), self._counted(carry.network))
            if algorithm.global_model:
                norm = jnp.maximum(norm, largest_norm(algorithm.global_model(algorithm_state)))
            return update_divergence(carry.divergence, norm, self.schedule.diverged_norm, carry.round + 1)

    def _stopped(
        self, data: Any, clients: Any, carry: Carry, algorithm_state: Any, divergence: Divergence
    ) -> StopState | None:
        """Check the objective of the judged model after a round, if there is a stop rule."""
        if carry.stop_state is None or not self.task.scoring.objective:
            return carry.stop_state
        before, after = (self._judged_model(state, carry.network) for state in (carry.algorithm, algorithm_state))
        differ = jax.tree.map(lambda x, y: jnp.any(x != y), before, after)
        value = self.task.scoring.objective(data, clients, after)
        moved = jnp.any(jnp.stack(jax.tree.leaves(differ)))
        stop_state = update_stop_state(carry.stop_state, value, self.schedule.stop_std, moved)
        return stop_state._replace(stopped=stop_state.stopped | divergence.is_there)

    # The models, and their scores at an evaluation.

    def models(self, carry: Carry) -> tuple[ClientParams, ClientParams | None]:
        """Return the clients' models, [N, ...], and the algorithm's global model, [1, ...], or None without one."""
        own = self.algorithm.global_model
        return self.algorithm.params(carry.algorithm), own(carry.algorithm) if own else None

    def _judged_model(self, state: Any, network_state: Any) -> ClientParams:
        """Return the judged model, [1, ...]: the algorithm's global model, or the mean of the clients' models."""
        own = self.algorithm.global_model
        return own(state) if own else mean_model(self.algorithm.params(state), self._counted(network_state))

    def _counted(self, network_state: Any) -> jax.Array | None:
        """Return the clients that count, [N] bool; None: all (`NetworkHooks.counted`)."""
        return self.network.hooks.counted(network_state) if self.network.hooks.counted else None

    def _scores(
        self, data: Any, key: jax.Array, clients: Any, carry: Carry, params: ClientParams, one: ClientParams
    ) -> tuple[Score, Score, Sample | None]:
        """Compute the scores of the clients' models and of the judged model.

        If only a sample is evaluated, the first and the last evaluation still take all clients.

        Args:
          data, key, clients, carry: as in `evaluate`.
          params: [N, ...] the clients' models.
          one: [1, ...] the judged model.

        Returns:
          (scores [N] of the clients' models, NaN if only the global model is evaluated; score [1] of the judged model;
          the evaluated sample, or None).
        """
        task, schedule, num_clients = self.task, self.schedule, self.num_clients
        if is_sampled(schedule):
            is_mobile = self.network.places(carry.network).is_mobile
            at_an_end = (carry.round == 0) | (carry.round >= schedule.rounds)
            whole = lambda: (task.evaluate(data, clients, params), everyone(num_clients))  # noqa: E731
            sampled = lambda: sampled_scores(task, schedule, data, clients, params, is_mobile, key)  # noqa: E731
            score, sample = jax.lax.cond(largest_of_runs(at_an_end), whole, sampled)
            return score, task.evaluate(data, clients, one), sample
        if schedule.global_only:
            unknown = jnp.full(num_clients, jnp.nan, jnp.float32)
            return Score(unknown, unknown), task.evaluate(data, clients, one), None
        if (task.scoring.in_turn or num_clients < MANY_MODELS) and self.mesh is None:
            # One loop evaluates the clients and the judged model, so that one loop is compiled and not two. From
            # MANY_MODELS on, the loop computes equal groups of models, whose size one more model would change.
            both = task.evaluate(data, clients, jax.tree.map(lambda x, y: jnp.concatenate([x, y]), params, one))
            return Score(*(value[:-1] for value in both)), Score(*(value[-1:] for value in both)), None
        of_one = task.evaluate(data, clients, one)
        return task.evaluate(data, clients, params), of_one, None

    # What is drawn before and without a run.

    def partition(self, data: Any, hparams: Hparams, key: jax.Array) -> Any:
        """Return the clients' data of the run with a key, from ``Task.partition``, without computing the run."""
        return self.task.partition(data, hparams.task, stream(key, "partition"), *self._first_places(hparams, key))

    def owner(self, data: Any, hparams: Hparams, key: jax.Array) -> jax.Array:
        """Return the client that holds each training sample in the run with a key, [n] int32; -1 for no client.

        The task must have an ``owner``.
        """
        assert self.task.hooks.owner is not None
        return self.task.hooks.owner(data, hparams.task, stream(key, "partition"), *self._first_places(hparams, key))

    def places_needed(self, data: Any, hparams: Hparams, key: jax.Array) -> jax.Array:
        """Count the neighbour slots that neighbour lists need in the rounds of a run, from the movement alone.

        The lists of the network may be too short, since neighbours are counted before lists are made. The network must
        count neighbours (`counts_places`).

        Returns:
          [] int32, the largest number of slots that a client needs in any round.
        """
        network = self.network
        assert network.lists is not None
        assert network.lists.needed is not None
        held = Held.by(self.partition(data, hparams, key))

        def move(state: Any, index: jax.Array) -> tuple[Any, None]:
            return of_types(network.step(hparams.network, key, index, state, held)[0], state), None

        start = network.init(hparams.network, key, held)
        end, _ = jax.lax.scan(move, start, jnp.arange(self.schedule.rounds, dtype=jnp.int32))
        return network.lists.needed(end)

    def facts(self, carry: Carry) -> RunFacts:
        """Return the facts about a run, from its whole state before the first round."""
        return self._facts(carry.clients, carry.network)

    def _facts(self, clients: Any, state: Any) -> RunFacts:
        network, num_clients, everybody = self.network, self.num_clients, self.algorithm.own_server
        by_network = None if everybody else network.hooks.reached
        reached = by_network(state) if by_network else jnp.full(num_clients, everybody)
        return RunFacts(clients.label_counts, network.places(state).is_mobile, reached)

    def _first_places(self, hparams: Hparams, key: jax.Array) -> tuple[jax.Array, ...]:
        """Return ([N, 2] places before the first round,) for a task that divides the data by places, else ().

        Here the data are not divided yet, so the network gets clients that hold one sample of one label each. First
        places do not depend on the data, so they are those of the run.
        """
        if not self.task.hooks.by_place:
            return ()
        num_clients, network = self.num_clients, self.network
        nothing_known = Held(jnp.ones(num_clients, jnp.int32), jnp.ones((num_clients, 1), jnp.int32))
        return (network.places(network.init(hparams.network, key, nothing_known)).position,)

    # Where a state lies, and what of it is kept in a file.

    def layout(self, carry: Carry, before: int = 0) -> Carry | None:
        """Return the shardings of a state over the devices of a mesh, or None without a mesh.

        Args:
          carry: the state, as arrays or their shapes; ``clients`` may be None.
          before: the number of axes before the client axis, as in `mdfl_jax.core.sharding.layout`.
        """
        mesh, by_client = self.mesh, self.task.hooks.spread.by_client
        if mesh is None:
            return None
        divided = jax.tree.map(lambda _: False, carry)
        divided = divided._replace(algorithm=sharding.stacked(carry.algorithm, self.num_clients, before))
        if by_client and carry.clients is not None:
            divided = divided._replace(clients=by_client(carry.clients))
        return sharding.layout(divided, mesh, before)

    def _settle(self, carry: Carry) -> Carry:
        """Fix the sharding of a state for the compiler, from `layout`."""
        return sharding.settle(carry, self.layout(carry))


def simulate(
    task: Task, network: Network, algorithm: Algorithm, schedule: Schedule
) -> Callable[[Hparams, jax.Array], Metrics]:
    """Return a whole run as a pure function, which can be jitted and mapped over seeds and sweep points.

    Args:
      task: the learning problem.
      network: the links between the clients in each round.
      algorithm: the computation and communication of a round.
      schedule: the number of rounds, and how often the models are evaluated.

    Returns:
      `Simulation.run`, a function (hparams, key) -> Metrics.

    Raises:
      UserError: if the parts do not fit together, or if a metric is declared wrongly.
    """
    return Simulation(task, network, algorithm, schedule).run


def check_fit(task: Task, network: Network, algorithm: Algorithm, schedule: Schedule) -> None:
    """Check that the four parts of a simulation fit together.

    Raises:
      UserError: if they do not.
    """
    if task.num_clients != network.num_clients:
        raise UserError(f"the task has {task.num_clients} clients and the network {network.num_clients}")
    if task.num_clients % sharding.size(task.hooks.spread.mesh):
        number = sharding.size(task.hooks.spread.mesh)
        raise UserError(f"{number} devices share a run; they must divide the number of clients, {task.num_clients}")
    check_needs(algorithm, network)
    if schedule.stop_std and not task.scoring.objective:
        raise UserError("the stop rule needs a task with an objective, and this task has none")
    if schedule.eval_every < 1 or schedule.rounds < 1 or schedule.rounds % schedule.eval_every:
        raise UserError(
            f"rounds is {schedule.rounds}; it must be a positive multiple of eval_every, which is {schedule.eval_every}"
        )
    check_sampling(schedule, task)


def check_needs(
    algorithm: Algorithm, network: Network, name: str = "the algorithm", network_name: str = "this network"
) -> None:
    """Check that a network provides everything that an algorithm needs.

    Args:
      algorithm: the algorithm, with its field ``needs``.
      network: the network, with its field ``gives``.
      name: the name of the algorithm in the error message.
      network_name: the name of the network in the error message.

    Raises:
      UserError: if something is missing; the message names it in words.
    """
    missing = algorithm.needs - network.gives
    if missing:
        needs = " and ".join(dict.fromkeys(_NEEDS.get(need, need) for need in sorted(missing)))
        raise UserError(f"{name} needs {needs}, which {network_name} does not give")


def _judge(gradient: Gradient, key: jax.Array, clients: Any) -> Callable[..., jax.Array]:
    """Return a function: the loss of models on the minibatches of a round's first step, NaN without samples.

    ``gradient`` must compute all clients, since a client whose work continues also judges the models that it receives.
    """
    first_step = jax.random.fold_in(key, 0)

    def loss(models: ClientParams, **batch: Any) -> jax.Array:
        return jnp.where(clients.num_samples > 0, gradient(models, first_step, **batch)[0], jnp.nan)

    return loss


def _size(tree: Any) -> int:
    """Return how many numbers a tree of arrays or shapes holds."""
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(tree))
