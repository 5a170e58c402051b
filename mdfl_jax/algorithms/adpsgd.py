"""AD-PSGD: clients average in pairs while they compute, and each follows a gradient of the model that it began with.

The parts of it that other algorithms without rounds share are here, too: a work on a snapshot, and exchanges in pairs.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.algorithms.local import LocalNumbers, Settings, init_optimizer, local_steps
from mdfl_jax.algorithms.registry import register
from mdfl_jax.core.message_bits import count_bits, dense_bits, double_dense_bits, float_bits, messages_sent
from mdfl_jax.core.metric import CURVE, TABLE, UNKNOWN, Metric
from mdfl_jax.core.rng import own_draws
from mdfl_jax.core.sharding import everywhere
from mdfl_jax.core.trees import where_rows
from mdfl_jax.core.types import Algorithm, ClientParams, Links, RoundContext, RoundStats, Traits
from mdfl_jax.exchange.active import Finishing
from mdfl_jax.exchange.peers import random_pairs
from mdfl_jax.metrics.over_clients import mean_of_known
from mdfl_jax.metrics.values import HEARD

STALENESS = Metric(
    "staleness",
    lambda at: at.mean_over_works("staleness"),
    UNKNOWN,
    each_round=lambda view: view.of_finished(view.stats.report.details),
    over_clients=mean_of_known,
    label="staleness (rounds)",
    shown={TABLE, CURVE},
)
"""[N] float32, the rounds by which what a client took in at the end of a work was late, in the mean of its works.

This is its own gradient (`adpsgd`, `push`), the messages that have waited for it (`osgp`), or the models of its
neighbours (`swift`): 0 where it is of the round itself or, for a gradient, of the model with which the round began.
"""


class Late(NamedTuple):
    """The works under way.

    Attributes:
      snapshot: [N, ...] the models with which the clients have begun their works.
      opt_state: [N, ...] the optimiser states, never exchanged.
      rounds: [N] int32, the rounds that have passed since.
    """

    snapshot: ClientParams
    opt_state: Any
    rounds: jax.Array


def first_works(settings: Settings, hparams: LocalNumbers, client_params: ClientParams) -> Late:
    """Return works that begin with the first models, [N, ...]."""
    rounds = jnp.zeros(jax.tree.leaves(client_params)[0].shape[0], jnp.int32)
    return Late(client_params, init_optimizer(settings.optimizer(hparams), client_params), rounds)


def finishing(links: Links) -> jax.Array:
    """Return [N] bool, the clients whose work ends in the round; without clocks, all clients."""
    finishing = links.get(Finishing)
    return jnp.ones(links.adjacency.shape[0], bool) if finishing is None else finishing.who


def finish(
    settings: Settings, hparams: LocalNumbers, late: Late, links: Links, context: RoundContext
) -> tuple[ClientParams, Late, jax.Array]:
    """Compute the works that end in a round: the local steps from the snapshot.

    Returns:
      (the changes of the models [N, ...], zero for other clients; the works with the optimiser states after them; the
      loss [N]).
    """
    after, opt_state, loss = local_steps(settings, hparams, late.snapshot, late.opt_state, context)
    ends = finishing(links)
    change = jax.tree.map(jnp.subtract, after, late.snapshot)
    change = where_rows(ends, change, jax.tree.map(jnp.zeros_like, change))
    return change, late._replace(opt_state=where_rows(ends, opt_state, late.opt_state)), loss


def begin_next(late: Late, links: Links, models: ClientParams) -> Late:
    """Return the works after a round: those of clients that have finished one begin with their models, [N, ...]."""
    ends = finishing(links)
    return Late(where_rows(ends, models, late.snapshot), late.opt_state, jnp.where(ends, 0, late.rounds + 1))


class PairState(NamedTuple):
    """The models [N, ...], the works, and the age of each model, [N] float32: the works that have made it."""

    params: ClientParams
    late: Late
    age: jax.Array


# (the links of the pairs, the ages [N] of the models) -> [N, K], the weights that receivers give to senders
_Weights = Callable[[Links, jax.Array], jax.Array]


def in_pairs(settings: Settings, weigh: _Weights, pulls: bool, update_first: bool, sends_age: bool) -> Algorithm:
    """Make an algorithm whose clients exchange in disjoint pairs (`mdfl_jax.exchange.peers.random_pairs`).

    A client whose work ends starts an exchange with a random client in range, which goes on computing.

    Args:
      settings: the optimiser, the local steps of a work, and the rule of aggregation.
      weigh: the weights of the received models.
      pulls: whether the client that answers sends its model, too.
      update_first: whether a client applies its work before the exchange, and not after it.
      sends_age: whether a message holds the age of the model, too.
    """

    def init(hparams: LocalNumbers, client_params: ClientParams) -> PairState:
        late = first_works(settings, hparams, client_params)
        return PairState(client_params, late, jnp.zeros(late.rounds.shape, jnp.float32))

    def do_round(
        hparams: LocalNumbers, state: PairState, links: Links, context: RoundContext
    ) -> tuple[PairState, RoundStats]:
        ends = finishing(links)
        change, late, loss = finish(settings, hparams, state.late, links, context)
        add = lambda x: jax.tree.map(jnp.add, x, change)  # noqa: E731
        params, age = (add(state.params), state.age + ends) if update_first else (state.params, state.age)
        draw = lambda a, senders, starts: random_pairs(own_draws(context.key), a, starts, senders)  # noqa: E731
        pairs = everywhere(draw, links.adjacency, links.senders, ends)
        heard = links._replace(adjacency=pairs if pulls else pairs & links.senders.of(ends))
        weights = weigh(heard, age)
        heard = heard._replace(mix=weights + links.senders.on_own(1 - jnp.sum(weights, axis=1)))
        mine = settings.part(params)
        part, report = settings.aggregate(hparams, heard, mine, settings.judging(context, params))
        params = settings.with_part(params, part)
        oldest = jnp.max(jnp.where(heard.adjacency, links.senders.of(age), 0), axis=1)
        age = jnp.maximum(age, oldest)
        if not update_first:
            params, age = add(params), age + ends
        sent = messages_sent(heard.adjacency, links.senders)
        bits = count_bits(sent, dense_bits(mine) + (float_bits(mine) if sends_age else 0))
        report = report._replace(details=late.rounds.astype(jnp.float32))
        stats = RoundStats(loss, sent, bits, heard=heard, report=report)
        return PairState(params, begin_next(late, links, params), age), stats

    return Algorithm(
        frozenset({"adjacency"}),
        init,
        do_round,
        lambda state: state.params,
        metrics=(HEARD, STALENESS),
        traits=Traits(
            None if settings.shared or sends_age else double_dense_bits, settings.local_statistics, asynchronous=True
        ),
    )


@register(
    "adpsgd",
    ignores=("compressor",),
    formula="x_i, x_j <- (x_i + x_j) / 2, j random;  x_i+ = x_i - eta grad f(y_i);  y_i was x_i when the work began",
    cite="lian2018: algorithm 1",
)
def adpsgd(settings: Settings = Settings()) -> Algorithm:
    """AD-PSGD: whose work ends averages with a random neighbour, both atomically, then follows its late gradient.

    A gradient is that of the model with which the work began; meanwhile others may have averaged with the client. The
    average is that of a pair, so `network.mixing` is not used; without clocks the work of everybody ends in each round.
    """
    halves: _Weights = lambda links, age: jnp.where(links.adjacency, 0.5, 0.0)  # noqa: E731
    return in_pairs(settings, halves, pulls=True, update_first=False, sends_age=False)
