"""DFedSAM: local steps with sharpness-aware minimisation; then gossip.

Each local step takes the gradient at a nearby model with a larger loss, so that clients find flat minima.
"""

import jax
import jax.numpy as jnp

from mdfl_jax.algorithms.dpsgd import gossip, local_then
from mdfl_jax.algorithms.local import LocalNumbers, Number, Settings
from mdfl_jax.algorithms.registry import register
from mdfl_jax.core.numbers import Setting, number
from mdfl_jax.core.trees import rows_like, trained, with_trained
from mdfl_jax.core.types import Algorithm, ClientParams, Gradient


def norms(client_trees: ClientParams) -> jax.Array:
    """Return each client's Euclidean norm over all leaves of a stacked tree [N, ...]: [N]."""
    squares = [jnp.sum(jnp.square(leaf).reshape(leaf.shape[0], -1), axis=1) for leaf in jax.tree.leaves(client_trees)]
    return jnp.sqrt(sum(squares[1:], squares[0]))


def sharpness_aware(gradient: Gradient, rho: Number) -> Gradient:
    """Make a gradient function that evaluates the gradient at y + rho g / |g|, where g = grad f(y).

    Both gradients use the same minibatch. The loss is the one at y. A client whose gradient is zero is not perturbed.
    Batch statistics are not perturbed either; they follow the batch as seen at y.

    Args:
      gradient: (client_params [N, ...], key) -> (loss [N], gradients [N, ...]).
      rho: the radius of the perturbation.

    Returns:
      A function of the same arguments and results as ``gradient``.
    """

    def perturbed(client_params: ClientParams, key: jax.Array) -> tuple[jax.Array, ClientParams]:
        loss, found = gradient(client_params, key)
        norm = norms(trained(found))
        scale = jnp.where(norm > 0, rho / jnp.where(norm > 0, norm, 1), 0)
        move = lambda p, g: p + (rows_like(scale, g) * g).astype(p.dtype)  # noqa: E731
        worse = with_trained(client_params, jax.tree.map(move, trained(client_params), trained(found)))
        return loss, with_trained(found, trained(gradient(worse, key)[1]))

    return perturbed


class DFedSAMNumbers(LocalNumbers):
    """The numbers of DFedSAM."""

    rho: float = number(0.01, "radius of the perturbation", at_least=0)

    def notes(self, setting: Setting) -> list[str]:
        """Note that without a perturbation it is another algorithm."""
        return [] if self.rho else ["algorithm.rho is 0, at which dfedsam is dpsgd"]


@register(
    "dfedsam",
    DFedSAMNumbers,
    ignores=("compressor",),
    formula="E times y <- y - eta grad f(y + rho g / |g|), from y = x;  x+ = W y",
    cite="shi2023: algorithm 1",
)
def dfedsam(settings: Settings = Settings()) -> Algorithm:
    """DFedSAM: local steps with sharpness-aware minimisation, then gossip.

    The paper's local optimiser is plain SGD; any other optimiser here receives the perturbed gradient too. Weight decay
    is computed at y, not at the perturbed model. The paper's variant with several gossip steps a round (DFedSAM-MGS) is
    not implemented.
    """
    worse = lambda hparams, gradient: sharpness_aware(gradient, hparams.rho)  # noqa: E731
    return local_then(settings, gossip(settings), ("adjacency", "mix"), seen=worse)
