"""Aug-DGM: gradient tracking that averages the estimates after the change of the gradients is added."""

from mdfl_jax.algorithms.gradient_tracking import track_gradients
from mdfl_jax.algorithms.local import AlgorithmNumbers, Settings
from mdfl_jax.algorithms.registry import RECURSION, register
from mdfl_jax.core.types import Algorithm


@register(
    "aug_dgm",
    AlgorithmNumbers,
    ignores=(*RECURSION, "compressor"),
    keeps_sum=True,
    formula="x+ = W (x - eta y);  y+ = W (y + grad f(x+) - grad f(x));  y^0 = grad f(x^0)",
    cite="xu2015",
)
def aug_dgm(settings: Settings = Settings()) -> Algorithm:
    """Aug-DGM, also ATC-DIGing: gradient tracking whose estimates are averaged with the newest gradients in them.

    `gradient_tracking` averages the estimates first: y+ = W y + grad f(x+) - grad f(x). The paper lets each client have
    a step size of its own; here all have one. The mean of all y is the mean gradient in every round.

    Here a round begins with the y update of the paper's previous iteration, so that it needs one gradient. Round 0
    sends one message a link, x - eta y. Later rounds send two, y + grad f(x+) - grad f(x) and x - eta y. In a round
    without links both recursions run with W = I and nothing is sent.
    """
    return track_gradients(settings, sends_newest=True)
