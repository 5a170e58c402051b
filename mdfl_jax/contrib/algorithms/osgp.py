"""OSGP: stochastic gradient push whose messages are on their way while clients compute."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.algorithms.adpsgd import STALENESS, finishing
from mdfl_jax.algorithms.local import LocalNumbers, Settings
from mdfl_jax.algorithms.registry import register
from mdfl_jax.algorithms.sgp import SGPState, begun, biased_steps
from mdfl_jax.core.message_bits import count_bits, dense_bits, float_bits, messages_sent
from mdfl_jax.core.numbers import number
from mdfl_jax.core.trees import rows_like, where_rows
from mdfl_jax.core.types import Algorithm, ClientParams, Links, Report, RoundContext, RoundStats, Traits
from mdfl_jax.exchange.gossip import mix
from mdfl_jax.metrics.values import HEARD


class OSGPState(NamedTuple):
    """The state that one round hands to the next.

    Attributes:
      own: that of SGP, of what the clients hold.
      inbox: [N, ...] the sums of the pushed parts P x that have arrived and wait for the end of a client's work.
      weight: [N] the sums of their weights P w. With those that clients hold, they sum to N.
      messages: [N] float32, the number of messages that wait.
      waited: [N] float32, the rounds that these have waited, all together.
    """

    own: SGPState
    inbox: Any
    weight: jax.Array
    messages: jax.Array
    waited: jax.Array


class OSGPNumbers(LocalNumbers):
    """The numbers of OSGP."""

    least_weight: float = number(
        0.25, "the push-sum weight w_min that a client keeps at least when it pushes", at_least=0, below=1
    )


@register(
    "osgp",
    OSGPNumbers,
    ignores=("aggregation", "compressor"),
    keeps_sum=True,
    formula="as sgp; a part P x that is pushed waits until the work of its receiver ends, and is added then;  "
    "P_jj w_j = max(w_j / (1 + d_j), min(w_j, w_min)), the rest in equal parts to the d_j that hear j",
    cite="assran2019: algorithm 2",
)
def osgp(settings: Settings = Settings()) -> Algorithm:
    """OSGP, overlap stochastic gradient push: nobody waits for messages, which are added when the own work has ended.

    Whose work ends follows its gradient, pushes parts of its model to all that hear it, and adds the parts that have
    arrived since its last work. Parts and their weights are never lost, so de-biased models still average exactly. In
    the paper a client waits for messages that are more than tau steps late, and so its weight w stays away from zero.
    Here nobody waits; a client keeps at least `algorithm.least_weight` of weight and pushes what it has beyond that.
    With 0, the weights of fast clients fall to zero beside slow ones, and their steps eta / w grow without bound. Where
    the work of everybody ends in each round, OSGP is then SGP.
    """

    def init(hparams: OSGPNumbers, client_params: ClientParams) -> OSGPState:
        own = begun(settings, hparams, client_params)
        inbox = jax.tree.map(jnp.zeros_like, settings.part(client_params))
        nothing = jnp.zeros_like(own.weight)
        none = jnp.zeros(nothing.shape, jnp.float32)
        return OSGPState(own, inbox, nothing, none, none)

    def do_round(
        hparams: OSGPNumbers, state: OSGPState, links: Links, context: RoundContext
    ) -> tuple[OSGPState, RoundStats]:
        ends, senders, own = finishing(links), links.senders, state.own
        z, opt_state, loss = biased_steps(settings, hparams, own, context)
        z, opt_state = where_rows(ends, (z, opt_state), (own.params, own.opt_state))
        hearers = senders.sums(links.adjacency)
        kept = jnp.maximum(own.weight / (1 + hearers), jnp.minimum(own.weight, hparams.least_weight))
        pushes = ends & (kept < own.weight)
        adjacency = links.adjacency & senders.of(pushes)
        parts = jnp.where(adjacency, senders.of((own.weight - kept) / jnp.maximum(hearers, 1)), 0)
        kept = jnp.where(pushes, kept, own.weight)
        mine = settings.part(z)
        told = settings.sent(hparams, context.key, links._replace(adjacency=adjacency), mine)
        inbox = jax.tree.map(jnp.add, state.inbox, mix(parts, told, settings.mixing_bound, senders))
        weight = state.weight + jnp.sum(parts, axis=1)
        messages, waited = state.messages + jnp.sum(adjacency, axis=1), state.waited + state.messages
        total = kept + weight

        def add(z: jax.Array, parts: jax.Array) -> jax.Array:
            return (rows_like(kept, z).astype(z.dtype) * z + parts) / rows_like(total, z).astype(z.dtype)

        z = where_rows(ends, settings.with_part(z, jax.tree.map(add, mine, inbox)), z)
        own = SGPState(z, jnp.where(ends, total, kept), opt_state)
        sent = messages_sent(adjacency, senders)
        bits = count_bits(sent, dense_bits(mine) + float_bits(mine))
        report = Report(details=waited / jnp.maximum(messages, 1))
        stats = RoundStats(loss, sent, bits, heard=links._replace(adjacency=adjacency), report=report)
        empty = lambda x: jnp.where(rows_like(ends, x), 0, x)  # noqa: E731
        return OSGPState(own, *(jax.tree.map(empty, x) for x in (inbox, weight, messages, waited))), stats

    double_bits = None if settings.shared else lambda hparams, num_params: 64.0 * (num_params + 1)
    return Algorithm(
        frozenset({"adjacency"}),
        init,
        do_round,
        lambda state: state.own.params,
        metrics=(HEARD, STALENESS),
        traits=Traits(double_bits, settings.local_statistics, asynchronous=True),
    )
