"""Laws of quantisers (unbiased, or an error of each coordinate), and counts of bits. What is sent: tests/reference."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mdfl_jax.core.message_bits import (
    Bits,
    add_bits,
    count_bits,
    count_within,
    dense_bits,
    double_sparse_bits,
    sparse_bits,
    sum_bits,
    total_bits,
    words,
)
from mdfl_jax.core.numbers import from_values
from mdfl_jax.exchange.compressors import COMPRESSORS, Message, anq, bits_of, elias_bits, qsgd, total_of

N, SIZE = 3, 40
f32 = np.float32


def test_qsgd_is_unbiased_and_lies_on_its_levels():
    x = jax.random.normal(jax.random.key(1), (N, SIZE)).at[2].set(0)
    draws = jax.vmap(lambda k: qsgd(k, x, 5))(jax.random.split(jax.random.key(2), 8000))
    spread = np.asarray(draws).std(axis=0, dtype=np.float64) / np.sqrt(8000)
    assert (np.abs(np.asarray(draws, np.float64).mean(axis=0) - np.asarray(x)) < 5 * spread + 1e-6).all()
    one = np.asarray(draws[0, :2], np.float64) / np.linalg.norm(np.asarray(x[:2], np.float64), axis=1)[:, None] * 5
    assert np.abs(one - one.round()).max() < 1e-5
    assert (np.asarray(draws[:, 2]) == 0).all()


ANQ, KEY = COMPRESSORS["anq"], jax.random.key(0)
BITS = jax.jit(lambda numbers, x: words(bits_of(ANQ, numbers, ANQ.compress(numbers, KEY, x))))
quantise = jax.jit(anq)


@settings(max_examples=80, deadline=None)
@given(
    hnp.arrays(f32, 30, elements=st.floats(-1e4, 1e4, width=32)),
    st.floats(1e-4, 10),
    st.one_of(st.just(0.0), st.floats(1e-6, 0.95)),
)
def test_anq_keeps_its_inequality_and_takes_the_nearest_point(x, eta, omega):
    levels, value = (np.asarray(a, np.float64) for a in quantise(x, f32(eta), f32(omega)))
    eta, omega, x = float(f32(eta)), float(f32(omega)), x.astype(np.float64)

    def point(level):
        a = np.abs(level)
        if omega == 0:
            return np.sign(level) * 2 * eta * a
        return np.sign(level) * eta / omega * np.expm1(a * (np.log1p(omega) - np.log1p(-omega)))

    slack, no_point = 2e-4 * (eta + np.abs(x)), np.abs(levels) > 2**22
    assert (np.abs(value - x) <= 1.002 * (eta + omega * np.abs(x))).all()
    assert (np.abs(value - np.where(no_point, x, point(levels))) <= slack).all()
    beside = np.minimum(np.abs(point(levels + 1) - x), np.abs(point(levels - 1) - x))
    assert (np.abs(value - x) <= beside + slack).all()


@pytest.mark.parametrize("omega", [0.0, 1e-7, 1e-5, 1e-3, 0.1])
def test_anq_keeps_its_inequality_at_its_largest_level_and_beyond(omega):
    """To a thousandth; where the points lie as close as the floats, x is sent, and counted, as it is."""
    x = (10 ** np.random.default_rng(0).uniform(0, 30, 20_000)).astype(f32)
    edge = (2.0**23 + np.arange(-200, 200)).astype(f32)  # with omega = 0 the largest level and the first beyond
    x = np.concatenate([x, edge, -edge])
    levels, value = (np.asarray(a) for a in quantise(x, f32(1), f32(omega)))
    exact, wide = np.abs(levels) > 2**22, np.abs(x).astype(np.float64)
    error = np.abs(value.astype(np.float64) - x.astype(np.float64))
    assert (error <= 1.002 * (1 + float(f32(omega)) * wide)).all()
    assert (value[exact] == x[exact]).all()
    assert (np.abs(levels[exact]) == 2**22 + 1).all()
    assert exact.any() == (omega < 0.1)
    bits = BITS(from_values(COMPRESSORS.numbers("anq"), {"eta": f32(1), "omega": f32(omega)}), x[:, None])
    code = np.asarray(elias_bits(jnp.asarray(levels[:, None])))[:, 0]
    np.testing.assert_array_equal(total_bits(bits), code + 32 * exact)


def test_the_code_of_levels_can_be_told_apart_and_grows_with_the_logarithm():
    levels = jnp.arange(-5000, 5001)
    bits = np.asarray(elias_bits(levels), np.float64)
    assert (2.0**-bits).sum() <= 1  # Kraft
    size = np.abs(np.asarray(levels, np.float64))
    assert (bits <= 2 * np.log2(2 * size + 1) + 1).all()


COUNTED = jax.jit(lambda m, b: count_bits(m, b))
ADDED = jax.jit(lambda m, b: add_bits(count_bits(m[0], b[0]), count_bits(m[1], b[1])))
PAIR = st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**32 - 1))


def whole(bits):
    """Counts as whole numbers of Python, which float64 would round from 2^53 on."""
    return [(int(high) << 32) + int(low) for high, low in np.asarray(words(bits))]


@settings(deadline=None, max_examples=200)
@given(PAIR, PAIR)
def test_products_and_sums_are_exact_below_2_to_the_64(first, second):
    m = [jnp.array([pair[0]], jnp.int32) for pair in (first, second)]
    b = [jnp.array([pair[1]], jnp.uint32) for pair in (first, second)]
    for (messages, size), one, other in zip((first, second), m, b):
        assert whole(COUNTED(one, other)) == [messages * size]
    assert whole(ADDED(m, b)) == [sum(messages * size for messages, size in (first, second))]


@settings(deadline=None, max_examples=100)
@given(st.lists(st.integers(0, 2**45), min_size=3, max_size=3), st.integers(1, 20_000))
def test_sums_of_many_counts_are_exact(counts, times):
    """``times`` times each of three counts, as the columns of a matrix."""
    bits = Bits(
        *(jnp.array([np.uint32(c >> 32 if high else c & 0xFFFFFFFF) for c in counts]) for high in (True, False))
    )
    sums = lambda word: jnp.stack([word.sum() * times, word[0] * times])  # noqa: E731
    assert whole(sum_bits(bits, sums)) == [sum(counts) * times, counts[0] * times]


def test_messages_of_more_than_2_to_the_32_bits_are_counted():
    """Three messages each of a model of 200 million coordinates; the value itself would take 800 MB."""
    size, count = 200_000_000, 150_000_000
    value, count_of = jax.ShapeDtypeStruct((N, size), f32), jnp.int32(count)
    each = {
        "identity": 32 * size,
        "gaussian_noise": 32 * size,
        "top_k": 32 * count + size,
        "random_k": 32 * count + size,
        "sign": size + 32,
        "qsgd": 32 + size * 17,
    }
    numbers = from_values(COMPRESSORS.numbers("qsgd"), {"levels": np.int32(65_535)})
    for name, bits in each.items():
        found = bits_of(COMPRESSORS[name], numbers, Message(value, count_of))
        assert total_bits(words(count_bits(jnp.full(N, 3), found))).tolist() == [3 * bits] * N, name
    assert total_bits(words(count_bits(jnp.full(N, 3), 32 * size))).tolist() == [3 * 32 * size] * N


def test_bits_of_rows_are_summed_some_at_a_time():
    """Seven numbers of 2^30, three of which together are below 2^32."""
    total = total_of(jnp.full((2, 7), 2**30, jnp.uint32), 3)
    assert total_bits(words(total)).tolist() == [7 * 2**30] * 2


def test_a_model_is_as_long_as_its_floats_are_wide():
    model = {"a": jnp.zeros((3, 4, 5)), "b": jnp.zeros((3, 7))}
    assert dense_bits(model) == 27 * 32
    with jax.enable_x64(True):
        assert dense_bits(jax.tree.map(lambda x: jnp.asarray(x, jnp.float64), model)) == 27 * 64
    assert double_sparse_bits(100, 10_000) == 1.63e4  # PaME III-B's example


# Messages that carry the coordinates that changed most: how many fit.


def message_bits(size, count, width):
    """The bits of ``count`` values and of their indices, as a list or a bitmap, whichever is shorter."""
    indices = 0 if count in (0, size) else min(count * max(math.ceil(math.log2(size)), 1), size)
    return count * width + indices


@given(st.integers(1, 400), st.integers(0, 400 * 34), st.sampled_from([32, 64]))
@settings(deadline=None, max_examples=200, derandomize=True)
def test_a_message_fills_its_budget_and_no_more(size, budget, width):
    count = int(count_within(size, jnp.float32(budget), width))
    assert count == max(c for c in range(size + 1) if message_bits(size, c, width) <= budget)
    assert total_bits(words(sparse_bits(size, count, width))) == message_bits(size, count, width) <= budget


def test_messages_of_more_bits_than_an_int32_counts():
    assert count_within(70_000_000, jnp.array([jnp.inf, 0.0]), 32).tolist() == [70_000_000, 0]
