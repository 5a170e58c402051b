"""LeNet-5, as used in FedMobile's studies."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from mdfl_jax.models.conv import Conv, max_pool
from mdfl_jax.models.model import MODELS, ImageModelNumbers, ModelSettings

VALID_FROM = 6  # the smallest side of a map from which an unpadded 5 x 5 convolution leaves enough for a 2 x 2 pool


class LeNet(nn.Module):
    """5x5 convolutions of 6 and 16 channels, each with ReLU and 2x2 maximum pool; dense layers of 120 and 84; logits.

    Attributes:
      settings: the settings of the model.
    """

    settings: ModelSettings

    @nn.compact
    def __call__(self, images: jax.Array) -> jax.Array:
        """Return the logits [B, num_classes] of images [B, H, W, channels]."""
        conv = nn.remat(Conv) if self.settings.remat else Conv
        x = jnp.transpose(images, (3, 1, 2, 0))
        x = nn.relu(conv(6, 5, self.settings.convolution, pool=True, name="conv_0")(x))
        x = conv(16, 5, self.settings.convolution, name="conv_1")(x)
        if min(x.shape[1:3]) >= VALID_FROM:
            x = x[:, 2:-2, 2:-2]  # the result of a convolution without padding
        x = nn.relu(max_pool(x))
        x = x.reshape(-1, x.shape[-1]).T
        for width in (120, 84):
            x = nn.relu(nn.Dense(width)(x))
        return nn.Dense(self.settings.num_classes)(x)


class LeNetNumbers(ImageModelNumbers):
    """The numbers of LeNet-5: it has none."""

    smallest = 4  # two 2 x 2 pools


@MODELS.register(
    "lenet",
    LeNetNumbers,
    formula="x <- pool(relu(conv 5x5 (x))) of 6 and 16 channels;  x <- relu(A x + b) of 120 and 84;  outputs = A x + b",
    cite="lecun1998; fedmobile",
)
def lenet(settings: ModelSettings) -> nn.Module:
    """LeNet-5 with ReLU and maximum pools: 61,706 parameters on 28 x 28 grey images and ten classes.

    The second convolution has no padding, except for images below 12 pixels, where nothing would remain without it.
    """
    return LeNet(settings)
