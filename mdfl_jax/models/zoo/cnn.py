"""Small convolutional networks: the CNN of MADFL and DADFL, and GN-LeNet of THESIS."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.numbers import number
from mdfl_jax.models.conv import STAGES, Conv, max_pool, together_form
from mdfl_jax.models.model import MODELS, ModelSettings, SampleSpec, StageNumbers
from mdfl_jax.models.norm import GroupNorm


class Stage(nn.Module):
    """Convolution, optional group normalisation, 2 x 2 maximum pool, ReLU: [C, H, W, B] -> [width, H // 2, W // 2, B].

    Attributes:
      width: the number of output channels.
      size: the kernel size, odd.
      groups: the number of groups of the group normalisation; 0: there is no normalisation.
      form: the form of the convolution (`mdfl_jax.models.conv.FORMS`); empty: the fastest.
    """

    width: int
    size: int
    groups: int = 0
    form: str = ""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Apply the stage to ``x`` [C, H, W, B]."""
        x = Conv(self.width, self.size, self.form, pool=not self.groups)(x)
        if self.groups:
            x = max_pool(GroupNorm(self.groups)(x))
        return nn.relu(x)  # maximum and ReLU commute; after the pool there are four times fewer values


class ConvNet(nn.Module):
    """Stages, followed by dense layers.

    Attributes:
      settings: the settings of the model.
      groups: the number of groups of the group normalisations; 0: there is no normalisation.
      hidden: the width of a dense layer before the logits; 0: there is no such layer.
    """

    settings: ModelSettings
    groups: int
    hidden: int

    @nn.compact
    def __call__(self, images: jax.Array) -> jax.Array:
        """Return the logits [B, num_classes] of images [B, H, W, channels]."""
        settings = self.settings
        stage = nn.remat(Stage) if settings.remat else Stage
        widths, size, form = settings.numbers.widths, settings.numbers.kernel, settings.convolution
        x = jnp.transpose(images, (3, 1, 2, 0))
        at_once = None if self.groups else together_form(form, STAGES)
        y = at_once(settings, x) if at_once else None
        if y is None:
            y = x
            for i, width in enumerate(widths):
                y = stage(width, size, self.groups, form, name=f"stage_{i}")(y)
        x = y.reshape(-1, y.shape[-1]).T
        if self.hidden:
            x = nn.relu(nn.Dense(self.hidden)(x))
        return nn.Dense(settings.num_classes)(x)


class CNNNumbers(StageNumbers):
    """The numbers of the CNN."""

    hidden: int = number(64, "width of the dense layer behind the convolutions", static=True, at_least=1)


@MODELS.register(
    "cnn",
    CNNNumbers,
    formula="x <- pool(relu(conv(x))) for each of widths;  x <- relu(A x + b), hidden wide;  outputs = A x + b",
    cite="madfl; dadfl",
)
def cnn(settings: ModelSettings) -> nn.Module:
    """CNN: convolutions with pools, a hidden dense layer and the outputs."""
    return ConvNet(settings, groups=0, hidden=settings.numbers.hidden)


class GNLeNetNumbers(StageNumbers):
    """The numbers of GN-LeNet in THESIS's CIFAR-10 studies."""

    widths: tuple[int, ...] = number((32, 32, 64), "channels of the convolutions, even", static=True, at_least=1)
    kernel: int = number(5, "size of the convolutions' kernels", static=True, at_least=1, odd=True)

    def check_sample(self, sample: SampleSpec, model: str, dataset: str) -> None:
        """Check the number of stages, and that all widths are even."""
        super().check_sample(sample, model, dataset)
        _check_even(self.widths)


@MODELS.register(
    "gn_lenet",
    GNLeNetNumbers,
    formula="x <- pool(relu(groupnorm(conv(x)))) for each of widths;  outputs = A x + b",
    cite="hsieh2020; thesis",
)
def gn_lenet(settings: ModelSettings) -> nn.Module:
    """GN-LeNet: 5x5 stages of 32, 32 and 64 channels, normalised in two groups, and the outputs.

    It has 89,834 parameters on CIFAR-10.

    Raises:
      UserError: for an odd width, which two groups do not divide.
    """
    _check_even(settings.numbers.widths)
    return ConvNet(settings, groups=2, hidden=0)


def _check_even(widths: tuple[int, ...]) -> None:
    if any(width % 2 for width in widths):
        raise UserError(f"model.widths is {widths}; gn_lenet normalises in two groups: widths must be even")
