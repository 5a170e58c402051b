"""Aug-DGM: gradient tracking that averages the estimates after the change of the gradients is added."""

import jax
import jax.numpy as jnp

from mdfl_jax.algorithms.gradient_tracking import TrackingState
from mdfl_jax.algorithms.local import AlgorithmNumbers, Settings, decayed_gradient, recursion_step
from mdfl_jax.algorithms.registry import RECURSION, register
from mdfl_jax.core.message_bits import count_bits, dense_bits, double_dense_bits, messages_sent
from mdfl_jax.core.types import SYMMETRIC, Algorithm, ClientParams, Links, RoundContext, RoundStats, Traits


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

    def init(hparams: AlgorithmNumbers, client_params: ClientParams) -> TrackingState:
        nothing = jax.tree.map(jnp.zeros_like, client_params)
        return TrackingState(client_params, nothing, nothing, jnp.int32(0))

    def do_round(
        hparams: AlgorithmNumbers, state: TrackingState, links: Links, context: RoundContext
    ) -> tuple[TrackingState, RoundStats]:
        x, is_first = state.params, state.round == 0
        step = recursion_step(settings, hparams, state.round)
        loss, found = decayed_gradient(context.gradient, hparams, step)(x, jax.random.fold_in(context.key, 0))
        planned = jax.tree.map(lambda y, g, before: y + g - before, state.tracked, found, state.gradient)
        heard, of_tracked = settings.aggregate(hparams, links, planned, context)
        tracked = jax.tree.map(lambda own, mixed: jnp.where(is_first, own, mixed), planned, heard)
        stepped = jax.tree.map(lambda x, y: x - step.astype(x.dtype) * y, x, tracked)
        params, of_params = settings.aggregate(hparams, links, stepped, context, which=1)
        messages = messages_sent(links.adjacency, links.senders) * jnp.where(is_first, 1, 2)
        stats = RoundStats(loss, messages, count_bits(messages, dense_bits(x)), report=of_params.after(of_tracked))
        return TrackingState(params, tracked, found, state.round + 1), stats

    needs = frozenset({"adjacency", "mix", SYMMETRIC})
    return Algorithm(needs, init, do_round, lambda state: state.params, traits=Traits(double_dense_bits))
