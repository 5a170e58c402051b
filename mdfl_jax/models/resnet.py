"""ResNet-20 for images of 32 x 32 (He et al., CVPR 2016, section 4.2), with group normalisation."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from mdfl_jax.models.conv import Conv, GroupNorm
from mdfl_jax.models.registry import MODELS, ModelSettings

WIDTHS, BLOCKS, GROUPS = (16, 32, 64), 3, 8


class Basic(nn.Module):
    """Two 3x3 convolutions around which the input is carried, samples last.

    Attributes:
      width: output channels.
      stride: of the first convolution.
      form: of the convolutions.
    """

    width: int
    stride: int
    form: str

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Applies the block to ``x`` [C, H, W, B]."""
        s = self.stride
        # Every s-th place of the convolution at all places: that of stride s, at s^2 times its cost.
        y = Conv(self.width, 3, self.form, name="conv_0")(x)[:, ::s, ::s]
        y = nn.relu(GroupNorm(GROUPS, name="norm_0")(y))
        y = GroupNorm(GROUPS, name="norm_1")(Conv(self.width, 3, self.form, name="conv_1")(y))
        x = x[:, ::s, ::s]
        # Option A of the paper: new channels are zero in the shortcut, which then has no parameters.
        return nn.relu(y + jnp.pad(x, [(0, self.width - x.shape[0]), (0, 0), (0, 0), (0, 0)]))


class ResNet20(nn.Module):
    """A 3x3 convolution, three stages of three blocks with 16, 32 and 64 channels, mean over the map, logits.

    Attributes:
      settings: classes, form of the convolutions, rematerialisation.
    """

    settings: ModelSettings

    @nn.compact
    def __call__(self, images: jax.Array) -> jax.Array:
        """Logits [B, num_classes] of images [B, H, W, channels]."""
        form, block = self.settings.convolution, nn.remat(Basic) if self.settings.remat else Basic
        x = jnp.transpose(images, (3, 1, 2, 0))
        x = nn.relu(GroupNorm(GROUPS, name="norm")(Conv(WIDTHS[0], 3, form, name="conv")(x)))
        for stage, width in enumerate(WIDTHS):
            for i in range(BLOCKS):
                x = block(width, 2 if stage and not i else 1, form, name=f"block_{stage}_{i}")(x)
        return nn.Dense(self.settings.num_classes)(jnp.mean(x, axis=(1, 2)).T)


@MODELS.register("resnet20")
def resnet20(settings: ModelSettings) -> nn.Module:
    """ResNet-20 with groups instead of batches normalised: clients share no batch statistics.

    Widths, kernel and hidden width of the settings are not looked at.
    """
    return ResNet20(settings)
