"""DFedAvgM: local steps with heavy-ball momentum that restarts at zero in every round; then gossip."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.algorithms.local import LocalNumbers, Settings, decayed_gradient, local_work, recursion_step
from mdfl_jax.algorithms.registry import register
from mdfl_jax.core.message_bits import count_bits, dense_bits, double_dense_bits, messages_sent
from mdfl_jax.core.numbers import Setting, number
from mdfl_jax.core.trees import each
from mdfl_jax.core.types import Algorithm, ClientParams, Gradient, Links, RoundContext, RoundStats, Traits


class DFedAvgMState(NamedTuple):
    """The models [N, ...], and the number of local steps taken so far, [] int32."""

    params: ClientParams
    step: jax.Array


class DFedAvgMNumbers(LocalNumbers):
    """The numbers of DFedAvgM."""

    momentum: float = number(0.9, "heavy-ball momentum, theta; at one local step it has no effect", at_least=0, below=1)

    def notes(self, setting: Setting) -> list[str]:
        """Note that one local step makes it another algorithm."""
        one = "algorithm.local_steps is 1, at which dfedavgm is dpsgd: algorithm.momentum begins anew in every round"
        return [one] if setting.local_steps == 1 else []


@register(
    "dfedavgm",
    DFedAvgMNumbers,
    ignores=("optimizer", "compressor", "statistics"),
    formula="y^0 = y^(-1) = x;  y^(k+1) = y^k - eta grad f(y^k) + theta (y^k - y^(k-1)), k < E;  x+ = W y^E",
    cite="sun2023: algorithm 1",
)
def dfedavgm(settings: Settings = Settings()) -> Algorithm:
    """DFedAvgM, without quantisation: local steps with heavy-ball momentum that restarts in every round, then gossip.

    The momentum term is zero at the first local step of every round, so with one local step theta has no effect.
    """

    def init(hparams: DFedAvgMNumbers, client_params: ClientParams) -> DFedAvgMState:
        return DFedAvgMState(client_params, jnp.int32(0))

    def do_round(
        hparams: DFedAvgMNumbers, state: DFedAvgMState, links: Links, context: RoundContext
    ) -> tuple[DFedAvgMState, RoundStats]:
        def step(carry: tuple[ClientParams, ...], k: jax.Array, gradient: Gradient) -> tuple[Any, jax.Array]:
            y, before = carry
            eta = recursion_step(settings, hparams, state.step + k)
            loss, found = decayed_gradient(gradient, hparams, eta)(y, jax.random.fold_in(context.key, k))

            def moved(y: jax.Array, before: jax.Array, g: jax.Array) -> jax.Array:
                return y - eta.astype(y.dtype) * g + jnp.asarray(hparams.momentum, y.dtype) * (y - before)

            plain = lambda y, before, g: y - eta.astype(y.dtype) * g  # noqa: E731
            return (each(moved, plain, y, before, found), y), loss

        work = local_work(settings, hparams, state.params, context)
        (y, _), loss = work.take(step, (state.params, state.params))
        sent = messages_sent(links.adjacency, links.senders)
        params, report = settings.aggregate(hparams, links, y, settings.judging(context))
        stats = RoundStats(loss, sent, count_bits(sent, dense_bits(y)), report=report)
        return DFedAvgMState(params, state.step + work.num_steps), stats

    needs = frozenset({"adjacency", "mix"})
    return Algorithm(needs, init, do_round, lambda state: state.params, traits=Traits(double_dense_bits))
