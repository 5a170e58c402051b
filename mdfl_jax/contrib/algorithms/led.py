"""LED, local exact diffusion: local steps whose correction remembers what averaging has taken from each client."""

import jax
import jax.numpy as jnp

from mdfl_jax.algorithms.local import AlgorithmNumbers, Settings, decayed_gradient, local_work, recursion_step
from mdfl_jax.algorithms.registry import register
from mdfl_jax.contrib.algorithms.corrected import CorrectionState, lazier, with_corrections
from mdfl_jax.core.message_bits import count_bits, dense_bits, messages_sent
from mdfl_jax.core.numbers import number
from mdfl_jax.core.trees import each, rows_like
from mdfl_jax.core.types import Algorithm, ClientParams, Gradient, Links, RoundContext, RoundStats


class LEDNumbers(AlgorithmNumbers):
    """The numbers of LED."""

    correction_lr: float = number(1.0, "share of y that the steps of a round take together, E beta", above=0)
    laziness: float = number(
        1 / 3, "share of the identity in the weights, whose eigenvalues should be above -1/3", at_least=0, below=1
    )


@register(
    "led",
    LEDNumbers,
    ignores=("optimizer", "momentum", "compressor", "statistics"),
    keeps_sum=True,
    formula="E times phi <- phi - eta grad f(phi) - beta y, from phi = x;  beta = correction_lr / E\n"
    "x+ = W' phi;  y+ = y + phi - x+;  y^0 = 0;  W' = (1 - laziness) W + laziness I",
    cite="alghunaim2024: algorithm 1",
)
def led(settings: Settings = Settings()) -> Algorithm:
    """LED: exact diffusion with local steps, and one message a link; corrections keep unlike clients from drifting.

    y of a client sums what averaging has taken from its models. With one local step and a correction_lr of 1 it is
    exact diffusion, the recursion of `d2`. At such small steps the models agree only if the eigenvalues of W' are above
    -1/3 (see `d2`); a laziness of 0 is the paper's recursion with W itself. If clients take unlike numbers of steps, as
    in epochs, each divides correction_lr by its own number; one without steps takes its share of y at once. All steps
    of a round have the size of its first one. In a round without links W = I. The paper's results are for links that
    do not change; over others the sum of all y is still zero.
    """

    def do_round(
        hparams: LEDNumbers, state: CorrectionState, links: Links, context: RoundContext
    ) -> tuple[CorrectionState, RoundStats]:
        x, work = state.params, local_work(settings, hparams, state.params, context)
        eta = recursion_step(settings, hparams, state.round * work.num_steps)
        taken = jnp.broadcast_to(jnp.asarray(work.steps_of_each), links.adjacency.shape[:1])
        beta = hparams.correction_lr / jnp.maximum(taken, 1)
        pulled = jax.tree.map(lambda y: rows_like(beta, y).astype(y.dtype) * y, state.correction)

        def step(phi: ClientParams, index: jax.Array, gradient: Gradient) -> tuple[ClientParams, jax.Array]:
            loss, found = decayed_gradient(gradient, hparams, eta)(phi, jax.random.fold_in(context.key, index))
            descend = lambda phi, g, pull: phi - eta.astype(phi.dtype) * g - pull  # noqa: E731
            return each(descend, lambda phi, g, _: phi - eta.astype(phi.dtype) * g, phi, found, pulled), loss

        after, loss = work.take(step, x)
        phi = jax.tree.map(lambda a, pull: jnp.where(rows_like(taken > 0, a), a, a - pull), after, pulled)
        judging = settings.judging(context)
        params, report = settings.aggregate(hparams, lazier(links, hparams.laziness), phi, judging)
        summed = lambda y, phi, x: y + phi - x  # noqa: E731
        correction = each(summed, lambda y, phi, x: y, state.correction, phi, params)
        messages = messages_sent(links.adjacency, links.senders)
        stats = RoundStats(loss, messages, count_bits(messages, dense_bits(x)), report=report)
        return CorrectionState(params, correction, state.round + 1), stats

    return with_corrections(do_round)
