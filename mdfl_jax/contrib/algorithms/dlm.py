"""DLM, decentralized linearized ADMM: multipliers of the links, and one gradient step a round in place of a problem."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.algorithms.local import AlgorithmNumbers, Settings, decayed_gradient, recursion_step, waiting
from mdfl_jax.algorithms.registry import RECURSION, register
from mdfl_jax.core.message_bits import count_bits, dense_bits, double_dense_bits, messages_sent
from mdfl_jax.core.numbers import number
from mdfl_jax.core.trees import each, rows_like
from mdfl_jax.core.types import (
    FIXED,
    SYMMETRIC,
    Algorithm,
    ClientParams,
    Links,
    Report,
    RoundContext,
    RoundStats,
    Traits,
)


class DLMState(NamedTuple):
    """The models x [N, ...], the multipliers phi [N, ...], whose sum over clients is zero, and the steps so far."""

    params: ClientParams
    multiplier: ClientParams
    round: jax.Array


class DLMNumbers(AlgorithmNumbers):
    """The numbers of DLM."""

    penalty: float = number(1.0, "penalty of a difference between neighbours, c", above=0)


@register(
    "dlm",
    DLMNumbers,
    ignores=(*RECURSION, "compressor"),
    keeps_sum=True,
    formula="x_i+ = x_i - (grad f_i(x_i) + c sum_j (x_i - x_j) + phi_i) / (1 / eta + 2 c d_i)\n"
    "phi_i+ = phi_i + c sum_j (x_i+ - x_j+);  phi^0 = 0;  the sums are over the d_i neighbours j",
    cite="ling2015",
)
def dlm(settings: Settings = Settings()) -> Algorithm:
    """DLM: decentralized ADMM whose local problems are replaced by one gradient step; exact with a constant step.

    The paper's rho is 1 / eta. Here a round begins with the phi update of the paper's previous iteration, so every
    round sends the models, one message a link. `network.mixing` does not matter, but it must be symmetric, as the links
    are. phi sums the multipliers of a client's links, so the links must stay the same. In a round in which no client
    has a link the recursion waits (`mdfl_jax.algorithms.local.waiting`). Batch statistics have no multiplier: they are
    averaged over the neighbours.
    """

    def init(hparams: DLMNumbers, client_params: ClientParams) -> DLMState:
        return DLMState(client_params, jax.tree.map(jnp.zeros_like, client_params), jnp.int32(0))

    def do_round(
        hparams: DLMNumbers, state: DLMState, links: Links, context: RoundContext
    ) -> tuple[DLMState, RoundStats]:
        x, eta = state.params, recursion_step(settings, hparams, state.round)
        loss, found = decayed_gradient(context.gradient, hparams, eta)(x, jax.random.fold_in(context.key, 0))
        apart, degree, report = differences(settings, hparams, links, x, context)
        penalised = jax.tree.map(lambda a: jnp.asarray(hparams.penalty, a.dtype) * a, apart)
        added = jnp.where(state.round == 0, 0, 1)
        multiplier = each(
            lambda phi, a: phi + added.astype(phi.dtype) * a, lambda phi, a: phi, state.multiplier, penalised
        )
        length = eta / (1 + 2 * hparams.penalty * degree * eta)

        def descend(x: jax.Array, g: jax.Array, a: jax.Array, phi: jax.Array, apart: jax.Array) -> jax.Array:
            return x - rows_like(length, x).astype(x.dtype) * (g + a + phi)

        def average(x: jax.Array, g: jax.Array, a: jax.Array, phi: jax.Array, apart: jax.Array) -> jax.Array:
            return x - apart / rows_like(degree + 1, x).astype(x.dtype) - eta.astype(x.dtype) * g

        params = each(descend, average, x, found, penalised, multiplier, apart)
        messages = messages_sent(links.adjacency, links.senders)
        stats = RoundStats(loss, messages, count_bits(messages, dense_bits(x)), report=report)
        return DLMState(params, multiplier, state.round + 1), stats

    needs = frozenset({"adjacency", "mix", SYMMETRIC, FIXED})
    return waiting(Algorithm(needs, init, do_round, lambda state: state.params, traits=Traits(double_dense_bits)))


def differences(
    settings: Settings, hparams: AlgorithmNumbers, links: Links, x: ClientParams, context: RoundContext
) -> tuple[ClientParams, jax.Array, Report]:
    """Exchange models, and sum each client's differences from its neighbours: the Laplacian of the links times x.

    Args:
      settings, hparams, links, context: as in `mdfl_jax.algorithms.local.Settings.aggregate`.
      x: [N, ...] the models.

    Returns:
      (sum_j (x_i - x_j) [N, ...], the neighbours of each client [N] float, what the exchange reports).
    """
    dtype = links.mix.dtype
    degree = jnp.sum(links.adjacency, axis=1).astype(dtype)
    share = 1 / (degree + 1)
    # The mean over a client and its neighbours is an exchange like all others, so rules and attackers know it.
    weights = jnp.where(links.adjacency, share[:, None], 0) + links.senders.on_own(share)
    mean, report = settings.aggregate(hparams, links._replace(mix=weights), x, context)
    apart = jax.tree.map(lambda x, m: rows_like(degree + 1, x).astype(x.dtype) * (x - m), x, mean)
    return apart, degree, report
