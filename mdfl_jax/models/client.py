"""The base class of client models around what a user wrote."""

from collections.abc import Callable
from typing import Any

import jax


class ClientModel:
    """A client model around a user's model. It has the methods ``init`` and ``apply`` of a module of flax linen.

    ``init(key, samples)`` makes the variables, and ``apply(variables, samples, [mask], mutable=..., rngs=...)`` the
    outputs. The mask [B] bool is given only in training; False for padding.

    Attributes:
      adapted_from: what the user wrote, for messages: the class of a module, or the function that applies parameters.
      draws: whether the model may draw random numbers in training.
    """

    adapted_from: Callable[..., Any]
    draws: bool

    def check(self, shapes: Any, samples: jax.Array) -> None:
        """Check what only this kind of model can get wrong in evaluation. The base class checks nothing.

        Args:
          shapes: the shapes of the variables.
          samples: [B, ...].

        Raises:
          UserError: if the model cannot be evaluated.
        """
