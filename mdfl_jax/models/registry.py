"""The models by name. A model is a flax module from images [B, H, W, channels] (normalised) to logits [B, C]."""

from collections.abc import Callable
from typing import NamedTuple

import flax.linen as nn

from mdfl_jax.registry import Registry


class ModelSettings(NamedTuple):
    """What a model's factory may use; each takes its own.

    Attributes:
      num_classes: number of logits, C.
      widths: channels of the convolutions, or widths of the hidden layers.
      kernel: size of the convolutions' kernels, odd.
      hidden: width of the dense layer behind the convolutions.
      convolution: form of the convolutions, see `mdfl_jax.models.conv.FORMS`; empty takes the fastest.
      remat: stages are computed again for the gradient instead of kept.
    """

    num_classes: int
    widths: tuple[int, ...] = (16, 32)
    kernel: int = 3
    hidden: int = 64
    convolution: str = ""
    remat: bool = False


MODELS: Registry[Callable[[ModelSettings], nn.Module]] = Registry("model")
