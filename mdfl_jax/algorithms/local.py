"""Local work, the same in every algorithm: E optimiser steps of each client on its own data."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from mdfl_jax.sharding import repeat
from mdfl_jax.statistics import STATISTICS, each, has_statistics, trained
from mdfl_jax.types import ClientParams, Gradient, Links

Number = Any  # a traced scalar or a Python number


class AlgorithmParams(NamedTuple):
    """Traced numbers of an algorithm; each reads its own.

    Attributes:
      lr: learning rate at the first step.
      momentum: of SGD.
      weight_decay: added to the gradient as weight_decay * parameter (as in the papers' L2 penalty).
      participation: share of the neighbours that a communication takes, nu (PaME).
      period_min: smallest period of communication that a client may draw, in rounds, kappa_i (PaME).
      period_max: the largest.
      transmission: share of the coordinates that a message holds, s / n (pame, random_k, top_k).
      penalty_growth: factor a round of PaME's penalty sigma, gamma.
      consensus_lr: step of the compressed gossip, gamma (beer, choco, squarm_sgd).
      rho: radius of the perturbation (dfedsam).
      levels: of the quantiser qsgd, s.
      eta: absolute error of the quantiser anq at the first round.
      omega: its relative error.
      eta_decay: factor a round of eta (anq_nids).
      noise: standard deviation of gaussian_noise.
      trigger: threshold of squarm_sgd.
      num_peers: receivers that a client draws, s (epidemic).
      upload_from: slots after a client's last meeting with the server from which it looks for a relay of its update,
        theta (fedmobile).
      upload_until: slots after it until which it looks, and by which the relay must meet the server, Theta.
      download_from: slots before its next meeting until which it looks for a relay of the global model, omega.
      download_until: slots before it from which it looks, and from which the relay's model must be, Omega.
      max_upload: uploads by relay between two meetings, K.
      max_download: downloads by relay between two meetings.
    """

    lr: Number = 0.1
    momentum: Number = 0.0
    weight_decay: Number = 0.0
    participation: Number = 1.0
    period_min: Number = 1
    period_max: Number = 1
    transmission: Number = 0.2
    penalty_growth: Number = 1.005
    consensus_lr: Number = 0.4
    rho: Number = 0.01
    levels: Number = 16
    eta: Number = 0.1
    omega: Number = 0.1
    eta_decay: Number = 0.99
    noise: Number = 0.0
    trigger: Number = 0.0
    num_peers: Number = 2
    upload_from: Number = 10
    upload_until: Number = 40
    download_from: Number = 5
    download_until: Number = 25
    max_upload: Number = 1
    max_download: Number = 1


OptimizerFactory = Callable[[AlgorithmParams], optax.GradientTransformation]
Schedule = Callable[[jax.Array], jax.Array]


def sgd(schedule: Schedule | None = None, momentum: bool = True) -> OptimizerFactory:
    """SGD with momentum and weight decay, as the papers use it.

    Args:
      schedule: factor of the learning rate by step, 1 at the first; constant where left out.
      momentum: False leaves the momentum out, and the memory it takes.
    """
    factor = schedule or (lambda step: jnp.float32(1.0))

    def make(params: AlgorithmParams) -> optax.GradientTransformation:
        return optax.chain(
            optax.add_decayed_weights(params.weight_decay),
            optax.trace(decay=params.momentum) if momentum else optax.identity(),
            optax.scale_by_learning_rate(lambda step: params.lr * factor(step)),
        )

    return make


def adam(schedule: Schedule | None = None) -> OptimizerFactory:
    """Adam with decoupled weight decay (optax's defaults for the rest)."""
    factor = schedule or (lambda step: jnp.float32(1.0))

    def make(params: AlgorithmParams) -> optax.GradientTransformation:
        return optax.adamw(lambda step: params.lr * factor(step), weight_decay=params.weight_decay)

    return make


class Settings(NamedTuple):
    """What decides an algorithm's program; each uses its own.

    Attributes:
      optimizer: (AlgorithmParams) -> optax transformation of one client; its state stays local.
      num_local_steps: E, optimiser steps before each exchange.
      mixing_bound: senders in a neighbour list of `mdfl_jax.exchange.gossip.mix`; 0: chosen by N.
      compressor: a name of `mdfl_jax.exchange.compressors.COMPRESSORS`; empty: the algorithm's own.
      schedule: factor of the learning rate by step, for algorithms whose step is part of their recursion.
      local_statistics: batch statistics stay each client's own (`mdfl_jax.statistics`).
    """

    optimizer: OptimizerFactory = sgd()
    num_local_steps: int = 1
    mixing_bound: int = 0
    compressor: str = ""
    schedule: Schedule | None = None
    local_statistics: bool = False


def recursion_step(settings: Settings, hparams: AlgorithmParams, k: jax.Array) -> jax.Array:
    """The step of a recursion in round k, lr * schedule(k), for algorithms that have no optimiser."""
    factor = settings.schedule(k) if settings.schedule else 1.0
    return jnp.asarray(hparams.lr * factor)


def waits(links: Links) -> jax.Array:
    """Whether a recursion waits in this round: nobody has a link, though there are several clients.

    NIDS over W = I keeps the correction of the latest exchange and follows it with every step; where the losses are
    nearly flat, as in logistic regression, models run away between two communications (docs/pame.md).
    """
    return ~jnp.any(links.adjacency) & (links.num_clients > 1)


def decayed_gradient(gradient: Gradient, hparams: AlgorithmParams, step: jax.Array) -> Gradient:
    """The gradient with weight_decay * parameter added, for algorithms that have no optimiser.

    That of batch statistics is divided by the step of the recursion, so that theirs is one.
    """

    def decayed(client_params: ClientParams, key: jax.Array) -> tuple[jax.Array, ClientParams]:
        loss, found = gradient(client_params, key)
        add = lambda g, p: g + jnp.asarray(hparams.weight_decay, p.dtype) * p  # noqa: E731
        return loss, each(add, lambda g, s: g / step.astype(g.dtype), found, client_params)

    return decayed


def init_optimizer(optimizer: optax.GradientTransformation, client_params: ClientParams) -> Any:
    """One optimiser state a client, [N, ...]; vmapped, so that a rule which looks at the whole gradient sees one's."""
    return jax.vmap(optimizer.init)(trained(client_params))


def optimizer_updates(
    optimizer: optax.GradientTransformation, gradients: ClientParams, opt_state: Any, client_params: ClientParams
) -> tuple[ClientParams, Any]:
    """What the clients' optimisers add to their models, and their next states; batch statistics take a step of one."""
    updates, opt_state = jax.vmap(optimizer.update)(trained(gradients), opt_state, trained(client_params))
    if has_statistics(gradients):
        updates = {"params": updates, STATISTICS: jax.tree.map(jnp.negative, gradients[STATISTICS])}
    return updates, opt_state


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
        updates, state = optimizer_updates(optimizer, gradients, state, params)
        return (optax.apply_updates(params, updates), state), loss

    (params, state), loss = repeat(step, (client_params, opt_state), num_steps)
    return params, state, loss
