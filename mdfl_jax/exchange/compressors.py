"""Compressors shorten messages before they are sent, and count the bits that remain.

A compressor C acts on rows x [N, n], one message for each client. C is a contraction with delta if
E||C(x) - x||^2 <= (1 - delta) ||x||^2 (Koloskova, Stich, Jaggi 2019, assumption 1). C is unbiased if E C(x) = x.
The bits of indices are those of `mdfl_jax.core.message_bits.index_bits`; a scale or a norm takes one float.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.core import contract
from mdfl_jax.core.message_bits import Bits, add_bits, as_bits, count_bits, sparse_bits
from mdfl_jax.core.numbers import Numbers, number
from mdfl_jax.core.registry import Registry
from mdfl_jax.core.types import Array
from mdfl_jax.exchange.partial import in_chunks, random_coordinates, share_of, smallest


class Message(NamedTuple):
    """The compressed messages of all clients, one for each client.

    Attributes:
      value: [N, n] x_hat, the decoded messages.
      code: the number of coordinates, or the levels [N, n], from which the length follows; None if neither is needed.
    """

    value: jax.Array
    code: Any


class Compressor(NamedTuple):
    """A compressor: two functions.

    Attributes:
      compress: (numbers, key, x [N, n]) -> Message.
      bits: (numbers, message) -> the bits of each client's message, `Bits` of [N]; or [N] uint32.
    """

    compress: Callable[[Any, jax.Array, jax.Array], Message]
    bits: Callable[[Any, Message], Bits | jax.Array]


COMPRESSORS: Registry[Compressor] = Registry("compressor", home="mdfl_jax.exchange")


def compressed(compressor: Compressor, numbers: Any, key: jax.Array, x: jax.Array) -> Message:
    """Compress the rows of x [N, n]. The shape of the messages is checked.

    Raises:
      UserError: if the compressor returns another shape.
    """
    message = compressor.compress(numbers, key, x)
    contract.arrays(compressor.compress, message.value, x.shape, float)
    return message


def bits_of(compressor: Compressor, numbers: Any, message: Message) -> Bits:
    """Return the bits of each client's message, [N]. Their shape is checked.

    Raises:
      UserError: if the compressor returns another shape.
    """
    bits = compressor.bits(numbers, message)
    for words in bits if isinstance(bits, Bits) else (bits,):
        contract.arrays(compressor.bits, words, message.value.shape[:1], int)
    return as_bits(bits)


def _listed(
    name: str,
    compress: Callable,
    bits: Callable,
    numbers: type[Numbers] = Numbers,
    doc: str = "",
    *,
    formula: str,
    cite: str = "",
) -> Compressor:
    return COMPRESSORS.register(name, numbers, doc, formula=formula, cite=cite)(Compressor(compress, bits))


def _width(message: Message) -> int:
    return int(jnp.finfo(message.value.dtype).bits)


def _all_alike(message: Message, bits: Bits | int) -> Bits:
    return Bits(*(jnp.broadcast_to(word, message.value.shape[:1]) for word in as_bits(bits)))


def _dense_bits(numbers: Any, message: Message) -> Bits:
    return _all_alike(message, message.value.shape[1] * _width(message))


def _sparse_bits(numbers: Any, message: Message) -> Bits:
    return _all_alike(message, sparse_bits(message.value.shape[1], message.code, _width(message)))


def num_kept(share: Array | float, size: int) -> jax.Array:
    """Return how many of ``size`` coordinates a message holds: ceil(share * size), at least 1; int32."""
    return jnp.maximum(share_of(share, size), 1)


def _identity(numbers: Any, key: jax.Array, x: jax.Array) -> Message:
    return Message(x, None)


def _random_k(numbers: Any, key: jax.Array, x: jax.Array) -> Message:
    count = num_kept(numbers.transmission, x.shape[1])
    return Message(jnp.where(random_coordinates(key, x.shape[0], x.shape[1], count), x, 0), count)


def _top_k(numbers: Any, key: jax.Array, x: jax.Array) -> Message:
    count = num_kept(numbers.transmission, x.shape[1])
    # The bit patterns of non-negative floats, read as whole numbers, have the order of the floats. So the selection by
    # counting, which works on whole numbers, finds the largest ones without a sort.
    kind, wide = (jnp.uint64, jnp.float64) if x.dtype == jnp.float64 else (jnp.uint32, jnp.float32)
    size = ~jax.lax.bitcast_convert_type(jnp.abs(x.astype(wide)), kind)
    kept = in_chunks(smallest, size, jnp.zeros(x.shape, bool), whole=count)
    return Message(jnp.where(kept, x, 0), count)


def _sign(numbers: Any, key: jax.Array, x: jax.Array) -> Message:
    scale = jnp.mean(jnp.abs(x), axis=1, keepdims=True)
    return Message(jnp.where(x < 0, -scale, scale), None)


def _sign_bits(numbers: Any, message: Message) -> Bits:
    return _all_alike(message, message.value.shape[1] + _width(message))


def qsgd(key: jax.Array, x: jax.Array, levels: Array | int) -> jax.Array:
    """Quantise x to x_hat = ||x|| sign(x) xi / s, where xi is |x| s / ||x|| rounded up or down at random.

    E x_hat = x (Alistarh et al. 2017, 3.1), and E||x_hat - x||^2 <= min(n / s^2, sqrt(n) / s) ||x||^2 (lemma 3.1).

    Args:
      key: one key for all rows.
      x: [..., n]; each row has its own norm.
      levels: s >= 1, the number of levels of each sign.

    Returns:
      x_hat, of the shape of x.
    """
    norm = jnp.sqrt(jnp.sum(jnp.square(x), axis=-1, keepdims=True))
    steps = jnp.asarray(levels).astype(x.dtype)
    place = jnp.where(norm > 0, jnp.abs(x) / jnp.where(norm > 0, norm, 1), 0) * steps
    below = jnp.floor(place)
    rounded = below + (jax.random.uniform(key, x.shape, x.dtype) < place - below)
    return norm * jnp.sign(x) * rounded / steps


def _qsgd(numbers: Any, key: jax.Array, x: jax.Array) -> Message:
    return Message(qsgd(key, x, numbers.levels), None)


def _qsgd_bits(numbers: Any, message: Message) -> Bits:
    """Count the bits of the norm, and for each coordinate those of a sign and one of s + 1 levels (fixed length)."""
    each = 1 + _bit_length(jnp.asarray(numbers.levels))
    return _all_alike(message, add_bits(as_bits(_width(message)), count_bits(each, message.value.shape[1])))


def _bit_length(number: jax.Array) -> jax.Array:
    """Return the number of binary digits of whole numbers: 3 for 5, and 0 for 0."""
    return (32 - jax.lax.clz(number.astype(jnp.uint32))).astype(jnp.uint32)


def anq(x: jax.Array, eta: Array | float, omega: Array | float) -> tuple[jax.Array, jax.Array]:
    """Round x to the nearest of the points q_l = sign(l) (eta / omega) (((1 + omega) / (1 - omega))^|l| - 1).

    Q is the non-uniform quantiser of Michelusi, Scutari, Lee 2022, the coarsest with |Q(x) - x| <= eta + omega |x|.
    The bound is reached half-way between two points. As omega goes to 0 the points become 2 eta l.

    Where the points lie nearly as close to each other as the floats, rounding breaks the inequality. So Q(x) = x if the
    level is above `largest_level`, or if the nearest point misses the inequality by more than a thousandth. In both
    cases the level is `largest_level` + 1.

    Args:
      x: an array of any shape.
      eta: the absolute error, above 0. A value below the square root of the smallest normal float is replaced by it.
      omega: the relative error in [0, 1).

    Returns:
      (levels l int32, x_hat), both of the shape of x.

    >>> levels, x_hat = anq(jnp.array([0.4, -2.5, 9.0]), 1.0, 0.5)  # the points are 0, 4, 16, ... and their negatives
    >>> levels.tolist(), x_hat.round(3).tolist()
    ([0, -1, 1], [0.0, -4.0, 4.0])
    """
    eta = jnp.maximum(jnp.asarray(eta, x.dtype), jnp.sqrt(jnp.finfo(x.dtype).tiny))
    omega = jnp.asarray(omega, x.dtype)
    some = jnp.where(omega > 0, omega, 1)
    step = jnp.where(omega > 0, jnp.log1p(some) - jnp.log1p(-jnp.where(omega > 0, omega, 0)), 1)
    # With r = (1 + omega) / (1 - omega), |x| is nearer to q_l than to q_(l-1) where
    # 1 + omega |x| / eta > r^(l-1) / (1 - omega).
    scaled = (jnp.log1p(some * jnp.abs(x) / eta) + jnp.log1p(-jnp.where(omega > 0, omega, 0))) / step
    level = jnp.ceil(jnp.where(omega > 0, scaled, (jnp.abs(x) / eta - 1) / 2))
    largest = largest_level(x.dtype)
    level = jnp.clip(level, 0, largest + 1)
    point = jnp.where(omega > 0, eta / some * jnp.expm1(level * step), 2 * eta * level)
    is_far = jnp.abs(point - jnp.abs(x)) > (eta + omega * jnp.abs(x)) * (1 + SLACK)
    level = jnp.where(is_far, largest + 1, level)
    return (jnp.sign(x) * level).astype(jnp.int32), jnp.where(level > largest, x, jnp.sign(x) * point)


SLACK = 1e-3  # the part by which rounding may break the inequality of `anq`


def largest_level(dtype: Any) -> int:
    """Return the largest level of `anq` for a type of floats: 2^22 in single precision, 2^30 in double precision.

    >>> largest_level(jnp.float32) == 2**22
    True
    """
    return 1 << min(int(jnp.finfo(dtype).nmant) - 1, 30)


def _anq(numbers: Any, key: jax.Array, x: jax.Array) -> Message:
    levels, value = anq(x, numbers.eta, numbers.omega)
    return Message(value, levels)


def elias_bits(levels: jax.Array) -> jax.Array:
    """Count the bits of levels l in the Elias gamma code: uint32, of the shape of ``levels``.

    The levels 0, 1, -1, 2, -2, ... are numbered k = 1, 2, 3, 4, 5, ..., and number k takes 2 floor(log2 k) + 1 bits.

    >>> elias_bits(jnp.array([0, 1, -1, 2, -3, 4])).tolist()
    [1, 3, 3, 5, 5, 7]
    """
    size = jnp.abs(levels).astype(jnp.uint32)
    place = jnp.where(levels > 0, 2 * size, 2 * size + 1)
    return 2 * _bit_length(place) - 1


SUMMED = 2**25
"""Coordinates whose bits are summed at a time without overflow: a level and its float have fewer than 2^7 bits."""


def total_of(each: jax.Array, at_once: int) -> Bits:
    """Return the sums [N] of rows of whole numbers [N, n]; each sum of ``at_once`` of them must be below 2^32."""
    cut = [each[:, start : start + at_once] for start in range(0, each.shape[1], at_once)]
    return functools.reduce(add_bits, (as_bits(jnp.sum(part, axis=1, dtype=jnp.uint32)) for part in cut))


def _anq_bits(numbers: Any, message: Message) -> Bits:
    """Count the bits of the levels, and of the float that follows each level above the largest one."""
    beyond = jnp.abs(message.code) > largest_level(message.value.dtype)
    each = elias_bits(message.code) + jnp.where(beyond, jnp.uint32(_width(message)), 0)
    return total_of(each, SUMMED)


def _gaussian_noise(numbers: Any, key: jax.Array, x: jax.Array) -> Message:
    return Message(x + jnp.asarray(numbers.noise, x.dtype) * jax.random.normal(key, x.shape, x.dtype), None)


class SparseNumbers(Numbers):
    """The numbers of compressors that send some of the coordinates."""

    transmission: float = number(0.2, "share of the coordinates in a message, s / n", at_least=0, at_most=1)


class QSGDNumbers(Numbers):
    """The numbers of the quantiser qsgd."""

    levels: int = number(16, "quantiser qsgd: levels, s", at_least=1, at_most=65_535)


class ANQNumbers(Numbers):
    """The numbers of the quantiser anq."""

    eta: float = number(
        0.1,
        "quantiser anq: absolute error; beyond 2^22 levels a coordinate is sent as a float",
        at_least=0,
    )
    omega: float = number(0.1, "quantiser anq: relative error", at_least=0, below=1)


class NoiseNumbers(Numbers):
    """The numbers of gaussian_noise."""

    noise: float = number(0.0, "compressor gaussian_noise: standard deviation", at_least=0)


IDENTITY = _listed(
    "identity",
    _identity,
    _dense_bits,
    doc="Nothing is changed: unbiased, a contraction with delta = 1.",
    formula="C(x) = x;  n floats",
)
RANDOM_K = _listed(
    "random_k",
    _random_k,
    _sparse_bits,
    SparseNumbers,
    "Coordinates drawn uniformly, not scaled: a contraction in expectation with delta = k / n.",
    formula="C(x)_l = x_l for k = ceil(transmission n) random l, else 0;  k floats and their indices",
    cite="stich2018: lemma A.1",
)
TOP_K = _listed(
    "top_k",
    _top_k,
    _sparse_bits,
    SparseNumbers,
    "The largest coordinates, the first of equals: a contraction with delta = k / n.",
    formula="C(x)_l = x_l for the k = ceil(transmission n) largest |x_l|, else 0;  k floats and their indices",
    cite="stich2018: lemma A.1",
)
SIGN = _listed(
    "sign",
    _sign,
    _sign_bits,
    doc="The signs and one scale; a zero is taken as positive. A contraction with delta = ||x||_1^2 / (n ||x||^2).",
    formula="C(x) = ||x||_1 / n sign(x);  n bits and a float",
    cite="karimireddy2019: lemma 8",
)
QSGD = _listed(
    "qsgd",
    _qsgd,
    _qsgd_bits,
    QSGDNumbers,
    "Levels rounded at random: unbiased.",
    formula="C(x) = ||x|| sign(x) xi / s, xi = |x| s / ||x|| rounded up or down at random, s = levels\n"
    "a float, and a sign and one of s + 1 levels in a code of fixed length for each coordinate",
    cite="alistarh2017: 3.1",
)
ANQ = _listed(
    "anq",
    _anq,
    _anq_bits,
    ANQNumbers,
    """A quantiser whose levels lie further apart the larger they are; neither unbiased nor a contraction.

    The bits of a level l grow with log2 |l|, as in the source's adaptive encoding; here they are those of the Elias
    gamma code.
    """,
    formula="C(x)_l = the nearest q_k = sign(k) eta / omega (((1 + omega) / (1 - omega))^|k| - 1), k whole\n"
    "|C(x)_l - x_l| <= eta + omega |x_l|;  the levels k in the Elias gamma code",
    cite="michelusi2022",
)
GAUSSIAN_NOISE = _listed(
    "gaussian_noise",
    _gaussian_noise,
    _dense_bits,
    NoiseNumbers,
    "Normal noise is added: unbiased; it saves no bit.",
    formula="C(x) = x + noise w, w ~ N(0, I);  n floats",
)
