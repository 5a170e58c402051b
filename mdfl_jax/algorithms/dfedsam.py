"""DFedSAM: local steps by the gradient at a near, worse model, so that clients end in flat places; then gossip."""

import jax
import jax.numpy as jnp

from mdfl_jax.algorithms.dpsgd import DPSGDState
from mdfl_jax.algorithms.local import AlgorithmParams, Number, Settings, init_optimizer, local_steps
from mdfl_jax.algorithms.registry import register
from mdfl_jax.exchange.gossip import mix
from mdfl_jax.exchange.meter import count_bits, dense_bits, double_dense_bits, messages_sent
from mdfl_jax.types import Algorithm, ClientParams, Gradient, Links, RoundStats


def norms(client_trees: ClientParams) -> jax.Array:
    """Euclidean norms of stacked trees [N, ...], each client's over all its leaves: [N]."""
    squares = [jnp.sum(jnp.square(leaf).reshape(leaf.shape[0], -1), axis=1) for leaf in jax.tree.leaves(client_trees)]
    return jnp.sqrt(sum(squares[1:], squares[0]))


def sharpness_aware(gradient: Gradient, rho: Number) -> Gradient:
    """The gradient at y + rho g / |g|, g = grad f(y), both on one minibatch; the loss at y.

    A client whose gradient is zero is not moved.
    """

    def perturbed(client_params: ClientParams, key: jax.Array) -> tuple[jax.Array, ClientParams]:
        loss, found = gradient(client_params, key)
        norm = norms(found)
        scale = jnp.where(norm > 0, rho / jnp.where(norm > 0, norm, 1), 0)
        move = lambda p, g: p + (scale.reshape(-1, *[1] * (g.ndim - 1)) * g).astype(p.dtype)  # noqa: E731
        return loss, gradient(jax.tree.map(move, client_params, found), key)[1]

    return perturbed


@register("dfedsam", rho=0.01)
def dfedsam(settings: Settings = Settings()) -> Algorithm:
    """DFedSAM (Shi et al., ICML 2023, algorithm 1): E local steps y <- y - eta grad f(y + rho g / |g|), then x <- W y.

    The paper's local optimiser is plain SGD; others take the perturbed gradient in its place. Weight decay acts at y,
    outside of the perturbation. Its variant with several gossip steps a round (DFedSAM-MGS) is not here.
    """
    optimizer = settings.optimizer

    def init(hparams: AlgorithmParams, client_params: ClientParams) -> DPSGDState:
        return DPSGDState(client_params, init_optimizer(optimizer(hparams), client_params))

    def do_round(
        hparams: AlgorithmParams, key: jax.Array, state: DPSGDState, links: Links, gradient: Gradient
    ) -> tuple[DPSGDState, RoundStats]:
        worse = sharpness_aware(gradient, hparams.rho)
        params, opt_state, loss = local_steps(
            optimizer(hparams), settings.num_local_steps, key, state.params, state.opt_state, worse
        )
        sent = messages_sent(links.adjacency)
        stats = RoundStats(loss, sent, count_bits(sent, dense_bits(params)))
        return DPSGDState(mix(links.mix, params, settings.mixing_bound), opt_state), stats

    needs = frozenset({"adjacency", "mix"})
    return Algorithm(needs, init, do_round, lambda state: state.params, double_bits=double_dense_bits)
