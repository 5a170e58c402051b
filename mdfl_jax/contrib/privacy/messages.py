"""Noise on what is sent: the Gaussian mechanism on messages (Dwork and Roth 2014, appendix A).

A client sends what all know already, and how far its vector is from that, shortened to a norm and with noise. What it
keeps has no noise. So a message tells the same little of its client whatever it is computed from: the account is that
of all samples of a client together.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from mdfl_jax.contrib.privacy.noise import normal
from mdfl_jax.contrib.privacy.sgd import clipped
from mdfl_jax.core.trees import ravel
from mdfl_jax.core.types import Algorithm, ClientParams, Extra, Links, RoundContext, RoundStats


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class NoisedMessages(Extra):
    """The bound of messages and their noise (`mdfl_jax.core.types.Links.get`).

    Attributes:
      clip: [] C, the largest norm of what a message adds to what all know.
      noise: [] the standard deviation of the noise, in units of C.
      known: [N, ...] what all know before a message is sent; None: nothing, since clients send updates.
      of_models: whether clients send models, of which all know the first ones.
    """

    clip: jax.Array
    noise: jax.Array
    known: ClientParams = None
    of_models: bool = dataclasses.field(default=False, metadata={"static": True})

    def around(self, algorithm: Algorithm) -> Algorithm:
        """Return the algorithm whose clients know the first models, if it sends models."""
        if not self.of_models:
            return algorithm

        def do_round(hparams: Any, state: Any, links: Links, context: RoundContext) -> tuple[Any, RoundStats]:
            assert context.first_models is not None
            here = dataclasses.replace(self, known=context.first_models())
            extra = tuple(here if isinstance(each, NoisedMessages) else each for each in links.extra)
            return algorithm.round(hparams, state, links._replace(extra=extra), context)

        return algorithm._replace(round=do_round)

    def sends(self, hparams: Any, key: jax.Array, links: Links, vectors: ClientParams) -> ClientParams:
        """Return what is known of the vectors [N, ...], with their distance from it, shortened and with noise."""
        known = jax.tree.map(jnp.zeros_like, vectors) if self.known is None else self.known
        if isinstance(vectors, jax.Array) and not isinstance(known, jax.Array):  # it sends its models as a matrix
            known = ravel(known)[0]
        further = jax.vmap(lambda one: clipped(one, self.clip))(jax.tree.map(jnp.subtract, vectors, known))
        leaves, tree = jax.tree.flatten(further)
        drawn = [normal(jax.random.fold_in(key, k), x.shape, x.dtype) for k, x in enumerate(leaves)]
        deviation = self.noise * self.clip
        noised = jax.tree.unflatten(tree, [x + deviation.astype(x.dtype) * z for x, z in zip(leaves, drawn)])
        return jax.tree.map(jnp.add, known, noised)
