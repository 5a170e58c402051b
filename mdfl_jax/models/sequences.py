"""The numbers and the first layer that all models of sequences share."""

import flax.linen as nn
import jax

from mdfl_jax.core.errors import UserError
from mdfl_jax.models.model import ModelNumbers, ModelSettings, SampleSpec


class SequenceNumbers(ModelNumbers):
    """Base class of the numbers of models that process sequences."""

    def check_sample(self, sample: SampleSpec, model: str, dataset: str) -> None:
        """Check that samples are sequences, or images, which become sequences of rows."""
        if fault := not_a_sequence(sample):
            raise UserError(f"model.name is {model}; {fault}, and {dataset} has {sample.words}")


def not_a_sequence(sample: SampleSpec) -> str:
    """Return what samples must be if they are no sequences; "" if they are."""
    right = len(sample.shape) == 1 if sample.vocabulary else len(sample.shape) in (2, 3)
    return "" if right else "it needs tokens [T], floats [T, F] or images [height, width, channels]"


def check_sequence(settings: ModelSettings, model: str) -> None:
    """Check that a model of sequences was told what a sample is.

    Raises:
      UserError: if it was not, or if samples are no sequences.
    """
    if fault := not_a_sequence(settings.sample):
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
