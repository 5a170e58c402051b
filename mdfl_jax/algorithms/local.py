"""Local work, the same in every algorithm: E optimiser steps of each client on its own data."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax

from mdfl_jax.errors import UserError
from mdfl_jax.exchange.together import take_steps
from mdfl_jax.numbers import Numbers, Setting, nested, number
from mdfl_jax.statistics import STATISTICS, each, has_statistics, trained
from mdfl_jax.types import ClientParams, Gradient, Links

Number = Any  # a traced scalar or a Python number


class AlgorithmNumbers(Numbers):
    """What every algorithm has. `mdfl_jax.networks.participation` gives the last three their meaning, or PaME does."""

    lr: float = number(0.1, "learning rate at the first step", above=0)
    weight_decay: float = number(0.0, "added to the gradient as weight_decay * parameter (an L2 penalty)", at_least=0)
    participation: float = number(
        1.0, "share of the neighbours that a communication takes, nu", at_least=0, at_most=1, source="PaME V-D"
    )
    period_min: int = number(
        1,
        "smallest period of communication in rounds, kappa; drawn per client by pame, else one for all",
        at_least=1,
        at_most=10**9,
        source="PaME V-D",
    )
    period_max: int = number(
        1, "largest period; one for all is the middle of the two", at_least=1, at_most=10**9, source="PaME V-D"
    )

    def check(self, setting: Setting) -> None:
        """Periods in order."""
        if self.period_min > self.period_max:
            own = f" ({setting.member}'s own)" if self.period_max == type(self)().period_max else ""
            raise UserError(
                f"algorithm.period_min is {self.period_min}; it must be at most algorithm.period_max, which is "
                f"{self.period_max}{own}"
            )


class LocalNumbers(AlgorithmNumbers):
    """What algorithms have whose clients take local steps with an optimiser."""

    momentum: float = number(0.0, "of the optimiser SGD", at_least=0, below=1)


class CompressedNumbers(AlgorithmNumbers):
    """What algorithms have that compress their messages: the numbers of the compressor in use."""

    own_compressor: ClassVar[str] = ""
    """The compressor of the algorithm's paper, where a configuration names none."""
    compressor: Any = nested(Numbers())


OptimizerFactory = Callable[[Any], optax.GradientTransformation]
Schedule = Callable[[jax.Array], jax.Array]


def sgd(schedule: Schedule | None = None, momentum: bool = True) -> OptimizerFactory:
    """SGD with momentum and weight decay, as the papers use it.

    Args:
      schedule: factor of the learning rate by step, 1 at the first; constant where left out.
      momentum: False leaves the momentum out, and the memory it takes.
    """
    factor = schedule or (lambda step: jnp.float32(1.0))

    def make(params: Any) -> optax.GradientTransformation:
        return optax.chain(
            optax.add_decayed_weights(params.weight_decay),
            optax.trace(decay=params.momentum) if momentum else optax.identity(),
            optax.scale_by_learning_rate(lambda step: params.lr * factor(step)),
        )

    return make


def adam(schedule: Schedule | None = None) -> OptimizerFactory:
    """Adam with decoupled weight decay (optax's defaults for the rest)."""
    factor = schedule or (lambda step: jnp.float32(1.0))

    def make(params: Any) -> optax.GradientTransformation:
        return optax.adamw(lambda step: params.lr * factor(step), weight_decay=params.weight_decay)

    return make


class Settings(NamedTuple):
    """What decides an algorithm's program; each uses its own.

    Attributes:
      optimizer: (the algorithm's numbers) -> optax transformation of one client; its state stays local.
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


def recursion_step(settings: Settings, hparams: AlgorithmNumbers, k: jax.Array) -> jax.Array:
    """The step of a recursion in round k, lr * schedule(k), for algorithms that have no optimiser."""
    factor = settings.schedule(k) if settings.schedule else 1.0
    return jnp.asarray(hparams.lr * factor)


def waits(links: Links) -> jax.Array:
    """Whether a recursion waits in this round: nobody has a link, though there are several clients.

    NIDS over W = I keeps the correction of the latest exchange and follows it with every step; where the losses are
    nearly flat, as in logistic regression, models run away between two communications (docs/pame.md).
    """
    return ~jnp.any(links.adjacency) & (links.num_clients > 1)


def decayed_gradient(gradient: Gradient, hparams: AlgorithmNumbers, step: jax.Array) -> Gradient:
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

    (params, state), loss = take_steps(step, (client_params, opt_state), num_steps)
    return params, state, loss
