"""Residual networks for small images: ResNet-18 and -50 of MADFL and DADFL, ResNet-20 of PaME, ResNet-9 of FedMobile.

Layers have torchvision's names (conv1, layer1_0 for layer1.0, downsample, fc), so that checkpoints can be converted
(`mdfl_jax.contrib.pretrained`). ``model.norm`` selects the normalisation after each convolution. Without one,
convolutions have biases, and the last one of each residual branch starts from zero (as in Fixup; Zhang et al., ICLR
2019). Otherwise the sums would grow with the depth.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from mdfl_jax.core.numbers import number
from mdfl_jax.models.conv import BOTTLENECKS, Conv, max_pool, together_form
from mdfl_jax.models.model import MODELS, ImageModelNumbers, ModelSettings
from mdfl_jax.models.norm import NORMS, Norm, check_norm

HE = nn.initializers.variance_scaling(2.0, "fan_out", "normal")  # He et al., ICCV 2015; as in torchvision


class Shape(NamedTuple):
    """The architecture of one residual network.

    Attributes:
      widths: the number of channels of each stage; the output of a bottleneck has four times as many.
      blocks: the number of blocks of each stage.
      bottleneck: whether a block has 1x1, 3x3 and 1x1 convolutions instead of two 3x3 convolutions.
      projected: whether a shortcut that changes the shape is a 1x1 convolution (the paper's option B). Otherwise it is
        padded with zero channels (option A).
      groups: the number of groups of the group normalisation.
    """

    widths: tuple[int, ...]
    blocks: tuple[int, ...]
    bottleneck: bool
    projected: bool
    groups: int


class Layer(nn.Module):
    """A convolution and its normalisation, samples last.

    Attributes:
      features: the number of output channels.
      size: the size of the kernel.
      settings: the settings of the model.
      groups: the number of groups of the group normalisation.
      stride: the stride of the convolution.
      last: whether the layer is the last one of a residual branch.
    """

    features: int
    size: int
    settings: ModelSettings
    groups: int
    stride: int = 1
    last: bool = False

    @nn.compact
    def __call__(self, x: jax.Array, mask: jax.Array | None) -> Any:
        """Apply the layer to ``x`` [C, H, W, B]; ``mask`` [B] bool is given only in training."""
        plain, form = self.settings.numbers.norm == "none", self.settings.convolution
        start = nn.initializers.zeros_init() if plain and self.last else HE
        conv = partial(Conv, use_bias=plain, kernel_init=start, name="conv")
        x = conv(self.features, self.size, form, self.stride)(x)
        return Norm(self.settings.numbers.norm, self.groups, name="norm")(x, mask)


class Block(nn.Module):
    """A residual block: convolutions with a shortcut from input to output, samples last.

    Attributes:
      width: the number of channels of the 3x3 convolutions.
      stride: the stride of the first 3x3 convolution.
      shape: the architecture of the network.
      settings: the settings of the model.
    """

    width: int
    stride: int
    shape: Shape
    settings: ModelSettings

    @nn.compact
    def __call__(self, x: jax.Array, mask: jax.Array | None) -> jax.Array:
        """Apply the block to ``x`` [C, H, W, B]; ``mask`` [B] bool is given only in training."""
        shape, width, stride = self.shape, self.width, self.stride
        layer = partial(Layer, settings=self.settings, groups=shape.groups)
        last, ended = self.end(mask)
        last = partial(last, settings=self.settings, groups=shape.groups)
        if shape.bottleneck:  # the 3x3 convolution has the stride, as in torchvision
            y = nn.relu(layer(width, 1, name="conv1")(x, mask))
            y = nn.relu(layer(width, 3, stride=stride, name="conv2")(y, mask))
            y = last(4 * width, 1, last=True, name="conv3")(y, mask)
        else:
            y = nn.relu(layer(width, 3, stride=stride, name="conv1")(x, mask))
            y = layer(width, 3, last=True, name="conv2")(y, mask)
        if x.shape[:3] != y.shape[:3]:
            if shape.projected:
                x = last(y.shape[0], 1, stride=stride, name="downsample")(x, mask)
            else:
                x = jnp.pad(x[:, ::stride, ::stride], [(0, y.shape[0] - x.shape[0]), (0, 0), (0, 0), (0, 0)])
        return ended(y, x)

    def end(self, mask: jax.Array | None) -> tuple[Any, Callable[[Any, Any], jax.Array]]:
        """Return the class of the layers before the sum of a bottleneck, and what makes the result of both terms."""
        return Layer, lambda y, x: nn.relu(y + x)


class ResNet(nn.Module):
    """A residual network: a 3x3 convolution of stride one, stages of blocks, the mean over the map, and logits.

    Every stage except the first halves the image.

    Attributes:
      shape: the architecture.
      settings: the settings of the model.
    """

    shape: Shape
    settings: ModelSettings

    @nn.compact
    def __call__(self, images: jax.Array, mask: jax.Array | None = None) -> jax.Array:
        """Return the logits [B, num_classes] of images [B, H, W, channels]; ``mask`` [B] is given only in training."""
        shape, settings, block = self.shape, self.settings, Block
        has_bottlenecks = shape.bottleneck and settings.numbers.norm == "batch"
        if has_bottlenecks and (instead := together_form(settings.convolution, BOTTLENECKS)):
            block, settings = instead, settings._replace(convolution="")
        block = nn.remat(block) if settings.remat else block
        x = jnp.transpose(images, (3, 1, 2, 0))
        x = nn.relu(Layer(shape.widths[0], 3, settings, shape.groups, name="conv1")(x, mask))
        for stage, (width, count) in enumerate(zip(shape.widths, shape.blocks)):
            for i in range(count):
                stride = 2 if stage and not i else 1
                x = block(width, stride, shape, settings, name=f"layer{stage + 1}_{i}")(x, mask)
        return nn.Dense(settings.num_classes, name="fc")(jnp.mean(x, axis=(1, 2)).T)


class ResNetNumbers(ImageModelNumbers):
    """The numbers of the residual networks; the defaults are the paper's for ImageNet."""

    base_width: int = number(
        64, "channels of the first stage; each further one has twice as many", static=True, at_least=1
    )
    norm: str = number("batch", "normalisation", static=True, names=NORMS)


class SmallResNetNumbers(ResNetNumbers):
    """The numbers of the residual networks for images of 32 x 32."""

    base_width: int = number(
        16, "channels of the first stage; each further one has twice as many", static=True, at_least=1
    )


class ResNet9Numbers(ResNetNumbers):
    """The numbers of FedMobile's ResNet-9."""

    smallest = 8  # three 2 x 2 pools and a last pool over the rest


def _resnet(settings: ModelSettings, blocks: tuple[int, ...], bottleneck: bool) -> nn.Module:
    base = settings.numbers.base_width
    widths = tuple(base * 2**stage for stage in range(len(blocks)))
    small = len(blocks) == 3  # true for the paper's CIFAR-10 networks
    shape = Shape(widths, blocks, bottleneck, projected=not small, groups=8 if small else 32)
    check_norm(settings.numbers.norm, widths, shape.groups)
    return ResNet(shape, settings)


@MODELS.register(
    "resnet18",
    ResNetNumbers,
    formula="x <- relu(x + norm(conv(relu(norm(conv(x)))))), stages of 2, 2, 2, 2 blocks;  outputs = A mean(x) + b",
    cite="he2016; madfl",
)
def resnet18(settings: ModelSettings) -> nn.Module:
    """ResNet-18 with MADFL's change: the first convolution is 3x3 of stride 1, and there is no maximum pool.

    It has 11,173,962 parameters on CIFAR-10, and batch statistics if ``norm`` is batch.
    """
    return _resnet(settings, (2, 2, 2, 2), bottleneck=False)


@MODELS.register(
    "resnet50",
    ResNetNumbers,
    formula="as resnet18 with bottlenecks of 1x1, 3x3 and 1x1, stages of 3, 4, 6, 3 blocks",
    cite="he2016; dadfl",
)
def resnet50(settings: ModelSettings) -> nn.Module:
    """ResNet-50 with DADFL's change, as `resnet18`: 23,520,842 parameters on CIFAR-10."""
    return _resnet(settings, (3, 4, 6, 3), bottleneck=True)


@MODELS.register(
    "resnet20",
    SmallResNetNumbers,
    formula="as resnet18 with stages of 3, 3, 3 blocks; a shortcut to another shape is every second x, padded",
    cite="he2016: 4.2; pame",
)
def resnet20(settings: ModelSettings) -> nn.Module:
    """ResNet-20 for images of 32 x 32: 16, 32 and 64 channels, shortcuts without parameters."""
    return _resnet(settings, (3, 3, 3), bottleneck=False)


class ResNet9(nn.Module):
    """FedMobile's table 4: eight 3x3 convolutions, of which four form two residual pairs; four pools; a dense layer.

    Attributes:
      settings: the settings of the model.
      widths: the numbers of channels of the convolutions outside of the residual pairs.
    """

    settings: ModelSettings
    widths: tuple[int, ...]

    @nn.compact
    def __call__(self, images: jax.Array, mask: jax.Array | None = None) -> jax.Array:
        """Return the logits [B, num_classes] of images [B, H, W, channels]; ``mask`` [B] is given only in training."""
        layer = nn.remat(Layer) if self.settings.remat else Layer

        def conv(k: int, width: int, x: jax.Array) -> jax.Array:
            return nn.relu(layer(width, 3, self.settings, 32, last=k in (4, 8), name=f"conv{k}")(x, mask))

        first, second, third, fourth = self.widths
        x = max_pool(conv(2, second, conv(1, first, jnp.transpose(images, (3, 1, 2, 0)))))
        x = x + conv(4, second, conv(3, second, x))
        x = max_pool(conv(5, third, x))
        x = max_pool(conv(6, fourth, x))
        x = x + conv(8, fourth, conv(7, fourth, x))
        return nn.Dense(self.settings.num_classes, name="fc")(jnp.max(x, axis=(1, 2)).T)


@MODELS.register(
    "resnet9",
    ResNet9Numbers,
    formula="conv 64, 128, pool, x + conv 128, 128, conv 256, pool, conv 512, pool, x + conv 512, 512, pool\n"
    "outputs = A x + b",
    cite="he2016; fedmobile: table 4",
)
def resnet9(settings: ModelSettings) -> nn.Module:
    """ResNet-9: eight 3x3 convolutions, of which four form two residual pairs, and four pools.

    The last pool covers the whole remaining map, which is 4 x 4 on CIFAR-10. The table shows neither the residual
    connections nor a normalisation. Here the connections go around convolutions 3 and 4, and around 7 and 8; the
    normalisation is ``model.norm``.
    """
    base = settings.numbers.base_width
    widths = tuple(base * 2**k for k in range(4))
    check_norm(settings.numbers.norm, widths, 32)
    return ResNet9(settings, widths)
