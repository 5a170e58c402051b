"""A model of your own: a module of flax from samples [B, ...] to outputs [B, C].

With BatchNorm or Dropout in it, its __call__ also needs an argument `train`, which is True in a training step.

Run it with:       mdfl sweep ./my_name.py        (from a checkout: python -m launch.sweep --config=my_name.py)
Use it elsewhere:  mdfl sweep digits --use=my_name.py --config.model.name=my_name
Test it with:      python -m pytest test_my_name.py
"""

import flax.linen as nn

from mdfl_jax.config import default_config
from mdfl_jax.core.numbers import number
from mdfl_jax.models import MODELS
from mdfl_jax.models.model import FloatModelNumbers


class MyNameNumbers(FloatModelNumbers):
    features: int = number(32, "units of the hidden layer", static=True, at_least=1)


class MyName(nn.Module):
    features: int
    num_classes: int

    @nn.compact
    def __call__(self, samples):  # [B, ...]
        x = samples.reshape(samples.shape[0], -1)
        return nn.Dense(self.num_classes)(nn.relu(nn.Dense(self.features)(x)))


@MODELS.register("my_name", MyNameNumbers)
def my_name(settings):
    """One hidden layer."""
    return MyName(settings.numbers.features, settings.num_classes)


def get_config():
    config = default_config()
    config.name = "my_name"
    config.model.name = "my_name"
    config.sweep = "model.features=8,32"
    return config
