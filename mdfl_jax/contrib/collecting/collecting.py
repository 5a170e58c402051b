"""Streaming data: clients collect samples where they are, and what is there may change.

The area is divided into k x k equal regions, and the partition divides the training samples among the regions in place
of the clients. In each round a client draws some of the samples of the region in which it stands, with replacement. It
keeps those of its last W rounds. What a client holds is an index of samples of fixed shapes, as a partition makes it
(`mdfl_jax.data.batching.ClientIndex`), so no algorithm knows that clients collect.

With a drift, what is where changes after every so many rounds, one step at a time:

- ``places``: the samples of each region are then those of the region before it, so that its labels change;
- ``rotation``: what clients find is then turned by a further quarter turn, and so are the test samples. What they have
  kept stays as it was.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.core.rng import number_of, stream_at
from mdfl_jax.core.section import Rule, Section, field, is_counted, section
from mdfl_jax.core.trees import rows_like
from mdfl_jax.core.types import Changes, Task, TaskHooks
from mdfl_jax.data.batching import index_clients
from mdfl_jax.mobility.area import area
from mdfl_jax.mobility.registry import world_in
from mdfl_jax.mobility.rule import FILES
from mdfl_jax.tasks.supervised import IMAGES, SupervisedClients, SupervisedData
from mdfl_jax.tasks.task import TASKS, task_named

_OWN = number_of("collecting")  # folded into the key: the partition splits its keys from the same stream
TURNS = 4  # quarter turns after which an image is as it was
LARGEST_RINGS = 2**26  # samples that all clients of a run keep, whose indices take 256 MiB
NOTHING = -1  # in the place of a sample that was not collected


class Drift(NamedTuple):
    """How far a drift has gone: the regions by which samples have moved on, and the quarter turns of images."""

    regions: Any = 0
    turns: Any = 0


DRIFTS: dict[str, Callable[[jax.Array], Drift]] = {
    "": lambda steps: Drift(),
    "places": lambda steps: Drift(regions=steps),
    "rotation": lambda steps: Drift(turns=steps % TURNS),
}
"""What changes where, by name: (steps that the drift has made, [] int32) -> how far it has gone."""


class CollectingNumbers(NamedTuple):
    """Traced numbers of collecting, `Hparams.task`.

    Attributes:
      inner: the numbers by which samples are divided among the regions.
      low, high: [2] float32, the corners of the area.
      every: the rounds from one step of the drift to the next.
    """

    inner: Any
    low: Any
    high: Any
    every: Any = 1


class Regions(NamedTuple):
    """What a run's regions hold, and what networks know of clients before the first round: the data where they begin.

    Attributes:
      held: the samples of the k x k regions, as clients of the inner task.
      num_samples: [N] int32, the samples of the region in which each client begins, or one if there are none: costs
        count the work of a client that holds some, and who moves on will; relays have none.
      label_counts: [N, C] int32, their labels.
    """

    held: SupervisedClients
    num_samples: jax.Array
    label_counts: jax.Array


class Collected(NamedTuple):
    """What clients have collected.

    Attributes:
      ring: [N, W, r] int32, the samples that each client drew in its last W rounds, the round t at t mod W; `NOTHING`
        where it drew none. With quarter turns, sample s after q turns is s + q n.
      here: [N, C] int32, how many samples of each label there are where each client stands in the round.
      turns: [] int32, the quarter turns of what is there.
    """

    ring: jax.Array
    here: jax.Array
    turns: jax.Array


class Holding(NamedTuple):
    """The data of clients in a round: what they hold, as clients of the inner task, and `Collected.here` and turns."""

    inner: SupervisedClients
    here: jax.Array
    turns: jax.Array

    @property
    def num_samples(self) -> jax.Array:
        """The number of samples of each client, [N] int32."""
        return self.inner.num_samples

    @property
    def label_counts(self) -> jax.Array:
        """The number of samples of each client and class (or stratum), [N, C] int32."""
        return self.inner.label_counts


def region_of(numbers: CollectingNumbers, position: jax.Array, side: int) -> jax.Array:
    """Return the regions in which places [N, 2] are, [N] int32. Places outside count to the nearest region.

    >>> area = CollectingNumbers(None, jnp.zeros(2), jnp.array([6.0, 3.0]))
    >>> region_of(area, jnp.array([[0.0, 0.0], [2.5, 0.5], [5.9, 2.9], [7.0, 1.5]]), 3).tolist()
    [0, 3, 8, 7]
    """
    span = jnp.maximum(jnp.asarray(numbers.high) - numbers.low, 1e-6)  # a grid may be a single point
    share = (position - numbers.low) / span
    column, row = jnp.clip(jnp.floor(share * side), 0, side - 1).astype(jnp.int32).T
    return column * side + row


def centres(numbers: CollectingNumbers, side: int) -> jax.Array:
    """Return the middles of the k x k regions, [k^2, 2], in the order of `region_of`."""
    steps = (jnp.arange(side) + 0.5) / side
    grid = jnp.stack([axis.ravel() for axis in jnp.meshgrid(steps, steps, indexing="ij")], axis=1)
    return numbers.low + grid * (jnp.asarray(numbers.high) - numbers.low)


def turned(images: jax.Array, turns: jax.Array) -> jax.Array:
    """Return images [n, H, H, C] after some quarter turns, [] int32 in 0..3."""
    return jax.lax.switch(turns, [lambda x, k=k: jnp.rot90(x, k, (1, 2)) for k in range(TURNS)], images)


@dataclass(frozen=True, eq=False)
class _Collector:
    """The settings of `collecting`, and its functions as methods."""

    task: Task
    num_clients: int
    num_relays: int
    side: int
    rate: int
    window: int
    drift: str

    @property
    def turns(self) -> bool:
        """Whether images turn."""
        return self.drift == "rotation"

    def divided(self, data: SupervisedData) -> SupervisedData:
        """Return the data with the training samples as they are divided, each once."""
        n = data.y_train.shape[0] // TURNS
        return data._replace(x_train=data.x_train[:n], y_train=data.y_train[:n]) if self.turns else data

    def partition(self, data: SupervisedData, numbers: CollectingNumbers, key: jax.Array, places: jax.Array) -> Regions:
        """Divide the samples among the regions; see `mdfl_jax.core.types.Task`."""
        middles = (centres(numbers, self.side),) if self.task.hooks.by_place else ()
        held = self.task.partition(self.divided(data), numbers.inner, key, *middles)._replace(blocks=None)
        region = region_of(numbers, places, self.side)
        first = jnp.maximum(held.num_samples, 1), held.label_counts
        known = jax.tree.map(lambda x: self._held(x[region], 0), first)
        return Regions(held, *known)

    def _held(self, of_clients: jax.Array, value: int) -> jax.Array:
        """Return values [N, ...], with a value in the rows of relays, which hold no samples."""
        holds = jnp.arange(self.num_clients) < self.num_clients - self.num_relays
        return jnp.where(rows_like(holds, of_clients), of_clients, value)

    def step(
        self,
        data: SupervisedData,
        numbers: CollectingNumbers,
        key: jax.Array,
        round_index: jax.Array,
        clients: Regions,
        position: jax.Array,
        there: jax.Array,
        before: Collected,
    ) -> Collected:
        """Let clients collect in a round; see `mdfl_jax.core.types.Changes`."""
        drift = DRIFTS[self.drift](round_index // jnp.maximum(numbers.every, 1))
        held, count = clients.held.held, self.side**2
        region = (region_of(numbers, position, self.side) - drift.regions) % count
        own = jax.random.fold_in(stream_at(key, "partition", round_index), _OWN)
        size, first = held.num_samples[region][:, None], held.first[region][:, None]
        drawn = jax.random.randint(own, (self.num_clients, self.rate), 0, jnp.maximum(size, 1))
        n = held.sample.shape[0]
        sample = held.sample[jnp.minimum(first + drawn, n - 1)] + n * jnp.asarray(drift.turns)
        fresh = self._held(jnp.where(there[:, None] & (size > 0), sample, NOTHING), NOTHING)
        ring = before.ring.at[:, round_index % self.window].set(fresh)
        return Collected(ring, self._held(held.label_counts[region], 0), jnp.asarray(drift.turns, jnp.int32))

    def held(self, data: SupervisedData, clients: Regions, collected: Collected) -> Holding:
        """Return what clients hold; see `mdfl_jax.core.types.Changes`."""
        sample = collected.ring.reshape(-1)
        owner = jnp.where(sample == NOTHING, -1, jnp.repeat(jnp.arange(self.num_clients), self.window * self.rate))
        strata = self.divided(data).strata
        labels = strata[jnp.maximum(sample, 0) % strata.shape[0]]
        index = index_clients(owner, labels, self.num_clients, clients.label_counts.shape[1])
        index = index._replace(sample=jnp.maximum(sample, 0)[index.sample])
        return Holding(clients.held._replace(held=index), collected.here, collected.turns)

    def now(self, data: SupervisedData, clients: Holding) -> SupervisedData:
        """Return the data with the test samples as they are now."""
        if not self.turns:
            return data
        validation = None if data.x_validation is None else turned(data.x_validation, clients.turns)
        return data._replace(x_test=turned(data.x_test, clients.turns), x_validation=validation)

    def hold(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Make a function of the inner task, (data, clients, ...), one of what clients hold."""
        return lambda data, clients, *rest, **more: function(self.now(data, clients), clients.inner, *rest, **more)


def collecting(
    task: Task,
    num_clients: int,
    rate: int,
    window: int,
    regions: int,
    num_strata: int,
    drift: str = "",
    num_relays: int = 0,
) -> Task:
    """Make a task whose clients collect their samples as they move. ``hparams.task`` becomes a `CollectingNumbers`.

    Args:
      task: a task of a data set (`mdfl_jax.tasks.supervised`), whose clients are the k x k regions.
      num_clients: N.
      rate: r >= 1, the samples that a client draws in a round.
      window: W >= 1, the rounds whose samples a client keeps.
      regions: k >= 1, the regions along a side of the area.
      num_strata: C, the classes of the samples, or their strata (`mdfl_jax.data.dataset.Dataset.num_strata`).
      drift: a name of `DRIFTS`. With ``rotation`` the device holds the training samples in all four turns.
      num_relays: the number of relays, the last clients, which collect nothing.

    Raises:
      UserError: for an unknown drift, for a task of another number of regions, or for samples that cannot turn.
    """
    if drift not in DRIFTS:
        raise UserError(f"data.drift: {unknown_name('drift', drift, DRIFTS)}")
    if task.num_clients != regions**2:
        raise UserError(f"the task has {task.num_clients} clients; for {regions} x {regions} regions it needs as many")
    data, of = task.data, _Collector(task, num_clients, num_relays, regions, rate, window, drift)
    if of.turns:
        shape = data.x_train.shape[1:]
        if data.x_train.ndim != IMAGES or shape[0] != shape[1]:
            raise UserError("data.drift is rotation; it must be another one: the samples are no square images")
        ways = [jnp.rot90(data.x_train, k, (1, 2)) for k in range(TURNS)]
        data = data._replace(x_train=jnp.concatenate(ways), y_train=jnp.concatenate([data.y_train] * TURNS))
    scoring, hooks, hold = task.scoring, task.hooks, of.hold
    part, over_test = scoring.part, scoring.over_test
    empty = Collected(
        jnp.full((of.num_clients, window, rate), NOTHING, jnp.int32),
        jnp.zeros((of.num_clients, num_strata), jnp.int32),
        jnp.int32(0),
    )
    return task._replace(
        num_clients=num_clients,
        data=data,
        partition=of.partition,
        gradient=hold(task.gradient),
        evaluate=hold(task.evaluate),
        scoring=scoring._replace(
            over_test=over_test and hold(over_test),
            local_accuracy=None,
            labels_here=lambda clients: clients.here,
            part=part and part._replace(evaluate=hold(part.evaluate)),
            validate=scoring.validate and hold(scoring.validate),
        ),
        hooks=TaskHooks(
            hooks.spread._replace(by_client=None),
            by_place=True,
            in_round=hooks.in_round and hold(hooks.in_round),
            passes=hooks.passes and hold(hooks.passes),
            changes=Changes(empty, of.step, of.held),
        ),
    )


@section("data", order=80, switch="collect")
@dataclass(frozen=True)
class CollectingConfig(Section):
    """The fields of the section data about samples that clients collect as they move."""

    collect: int = field(
        0,
        "samples that a client collects in a round, of those of the region in which it is; 0: clients hold their "
        "samples from the first round on",
        at_least=0,
        part="samples",
    )
    regions: int = field(
        3, "regions along a side of the area; partition divides the samples among them", at_least=1, at_most=100
    )
    window: int = field(50, "rounds whose samples a client keeps", at_least=1)
    drift: str = field(
        "",
        "what changes after every drift_every rounds: the samples of each region are those of the region before it "
        "(places), or what is found, and all test samples, is turned by a quarter turn (rotation)",
        names=DRIFTS,
    )
    drift_every: int = field(
        100,
        "rounds from one step of the drift to the next",
        at_least=1,
        traced=True,
        part="data.drift=places,rotation",
    )

    def in_use(self, whole: Any) -> bool:
        """Tell whether clients collect their samples as they move."""
        return self.collect > 0 and TASKS[task_named(whole.data.name)].of_datasets

    def rules(self, whole: Any) -> Iterator[Rule]:
        """Yield the rules: clients are at places of a known area, and what they keep fits the memory."""
        network, pattern, name, config = whole.network, whole.server.pattern, "data.collect", whole.algorithm
        if not self.in_use(whole):
            return
        yield name, network.graph, f"0 with network.graph {network.graph}: its clients are at no places"
        yield name, pattern not in ("", "roadside"), f"0 with server.pattern {pattern}: its clients are at no places"
        of_file = f"0 with network.mobility {network.mobility}: the area of a file is not known"
        yield name, world_in(whole) in FILES, of_file
        first = f"mix_first with data.collect {self.collect}: clients collect before any movement"
        yield "network.order", network.order != "mix_first", first
        most = LARGEST_RINGS // (network.num_clients * self.collect)
        yield "data.window", self.window > most, f"at most {most}: all clients keep at most {LARGEST_RINGS:,} samples"
        if is_counted(whole):
            why = f"with data.collect {self.collect} and costs: they count one amount of work"
            yield "algorithm.batch_size", not config.batch_size, f"1 or more {why}"
            yield "algorithm.local_epochs", config.local_epochs > 0, f"0 {why}"

    def owners(self, whole: Any) -> tuple[int, int]:
        """Return the regions, which hold the samples that clients collect."""
        return self.regions**2, 0

    def wrap_task(self, task: Task, whole: Any, num_strata: int) -> Task:
        """Return a task whose clients collect, around one whose clients are the regions."""
        network = whole.network
        return collecting(
            task,
            network.num_clients,
            self.collect,
            self.window,
            self.regions,
            num_strata,
            self.drift,
            num_relays=network.relays,
        )

    def task_params(self, inner: Any, whole: Any) -> CollectingNumbers:
        """Return the traced numbers of `wrap_task`, around those of the task itself."""
        return CollectingNumbers(inner, *area(whole), np.int32(self.drift_every))
