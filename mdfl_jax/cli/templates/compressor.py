"""A compressor of your own.

Run it with:       mdfl sweep ./my_name.py        (from a checkout: python -m launch.sweep --config=my_name.py)
Use it elsewhere:  --use=my_name.py --config.algorithm.compressor=my_name with an algorithm that compresses
Test it with:      python -m pytest test_my_name.py
"""

import jax.numpy as jnp

from mdfl_jax.config import default_config
from mdfl_jax.core.message_bits import sparse_bits
from mdfl_jax.core.numbers import Numbers, number
from mdfl_jax.exchange.compressors import COMPRESSORS, Compressor, Message


class MyNameNumbers(Numbers):
    cut: float = number(0.1, "share of the largest coordinate below which one is left out", at_least=0, below=1)


def compress(numbers, key, x):  # x: [N, n], one row a client
    size = jnp.abs(x)
    kept = size >= numbers.cut * jnp.max(size, axis=1, keepdims=True)
    return Message(jnp.where(kept, x, 0), jnp.sum(kept, axis=1))


def bits(numbers, message):  # [N] bits of each message
    return sparse_bits(message.value.shape[1], message.code, 32)


COMPRESSORS.register("my_name", MyNameNumbers, "The coordinates of some size, compared with the largest.")(
    Compressor(compress, bits)
)


def get_config():
    config = default_config()
    config.name = "my_name"
    config.network.graph = "ring"
    config.algorithm.name = "choco"
    config.sweep = "algorithm.compressor=top_k,my_name"
    config.baseline = "algorithm.compressor=top_k"
    return config
