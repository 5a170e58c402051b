"""DiNNO: decentralized ADMM for neural networks, whose local problems are solved by some steps of an optimiser."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.algorithms.local import LocalNumbers, Settings, init_optimizer, local_steps
from mdfl_jax.algorithms.registry import register
from mdfl_jax.contrib.algorithms.dlm import differences
from mdfl_jax.core.message_bits import count_bits, dense_bits, double_dense_bits, messages_sent
from mdfl_jax.core.numbers import number
from mdfl_jax.core.trees import each, rows_like
from mdfl_jax.core.types import SYMMETRIC, Algorithm, ClientParams, Gradient, Links, RoundContext, RoundStats, Traits


class DiNNOState(NamedTuple):
    """The models theta [N, ...], the multipliers p [N, ...], whose sum is zero, and the states of the optimisers."""

    params: ClientParams
    multiplier: ClientParams
    opt_state: Any


class DiNNONumbers(LocalNumbers):
    """The numbers of DiNNO."""

    penalty: float = number(0.5, "penalty of a difference between neighbours, rho", above=0)


@register(
    "dinno",
    DiNNONumbers,
    ignores=("compressor", "statistics"),
    keeps_sum=True,
    formula="p_i+ = p_i + rho sum_j (theta_i - theta_j);  p^0 = 0;  theta_i+: E optimiser steps from theta_i on\n"
    "f_i(theta) + p_i+ theta + rho sum_j |theta - (theta_i + theta_j) / 2|^2",
    cite="yu2022: algorithm 1",
)
def dinno(settings: Settings = Settings()) -> Algorithm:
    """DiNNO: decentralized ADMM whose local problems are solved by some steps of an optimiser; one message a link.

    The sums are over the neighbours of the round. The optimisers keep their states between rounds, and rho is constant.
    `network.mixing` does not matter, but it must be symmetric, as the links are. Convex convergence is known for exact
    local problems and links that do not change; over others the sum of all p is still zero. In a round without links
    clients take steps with the p that they have. Batch statistics have no multiplier: they are averaged over the
    neighbours.
    """

    def init(hparams: DiNNONumbers, client_params: ClientParams) -> DiNNOState:
        opt_state = init_optimizer(settings.optimizer(hparams), client_params)
        return DiNNOState(client_params, jax.tree.map(jnp.zeros_like, client_params), opt_state)

    def do_round(
        hparams: DiNNONumbers, state: DiNNOState, links: Links, context: RoundContext
    ) -> tuple[DiNNOState, RoundStats]:
        x = state.params
        apart, degree, report = differences(settings, hparams, links, x, settings.judging(context))
        rho = lambda leaf: jnp.asarray(hparams.penalty, leaf.dtype)  # noqa: E731
        multiplier = each(lambda p, a: p + rho(p) * a, lambda p, a: p, state.multiplier, apart)
        own = lambda x, a: x  # noqa: E731
        start = each(own, lambda x, a: x - a / rows_like(degree + 1, x).astype(x.dtype), x, apart)

        def augmented(gradient: Gradient) -> Gradient:
            def of_problem(theta: ClientParams, key: jax.Array) -> tuple[jax.Array, ClientParams]:
                loss, found = gradient(theta, key)

                def add(g: jax.Array, theta: jax.Array, x: jax.Array, a: jax.Array, p: jax.Array) -> jax.Array:
                    return g + p + rho(g) * (2 * rows_like(degree, g).astype(g.dtype) * (theta - x) + a)

                return loss, each(add, lambda g, theta, x, a, p: g, found, theta, x, apart, multiplier)

            return of_problem

        params, opt_state, loss = local_steps(settings, hparams, start, state.opt_state, context, augmented)
        messages = messages_sent(links.adjacency, links.senders)
        stats = RoundStats(loss, messages, count_bits(messages, dense_bits(x)), report=report)
        return DiNNOState(params, multiplier, opt_state), stats

    needs = frozenset({"adjacency", "mix", SYMMETRIC})
    return Algorithm(needs, init, do_round, lambda state: state.params, traits=Traits(double_dense_bits))
