"""SWIFT: whoever has finished its work averages with the models that its neighbours have at this time."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.algorithms.adpsgd import STALENESS, Late, begin_next, finish, finishing, first_works
from mdfl_jax.algorithms.local import LocalNumbers, Settings
from mdfl_jax.algorithms.registry import register
from mdfl_jax.core.message_bits import count_bits, dense_bits, float_bits, messages_sent
from mdfl_jax.core.types import SYMMETRIC, Algorithm, ClientParams, Links, RoundContext, RoundStats, Traits
from mdfl_jax.metrics.values import HEARD


class SwiftState(NamedTuple):
    """The works, whose snapshots are the models, and [N] float32, the works that each client has finished, and one."""

    late: Late
    works: jax.Array


@register(
    "swift",
    ignores=("compressor",),
    formula="x_i+ = sum_j w_ij x_j - eta grad f(x_i);  w_ij = W_ij min(1, p_j / p_i), the rest to i;  p_j: its works",
    cite="bornstein2023: algorithm 1",
)
def swift(settings: Settings = Settings()) -> Algorithm:
    """SWIFT: whose work ends averages, without waiting, with the models that its neighbours began their works with.

    A client changes its model only when its own work ends, so a neighbour's model is late and its own gradient is not.
    The influence p of a client is its share of all works, here counted as the run goes. The weights are such that
    p_i w_ij = p_j w_ji, which the paper asks for; its own rule (CCS) finds other such weights for a fixed graph. Models
    are asked for when a work ends, since neighbours change; over fixed links they are those of the paper's broadcasts.
    """

    def init(hparams: LocalNumbers, client_params: ClientParams) -> SwiftState:
        late = first_works(settings, hparams, client_params)
        return SwiftState(late, jnp.ones(late.rounds.shape, jnp.float32))

    def do_round(
        hparams: LocalNumbers, state: SwiftState, links: Links, context: RoundContext
    ) -> tuple[SwiftState, RoundStats]:
        ends, senders = finishing(links), links.senders
        change, late, loss = finish(settings, hparams, state.late, links, context)
        adjacency = links.adjacency & ends[:, None]
        slower = jnp.minimum(1, senders.of(state.works) / state.works[:, None])
        weights = jnp.where(adjacency, links.mix * slower, 0)
        heard = links._replace(adjacency=adjacency, mix=weights + senders.on_own(1 - jnp.sum(weights, axis=1)))
        mine = settings.part(late.snapshot)
        judging = settings.judging(context, late.snapshot)
        part, report = settings.aggregate(hparams, heard, mine, judging)
        models = jax.tree.map(jnp.add, settings.with_part(late.snapshot, part), change)
        number = jnp.maximum(jnp.sum(adjacency, axis=1), 1)
        age = jnp.sum(jnp.where(adjacency, senders.of(late.rounds), 0), axis=1) / number
        sent = messages_sent(adjacency, senders)
        bits = count_bits(sent, dense_bits(mine) + float_bits(mine))
        report = report._replace(details=age.astype(jnp.float32))
        stats = RoundStats(loss, sent, bits, heard=heard, report=report)
        return SwiftState(begin_next(late, links, models), state.works + ends), stats

    return Algorithm(
        frozenset({"adjacency", "mix", SYMMETRIC}),
        init,
        do_round,
        lambda state: state.late.snapshot,
        metrics=(HEARD, STALENESS),
        traits=Traits(local_statistics=settings.local_statistics, asynchronous=True),
    )
