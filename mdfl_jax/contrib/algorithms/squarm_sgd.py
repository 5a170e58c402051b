"""SQuARM-SGD: local steps with Nesterov momentum and event-triggered, compressed gossip.

A client sends a compressed innovation only if its model has changed enough.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.algorithms.innovations import NEEDS, compressor_of, finished, flat_gradient, pull, send
from mdfl_jax.algorithms.local import CompressedNumbers, Settings, local_work, recursion_step
from mdfl_jax.algorithms.registry import register
from mdfl_jax.core.numbers import number
from mdfl_jax.core.rng import own_draws
from mdfl_jax.core.trees import each, ravel
from mdfl_jax.core.types import Algorithm, ClientParams, Gradient, Links, RoundContext, RoundStats
from mdfl_jax.metrics.values import HEARD


class SquarmState(NamedTuple):
    """The state that one round hands to the next.

    Attributes:
      params: [N, ...] the models x.
      velocity: [N, n] the momenta v.
      estimate: [N, n] x_hat, the estimates of x that all receivers hold.
      round: [] int32, from 0.
    """

    params: ClientParams
    velocity: jax.Array
    estimate: jax.Array
    round: jax.Array


class SquarmNumbers(CompressedNumbers):
    """The numbers of SQuARM-SGD."""

    own_compressor = "top_k"
    momentum: float = number(0.9, "Nesterov momentum, beta", at_least=0, below=1)
    consensus_lr: float = number(0.4, "step of the compressed gossip, gamma", at_least=0, at_most=1)
    trigger: float = number(0.0, "threshold of the trigger, c: send if ||x - x_hat||^2 > c eta^2", at_least=0)


@register(
    "squarm_sgd",
    SquarmNumbers,
    ignores=("optimizer", "statistics", "aggregation"),
    formula="E times v <- beta v + g, x <- x - eta (beta v + g)\n"
    "where ||x - x_hat||^2 > trigger eta^2: x_hat <- x_hat + C(x - x_hat)\n"
    "x+ = x + gamma (W - I) x_hat;  x_hat^0 = 0",
    cite="singh2021: algorithm 1",
)
def squarm_sgd(settings: Settings = Settings()) -> Algorithm:
    """SQuARM-SGD: Nesterov momentum, and compressed gossip of clients whose models have moved; by default with top_k.

    The other clients send nothing. The trigger c_t is constant here.
    """
    compressor = compressor_of(settings, SquarmNumbers)

    def init(hparams: SquarmNumbers, client_params: ClientParams) -> SquarmState:
        nothing = jnp.zeros_like(ravel(client_params)[0])
        return SquarmState(client_params, nothing, nothing, jnp.int32(0))

    def do_round(
        hparams: SquarmNumbers, state: SquarmState, links: Links, context: RoundContext
    ) -> tuple[SquarmState, RoundStats]:
        x, unravel = ravel(state.params)
        # 1 for parameters, 0 for batch statistics, which have no momentum.
        heavy = each(jnp.ones_like, jnp.zeros_like, jax.tree.map(lambda p: p[:1], state.params))
        momentum = ravel(heavy)[0] * jnp.asarray(hparams.momentum, x.dtype)
        work = local_work(settings, hparams, state.params, context)
        first = state.round * work.num_steps  # schedules count local steps, not rounds
        pace = lambda index: recursion_step(settings, hparams, first + index).astype(x.dtype)  # noqa: E731

        def step(carry: tuple[jax.Array, jax.Array], index: jax.Array, gradient: Gradient) -> tuple[Any, jax.Array]:
            x, velocity = carry
            loss, found = flat_gradient(hparams, context._replace(gradient=gradient), unravel(x), pace(index), index)
            velocity = momentum * velocity + found
            return (x - pace(index) * (momentum * velocity + found), velocity), loss

        (x, velocity), loss = work.take(step, (x, state.velocity))
        moved = jnp.sum(jnp.square(x - state.estimate), axis=1)
        far = moved > jnp.asarray(hparams.trigger, x.dtype) * jnp.square(pace(jnp.int32(work.num_steps - 1)))
        sent = send(settings, compressor, hparams, own_draws(context.key), x, state.estimate, links, far)
        x = x + jnp.asarray(hparams.consensus_lr, x.dtype) * pull(links, sent.estimate, settings)
        following = SquarmState(unravel(x), velocity, sent.estimate, state.round + 1)
        return following, RoundStats(loss, sent.messages, sent.bits)

    algorithm = Algorithm(NEEDS, init, do_round, lambda state: state.params, metrics=(HEARD,))
    return finished(algorithm, settings, SquarmNumbers)
