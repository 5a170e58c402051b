"""Local work, the same in every algorithm: E optimiser steps of each client on its own data."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from mdfl_jax.types import ClientParams, Gradient


class OptimizerParams(NamedTuple):
    """Traced numbers of the local optimiser.

    Attributes:
      lr: learning rate at the first step.
      momentum: of SGD.
      weight_decay: added to the gradient as weight_decay * parameter (as in the papers' L2 penalty).
    """

    lr: jax.Array | float = 0.1
    momentum: jax.Array | float = 0.0
    weight_decay: jax.Array | float = 0.0


OptimizerFactory = Callable[[OptimizerParams], optax.GradientTransformation]
Schedule = Callable[[jax.Array], jax.Array]


def sgd(schedule: Schedule | None = None, momentum: bool = True) -> OptimizerFactory:
    """SGD with momentum and weight decay, as the papers use it.

    Args:
      schedule: factor of the learning rate by step, 1 at the first; constant where left out.
      momentum: False leaves the momentum out, and the memory it takes.
    """
    factor = schedule or (lambda step: jnp.float32(1.0))

    def make(params: OptimizerParams) -> optax.GradientTransformation:
        return optax.chain(
            optax.add_decayed_weights(params.weight_decay),
            optax.trace(decay=params.momentum) if momentum else optax.identity(),
            optax.scale_by_learning_rate(lambda step: params.lr * factor(step)),
        )

    return make


def adam(schedule: Schedule | None = None) -> OptimizerFactory:
    """Adam with decoupled weight decay (optax's defaults for the rest)."""
    factor = schedule or (lambda step: jnp.float32(1.0))

    def make(params: OptimizerParams) -> optax.GradientTransformation:
        return optax.adamw(lambda step: params.lr * factor(step), weight_decay=params.weight_decay)

    return make


def init_optimizer(optimizer: optax.GradientTransformation, client_params: ClientParams) -> Any:
    """One optimiser state a client, [N, ...]; vmapped, so that a rule which looks at the whole gradient sees one's."""
    return jax.vmap(optimizer.init)(client_params)


def local_steps(
    optimizer: optax.GradientTransformation,
    num_steps: int,
    key: jax.Array,
    client_params: ClientParams,
    opt_state: Any,
    gradient: Gradient,
) -> tuple[ClientParams, Any, jax.Array]:
    """E local steps x_i <- x_i - eta g_i of every client (MADFL II-B, local update).

    Args:
      optimizer: one client's.
      num_steps: E >= 1.
      key: of this round; each step folds in its index.
      client_params: [N, ...].
      opt_state: [N, ...].
      gradient: the task's, bound to data and clients.

    Returns:
      (client_params, opt_state, loss [N] at the first step).
    """

    def step(carry: tuple[ClientParams, Any], index: jax.Array) -> tuple[tuple[ClientParams, Any], jax.Array]:
        params, state = carry
        loss, gradients = gradient(params, jax.random.fold_in(key, index))
        updates, state = jax.vmap(optimizer.update)(gradients, state, params)
        return (optax.apply_updates(params, updates), state), loss

    if num_steps == 1:
        (params, state), loss = step((client_params, opt_state), jnp.int32(0))
        return params, state, loss
    (params, state), losses = jax.lax.scan(step, (client_params, opt_state), jnp.arange(num_steps))
    return params, state, losses[0]
