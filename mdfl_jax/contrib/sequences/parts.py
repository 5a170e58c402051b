"""The numbers and the first layer that all models of sequences share."""

from collections.abc import Callable

import flax.linen as nn
import jax

from mdfl_jax.core.errors import UserError
from mdfl_jax.models.model import ModelNumbers, ModelSettings, SampleSpec


class SequenceNumbers(ModelNumbers):
    """Base class of the numbers of models that process sequences."""

    def fault(self, sample: SampleSpec) -> str:
        """Refuse what is no sequence; the rows of an image are one."""
        right = len(sample.shape) == 1 if sample.vocabulary else len(sample.shape) in (2, 3)
        return "" if right else "it needs tokens [T], floats [T, F] or images [height, width, channels]"


def check_sequence(settings: ModelSettings, model: str) -> None:
    """Check that a model of sequences was told what a sample is.

    Raises:
      UserError: if it was not, or if samples are no sequences.
    """
    if fault := settings.numbers.fault(settings.sample):
        raise UserError(f"the model {model}: {fault}, and its argument 'sample' is {settings.sample}")


class Vectors(nn.Module):
    """Makes a sequence of vectors of each sample: tokens are embedded, and the rows of an image are the positions.

    Attributes:
      vocabulary: V, the number of tokens; 0: samples are of floats.
      width: the length of an embedding.
    """

    vocabulary: int
    width: int

    @nn.compact
    def __call__(self, samples: jax.Array) -> jax.Array:
        """Return [B, T, width] for tokens [B, T], and [B, T, F] for floats [B, T, F] or [B, T, ...]."""
        if self.vocabulary:
            return nn.Embed(self.vocabulary, self.width, name="embedding")(samples)
        return samples.reshape(*samples.shape[:2], -1)


class SequenceModel(nn.Module):
    """Base class of models of sequences: what they draw, and the dense layer that makes the outputs.

    Attributes:
      settings: the settings of the model.
    """

    settings: ModelSettings

    @property
    def draws(self) -> bool:
        """Whether a training step draws what it drops."""
        return self.settings.numbers.dropout > 0

    def outputs(self, positions: jax.Array, of_sample: Callable[[jax.Array], jax.Array]) -> jax.Array:
        """Return [B, T, C] from the vectors of positions, [B, T, width], or [B, C] from one that is made of them."""
        x = positions if self.settings.per_position else of_sample(positions)
        return nn.Dense(self.settings.num_classes, name="out")(x)
