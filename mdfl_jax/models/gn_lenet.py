"""GN-LeNet: the model of the thesis's CIFAR-10 studies (THESIS chapter on experiments; DIGEST of its public code)."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from mdfl_jax.errors import UserError
from mdfl_jax.models.conv import Conv, GroupNorm, max_pool
from mdfl_jax.models.registry import MODELS, ModelSettings


class GNLeNet(nn.Module):
    """Convolution, group normalisation, ReLU and pool for each width, then one dense layer.

    Attributes:
      widths: channels of the convolutions, each even.
      size: kernel size, odd.
      num_classes: number of logits.
      form: of the convolutions (`mdfl_jax.models.conv.FORMS`); empty takes the fastest.
    """

    widths: tuple[int, ...]
    size: int
    num_classes: int
    form: str = ""

    @nn.compact
    def __call__(self, images: jax.Array) -> jax.Array:
        """Logits [B, num_classes] of images [B, H, W, channels]."""
        x = jnp.transpose(images, (3, 1, 2, 0))
        for width in self.widths:
            x = max_pool(nn.relu(GroupNorm(groups=2)(Conv(width, self.size, self.form)(x))))
        return nn.Dense(self.num_classes)(x.reshape(-1, x.shape[-1]).T)


@MODELS.register("gn_lenet")
def gn_lenet(settings: ModelSettings) -> nn.Module:
    """GN-LeNet; 5x5 convolutions of 32, 32 and 64 channels are the thesis's (89,834 parameters on CIFAR-10).

    Raises:
      UserError: for an odd width, which two groups do not divide.
    """
    if any(width % 2 for width in settings.widths):
        raise UserError(f"model.widths is {settings.widths}; gn_lenet normalises in two groups: widths must be even")
    return GNLeNet(settings.widths, settings.kernel, settings.num_classes, settings.convolution)
