"""NIDS: exact convergence on heterogeneous data, with one gradient a client and one message a link in each round."""

import jax
import jax.numpy as jnp

from mdfl_jax.algorithms.local import AlgorithmNumbers, Settings
from mdfl_jax.algorithms.registry import RECURSION, register
from mdfl_jax.contrib.algorithms.corrected import CorrectedState, Moved, corrected, extrapolated
from mdfl_jax.core.message_bits import messages_sent
from mdfl_jax.core.types import SYMMETRIC, Algorithm, ClientParams, Links, RoundContext
from mdfl_jax.metrics.values import HEARD


@register(
    "nids",
    AlgorithmNumbers,
    ignores=(*RECURSION, "compressor"),
    keeps_sum=True,
    formula="x^1 = x^0 - eta grad f(x^0);  x+ = (I + W) / 2 (2 x - x_prev - eta (grad f(x) - grad f(x_prev)))",
    cite="li2019nids: algorithm 1",
)
def nids(settings: Settings = Settings()) -> Algorithm:
    """NIDS: exact convergence with a constant step, one gradient and one message a link; smooth case, one step size.

    Round 0 sends nothing. Later rounds send the vectors that W averages, one message a link. In a round in which no
    client has a link the recursion waits (`mdfl_jax.algorithms.local.waiting`). The paper's W is symmetric and the same
    in every round. If links change, the mean of the models still follows the mean of the gradients, but the paper's
    other results do not apply.
    """

    def move(
        hparams: AlgorithmNumbers, links: Links, state: CorrectedState, descent: ClientParams, context: RoundContext
    ) -> Moved:
        is_first = state.round == 0
        planned = extrapolated(state, descent)
        heard, report = settings.aggregate(hparams, links, planned, context)
        params = jax.tree.map(lambda p, h: jnp.where(is_first, p, (p + h) / 2), planned, heard)
        messages = jnp.where(is_first, 0, messages_sent(links.adjacency, links.senders))
        return Moved(params, state.params, messages, report)

    return corrected(settings, move, ("adjacency", "mix", SYMMETRIC))._replace(metrics=(HEARD,))
