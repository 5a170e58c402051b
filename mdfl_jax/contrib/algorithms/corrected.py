"""Shared parts of algorithms that correct the gradient steps of D-PSGD: NIDS, EXTRA, D2; K-GT, LED, ProxSkip.

NIDS, EXTRA and D2 correct a step by that of the previous round (`corrected`).

With eta the step size and g^k the gradients at x^k, every round adds to a model the difference eta g^k - eta g^(k-1),
and not the whole step eta g^k. At a common minimiser of the mean of all objectives the clients' gradients do not
vanish, but these differences do. So the models stay there, also with a constant step and unlike clients.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.algorithms.local import AlgorithmNumbers, Settings, decayed_gradient, recursion_step, waiting
from mdfl_jax.core.message_bits import count_bits, dense_bits, double_dense_bits
from mdfl_jax.core.metric import Metric
from mdfl_jax.core.types import SYMMETRIC, Algorithm, ClientParams, Links, Report, RoundContext, RoundStats, Traits


class CorrectedState(NamedTuple):
    """The state that one round hands to the next.

    Attributes:
      params: [N, ...] the models x^k.
      before: [N, ...] what the algorithm keeps of the previous round, in NIDS and D2 the models x^(k-1).
      descent: [N, ...] eta grad f(x^(k-1)).
      round: [] int32 k, the number of steps that the recursion has taken.
    """

    params: ClientParams
    before: ClientParams
    descent: ClientParams
    round: jax.Array


class Moved(NamedTuple):
    """The result of one step of the recursion.

    Attributes:
      params: [N, ...] the models x^(k+1).
      before: [N, ...] what the next round needs of this one.
      messages: [N] int32 messages that each client sent.
      report: what the exchange reported.
    """

    params: ClientParams
    before: ClientParams
    messages: jax.Array
    report: Report


# (hparams, links, state, descent [N, ...] = eta grad f(x^k), context) -> Moved. In round 0 ``state.before`` holds the
# models and ``state.descent`` is zero.
_Move = Callable[[Any, Links, CorrectedState, ClientParams, RoundContext], Moved]


def corrected(settings: Settings, move: _Move, needs: Iterable[str]) -> Algorithm:
    """Make an algorithm of one gradient step a round and a recursion over two rounds.

    In a round in which no client has a link the recursion waits (`mdfl_jax.algorithms.local.waiting`).

    Args:
      settings: the schedule of the learning rate.
      move: the recursion. Every message that it counts is one whole model.
      needs: the fields of Links that ``move`` reads, and the promises that it relies on.
    """

    def init(hparams: AlgorithmNumbers, client_params: ClientParams) -> CorrectedState:
        nothing = jax.tree.map(jnp.zeros_like, client_params)
        return CorrectedState(client_params, client_params, nothing, jnp.int32(0))

    def do_round(
        hparams: AlgorithmNumbers, state: CorrectedState, links: Links, context: RoundContext
    ) -> tuple[CorrectedState, RoundStats]:
        step = recursion_step(settings, hparams, state.round)
        key = jax.random.fold_in(context.key, 0)
        loss, found = decayed_gradient(context.gradient, hparams, step)(state.params, key)
        descent = jax.tree.map(lambda g: step.astype(g.dtype) * g, found)
        moved = move(hparams, links, state, descent, context)
        bits = count_bits(moved.messages, dense_bits(state.params))
        stats = RoundStats(loss, moved.messages, bits, report=moved.report)
        return CorrectedState(moved.params, moved.before, descent, state.round + 1), stats

    params = lambda state: state.params  # noqa: E731
    return waiting(Algorithm(frozenset(needs), init, do_round, params, traits=Traits(double_dense_bits)))


def extrapolated(state: CorrectedState, descent: ClientParams) -> ClientParams:
    """Return 2 x^k - x^(k-1) - (eta g^k - eta g^(k-1)), [N, ...]; in round 0 this is x^0 - eta g^0."""
    return jax.tree.map(lambda x, b, d, e: 2 * x - b - (d - e), state.params, state.before, descent, state.descent)


class CorrectionState(NamedTuple):
    """The models x [N, ...], the corrections [N, ...], whose sum over clients is zero, and the rounds so far."""

    params: ClientParams
    correction: ClientParams
    round: jax.Array


def with_corrections(
    do_round: Callable[..., tuple[CorrectionState, RoundStats]], metrics: tuple[Metric, ...] = ()
) -> Algorithm:
    """Make an algorithm of a round whose corrections begin at zero.

    Args:
      do_round: (hparams, state, links, context) -> (state, RoundStats).
      metrics: the metrics of the algorithm.
    """

    def init(hparams: AlgorithmNumbers, client_params: ClientParams) -> CorrectionState:
        return CorrectionState(client_params, jax.tree.map(jnp.zeros_like, client_params), jnp.int32(0))

    needs = frozenset({"adjacency", "mix", SYMMETRIC})
    params = lambda state: state.params  # noqa: E731
    return Algorithm(needs, init, do_round, params, metrics=metrics, traits=Traits(double_dense_bits))


def lazier(links: Links, share: Any) -> Links:
    """Return links with the weights (1 - share) W + share I, for a share of the identity in [0, 1], [] float."""
    share = jnp.asarray(share, links.mix.dtype)
    own = links.senders.own(links.mix.shape[0]).astype(links.mix.dtype)
    return links._replace(mix=(1 - share) * links.mix + share * own)
