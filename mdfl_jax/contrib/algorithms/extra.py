"""EXTRA: exact convergence on heterogeneous data with a constant step; it corrects the models after they are mixed."""

import jax

from mdfl_jax.algorithms.local import AlgorithmNumbers, Settings
from mdfl_jax.algorithms.registry import RECURSION, register
from mdfl_jax.contrib.algorithms.corrected import CorrectedState, Moved, corrected
from mdfl_jax.core.message_bits import messages_sent
from mdfl_jax.core.types import FIXED, SYMMETRIC, Algorithm, ClientParams, Links, RoundContext


@register(
    "extra",
    AlgorithmNumbers,
    ignores=(*RECURSION, "compressor"),
    keeps_sum=True,
    formula="x^1 = W x^0 - eta grad f(x^0)\n"
    "x^(k+2) = (I + W) x^(k+1) - W~ x^k - eta (grad f(x^(k+1)) - grad f(x^k));  W~ = (I + W) / 2",
    cite="shi2015: algorithm 1",
)
def extra(settings: Settings = Settings()) -> Algorithm:
    """EXTRA: exact convergence with a constant step; it corrects the models after they are mixed.

    Every round sends the models, one message a link: a client remembers W~ x^k from the round before, so the links and
    their weights must stay the same. In a round in which no client has a link the recursion waits
    (`mdfl_jax.algorithms.local.waiting`). If the step size changes, the gradients are multiplied by the step size of
    their own round. For a constant step below 2 lambda_min(W~) / L, where L is the Lipschitz constant of the gradients,
    and convex objectives the paper proves that all models converge to the same exact minimiser.
    """

    def move(
        hparams: AlgorithmNumbers, links: Links, state: CorrectedState, descent: ClientParams, context: RoundContext
    ) -> Moved:
        # Here ``before`` is W~ x^(k-1), and x^0 in round 0, where the line for x^1 is a case of the general one.
        x = state.params
        heard, report = settings.aggregate(hparams, links, x, context)
        params = jax.tree.map(lambda x, h, b, d, e: x + h - b - (d - e), x, heard, state.before, descent, state.descent)
        half_way = jax.tree.map(lambda x, h: (x + h) / 2, x, heard)
        return Moved(params, half_way, messages_sent(links.adjacency, links.senders), report)

    return corrected(settings, move, ("adjacency", "mix", SYMMETRIC, FIXED))
