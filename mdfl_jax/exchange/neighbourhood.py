"""Rules of aggregation that are written for one client, and mapped over all clients here.

A rule gets a `Neighbourhood`: the models that one client receives, as rows of a matrix. It returns the client's next
model, or a `Decision` that also says which models it used. So a rule is a few lines of array code, the same for
matrices and for neighbour lists. No array has more than K rows of d numbers for each client that is computed at a time.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.core import contract
from mdfl_jax.core.devices import backend
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.numbers import Numbers, Setting, number
from mdfl_jax.core.registry import caller
from mdfl_jax.core.sharding import by_rows, take_steps
from mdfl_jax.core.trees import ravel, where_rows
from mdfl_jax.core.types import Algorithm, ClientParams, Exchanged, Links, Report, RoundContext, RoundStats
from mdfl_jax.exchange.aggregation import AGGREGATIONS, Heard, Memory, RuleTraits
from mdfl_jax.exchange.screening import DETECTIONS, FELL_BACK, REJECTED, Screened

_AT_ONCE = {"cpu": 2**20}  # bytes of the models that are read for the clients computed at a time
LARGE_ON_ACCELERATORS = 2**28  # the same on accelerators
FEW_ROWS = 32  # up to 32 rows are sorted and added one by one; more rows by the compiler's own sort and sum


class Neighbourhood(NamedTuple):
    """What one client receives in an exchange.

    Attributes:
      own: [d] its own model.
      models: [K, d] the models in its neighbour slots; its own model in its own slot. Rows that do not count also hold
        its own model.
      counts: [K] bool, the slots that count: its own, and those of the others from which it receives. A model with a
        number that is not finite does not count, as if it had not been received.
      mine: [K] bool, its own slot.
      weights: [K] its row of the mixing matrix.
      numbers: the numbers of the rule.
      losses: [K] the loss of each model on the client's own minibatch, if the rule asks for losses; else None.
      progress: [] float32, the share of the run's rounds that are over.
      memory: [K] float32, what the client remembers of the senders, for a rule with a `Memory`; else None.
    """

    own: jax.Array
    models: jax.Array
    counts: jax.Array
    mine: jax.Array
    weights: jax.Array
    numbers: Any = None
    losses: jax.Array | None = None
    progress: jax.Array | float = 0.0
    memory: jax.Array | None = None

    @property
    def others(self) -> jax.Array:
        """[K] bool, the slots of the others from which it receives."""
        return self.counts & ~self.mine

    @property
    def size(self) -> jax.Array:
        """[] int32, the number of models that count, its own included."""
        return jnp.sum(self.counts, dtype=jnp.int32)

    @property
    def too_few(self) -> jax.Array | bool:
        """[] bool, whether it has fewer models than the rule needs (`RobustNumbers.least`)."""
        return self.size < self.numbers.least() if isinstance(self.numbers, RobustNumbers) else False

    @property
    def distances(self) -> jax.Array:
        """[K] the Euclidean distances of the models from its own; infinite in slots that do not count."""
        return jnp.where(self.counts, jnp.linalg.norm(self.models - self.own, axis=1), jnp.inf)


class Decision(NamedTuple):
    """What a client does with the models that it receives.

    Attributes:
      model: [d] its next model.
      used: [K] bool, the slots of the models that it used; None: all that count.
      memory: [K] float32, what it remembers of the senders from now on, for a rule with a `Memory`.
    """

    model: jax.Array
    used: jax.Array | None = None
    memory: jax.Array | None = None


OneClient = Callable[[Neighbourhood], jax.Array | Decision]


class RobustNumbers(Numbers):
    """The hyperparameters of rules whose guarantee holds while few of the models are attackers'."""

    def least(self) -> int:
        """Return the smallest number of models, the client's own included, with which the rule does not fall back."""
        return 1

    def bears(self, size: Any) -> Any:
        """Return how many attackers the rule tolerates among ``size`` models, the own one included."""
        return (size - 1) // 2


class BoundedNumbers(RobustNumbers):
    """The hyperparameter of rules that are made for a bounded number of attackers."""

    max_attackers: int = number(1, "most attackers among the others that a client hears, f", at_least=0)

    def least(self) -> int:
        """Return 2 f + 1."""
        return 2 * self.max_attackers + 1

    def bears(self, size: Any) -> Any:
        """Return f."""
        return self.max_attackers

    def check(self, setting: Setting) -> None:
        """Check that the clients are enough for the rule."""
        if self.least() > setting.num_clients:
            raise UserError(
                f"algorithm.max_attackers is {self.max_attackers}; {setting.member} then needs {self.least()} models, "
                f"and network.num_clients is {setting.num_clients}"
            )


def for_one_client(
    name: str,
    numbers: type[Numbers] | None = None,
    asks_losses: bool = False,
    memory: Memory | None = None,
    weighs: bool = True,
    rejects: bool = False,
    keeps_mean: bool = False,
    formula: str = "",
    cite: str = "",
) -> Callable[[OneClient], OneClient]:
    """Return a decorator that registers a rule of one client in `AGGREGATIONS`.

    Args:
      name: the name of the rule.
      numbers: the class of its numbers.
      asks_losses: whether it reads `Neighbourhood.losses`. They cost one loss for each model that a client receives.
      memory: what it keeps from round to round.
      weighs: whether it reads `Neighbourhood.weights`.
      rejects: whether it uses some models and rejects others, as `Decision.used` reports.
      keeps_mean: as in `mdfl_jax.exchange.aggregation.RuleTraits`.
      formula, cite: as in `mdfl_jax.core.registry.Member`.
    """
    origin = caller()

    def add(rule: OneClient) -> OneClient:
        def combine(heard: Heard) -> Exchanged:
            return over_clients(rule, heard, asks_losses, memory)

        metrics = (FELL_BACK, *(DETECTIONS if rejects else ()))
        traits = RuleTraits(weighs, asks_losses, keeps_mean, memory, metrics)
        doc = rule.__doc__ or ""
        AGGREGATIONS.register(name, numbers, doc, origin, formula=formula, cite=cite, traits=traits)(combine)
        return rule

    return add


def over_clients(rule: OneClient, heard: Heard, asks_losses: bool = False, memory: Memory | None = None) -> Exchanged:
    """Apply a rule of one client to all clients, and report what it did."""
    links, senders = heard.links, heard.links.senders
    known = memory and _remembered(memory, heard)
    places = known if known is None or senders.ids is None else jnp.take_along_axis(known, senders.ids, axis=1)

    def decided(near: Neighbourhood, rest: Any) -> tuple[jax.Array, Any]:
        found = rule(near._replace(losses=rest[0], memory=rest[1]))
        found = found if isinstance(found, Decision) else Decision(found)
        used = near.counts if found.used is None else found.used & near.counts
        return found.model, (used, near.too_few & jnp.any(near.others), found.memory)

    losses = losses_of(heard) if asks_losses else None
    combined, (used, alone, learnt) = of_clients(decided, heard, (losses, places))
    judged = links.adjacency & ~alone[:, None]
    if known is not None:
        me = jnp.arange(links.num_clients)[:, None]
        known = learnt if senders.ids is None else known.at[me, senders.ids].set(learnt)
    return Exchanged(combined, Report(Screened(alone, judged, judged & ~used), known))


def _remembered(memory: Memory, heard: Heard) -> jax.Array:
    """Return what is left of the memory of earlier rounds, [N, N]."""
    kept = heard.context and heard.context.memory
    return memory.fades(heard.numbers, memory.begins(heard.numbers, heard.links.num_clients) if kept is None else kept)


def with_rule(algorithm: Algorithm, rule: str) -> Algorithm:
    """Return an algorithm that keeps the memory and has the metrics of its aggregation rule; the rule "" needs none.

    Raises:
      UserError: in the round, if the rule has a memory or rejects models and the algorithm does not return its report.
    """
    traits = AGGREGATIONS.traits(rule) if rule else RuleTraits()
    memory = traits.memory
    begins = memory and (lambda hparams, num_clients: memory.begins(hparams.aggregation, num_clients))
    own = algorithm.traits._replace(memory=begins)
    measured = algorithm._replace(metrics=(*algorithm.metrics, *traits.metrics), traits=own)
    if memory is None and REJECTED not in traits.metrics:
        return measured

    @functools.wraps(algorithm.round)
    def do_round(hparams: Any, state: Any, links: Links, context: RoundContext) -> tuple[Any, RoundStats]:
        following, stats = algorithm.round(hparams, state, links, context)
        contract.reported(algorithm.round, stats.report.screened, f"by which {rule} is measured")
        return following, stats

    return measured._replace(round=do_round)


def of_clients(function: Callable[[Neighbourhood, Any], tuple[jax.Array, Any]], heard: Heard, rest: Any = None) -> Any:
    """Apply a function of one client's neighbourhood to all clients, some clients at a time.

    Args:
      function: (the neighbourhood of one client, its rows of ``rest``) -> (vector [d], tree).
      heard: what the clients receive.
      rest: further arrays [N, ...].

    Returns:
      (the vectors as models [N, ...], the trees [N, ...]).
    """
    links, senders, progress = heard.links, heard.links.senders, heard.context.progress if heard.context else 0.0
    num_clients = links.num_clients
    links_of = (senders.ids, links.adjacency, senders.own(num_clients), links.mix, heard.liars)
    whole = (heard.sent, heard.numbers, jnp.float32(progress))

    def of_rows(rows: Any, whole: Any) -> Any:
        sent, numbers, progress = whole

        def of_client(row: Any) -> Any:
            own, lie, (ids, hears, mine, weights, liars), rest = row
            models, _ = ravel(sent if ids is None else jax.tree.map(lambda x: x[ids], sent))
            flat, unravel = ravel(jax.tree.map(lambda x: x[None], own))
            if lie is not None:
                models = jnp.where(liars[:, None], ravel(jax.tree.map(lambda x: x[None], lie))[0], models)
            counts = mine | (hears & jnp.all(jnp.isfinite(models), axis=1))
            models = jnp.where((counts & ~mine)[:, None], models, flat)
            near = Neighbourhood(flat[0], models, counts, mine, weights, numbers, progress=progress)
            vector, told = function(near, rest)
            return jax.tree.map(lambda x: x[0], unravel(vector[None])), told

        size = sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(sent)) // num_clients * links.adjacency.shape[1]
        at_once = max(_AT_ONCE.get(backend(), LARGE_ON_ACCELERATORS) // max(size, 1), 1)
        return jax.lax.map(of_client, rows, batch_size=min(at_once, rows[2][1].shape[0]))

    return by_rows(of_rows, (heard.own, heard.lies, links_of, rest), whole)


def loss_of(heard: Heard) -> Callable[[ClientParams], jax.Array]:
    """Return the function (models [N, ...]) -> [N], the loss of each model on its client's own minibatch.

    The loss is NaN for a client without samples. Without a context all losses are zero.
    """
    context = heard.context
    if context is None or context.loss is None:
        return lambda models: jnp.zeros(heard.links.num_clients)
    batch = {"batch": context.judged_on()} if context.judged_on else {}
    return functools.partial(context.loss, **batch)


def received_in(heard: Heard, slot: jax.Array) -> ClientParams:
    """Return the model that each client receives in a neighbour slot, [N, ...]; its own model in its own slot.

    Args:
      heard: what the clients receive.
      slot: the slot of all clients, [] int32, or of each, [N] int32.
    """
    senders, clients = heard.links.senders, jnp.arange(heard.links.num_clients)
    ids = slot if senders.ids is None else senders.ids[clients, slot]
    models = jax.tree.map(lambda x: jnp.broadcast_to(x[ids], x.shape), heard.sent)
    if heard.liars is not None:
        models = where_rows(heard.liars[clients, slot], heard.lies, models)
    return where_rows(senders.own(heard.links.num_clients)[clients, slot], heard.own, models)


def losses_of(heard: Heard) -> jax.Array:
    """Return the losses, by `loss_of`, of the models that each client receives and of its own: [N, K]."""
    loss = loss_of(heard)

    def at_slot(found: jax.Array, slot: jax.Array) -> tuple[jax.Array, jax.Array]:
        return found.at[:, slot].set(loss(received_in(heard, slot))), slot

    return take_steps(at_slot, jnp.zeros(heard.links.adjacency.shape), heard.links.adjacency.shape[1])[0]


@functools.cache
def comparators(size: int) -> tuple[tuple[int, int], ...]:
    """Return Batcher's odd-even merge sort: the pairs of rows to put in order, one after another.

    There are about (size / 4) (log2 size)^2 pairs (Knuth, "The art of computer programming", volume 3, algorithm
    5.2.2M).
    """
    found, span = [], 1
    while span < size:
        step = span
        while step:
            for start in range(step % span, size - step, 2 * step):
                low = range(start, min(start + step, size - step))
                found += [(i, i + step) for i in low if i // (2 * span) == (i + step) // (2 * span)]
            step //= 2
        span *= 2
    return tuple(found)


def sum_of_ranked(models: jax.Array, counts: jax.Array, weights: jax.Array) -> jax.Array:
    """Sort each column of [K, d]; return the sum of its values with the weights [K] of their ranks: [d].

    The smallest value has the first weight. Rows that do not count are sorted to the end, as infinity; the weights of
    their ranks must be zero. Up to `FEW_ROWS` rows are sorted by minima and maxima of whole rows, and added in the same
    loop over the columns: the compiler keeps all rows of a column in registers. If the sorted rows were stacked, the
    compiler would repeat the sort for each of them.
    """
    masked = jnp.where(counts[:, None], models, jnp.inf)
    if len(masked) > FEW_ROWS:
        return weighted_sum(jnp.sort(masked, axis=0), weights)
    rows = list(masked)
    for low, high in comparators(len(rows)):
        rows[low], rows[high] = jnp.minimum(rows[low], rows[high]), jnp.maximum(rows[low], rows[high])
    return weighted_sum(rows, weights)


def weighted_sum(rows: Sequence[jax.Array] | jax.Array, weights: jax.Array) -> jax.Array:
    """Return the sum [d] of rows [K, d] with weights [K] >= 0. Rows of weight zero may hold any number, also NaN.

    Few rows are added one by one: a CPU then adds them in one pass, and a sum over the leading axis takes twice as
    long.
    """
    if len(rows) > FEW_ROWS:
        return jnp.sum(jnp.where(weights[:, None] > 0, weights[:, None] * jnp.asarray(rows), 0), axis=0)
    return functools.reduce(jnp.add, (jnp.where(w > 0, w * row, 0) for w, row in zip(weights, rows)))


def mean_of(models: jax.Array, weights: jax.Array) -> jax.Array:
    """Return the mean of rows [K, d] with weights [K], which may be bool; rows of weight zero may hold any number."""
    weights = weights.astype(models.dtype)
    return weighted_sum(models, weights / jnp.maximum(jnp.sum(weights), jnp.finfo(models.dtype).tiny))


def smallest(values: jax.Array, count: jax.Array | int) -> jax.Array:
    """Return [..., K] bool, the ``count`` smallest of values [..., K]; of equal ones the first."""
    rank = jnp.argsort(jnp.argsort(values, axis=-1, stable=True), axis=-1, stable=True)
    return rank < count


def squared_distances(models: jax.Array, own: jax.Array, counts: jax.Array) -> jax.Array:
    """Return ||x_j - x_k||^2 of every two models: [K, K], infinite where one of them does not count.

    They are computed from inner products of differences from the client's own model. So models that are nearly equal
    keep their digits, and a far model of an attacker does not round the distances of honest models.
    """
    centred = models - own
    products = jnp.matmul(centred, centred.T, precision="highest")
    lengths = jnp.diagonal(products)
    found = jnp.maximum(lengths[:, None] + lengths - 2 * products, 0)
    found = jnp.where(counts[:, None] & counts & ~jnp.isnan(found), found, jnp.inf)
    return jnp.where(jnp.eye(len(lengths), dtype=bool), 0, found)
