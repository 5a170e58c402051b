"""The parts of a simulation, Task, Network, Algorithm and Schedule, and the values that they exchange.

Array axes have one letter each: S seeds, R rounds, E evaluations, N clients, B samples of a batch or block, C classes.
A stacked tree has a leading client axis ([N, ...]). Arrays over links have one row for each receiver and one slot for
each possible sender, [N, K]. In the usual, dense form K = N, and ``mix[i, j]`` is the weight that receiver i gives to
sender j. With neighbour lists, `mdfl_jax.core.links.Senders` has the sender in each slot.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import jax
from jax.sharding import Mesh

from mdfl_jax.core.links import ALL_PAIRS, Lists, Senders
from mdfl_jax.core.message_bits import Bits
from mdfl_jax.core.metric import Metric
from mdfl_jax.core.stopping import NORM

Array = Any  # jax.Array inside a program, numpy.ndarray once results are on the host
Params = Any  # a pytree of one client's parameters
ClientParams = Any  # the same tree with a leading client axis, [N, ...]


class Clients(Protocol):
    """The clients' data, from a task's ``partition``. Networks and mixing rules read only these two fields."""

    @property
    def num_samples(self) -> jax.Array:
        """[N] int32 training samples that each client holds."""

    @property
    def label_counts(self) -> jax.Array:
        """[N, C] int32 samples of each label that each client holds."""


class Held(NamedTuple):
    """The part of the clients' data that networks and metrics read.

    Attributes:
      num_samples: [N] int32 training samples that each client holds.
      label_counts: [N, C] int32 samples of each label that each client holds.
    """

    num_samples: jax.Array
    label_counts: jax.Array

    @classmethod
    def by(cls, clients: Clients) -> "Held":
        """Return the part of the clients' data."""
        return cls(clients.num_samples, clients.label_counts)


class Score(NamedTuple):
    """The performance of N stacked models on the test samples.

    Attributes:
      accuracy: [N] float32 accuracy in [0, 1].
      loss: [N] float32 mean loss.
    """

    accuracy: jax.Array
    loss: jax.Array


class Hparams(NamedTuple):
    """The traced hyperparameters of a run, one pytree for each noun. A sweep varies them without compiling again.

    Attributes:
      task, network, algorithm: the hyperparameters of the three nouns.
      start: the models from which the clients start, a tree as `Task.init` returns it with leaves [N, ...], or [1, ...]
        for one model of all clients; None: the model that the task draws.
    """

    task: Any
    network: Any
    algorithm: Any
    start: Any = None


class Meetings(NamedTuple):
    """The clients' meetings with the server, as they are known in a round.

    Attributes:
      now: [N] bool, whether each client meets the server in this round.
      last: [N] int32 round of the latest meeting, which may be this round; negative before the first meeting
        (`BEFORE`). None: not known.
      following: [N] int32 round of the next meeting after this round, known or expected; `NEVER` if there is none.
        None: not known.
    """

    now: jax.Array
    last: Array = None
    following: Array = None


class Channel(NamedTuple):
    """What is known of the messages over the links of a round, for costs and metrics.

    Attributes:
      audible: [N, K] bool, the senders in range of each client, if ``adjacency`` has only some of them; None:
        ``adjacency`` has all of them.
      rate: [N, K] float32, the bits per second over each link; None: not known.
      capacity: [N, K] float32, the bits that each link carries at most, ``inf`` where it carries a whole model; None:
        all links carry whole models.
      bits: [N, K] float32, the bits that were sent over each link, for the links of `RoundStats.heard`; None: a
        sender's bits are divided equally among its receivers.
    """

    audible: jax.Array | None = None
    rate: jax.Array | None = None
    capacity: jax.Array | None = None
    bits: jax.Array | None = None


class Extra:
    """What a wrapper of networks adds to the links of a round. Code that knows its class reads it with `Links.get`.

    A subclass is a frozen dataclass, registered by `jax.tree_util.register_dataclass`. The methods define what remains
    of it when links are removed, and how it changes the round of an algorithm. So neither the engine nor another
    wrapper needs to know the class.
    """

    def among(self, kept: jax.Array, clients: jax.Array) -> Self:
        """Return what remains if only the links ``kept``, [N, K] bool, remain: those among ``clients``, [N] bool."""
        return self

    def around(self, algorithm: "Algorithm") -> "Algorithm":
        """Return the algorithm with the round that this addition changes."""
        return algorithm

    def sends(self, hparams: Any, key: jax.Array, links: "Links", vectors: ClientParams) -> ClientParams:
        """Return what the clients send in place of vectors [N, ...], as a map of `mdfl_jax.exchange.sending` does."""
        return vectors


ExtraT = TypeVar("ExtraT", bound=Extra)


class Links(NamedTuple):
    """Everything that an algorithm knows about the network in a round. A network fills the fields in its ``gives``.

    Attributes:
      adjacency: [N, K] bool, adjacency[i, j] is True if i can receive from the sender in slot j; without self loops.
      mix: [N, K] float mixing matrix; its rows sum to one.
      senders: the clients in the K slots.
      active: [N] bool, the clients that take part in the round (`mdfl_jax.exchange.active`); None: all. An inactive
        client keeps its state and neither computes nor sends. A wrapper calls
        `mdfl_jax.exchange.active.leave_out`, which also removes their links. A network whose active clients
        change must not promise `FIXED`.
      partner: [N] int32 the only neighbour of each client, or the client itself if it has none; None unless links are
        disjoint pairs.
      server: the meetings with the server; None: there is no server.
      channel: what is known of the messages over the links.
      extra: what wrappers add, in the order in which they wrap.
    """

    adjacency: jax.Array
    mix: jax.Array
    senders: Senders = ALL_PAIRS
    active: jax.Array | None = None
    partner: jax.Array | None = None
    server: Meetings | None = None
    channel: Channel = Channel()
    extra: tuple[Extra, ...] = ()

    @property
    def num_clients(self) -> int:
        """The number of clients, N."""
        return self.adjacency.shape[0]

    @property
    def audible(self) -> jax.Array:
        """[N, K] bool, all senders in range of each client, also those that were not picked for the algorithm."""
        return self.adjacency if self.channel.audible is None else self.channel.audible

    def get(self, kind: type[ExtraT]) -> ExtraT | None:
        """Return the addition of a class, or None if no wrapper has added one."""
        return next((extra for extra in self.extra if isinstance(extra, kind)), None)

    def adding(self, extra: Extra) -> "Links":
        """Return the links with a further addition of a wrapper."""
        return self._replace(extra=(*self.extra, extra))

    def of_channel(self, **known: jax.Array | None) -> "Links":
        """Return the links with other values of some fields of `Channel`."""
        return self._replace(channel=self.channel._replace(**known))


BEFORE = -1  # the value of Meetings.last before the first meeting: all clients start with the server's first model
NEVER = 2**30  # the value of Meetings.following if there is no further meeting; sums with it stay in 32 bits
SYMMETRIC = "symmetric"  # promise of a network: mix is symmetric and doubly stochastic in every round
FIXED = "fixed"  # promise of a network: the links are the same in every round that has any links


Tally = Callable[..., Any]  # (logits, labels, mask, *given) -> sums, see `Scoring.over_test`


class Spread(NamedTuple):
    """How a simulation is placed on devices. The task decides this, since it knows how much work a client has.

    Attributes:
      mesh: the devices that share one simulation; None for one device.
      by_client: (clients) -> a tree of bool of the same structure, True for the leaves that the devices of the mesh
        divide along the leading axis. Other leaves are copied to each device; None: all leaves are copied.
      alone: whether one client's block of samples keeps a device busy, so that runs are computed one after another.
    """

    mesh: Mesh | None = None
    by_client: Callable[[Any], Any] | None = None
    alone: bool = False


class Scoring(NamedTuple):
    """What a task offers to evaluations and metrics. All fields are optional.

    Attributes:
      in_turn: whether models are evaluated one after another.
      over_test: (data, clients, client_params [M, ...], tally, *given) -> the sums of ``tally`` over chunks of the test
        samples, for metrics that need more than a `Score`. ``tally`` is a function (logits [M, B, C], labels [B], mask
        [B], *given) -> a tree of sums over the samples whose mask is True, with a leading axis M. ``given`` are traced
        values of the run that ``tally`` needs. Targets [B, ...] that are no labels take the place of the labels. None
        if the task has no test samples of a data set.
      num_labels: the number of labels, C, if each test sample has one label; None otherwise.
      local_accuracy: (data, clients, client_params [N, ...]) -> [N] the accuracy of each client's model on the client's
        own test samples; None if the task has no such samples.
      labels_here: (clients) -> [N, C] the number of samples of each label in the region of each client; None if the
        samples of clients do not depend on places.
      part: how models are evaluated on a part of the test samples, a `mdfl_jax.tasks.scoring.ScoredPart`; None: models
        are always evaluated on all test samples.
      objective: (data, clients, params [1, ...]) -> [] the objective over all training samples; the stop rule needs it.
      validate: (data, clients, params [1, ...]) -> [] the loss on validation samples, by which step sizes are chosen.
      adapt: (data, clients, client_params [N, ...], key) -> [N, ...], the clients' models as they are evaluated; None:
        as they are.
    """

    in_turn: bool = False
    over_test: Callable[..., Any] | None = None
    num_labels: int | None = None
    local_accuracy: Callable[[Any, Any, ClientParams], jax.Array] | None = None
    labels_here: Callable[[Any], jax.Array] | None = None
    part: Any = None
    objective: Callable[[Any, Any, ClientParams], jax.Array] | None = None
    validate: Callable[[Any, Any, ClientParams], jax.Array] | None = None
    adapt: Callable[[Any, Any, ClientParams, jax.Array], ClientParams] | None = None


class Changes(NamedTuple):
    """How the samples of clients change during a run, as pure functions; the run keeps their state.

    Attributes:
      start: the state before the first round.
      step: (data, hparams.task, key, round, clients, positions [N, 2], there [N] bool, state) -> the state at the
        beginning of the round. ``there`` are the present clients; ``clients`` are those of ``Task.partition``; ``key``
        is the seed's.
      held: (data, clients, state) -> the clients with the samples that they hold now. The other functions of the task,
        and the network, get this result in place of ``clients``.
    """

    start: Any
    step: Callable[..., Any]
    held: Callable[[Any, Any, Any], Any]


class TaskHooks(NamedTuple):
    """What a task may do with the samples of the clients. All fields are optional.

    Attributes:
      spread: how a simulation is placed on devices.
      by_place: whether ``partition`` has a fourth argument, the places of the clients before the first round, [N, 2]
        float32. Places are then drawn before the data, so they must not depend on the data.
      owner: (data, hparams.task, key) -> [n] int32, the client that holds each training sample as ``partition`` divides
        them, or -1 for no client; with ``by_place`` it has the same fourth argument. None if there are no samples to
        divide.
      in_round: (data, clients, links) -> the data from which clients learn in a round with these links; None: ``data``
        in all rounds.
      passes: (data, clients, key, number of passes, whether all clients take equally many steps) -> the minibatches of
        a round with so many passes over each client's samples (`mdfl_jax.data.batching`); None: the task takes none.
      changes: how the samples of clients change during a run; None: they never change.
    """

    spread: Spread = Spread()
    by_place: bool = False
    owner: Callable[..., jax.Array] | None = None
    in_round: Callable[[Any, Any, Links], Any] | None = None
    passes: Callable[..., Any] | None = None
    changes: Changes | None = None


class Task(NamedTuple):
    """The learning problem, as pure functions.

    Attributes:
      num_clients: the number of clients, N.
      data: arrays shared by all seeds and sweep points, stored once on the device and passed to the functions below.
      partition: (data, hparams.task, key) -> Clients, with everything else that ``gradient`` needs;
        `TaskHooks.by_place` adds an argument.
      init: (data, key) -> params of one model, with which all clients start.
      gradient: (data, clients, client_params, key) -> (loss [N], gradients [N, ...]); a client without samples has a
        gradient of zero. ``key`` draws the minibatches of one local step; the same key draws the same minibatches. Four
        further arguments are optional. ``per_sample``: (gradient of one sample) -> gradient, such as a clip, applied
        before the average over samples. ``whole``: True for the gradient over all samples of a client. ``batch``: the
        minibatches to use in place of drawn ones (`mdfl_jax.data.batching.Batch`). ``only``: [N] bool, the clients
        whose gradients are computed; the others are zero. A task of your own may omit these arguments. An algorithm
        that needs a missing argument (`dmgt_svrg`) then refuses the task.
      evaluate: (data, clients, client_params [M, ...]) -> Score of M models on the test samples.
      scoring: what the task offers to evaluations and metrics.
      hooks: what the task may do with the samples of the clients.
    """

    num_clients: int
    data: Any
    partition: Callable[..., Any]
    init: Callable[[Any, jax.Array], Params]
    gradient: Callable[..., tuple[jax.Array, ClientParams]]
    evaluate: Callable[[Any, Any, ClientParams], Score]
    scoring: Scoring = Scoring()
    hooks: TaskHooks = TaskHooks()


class Places(NamedTuple):
    """The positions of the clients, for metrics and figures.

    Attributes:
      position: [N, 2] float32 positions.
      distance_moved: [N] float32 distance that each client has moved since the start.
      is_mobile: [N] bool, whether each client is mobile.
    """

    position: jax.Array
    distance_moved: jax.Array
    is_mobile: jax.Array


class NetworkHooks(NamedTuple):
    """What a network may know of its clients and do in a round. All fields are optional.

    Attributes:
      reached: (state before the first round) -> [N] bool, whether each client ever meets the server; None without a
        server.
      observe: (hparams.network, state after ``step``, `Observed`) -> the state after the network has seen the computed
        round; None if the network does not observe rounds.
      compares: whether ``observe`` reads the distances between the models, which are computed only then.
      there: (state) -> [N] bool, the clients that are present in the coming round and can be in contact; None: all.
      counted: (state) -> [N] bool, the clients over which means over clients, the mean model and the consensus distance
        are computed; None: all.
      hold: (state, [N] bool) -> the state in whose coming round exactly these clients stand still; None: no client
        moves, or the network cannot stop clients.
    """

    reached: Callable[[Any], jax.Array] | None = None
    observe: Callable[[Any, Any, "Observed"], Any] | None = None
    compares: bool = False
    there: Callable[[Any], jax.Array] | None = None
    counted: Callable[[Any], jax.Array] | None = None
    hold: Callable[[Any, jax.Array], Any] | None = None


class Network(NamedTuple):
    """The links between clients in each round, as pure functions.

    Attributes:
      num_clients: the number of clients, N.
      gives: the fields of Links that this network fills, and the promises it makes about them: `SYMMETRIC`, `FIXED`.
      init: (hparams.network, key, clients) -> the state before the first round.
      step: (hparams.network, key, round, state, clients) -> (state, Links): the links of this round, and the state
        after the movement that follows it (MADFL algorithm 1). ``key`` is the seed's; the round selects the streams.
      places: (state) -> Places.
      metrics: the network's own metrics, which are measured in addition to those of every study.
      lists: what is known of the neighbour lists; None if the links are matrices [N, N].
      hooks: its optional functions.
    """

    num_clients: int
    gives: frozenset[str]
    init: Callable[[Any, jax.Array, Clients], Any]
    step: Callable[[Any, jax.Array, jax.Array, Any, Clients], tuple[Any, Links]]
    places: Callable[[Any], Places]
    metrics: tuple[Metric, ...] = ()
    lists: Lists | None = None
    hooks: NetworkHooks = NetworkHooks()


class Report(NamedTuple):
    """What a round reports of its exchanges and its local work, in `RoundStats`.

    Attributes:
      screened: what the aggregation rule has done with the models (`mdfl_jax.exchange.screening.Screened`); None: not
        reported.
      memory: what an exchange keeps until the next round. An aggregation rule keeps a number for each pair of clients
        (`mdfl_jax.exchange.aggregation.Memory`). Clients that send parts of their models keep what they have sent last
        (`mdfl_jax.exchange.largest`). None: nothing.
      computed: [N] bool, the clients that computed gradients; None: all that take part in the round and have samples.
      whole: [N] bool, the clients that computed a further gradient, over all their samples; None: no client.
      details: further arrays [N, ...] of the round for the algorithm's own metrics (`RoundView.stats`); None for none.
    """

    screened: Any = None
    memory: jax.Array | None = None
    computed: jax.Array | None = None
    whole: jax.Array | None = None
    details: Any = None

    def after(self, before: "Report") -> "Report":
        """Return the joint report of this exchange and an earlier one of the same round; the later memory is kept."""
        screened = self.screened and self.screened.joined(before.screened)
        return Report(screened, before.memory if self.memory is None else self.memory)


class Exchanged(NamedTuple):
    """The result of an exchange: the clients' models after the exchange, [N, ...], and its report."""

    models: ClientParams
    report: Report = Report()


class RoundStats(NamedTuple):
    """Statistics of one round.

    Attributes:
      loss: [N] float32 training loss at the first local step.
      messages: [N] int32 messages that each client sent, one for each directed link.
      bits: the number of bits in these messages, for each client.
      heard: the links over which messages were received: who received from whom (``adjacency`` over ``senders``), and
        who exchanged models with the server (``server``; None: those that met it). Other fields are not read. None:
        each client that sent a message sent it over all its links.
      report: the report of the round's exchanges and local work.
    """

    loss: jax.Array
    messages: jax.Array
    bits: Bits
    heard: Links | None = None
    report: Report = Report()


class Observed(NamedTuple):
    """What a network observes after a round (`NetworkHooks.observe`).

    Attributes:
      heard: the links of the round over which messages were received (`RoundStats.heard`).
      stats: the losses, messages and bits of the round, and who computed.
      differences: [N, N] float32 distances between the clients' models before the round; None unless the network
        ``compares``.
      joules: [N] float32, the joules that each client has used since the start; None unless they are counted.
    """

    heard: Links
    stats: RoundStats
    differences: jax.Array | None
    joules: jax.Array | None = None


Gradient = Callable[..., tuple[jax.Array, ClientParams]]  # `Task.gradient`, with the data and the clients given


class RoundContext(NamedTuple):
    """What an algorithm's round may read besides its state and the links. The engine makes it.

    Attributes:
      key: the key of the round.
      gradient: the task's gradient function, with the data and the clients already given (`Task.gradient`).
      progress: [] float32, the share of the run's rounds that are over.
      loss: (models [N, ...]) -> [N], the loss of row i's model on the minibatch of client i, NaN for a client without
        samples. The argument ``batch`` gives other minibatches. None: unknown.
      passes: (key, number of passes, whether all clients take equally many steps) -> the minibatches of a round with so
        many passes (`TaskHooks.passes`); None: the task takes none.
      judged_on: () -> the minibatches on which received models are judged; None: those of the round's first step.
      memory: what the exchange of an earlier round has kept (`Report.memory`); None: nothing.
      first_models: () -> the models [N, ...] with which clients begin; None: unknown.
    """

    key: jax.Array
    gradient: Gradient
    progress: jax.Array | float = 0.0
    loss: Callable[..., jax.Array] | None = None
    passes: Callable[[jax.Array, int, bool], Any] | None = None
    judged_on: Callable[[], Any] | None = None
    memory: jax.Array | None = None
    first_models: Callable[[], ClientParams] | None = None


class Traits(NamedTuple):
    """What the engine, networks and counts need to know of an algorithm.

    Attributes:
      double_bits: (hparams.algorithm, number of parameters) -> bits of one message in double precision, as PaME (8)
        counts them; None if PaME's count does not cover the algorithm.
      local_statistics: whether batch statistics stay with each client (`mdfl_jax.core.trees`).
      participates: whether the algorithm itself chooses neighbours and communication periods; otherwise the network
        removes links.
      memory: (hparams.algorithm, N) -> the memory of its aggregation rule before the first round; None: no memory.
      asynchronous: whether clients exchange models while they compute. The algorithm then reads whose work ends in a
        round (`mdfl_jax.exchange.active.Finishing`). In any other algorithm, a client takes part when its work ends
        (`Links.active`).
      unsent: whether clients never send the models that `Algorithm.params` returns, or a part of each. Then no client
        may choose where it goes by comparing them.
    """

    double_bits: Callable[[Any, int], float] | None = None
    local_statistics: bool = False
    participates: bool = False
    memory: Callable[[Any, int], Any] | None = None
    asynchronous: bool = False
    unsent: bool = False


class Algorithm(NamedTuple):
    """The computation and the communication of a round, as pure functions.

    Attributes:
      needs: the fields of Links that the algorithm reads, and the promises that it relies on: `SYMMETRIC`, `FIXED`.
      init: (hparams.algorithm, client_params) -> state. A leaf with the number of rows of client_params must have one
        row for each client.
      round: (hparams.algorithm, state, links, context) -> (state, RoundStats), with the links of the round and its
        `RoundContext`.
      params: (state) -> client_params [N, ...], the models to evaluate.
      global_model: (state) -> params [1, ...], if the algorithm has a global model, for example at a server; None: the
        global model is the mean of the clients' models.
      metrics: the algorithm's own metrics, which are measured in addition to those of every study.
      traits: what else others need to know of the algorithm.
    """

    needs: frozenset[str]
    init: Callable[[Any, ClientParams], Any]
    round: Callable[[Any, Any, Links, RoundContext], tuple[Any, RoundStats]]
    params: Callable[[Any], ClientParams]
    global_model: Callable[[Any], ClientParams] | None = None
    metrics: tuple[Metric, ...] = ()
    traits: Traits = Traits()

    @property
    def own_server(self) -> bool:
        """Whether the algorithm has a server that all clients reach in every round, without the network's meetings."""
        return self.global_model is not None and "server" not in self.needs


class Schedule(NamedTuple):
    """The length of a run, and how often the models are evaluated.

    Attributes:
      rounds: the number of rounds, R, a multiple of ``eval_every``.
      eval_every: rounds between evaluations.
      record_positions: whether to keep the positions of every round, which takes R * N * 8 bytes for each run.
      record_mib: with ``record_positions``, the other records of every round (links, meetings, destinations, ...) are
        kept too if they take at most this many MiB of a run (`mdfl_jax.metrics.evaluation`); 0: positions alone.
      eval_clients: the number of clients that are evaluated between the first and the last evaluation, drawn from the
        mobile and the static ones (`mdfl_jax.metrics.sampling`); 0: all.
      eval_samples: the number of test samples of these evaluations, drawn by label; 0: all.
      stop_std: a run stops when the standard deviation of the mean model's objective over three rounds is below this
        value (`mdfl_jax.core.stopping`); 0: there is no stop rule.
      global_only: whether to evaluate only the global model; the clients' accuracies and losses are then NaN. This
        saves time: with many clients, evaluating all models may take longer than the rounds between evaluations.
      metrics: the names of the metrics that are measured on request (`mdfl_jax.core.metric.Metric.on_request`).
      diverged_norm: a run has diverged when the norm of a client's parameters is above this number
        (`mdfl_jax.core.stopping`).
    """

    rounds: int
    eval_every: int
    record_positions: bool = False
    stop_std: float = 0.0
    global_only: bool = False
    metrics: tuple[str, ...] = ()
    record_mib: float = 0.0
    eval_clients: int = 0
    eval_samples: int = 0
    diverged_norm: float = NORM


class RunFacts(NamedTuple):
    """Facts about a run that are known before its first round, for reports.

    Attributes:
      label_counts: [N, C] int32 samples of each label that each client holds.
      is_mobile: [N] bool, whether each client is mobile.
      reached: [N] bool, whether each client ever meets the server: all False without a server, all True for an
        algorithm with a server of its own (`Algorithm.own_server`).
    """

    label_counts: Array
    is_mobile: Array
    reached: Array
