"""K-GT: local steps along corrected gradients, where the corrections track the mean gradient by gossip."""

import jax
import jax.numpy as jnp

from mdfl_jax.algorithms.local import AlgorithmNumbers, Settings, decayed_gradient, local_work, recursion_step
from mdfl_jax.algorithms.registry import register
from mdfl_jax.contrib.algorithms.corrected import CorrectionState, with_corrections
from mdfl_jax.core.message_bits import count_bits, dense_bits, messages_sent
from mdfl_jax.core.numbers import number
from mdfl_jax.core.trees import each, rows_like
from mdfl_jax.core.types import Algorithm, ClientParams, Gradient, Links, RoundContext, RoundStats


class KGTNumbers(AlgorithmNumbers):
    """The numbers of K-GT."""

    exchange_lr: float = number(1.0, "step size of the exchange, eta_s", above=0)


@register(
    "kgt",
    KGTNumbers,
    ignores=("optimizer", "momentum", "compressor", "statistics"),
    keeps_sum=True,
    formula="E times y <- y - eta (grad f(y) + c), from y = x;  z = (x - y) / (E eta)\n"
    "c+ = c - z + W z;  x+ = W (x - eta_s E eta z);  c^0 = 0",
    cite="liu2024kgt: algorithm 1",
)
def kgt(settings: Settings = Settings()) -> Algorithm:
    """K-GT: local steps like those of SCAFFOLD, without a server; corrections keep unlike clients from drifting apart.

    c estimates the mean gradient over all clients less the client's own. The paper's experiments begin with c = 0, as
    here; its analysis begins with the differences of the first gradients, whose mean is zero, too. If clients take
    unlike numbers of steps, as in epochs, each divides by its own number. All steps of a round have the size of its
    first one. Every round sends two messages a link, z and x. In a round without links W = I.
    """

    def do_round(
        hparams: KGTNumbers, state: CorrectionState, links: Links, context: RoundContext
    ) -> tuple[CorrectionState, RoundStats]:
        x, work = state.params, local_work(settings, hparams, state.params, context)
        judging = settings.judging(context)
        eta = recursion_step(settings, hparams, state.round * work.num_steps)
        step_size = lambda leaf: eta.astype(leaf.dtype)  # noqa: E731

        def step(y: ClientParams, index: jax.Array, gradient: Gradient) -> tuple[ClientParams, jax.Array]:
            loss, found = decayed_gradient(gradient, hparams, eta)(y, jax.random.fold_in(context.key, index))
            corrected = lambda y, g, c: y - step_size(y) * (g + c)  # noqa: E731
            return each(corrected, lambda y, g, c: y - step_size(y) * g, y, found, state.correction), loss

        y, loss = work.take(step, x)
        taken = jnp.broadcast_to(jnp.asarray(work.steps_of_each), loss.shape)

        def mean_step(x: jax.Array, y: jax.Array) -> jax.Array:
            length = rows_like(taken, x).astype(x.dtype) * step_size(x)
            return jnp.where(length > 0, (x - y) / jnp.where(length > 0, length, 1), 0)

        moved = lambda x, y: x - jnp.asarray(hparams.exchange_lr, x.dtype) * (x - y)  # noqa: E731
        z = each(mean_step, lambda x, y: jnp.zeros_like(x), x, y)
        heard, of_steps = settings.aggregate(hparams, links, z, judging)
        correction = jax.tree.map(lambda c, own, mixed: c - own + mixed, state.correction, z, heard)
        ends = each(moved, lambda x, y: y, x, y)
        params, of_models = settings.aggregate(hparams, links, ends, judging, which=1)
        messages = 2 * messages_sent(links.adjacency, links.senders)
        stats = RoundStats(loss, messages, count_bits(messages, dense_bits(x)), report=of_models.after(of_steps))
        return CorrectionState(params, correction, state.round + 1), stats

    return with_corrections(do_round)
