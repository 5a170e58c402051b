"""The models by name. A model is a flax module from images [B, H, W, channels] (normalised) to logits [B, C].

One with batch statistics keeps them in flax's collection "batch_stats" and takes a second argument, mask [B]: given in
training, when it normalises by the samples of the mask and moves its running statistics; None in evaluation.
"""

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
      base_width: of the ResNets: channels of the first stage, each further one has twice as many; 0: the paper's.
      norm: of the ResNets, one of `mdfl_jax.models.norm.NORMS`.
      convolution: form of the convolutions, see `mdfl_jax.models.conv.FORMS`; empty takes the fastest.
      remat: stages are computed again for the gradient instead of kept.
    """

    num_classes: int
    widths: tuple[int, ...] = (16, 32)
    kernel: int = 3
    hidden: int = 64
    convolution: str = ""
    remat: bool = False
    base_width: int = 0
    norm: str = "batch"


MODELS: Registry[Callable[[ModelSettings], nn.Module]] = Registry("model")
