"""QG-DSGDm and QG-DSGDm-N: D-PSGD with a momentum that follows the change of the mixed models.

Local momenta are pulled apart by unlike data. The mixed models contain what the neighbours learn, so their change is
closer to the direction of the mean objective, and no further message is needed.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.algorithms.local import LocalNumbers, Settings, decayed_gradient, recursion_step
from mdfl_jax.algorithms.registry import register
from mdfl_jax.core.message_bits import count_bits, dense_bits, double_dense_bits, messages_sent
from mdfl_jax.core.numbers import number
from mdfl_jax.core.trees import each
from mdfl_jax.core.types import Algorithm, ClientParams, Links, RoundContext, RoundStats, Traits


class QuasiGlobalState(NamedTuple):
    """The state that one round hands to the next.

    Attributes:
      params: [N, ...] the models x^t.
      velocity: [N, ...] the quasi-global momenta m_hat^(t-1); zero for batch statistics.
      round: [] int32, t.
    """

    params: ClientParams
    velocity: ClientParams
    round: jax.Array


class QuasiGlobalNumbers(LocalNumbers):
    """The numbers of QG-DSGDm and QG-DSGDm-N. The paper uses the same value for beta and mu."""

    momentum: float = number(0.9, "momentum, beta", at_least=0, below=1, source="Lin et al., ICML 2021")
    momentum_memory: float = number(
        0.9,
        "share of the old quasi-global momentum that is kept, mu",
        at_least=0,
        at_most=1,
        source="Lin et al., ICML 2021",
    )


def _make(settings: Settings, nesterov: bool) -> Algorithm:
    def init(hparams: QuasiGlobalNumbers, client_params: ClientParams) -> QuasiGlobalState:
        return QuasiGlobalState(client_params, jax.tree.map(jnp.zeros_like, client_params), jnp.int32(0))

    def do_round(
        hparams: QuasiGlobalNumbers, state: QuasiGlobalState, links: Links, context: RoundContext
    ) -> tuple[QuasiGlobalState, RoundStats]:
        eta = recursion_step(settings, hparams, state.round)
        loss, found = decayed_gradient(context.gradient, hparams, eta)(state.params, jax.random.fold_in(context.key, 0))

        def stepped(x: jax.Array, velocity: jax.Array, g: jax.Array) -> jax.Array:
            beta = jnp.asarray(hparams.momentum, x.dtype)
            heavy = beta * velocity + g
            return x - eta.astype(x.dtype) * (beta * heavy + g if nesterov else heavy)

        plain = lambda x, velocity, g: x - eta.astype(x.dtype) * g  # noqa: E731
        half = each(stepped, plain, state.params, state.velocity, found)
        params, report = settings.aggregate(hparams, links, half, context)

        def followed(velocity: jax.Array, x: jax.Array, new: jax.Array) -> jax.Array:
            mu, step = jnp.asarray(hparams.momentum_memory, x.dtype), eta.astype(x.dtype)
            # A learning-rate schedule can end at zero; such a step tells no direction.
            return jnp.where(step > 0, mu * velocity + (1 - mu) * (x - new) / step, velocity)

        velocity = each(followed, lambda velocity, x, new: velocity, state.velocity, state.params, params)
        sent = messages_sent(links.adjacency, links.senders)
        stats = RoundStats(loss, sent, count_bits(sent, dense_bits(params)), report=report)
        return QuasiGlobalState(params, velocity, state.round + 1), stats

    needs = frozenset({"adjacency", "mix"})
    return Algorithm(needs, init, do_round, lambda state: state.params, traits=Traits(double_dense_bits))


IGNORES = ("local_steps", "optimizer", "compressor", "statistics")


@register(
    "qg_dsgdm",
    QuasiGlobalNumbers,
    IGNORES,
    formula="m = beta m_hat + g;  x+ = W (x - eta m);  m_hat <- mu m_hat + (1 - mu) (x - x+) / eta",
    cite="lin2021: algorithm 1",
)
def qg_dsgdm(settings: Settings = Settings()) -> Algorithm:
    """QG-DSGDm: heavy-ball momentum that follows what the mixed model has moved by.

    m_hat begins at zero and stays with its client. A round takes one step and sends the models, one message a link.
    """
    return _make(settings, nesterov=False)


@register(
    "qg_dsgdm_n",
    QuasiGlobalNumbers,
    IGNORES,
    formula="m = beta m_hat + g;  x+ = W (x - eta (beta m + g));  m_hat <- mu m_hat + (1 - mu) (x - x+) / eta",
    cite="lin2021",
)
def qg_dsgdm_n(settings: Settings = Settings()) -> Algorithm:
    """QG-DSGDm-N: `qg_dsgdm` with Nesterov momentum."""
    return _make(settings, nesterov=True)
