"""NIDS: exact convergence on heterogeneous data, with one gradient a client and one message a link in each round."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.algorithms.local import AlgorithmNumbers, Settings, decayed_gradient, recursion_step, waits
from mdfl_jax.algorithms.registry import RECURSION, register
from mdfl_jax.exchange.gossip import mix
from mdfl_jax.exchange.meter import count_bits, dense_bits, double_dense_bits, messages_sent
from mdfl_jax.types import SYMMETRIC, Algorithm, ClientParams, Gradient, Links, RoundStats


class NIDSState(NamedTuple):
    """The state that one round hands to the next.

    Attributes:
      params: [N, ...] the models x^k.
      before: [N, ...] x^(k-1).
      descent: [N, ...] eta grad f(x^(k-1)).
      round: [] int32 k, the number of steps that the recursion has taken.
    """

    params: ClientParams
    before: ClientParams
    descent: ClientParams
    round: jax.Array


@register("nids", AlgorithmNumbers, ignores=(*RECURSION, "compressor"))
def nids(settings: Settings = Settings()) -> Algorithm:
    """NIDS (Li, Shi, Yan, IEEE Transactions on Signal Processing 2019, algorithm 1), smooth case, one step size.

    x^1 = x^0 - eta grad f(x^0);  x+ = (I + W) / 2 (2 x - x_prev - eta (grad f(x) - grad f(x_prev))).

    Round 0 sends nothing. Later rounds send the vectors that W averages, one message a link. In a round in which no
    client has a link the recursion waits (`mdfl_jax.algorithms.local.waits`). The paper's W is symmetric and the same
    in every round. If links change, the mean of the models still follows the mean of the gradients, but the paper's
    other results do not apply.
    """

    def init(hparams: AlgorithmNumbers, client_params: ClientParams) -> NIDSState:
        nothing = jax.tree.map(jnp.zeros_like, client_params)
        return NIDSState(client_params, client_params, nothing, jnp.int32(0))

    def do_round(
        hparams: AlgorithmNumbers, key: jax.Array, state: NIDSState, links: Links, gradient: Gradient
    ) -> tuple[NIDSState, RoundStats]:
        x, is_first = state.params, state.round == 0
        step = recursion_step(settings, hparams, state.round)
        loss, found = decayed_gradient(gradient, hparams, step)(x, jax.random.fold_in(key, 0))
        descent = jax.tree.map(lambda g: step.astype(g.dtype) * g, found)
        # In round 0, where x_prev = x and the previous gradient is zero, this is x - eta grad f(x).
        planned = jax.tree.map(lambda x, b, d, e: 2 * x - b - (d - e), x, state.before, descent, state.descent)
        heard = mix(links.mix, planned, settings.mixing_bound)
        params = jax.tree.map(lambda p, h: jnp.where(is_first, p, (p + h) / 2), planned, heard)
        messages = jnp.where(is_first, 0, messages_sent(links.adjacency))
        stats = RoundStats(loss, messages, count_bits(messages, dense_bits(x)))
        following = NIDSState(params, x, descent, state.round + 1)
        return jax.tree.map(lambda old, new: jnp.where(waits(links), old, new), state, following), stats

    needs = frozenset({"adjacency", "mix", SYMMETRIC})
    return Algorithm(needs, init, do_round, lambda state: state.params, double_bits=double_dense_bits)
