"""The three nouns of a simulation, Task, Network and Algorithm, and what passes between them.

Axes, one letter each: S seeds, R rounds, E evaluations, N clients, B samples of a batch or block, C classes. A stacked
tree has a leading client axis ([N, ...]). ``mix[i, j]`` is the weight that receiver i gives to sender j.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from mdfl_jax.exchange.meter import Bits
from mdfl_jax.metrics.declare import Metric

Array = Any  # jax.Array inside a program, numpy.ndarray once results are on the host
Params = Any  # a pytree of one client's parameters
ClientParams = Any  # the same tree with a leading client axis, [N, ...]


class Clients(Protocol):
    """Who holds what, as a task's ``partition`` gives it; networks and mixings read these two fields."""

    @property
    def num_samples(self) -> jax.Array:
        """[N] int32 training samples that each client holds."""

    @property
    def label_counts(self) -> jax.Array:
        """[N, C] int32 how many of each label."""


class Score(NamedTuple):
    """How well stacked models do on the test samples.

    Attributes:
      accuracy: [N] float32 in [0, 1].
      loss: [N] float32 mean loss.
    """

    accuracy: jax.Array
    loss: jax.Array


class Hparams(NamedTuple):
    """The numbers of a run, traced, one pytree a noun: what a sweep varies without compiling again."""

    task: Any
    network: Any
    algorithm: Any


class Task(NamedTuple):
    """What is learnt, as pure functions.

    Attributes:
      num_clients: N.
      data: arrays shared by all seeds and points, on the device once; passed back to the functions below.
      partition: (data, hparams.task, key) -> Clients, with whatever else ``gradient`` needs; over a mesh followed by
        clients that hold nothing, until the devices divide them (`mdfl_jax.sharding.padded`).
      init: (data, key) -> params of one model, as all clients start with.
      gradient: (data, clients, client_params, key) -> (loss [N], gradients [N, ...]); a client without samples has a
        gradient of zero. ``key`` draws minibatches and belongs to one local step.
      evaluate: (data, clients, client_params [M, ...]) -> Score of M models on the test samples.
      mesh: the devices that share one simulation, where there are several.
      by_client: (clients) -> the same tree of bool, what of it these devices divide along the leading axis; the rest
        lies on each of them, and so does all where this is left out.
      objective: (data, clients, params [1, ...]) -> [] what is minimised, over all training samples; the stop rule
        needs it.
      validate: (data, clients, params [1, ...]) -> [] loss on samples that are neither trained nor tested on, by which
        step sizes are chosen.
      alone: one client's samples are work enough for the device, so that runs follow one another there.
      in_turn: models are evaluated one after the other.
    """

    num_clients: int
    data: Any
    partition: Callable[[Any, Any, jax.Array], Any]
    init: Callable[[Any, jax.Array], Params]
    gradient: Callable[[Any, Any, ClientParams, jax.Array], tuple[jax.Array, ClientParams]]
    evaluate: Callable[[Any, Any, ClientParams], Score]
    mesh: Mesh | None = None
    by_client: Callable[[Any], Any] | None = None
    objective: Callable[[Any, Any, ClientParams], jax.Array] | None = None
    validate: Callable[[Any, Any, ClientParams], jax.Array] | None = None
    alone: bool = False
    in_turn: bool = False


class Links(NamedTuple):
    """All that an algorithm knows of the world in a round. A network fills the fields that it names in ``gives``.

    Attributes:
      adjacency: [N, N] bool, adjacency[i, j] where i hears j; no self loops.
      mix: [N, N] float, rows sum to one.
      at_server: [N] bool, who meets the server in this round.
      last_server: [N] int32 round of the latest meeting with the server, this round's included; before the first one a
        negative number (`BEFORE`).
      next_server: [N] int32 round of the next meeting after this round, known or expected; `NEVER` where none comes.
      partner: [N] int32 the one client that each can talk to, itself where it is alone; where links are pairs.
      real: how many of the rows are clients, the first ones; None: all. Networks leave it out. The others, with which
        the rows of a mesh's devices are filled up, hold nothing, meet nobody and are in no sum over clients.
    """

    adjacency: jax.Array
    mix: jax.Array
    at_server: jax.Array | None = None
    last_server: jax.Array | None = None
    next_server: jax.Array | None = None
    partner: jax.Array | None = None
    real: int | None = None

    @property
    def num_clients(self) -> int:
        """N, without the rows that fill up."""
        return self.adjacency.shape[0] if self.real is None else self.real


BEFORE = -1  # the round of the last meeting before the first one: all clients start with the server's first model
NEVER = 2**30  # the round of a meeting that does not come; sums with it stay in 32 bits
SYMMETRIC = "symmetric"  # of a network: mix is symmetric and doubly stochastic in every round
FIXED = "fixed"  # of a network: the same links in every round in which there are any


class Places(NamedTuple):
    """Where the clients are, for metrics and figures.

    Attributes:
      position: [N, 2] float32.
      distance_moved: [N] float32 since the start.
      is_mobile: [N] bool.
    """

    position: jax.Array
    distance_moved: jax.Array
    is_mobile: jax.Array


class Network(NamedTuple):
    """Who can talk, when.

    Attributes:
      num_clients: N.
      gives: the fields of Links that this network fills, and what it promises of them: `SYMMETRIC`, `FIXED`.
      init: (hparams.network, key, clients) -> state before the first round.
      step: (hparams.network, key, round, state, clients) -> (state, Links): the links of this round, and the world
        after the movement that follows it (MADFL algorithm 1). ``key`` is the seed's; streams are taken by round.
      places: (state) -> Places.
      reached: (state before the first round) -> [N] bool, who ever meets the server; None where there is none.
      metrics: of its own, measured beside those of every study.
    """

    num_clients: int
    gives: frozenset[str]
    init: Callable[[Any, jax.Array, Clients], Any]
    step: Callable[[Any, jax.Array, jax.Array, Any, Clients], tuple[Any, Links]]
    places: Callable[[Any], Places]
    reached: Callable[[Any], jax.Array] | None = None
    metrics: tuple[Metric, ...] = ()


class RoundStats(NamedTuple):
    """What one round did.

    Attributes:
      loss: [N] float32 training loss at the first local step.
      messages: [N] int32 messages that each client sent, one a directed link.
      bits: what these messages hold, a client.
    """

    loss: jax.Array
    messages: jax.Array
    bits: Bits


Gradient = Callable[[ClientParams, jax.Array], tuple[jax.Array, ClientParams]]


class Algorithm(NamedTuple):
    """What is done and sent in a round.

    Attributes:
      needs: the fields of Links that it reads, and what it takes for granted of them: `SYMMETRIC`, `FIXED`.
      init: (hparams.algorithm, client_params) -> state; its leaves of as many rows as client_params are the clients'.
      round: (hparams.algorithm, key, state, links, gradient) -> (state, RoundStats); ``gradient`` is the task's, bound
        to the data and the clients; ``key`` belongs to the round.
      params: (state) -> client_params [N, ...], the models to evaluate.
      global_model: (state) -> params [1, ...], where the algorithm has one, as with a server; else it is the mean of
        the clients' models.
      double_bits: (hparams.algorithm, number of parameters) -> bits of one message in double precision, as PaME (8)
        counts them; None where that count does not say.
      local_statistics: batch statistics are not sent (`mdfl_jax.statistics`).
      participates: picks its neighbours and periods itself; else the network is thinned for it.
      metrics: of its own, measured beside those of every study.
    """

    needs: frozenset[str]
    init: Callable[[Any, ClientParams], Any]
    round: Callable[[Any, jax.Array, Any, Links, Gradient], tuple[Any, RoundStats]]
    params: Callable[[Any], ClientParams]
    global_model: Callable[[Any], ClientParams] | None = None
    double_bits: Callable[[Any, int], float] | None = None
    participates: bool = False
    local_statistics: bool = False
    metrics: tuple[Metric, ...] = ()


def of_types(tree: Any, like: Any) -> Any:
    """The tree with the float types of another: 64-bit models leave the world, in single precision, as it is."""

    def leaf(x: jax.Array, y: jax.Array) -> jax.Array:
        return x.astype(y.dtype) if jnp.issubdtype(y.dtype, jnp.floating) else x

    return jax.tree.map(leaf, tree, like)
