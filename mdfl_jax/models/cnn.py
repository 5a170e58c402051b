"""Small convolutional networks: MADFL's and DADFL's CNN, and the thesis's GN-LeNet."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from mdfl_jax.errors import UserError
from mdfl_jax.models.conv import Conv, max_pool
from mdfl_jax.models.norm import GroupNorm
from mdfl_jax.models.registry import MODELS, ModelSettings, StageNumbers
from mdfl_jax.numbers import number


class Stage(nn.Module):
    """Convolution, normalisation if there are groups, 2 x 2 pool, ReLU: [C, H, W, B] -> [width, H // 2, W // 2, B].

    Attributes:
      width: output channels.
      size: kernel size, odd.
      groups: of the group normalisation; 0 leaves it out.
      form: of the convolution (`mdfl_jax.models.conv.FORMS`); empty takes the fastest.
    """

    width: int
    size: int
    groups: int = 0
    form: str = ""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Applies the stage to ``x`` [C, H, W, B]."""
        x = Conv(self.width, self.size, self.form, pool=not self.groups)(x)
        if self.groups:
            x = max_pool(GroupNorm(self.groups)(x))
        return nn.relu(x)  # a maximum and a ReLU commute: this way round there are four times fewer


class ConvNet(nn.Module):
    """Stages, then dense layers.

    Attributes:
      settings: of the model.
      groups: of the group normalisations; 0 leaves them out.
      hidden: width of a dense layer before the logits; 0 leaves it out.
    """

    settings: ModelSettings
    groups: int
    hidden: int

    @nn.compact
    def __call__(self, images: jax.Array) -> jax.Array:
        """Logits [B, num_classes] of images [B, H, W, channels]."""
        settings = self.settings
        stage = nn.remat(Stage) if settings.remat else Stage
        x = jnp.transpose(images, (3, 1, 2, 0))
        for i, width in enumerate(settings.numbers.widths):
            x = stage(width, settings.numbers.kernel, self.groups, settings.convolution, name=f"stage_{i}")(x)
        x = x.reshape(-1, x.shape[-1]).T
        if self.hidden:
            x = nn.relu(nn.Dense(self.hidden)(x))
        return nn.Dense(settings.num_classes)(x)


class CNNNumbers(StageNumbers):
    """Of the CNN."""

    hidden: int = number(64, "width of the dense layer behind the convolutions", static=True, at_least=1)


@MODELS.register("cnn", CNNNumbers)
def cnn(settings: ModelSettings) -> nn.Module:
    """The CNN of MADFL and DADFL: two stages, a hidden dense layer and the logits."""
    return ConvNet(settings, groups=0, hidden=settings.numbers.hidden)


class GNLeNetNumbers(StageNumbers):
    """Of the thesis's CIFAR-10 studies."""

    widths: tuple[int, ...] = number((32, 32, 64), "channels of the convolutions, even", static=True, at_least=1)
    kernel: int = number(5, "size of the convolutions' kernels", static=True, at_least=1, odd=True)

    def check_image(self, shape: tuple[int, int], model: str, dataset: str) -> None:
        """Widths that two groups divide."""
        super().check_image(shape, model, dataset)
        _check_even(self.widths)


@MODELS.register("gn_lenet", GNLeNetNumbers)
def gn_lenet(settings: ModelSettings) -> nn.Module:
    """GN-LeNet, of THESIS's CIFAR-10 studies: 5x5 stages of 32, 32 and 64 channels in two groups, and the logits.

    It has 89,834 parameters on CIFAR-10.

    Raises:
      UserError: for an odd width, which two groups do not divide.
    """
    _check_even(settings.numbers.widths)
    return ConvNet(settings, groups=2, hidden=0)


def _check_even(widths: tuple[int, ...]) -> None:
    if any(width % 2 for width in widths):
        raise UserError(f"model.widths is {widths}; gn_lenet normalises in two groups: widths must be even")
