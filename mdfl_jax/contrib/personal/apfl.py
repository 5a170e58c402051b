"""APFL: a client's model is a mixture of a shared model, which is exchanged, and of one that it trains for itself."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from mdfl_jax.algorithms.local import LocalNumbers, Settings, init_optimizer, local_work, near, optimizer_updates
from mdfl_jax.algorithms.registry import register
from mdfl_jax.contrib.personal.shared import READ, exchange, shared_model_accuracy, traits
from mdfl_jax.core.numbers import number
from mdfl_jax.core.trees import each, rows_like, trained
from mdfl_jax.core.types import Algorithm, ClientParams, Gradient, Links, RoundContext, RoundStats


class APFLState(NamedTuple):
    """The state that one round hands to the next.

    Attributes:
      shared: [N, ...] the shared models x.
      own: [N, ...] the models v that clients train for themselves, which are never sent.
      alpha: [N] the share of v in each client's mixture.
      opt_state, own_opt_state: [N, ...] the optimiser states of both models.
    """

    shared: ClientParams
    own: ClientParams
    alpha: jax.Array
    opt_state: Any
    own_opt_state: Any


class APFLNumbers(LocalNumbers):
    """The numbers of APFL."""

    alpha: float = number(0.5, "share of a client's own model in its mixture, at the start", at_least=0, at_most=1)
    alpha_lr: float = number(0.0, "step size by which each client adapts its alpha, once a round; 0: fixed", at_least=0)


def mixture(state: APFLState) -> ClientParams:
    """Return the mixtures alpha v + (1 - alpha) x, [N, ...]. Batch statistics are those of v, which belong to them."""

    def mixed(v: jax.Array, x: jax.Array) -> jax.Array:
        share = rows_like(state.alpha, v).astype(v.dtype)
        return share * v + (1 - share) * x

    return each(mixed, lambda v, x: v, state.own, state.shared)


def slope_of_alpha(state: APFLState, found: ClientParams) -> jax.Array:
    """Return the derivative of the loss of each mixture by its alpha, [N]: the inner product of v - x and its gradient.

    Args:
      state: the models.
      found: [N, ...] the gradients at the mixtures.
    """
    product = lambda v, x, g: jnp.sum(((v - x) * g).reshape(g.shape[0], -1), axis=1)  # noqa: E731
    parts = jax.tree.leaves(jax.tree.map(product, *map(trained, (state.own, state.shared, found))))
    return jnp.sum(jnp.stack(parts), axis=0)


@register(
    "apfl",
    APFLNumbers,
    ignores=("compressor",),
    formula="m = alpha v + (1 - alpha) x;  v+ = v - eta alpha grad f(m);  x+ = W (x - eta grad f(x));  "
    "alpha+ = alpha - eta_alpha <v - x, grad f(m)>, in [0, 1]",
    cite="deng2020; lian2017",
)
def apfl(settings: Settings = Settings()) -> Algorithm:
    """APFL, adaptive personalised federated learning: each client's mixture of a shared and an own model is evaluated.

    In place of the paper's server, gossip makes the shared models. Both models take the same minibatch and optimiser.
    The gradient of the mixture is taken before the shared model moves; the authors' code takes it after. A client
    adapts alpha at the first local step of each round, as that code does. FedProx's term holds the shared model alone.
    """
    optimizer = settings.optimizer

    def init(hparams: APFLNumbers, client_params: ClientParams) -> APFLState:
        first = jax.tree.leaves(trained(client_params))[0]
        alpha = jnp.full(first.shape[0], hparams.alpha, first.dtype)
        states = [init_optimizer(optimizer(hparams), client_params) for _ in range(2)]
        return APFLState(client_params, client_params, alpha, *states)

    def do_round(
        hparams: APFLNumbers, state: APFLState, links: Links, context: RoundContext
    ) -> tuple[APFLState, RoundStats]:
        def step(now: APFLState, k: jax.Array, gradient: Gradient) -> tuple[APFLState, jax.Array]:
            key = jax.random.fold_in(context.key, k)
            held = near(gradient, state.shared, hparams.proximal) if settings.proximal else gradient
            loss, of_shared = held(now.shared, key)
            _, found = gradient(mixture(now), key)
            of_own = each(lambda g: rows_like(now.alpha, g).astype(g.dtype) * g, lambda g: g, found)
            moves, opt_state = optimizer_updates(optimizer(hparams), of_shared, now.opt_state, now.shared)
            own_moves, own_opt_state = optimizer_updates(optimizer(hparams), of_own, now.own_opt_state, now.own)
            adapted = jnp.clip(now.alpha - hparams.alpha_lr * slope_of_alpha(now, found), 0, 1)
            alpha = jnp.where(k == 0, adapted, now.alpha).astype(now.alpha.dtype)
            shared, own = optax.apply_updates(now.shared, moves), optax.apply_updates(now.own, own_moves)
            return APFLState(shared, own, alpha, opt_state, own_opt_state), loss

        work = local_work(settings._replace(proximal=False), hparams, state.shared, context)
        after, loss = work.take(step, state)
        shared, stats = exchange(settings, hparams, links, context, after.shared, loss)
        return after._replace(shared=shared), stats

    accuracy = shared_model_accuracy(lambda state: state.shared)
    return Algorithm(READ, init, do_round, mixture, metrics=(accuracy,), traits=traits(settings)._replace(unsent=True))
