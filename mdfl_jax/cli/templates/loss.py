"""A loss of your own, for samples with one label each: cross-entropy with smoothed labels.

Run it with:       mdfl sweep ./my_name.py        (from a checkout: python -m launch.sweep --config=my_name.py)
Use it elsewhere:  mdfl sweep digits --use=my_name.py --config.model.loss=my_name
Test it with:      python -m pytest test_my_name.py
"""

import jax
import jax.numpy as jnp

from mdfl_jax.config import default_config
from mdfl_jax.core.numbers import number
from mdfl_jax.data.dataset import Targets
from mdfl_jax.tasks.losses import LOSSES, LossNumbers


class MyNameNumbers(LossNumbers):
    smoothing: float = number(0.1, "weight that all labels share", static=True, at_least=0, below=1)


def my_name(numbers, outputs, targets):  # outputs [..., B, C], targets [B] -> the loss of each sample, [..., B]
    log = jax.nn.log_softmax(outputs)
    of_label = jnp.sum(log * jax.nn.one_hot(targets, outputs.shape[-1]), axis=-1)
    return -(1 - numbers.smoothing) * of_label - numbers.smoothing * jnp.mean(log, axis=-1)


# The accuracy is that of the cross-entropy: the share of samples with the right label.
LOSSES.register("my_name", MyNameNumbers, "Cross-entropy with smoothed labels.")(
    LOSSES["cross_entropy"]._replace(losses=my_name, takes=(Targets.LABELS,), natural=())
)


def get_config():
    config = default_config()
    config.name = "my_name"
    config.model.loss = "my_name"
    config.sweep = "model.smoothing=0,0.2"
    return config
