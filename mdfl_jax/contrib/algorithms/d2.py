"""D2: D-PSGD without the error that clients with unlike data cause, from the difference of two rounds' gradients."""

from mdfl_jax.algorithms.local import AlgorithmNumbers, Settings
from mdfl_jax.algorithms.registry import RECURSION, register
from mdfl_jax.contrib.algorithms.corrected import CorrectedState, Moved, corrected, extrapolated, lazier
from mdfl_jax.core.message_bits import messages_sent
from mdfl_jax.core.numbers import number
from mdfl_jax.core.types import FIXED, SYMMETRIC, Algorithm, ClientParams, Links, RoundContext


class D2Numbers(AlgorithmNumbers):
    """The numbers of D2."""

    laziness: float = number(
        1 / 3, "share of the identity in the weights; D2 needs their eigenvalues above -1/3", at_least=0, below=1
    )


@register(
    "d2",
    D2Numbers,
    ignores=(*RECURSION, "compressor"),
    keeps_sum=True,
    formula="x^1 = W' (x^0 - eta g^0);  x^(k+1) = W' (2 x^k - x^(k-1) - eta (g^k - g^(k-1)))\n"
    "W' = (1 - laziness) W + laziness I",
    cite="tang2018d2: algorithm 1",
)
def d2(settings: Settings = Settings()) -> Algorithm:
    """D2: exact convergence with a constant step, from the difference of two rounds' gradients; with lazier weights W'.

    The paper assumes that W' is symmetric, the same in every round, and without eigenvalues of -1/3 or below: at such
    an eigenvalue the recursion does not converge. Metropolis-Hastings weights on a torus, for example, have -3/5. If
    every client gives its own model a positive weight, as all mixing rules of this package do, the eigenvalues of W are
    above -1, and those of W' above -1/3 for a laziness of 1/3 or more. A laziness of 0 is the paper's recursion with W
    itself.

    Every round sends the vectors that W' averages, one message a link. In a round in which no client has a link the
    recursion waits (`mdfl_jax.algorithms.local.waiting`). If the step size changes, the gradients are multiplied by the
    step size of their own round.
    """

    def move(
        hparams: D2Numbers, links: Links, state: CorrectedState, descent: ClientParams, context: RoundContext
    ) -> Moved:
        params, report = settings.aggregate(
            hparams, lazier(links, hparams.laziness), extrapolated(state, descent), context
        )
        return Moved(params, state.params, messages_sent(links.adjacency, links.senders), report)

    return corrected(settings, move, ("adjacency", "mix", SYMMETRIC, FIXED))
