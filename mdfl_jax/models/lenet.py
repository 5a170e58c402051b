"""The models of FedMobile's studies: LeNet-5 (LeCun et al. 1998) and ResNet-9."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from mdfl_jax.models.conv import Conv, GroupNorm, max_pool
from mdfl_jax.models.registry import MODELS, ModelSettings

VALID_FROM = 6  # rows and columns of a map of which a 5 x 5 convolution without padding leaves a 2 x 2 pool something


class LeNet(nn.Module):
    """5x5 convolutions of 6 and 16 channels, each with ReLU and 2x2 maximum pool, dense layers of 120 and 84, logits.

    Attributes:
      settings: classes, form of the convolutions, rematerialisation.
    """

    settings: ModelSettings

    @nn.compact
    def __call__(self, images: jax.Array) -> jax.Array:
        """Logits [B, num_classes] of images [B, H, W, channels]."""
        conv = nn.remat(Conv) if self.settings.remat else Conv
        x = jnp.transpose(images, (3, 1, 2, 0))
        x = nn.relu(max_pool(conv(6, 5, self.settings.convolution, name="conv_0")(x)))
        x = conv(16, 5, self.settings.convolution, name="conv_1")(x)
        if min(x.shape[1:3]) >= VALID_FROM:
            x = x[:, 2:-2, 2:-2]  # what a convolution without padding gives
        x = nn.relu(max_pool(x))
        x = x.reshape(-1, x.shape[-1]).T
        for width in (120, 84):
            x = nn.relu(nn.Dense(width)(x))
        return nn.Dense(self.settings.num_classes)(x)


@MODELS.register("lenet")
def lenet(settings: ModelSettings) -> nn.Module:
    """LeNet-5 with ReLU and maximum pools: 61,706 parameters on 28 x 28 grey images and ten classes.

    The second convolution has no padding, except on images below 12 pixels, of which it would leave nothing. Widths,
    kernel and hidden width of the settings are not looked at.
    """
    return LeNet(settings)


class Block(nn.Module):
    """Convolution, group normalisation, ReLU, samples last.

    Attributes:
      width: output channels.
      form: of the convolution.
    """

    width: int
    form: str

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Applies the block to ``x`` [C, H, W, B]."""
        return nn.relu(GroupNorm(32)(Conv(self.width, 3, self.form)(x)))


class ResNet9(nn.Module):
    """FedMobile's table 4: eight 3x3 convolutions, two residual pairs, four pools, and a dense layer.

    Attributes:
      settings: classes, form of the convolutions, rematerialisation.
    """

    settings: ModelSettings

    @nn.compact
    def __call__(self, images: jax.Array) -> jax.Array:
        """Logits [B, num_classes] of images [B, H, W, channels]."""
        block = nn.remat(Block) if self.settings.remat else Block
        named = lambda width, name: block(width, self.settings.convolution, name=f"conv_{name}")  # noqa: E731
        x = jnp.transpose(images, (3, 1, 2, 0))
        x = max_pool(named(128, 2)(named(64, 1)(x)))
        x = x + named(128, 4)(named(128, 3)(x))
        x = max_pool(named(256, 5)(x))
        x = max_pool(named(512, 6)(x))
        x = x + named(512, 8)(named(512, 7)(x))
        return nn.Dense(self.settings.num_classes)(jnp.max(x, axis=(1, 2)).T)


@MODELS.register("resnet9")
def resnet9(settings: ModelSettings) -> nn.Module:
    """ResNet-9 of FedMobile's table 4, with group instead of batch normalisation: clients share no batch statistics.

    The last pool, 4 x 4 on CIFAR-10, takes all that is left. Widths, kernel and hidden width of the settings are not
    looked at. The table shows neither the residual connections nor a normalisation: here they are around convolutions
    3 and 4, and 7 and 8, and 32 groups.
    """
    return ResNet9(settings)
