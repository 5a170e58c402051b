"""Models without convolutions: multinomial logistic regression and the multilayer perceptron."""

import flax.linen as nn
import jax

from mdfl_jax.core.numbers import number
from mdfl_jax.models.model import MODELS, FloatModelNumbers, ModelSettings


class MLP(nn.Module):
    """Dense layers with ReLU between them, applied to the flattened sample.

    Attributes:
      widths: the widths of the hidden layers; without hidden layers the model is logistic regression.
      num_classes: the number of outputs.
    """

    widths: tuple[int, ...]
    num_classes: int

    @nn.compact
    def __call__(self, samples: jax.Array) -> jax.Array:
        """Return the outputs [B, num_classes] of float samples [B, ...]."""
        x = samples.reshape(samples.shape[0], -1)
        for width in self.widths:
            x = nn.relu(nn.Dense(width)(x))
        return nn.Dense(self.num_classes)(x)


@MODELS.register("linear", FloatModelNumbers, formula="outputs = A x + b")
def linear(settings: ModelSettings) -> nn.Module:
    """Multinomial logistic regression: one dense layer."""
    return MLP((), settings.num_classes)


class MLPNumbers(FloatModelNumbers):
    """The numbers of the multilayer perceptron."""

    widths: tuple[int, ...] = number((16, 32), "widths of the hidden layers", static=True, at_least=1)


@MODELS.register("mlp", MLPNumbers, formula="x <- relu(A x + b) for each of widths;  outputs = A x + b")
def mlp(settings: ModelSettings) -> nn.Module:
    """Multilayer perceptron with hidden layers of the given widths."""
    return MLP(settings.numbers.widths, settings.num_classes)
