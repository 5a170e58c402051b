"""The CNN of MADFL and DADFL: two convolutional and two dense layers."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from mdfl_jax.models.conv import Conv, max_pool
from mdfl_jax.models.registry import MODELS, ModelSettings


class CNN(nn.Module):
    """Convolution, pool, ReLU for each width, then a hidden dense layer and the logits.

    Attributes:
      widths: channels of the convolutions.
      size: kernel size, odd.
      hidden: width of the hidden dense layer.
      num_classes: number of logits.
      form: of the convolutions (`mdfl_jax.models.conv.FORMS`); empty takes the fastest.
    """

    widths: tuple[int, ...]
    size: int
    hidden: int
    num_classes: int
    form: str = ""

    @nn.compact
    def __call__(self, images: jax.Array) -> jax.Array:
        """Logits [B, num_classes] of images [B, H, W, channels]."""
        x = jnp.transpose(images, (3, 1, 2, 0))
        for width in self.widths:
            x = nn.relu(max_pool(Conv(width, self.size, self.form)(x)))
        x = x.reshape(-1, x.shape[-1]).T
        x = nn.relu(nn.Dense(self.hidden)(x))
        return nn.Dense(self.num_classes)(x)


@MODELS.register("cnn")
def cnn(settings: ModelSettings) -> nn.Module:
    """The two-convolution CNN; widths, kernel size and hidden width by setting."""
    return CNN(settings.widths, settings.kernel, settings.hidden, settings.num_classes, settings.convolution)
