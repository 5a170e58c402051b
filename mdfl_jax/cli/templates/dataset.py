"""A data set of your own, made or read by a function. (Files of arrays and tables need no function: docs/data.md.)

Run it with:       mdfl sweep ./my_name.py        (from a checkout: python -m launch.sweep --config=my_name.py)
Use it elsewhere:  mdfl sweep digits --use=my_name.py --config.data.name=my_name
Test it with:      python -m pytest test_my_name.py
"""

import numpy as np

from mdfl_jax.config import default_config
from mdfl_jax.data.sources import SOURCES


@SOURCES.register("my_name")
def my_name():  # here images uint8 [n, H, W] and labels [n]; docs/data.md lists the other samples and targets
    """Noisy stripes of four widths, which are the classes."""
    rng = np.random.default_rng(0)

    def draw(count):
        labels = np.arange(count) % 4
        stripes = np.arange(8) // (labels[:, None] + 1) % 2 * 200  # [n, 8]
        return (stripes[:, None, :] + rng.integers(0, 56, (count, 8, 8))).astype(np.uint8), labels

    x_train, y_train = draw(1000)
    x_test, y_test = draw(200)
    return {"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test}


def get_config():
    config = default_config()
    config.name = "my_name"
    config.data.name = "my_name"
    config.sweep = "network.mobility=static,dcm"
    return config
