"""Compressors: what is made of a message before it is sent, and the bits that it then takes.

Each acts on rows x [N, n], one message a client. It is called a contraction of delta where
E||C(x) - x||^2 <= (1 - delta) ||x||^2 (Koloskova, Stich, Jaggi 2019, assumption 1), and unbiased where E C(x) = x.
Indices are counted as `mdfl_jax.exchange.meter.index_bits` does; a scale or a norm takes one float.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.exchange.coordinates import in_chunks, share_of, smallest
from mdfl_jax.exchange.meter import sparse_bits
from mdfl_jax.exchange.partial import random_coordinates
from mdfl_jax.numbers import Numbers, number
from mdfl_jax.registry import Registry
from mdfl_jax.types import Array


class Message(NamedTuple):
    """One message a client.

    Attributes:
      value: [N, n] what receivers make of it, x_hat.
      code: what its length follows from: a number of coordinates, or levels [N, n]; None where nothing is needed.
    """

    value: jax.Array
    code: Any


class Compressor(NamedTuple):
    """How messages are compressed.

    Attributes:
      compress: (numbers, key, x [N, n]) -> Message.
      bits: (numbers, message) -> [N] uint32 bits of one message of each client.
    """

    compress: Callable[[Any, jax.Array, jax.Array], Message]
    bits: Callable[[Any, Message], jax.Array]


COMPRESSORS: Registry[Compressor] = Registry("compressor")


def _listed(
    name: str, compress: Callable, bits: Callable, numbers: type[Numbers] = Numbers, doc: str = ""
) -> Compressor:
    return COMPRESSORS.register(name, numbers, doc)(Compressor(compress, bits))


def _width(message: Message) -> int:
    return int(jnp.finfo(message.value.dtype).bits)


def _all_alike(message: Message, bits: Array) -> jax.Array:
    return jnp.broadcast_to(jnp.asarray(bits, jnp.uint32), message.value.shape[:1])


def _dense_bits(numbers: Any, message: Message) -> jax.Array:
    return _all_alike(message, message.value.shape[1] * _width(message))


def _sparse_bits(numbers: Any, message: Message) -> jax.Array:
    return _all_alike(message, sparse_bits(message.value.shape[1], message.code, _width(message)))


def num_kept(share: Array | float, size: int) -> jax.Array:
    """Coordinates in a message of a share of them: ceil(share * n), one at least."""
    return jnp.maximum(share_of(share, size), 1)


def _identity(numbers: Any, key: jax.Array, x: jax.Array) -> Message:
    return Message(x, None)


def _random_k(numbers: Any, key: jax.Array, x: jax.Array) -> Message:
    count = num_kept(numbers.transmission, x.shape[1])
    return Message(jnp.where(random_coordinates(key, x.shape[0], x.shape[1], count), x, 0), count)


def _top_k(numbers: Any, key: jax.Array, x: jax.Array) -> Message:
    count = num_kept(numbers.transmission, x.shape[1])
    # The bits of floats that are not negative are in the floats' order.
    kind, wide = (jnp.uint64, jnp.float64) if x.dtype == jnp.float64 else (jnp.uint32, jnp.float32)
    size = ~jax.lax.bitcast_convert_type(jnp.abs(x.astype(wide)), kind)
    kept = in_chunks(smallest, size, jnp.zeros(x.shape, bool), whole=count)
    return Message(jnp.where(kept, x, 0), count)


def _sign(numbers: Any, key: jax.Array, x: jax.Array) -> Message:
    scale = jnp.mean(jnp.abs(x), axis=1, keepdims=True)
    return Message(jnp.where(x < 0, -scale, scale), None)


def _sign_bits(numbers: Any, message: Message) -> jax.Array:
    return _all_alike(message, message.value.shape[1] + _width(message))


def qsgd(key: jax.Array, x: jax.Array, levels: Array | int) -> jax.Array:
    """x_hat = ||x|| sign(x) xi / s, xi the level |x| s / ||x|| rounded up or down at random.

    Unbiased (Alistarh et al. 2017, 3.1); E||x_hat - x||^2 <= min(n / s^2, sqrt(n) / s) ||x||^2 (lemma 3.1).

    Args:
      key: one for all rows.
      x: [..., n], each row with its norm.
      levels: s >= 1, of each sign.
    """
    norm = jnp.sqrt(jnp.sum(jnp.square(x), axis=-1, keepdims=True))
    steps = jnp.asarray(levels).astype(x.dtype)
    place = jnp.where(norm > 0, jnp.abs(x) / jnp.where(norm > 0, norm, 1), 0) * steps
    below = jnp.floor(place)
    rounded = below + (jax.random.uniform(key, x.shape, x.dtype) < place - below)
    return norm * jnp.sign(x) * rounded / steps


def _qsgd(numbers: Any, key: jax.Array, x: jax.Array) -> Message:
    return Message(qsgd(key, x, numbers.levels), None)


def _qsgd_bits(numbers: Any, message: Message) -> jax.Array:
    """The norm, and for each coordinate a sign and one of s + 1 levels, of fixed length."""
    each = 1 + _bit_length(jnp.asarray(numbers.levels))
    return _all_alike(message, jnp.uint32(_width(message)) + jnp.uint32(message.value.shape[1]) * each)


def _bit_length(number: jax.Array) -> jax.Array:
    """Binary digits of whole numbers: bit_length(5) = 3, bit_length(0) = 0."""
    return (32 - jax.lax.clz(number.astype(jnp.uint32))).astype(jnp.uint32)


def anq(x: jax.Array, eta: Array | float, omega: Array | float) -> tuple[jax.Array, jax.Array]:
    """The nearest of the points q_l = sign(l) (eta / omega) (((1 + omega) / (1 - omega))^|l| - 1).

    The non-uniform quantiser of Michelusi, Scutari, Lee 2022, the coarsest with |Q(x) - x| <= eta + omega |x|. The
    bound is met with equality half-way between two points. As omega goes to 0 the points become 2 eta l.

    Args:
      x: any shape.
      eta: absolute error, above 0 (what is less than the square root of the smallest float counts as that).
      omega: relative error in [0, 1).

    Returns:
      (levels int32, x_hat), of the shape of x.

    >>> levels, x_hat = anq(jnp.array([0.4, -2.5, 9.0]), 1.0, 0.5)  # the points are 0, 4, 16, ... and their negatives
    >>> levels.tolist(), x_hat.round(3).tolist()
    ([0, -1, 1], [0.0, -4.0, 4.0])
    """
    eta = jnp.maximum(jnp.asarray(eta, x.dtype), jnp.sqrt(jnp.finfo(x.dtype).tiny))
    omega = jnp.asarray(omega, x.dtype)
    some = jnp.where(omega > 0, omega, 1)
    step = jnp.where(omega > 0, jnp.log1p(some) - jnp.log1p(-jnp.where(omega > 0, omega, 0)), 1)
    # |x| is on the side of q_l of its midpoint with q_(l-1) where 1 + omega |x| / eta > r^(l-1) / (1 - omega).
    scaled = (jnp.log1p(some * jnp.abs(x) / eta) + jnp.log1p(-jnp.where(omega > 0, omega, 0))) / step
    level = jnp.ceil(jnp.where(omega > 0, scaled, (jnp.abs(x) / eta - 1) / 2))
    level = jnp.clip(level, 0, 2.0**30)
    point = jnp.where(omega > 0, eta / some * jnp.expm1(level * step), 2 * eta * level)
    return (jnp.sign(x) * level).astype(jnp.int32), jnp.sign(x) * point


def _anq(numbers: Any, key: jax.Array, x: jax.Array) -> Message:
    levels, value = anq(x, numbers.eta, numbers.omega)
    return Message(value, levels)


def elias_bits(levels: jax.Array) -> jax.Array:
    """Bits of the Elias gamma code of levels 0, 1, -1, 2, -2, ... as 1, 2, 3, 4, 5, ...: 2 floor(log2(.)) + 1.

    >>> elias_bits(jnp.array([0, 1, -1, 2, -3, 4])).tolist()
    [1, 3, 3, 5, 5, 7]
    """
    size = jnp.abs(levels).astype(jnp.uint32)
    place = jnp.where(levels > 0, 2 * size, 2 * size + 1)
    return 2 * _bit_length(place) - 1


def _anq_bits(numbers: Any, message: Message) -> jax.Array:
    return jnp.sum(elias_bits(message.code), axis=1, dtype=jnp.uint32)


def _gaussian_noise(numbers: Any, key: jax.Array, x: jax.Array) -> Message:
    return Message(x + jnp.asarray(numbers.noise, x.dtype) * jax.random.normal(key, x.shape, x.dtype), None)


class SparseNumbers(Numbers):
    """Of compressors that send some coordinates."""

    transmission: float = number(0.2, "share of the coordinates in a message, s / n", at_least=0, at_most=1)


class QSGDNumbers(Numbers):
    """Of the quantiser qsgd."""

    levels: int = number(16, "quantiser qsgd: levels, s", at_least=1, at_most=65_535)


class ANQNumbers(Numbers):
    """Of the quantiser anq."""

    eta: float = number(0.1, "quantiser anq: absolute error", at_least=0)
    omega: float = number(0.1, "quantiser anq: relative error", at_least=0, below=1)


class NoiseNumbers(Numbers):
    """Of gaussian_noise."""

    noise: float = number(0.0, "compressor gaussian_noise: standard deviation", at_least=0)


IDENTITY = _listed("identity", _identity, _dense_bits, doc="Nothing is changed: contraction of delta = 1, unbiased.")

# Contraction, in the mean, of delta = k / n (Stich, Cordonnier, Jaggi 2018, lemma A.1); so is top_k.
RANDOM_K = _listed(
    "random_k",
    _random_k,
    _sparse_bits,
    SparseNumbers,
    "ceil(transmission n) coordinates drawn uniformly, not scaled.",
)
TOP_K = _listed(
    "top_k",
    _top_k,
    _sparse_bits,
    SparseNumbers,
    "The ceil(transmission n) largest coordinates, the first of equals.",
)

# Contraction of delta = ||x||_1^2 / (n ||x||^2) >= 1 / n (Karimireddy et al. 2019, lemma 8). One bit a coordinate and
# the scale.
SIGN = _listed("sign", _sign, _sign_bits, doc="sign(x) ||x||_1 / n, a zero taken as positive.")

QSGD = _listed(
    "qsgd",
    _qsgd,
    _qsgd_bits,
    QSGDNumbers,
    "Levels at random, unbiased (`qsgd`): the norm, and a sign and a level of fixed length a coordinate.",
)

# Neither contraction nor unbiased; |C(x) - x| <= eta + omega |x| a coordinate. Each level takes its own number of bits,
# which grows with log2 |l| (Michelusi, Scutari, Lee 2022, adaptive encoding); the code counted is Elias gamma.
ANQ = _listed("anq", _anq, _anq_bits, ANQNumbers, "The non-uniform quantiser `anq`, levels in the Elias gamma code.")

# E||C(x) - x||^2 = n noise^2.
GAUSSIAN_NOISE = _listed(
    "gaussian_noise", _gaussian_noise, _dense_bits, NoiseNumbers, "x + noise N(0, I), unbiased; it saves no bit."
)
