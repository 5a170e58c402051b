"""ProxSkip in its decentralized form: corrected gradient steps, with an exchange where a common coin says so."""

import jax
import jax.numpy as jnp

from mdfl_jax.algorithms.local import AlgorithmNumbers, Settings, decayed_gradient, recursion_step
from mdfl_jax.algorithms.registry import RECURSION, register
from mdfl_jax.contrib.algorithms.corrected import CorrectionState, lazier, with_corrections
from mdfl_jax.core.message_bits import count_bits, dense_bits, messages_sent
from mdfl_jax.core.numbers import number
from mdfl_jax.core.rng import own_draws
from mdfl_jax.core.types import Algorithm, Links, RoundContext, RoundStats
from mdfl_jax.metrics.values import HEARD


class ProxSkipNumbers(AlgorithmNumbers):
    """The numbers of ProxSkip."""

    exchange_probability: float = number(
        0.5,
        "probability of an exchange in a round, p; with a server the best is 1 / sqrt(L / mu)",
        above=0,
        at_most=1,
    )
    laziness: float = number(
        0.5, "share of the identity in the weights; the paper's gamma tau / p is 1 - laziness", at_least=0, below=1
    )


@register(
    "proxskip",
    ProxSkipNumbers,
    ignores=(*RECURSION, "compressor"),
    keeps_sum=True,
    formula="z = x - eta grad f(x) - y;  with probability p: x+ = W' z, y+ = y + p (z - x+);  else x+ = z\n"
    "y^0 = 0;  W' = (1 - laziness) W + laziness I",
    cite="mishchenko2022",
)
def proxskip(settings: Settings = Settings()) -> Algorithm:
    """ProxSkip, as decentralized Scaffnew: corrected gradient steps, and an exchange where a common coin says so.

    One coin is thrown for all clients in every round. Rounds without an exchange send nothing. y is -eta h of the
    paper, so if the step size changes, the gradients in y keep the step size of their own round. With p = 1 it is exact
    diffusion, the recursion of `d2`. A laziness of 1/2 suits all symmetric weights, since I - W then has eigenvalues of
    at most 2. The paper's results are for links that do not change; over others the sum of all y is still zero. A round
    without links is one without an exchange.
    """

    def do_round(
        hparams: ProxSkipNumbers, state: CorrectionState, links: Links, context: RoundContext
    ) -> tuple[CorrectionState, RoundStats]:
        step = recursion_step(settings, hparams, state.round)
        key = jax.random.fold_in(context.key, 0)
        loss, found = decayed_gradient(context.gradient, hparams, step)(state.params, key)
        z = jax.tree.map(lambda x, g, y: x - step.astype(x.dtype) * g - y, state.params, found, state.correction)
        exchanges = jax.random.uniform(own_draws(context.key), (), jnp.float32) < hparams.exchange_probability
        share = jnp.where(exchanges, hparams.laziness, 1)
        used = lazier(links, share)._replace(adjacency=links.adjacency & exchanges)
        params, report = settings.aggregate(hparams, used, z, context)
        p = lambda leaf: jnp.asarray(hparams.exchange_probability, leaf.dtype)  # noqa: E731
        correction = jax.tree.map(lambda y, z, x: y + p(y) * (z - x), state.correction, z, params)
        messages = messages_sent(used.adjacency, links.senders)
        bits = count_bits(messages, dense_bits(params))
        stats = RoundStats(loss, messages, bits, heard=used, report=report)
        return CorrectionState(params, correction, state.round + 1), stats

    return with_corrections(do_round, metrics=(HEARD,))
