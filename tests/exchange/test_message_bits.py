"""Counts of bits against Python's whole numbers."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mdfl_jax.core.message_bits import (
    add_bits,
    count_bits,
    dense_bits,
    double_sparse_bits,
    index_bits,
    no_bits,
    sparse_bits,
    total_bits,
    words,
)

COUNTED = jax.jit(lambda m, b: count_bits(m, b))
ADDED = jax.jit(lambda m, b: add_bits(count_bits(m[0], b[0]), count_bits(m[1], b[1])))
PAIR = st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**32 - 1))


@settings(deadline=None, max_examples=200)
@given(PAIR, PAIR)
def test_products_and_sums_are_exact_below_2_to_the_48(first, second):
    m = [jnp.array([pair[0]], jnp.int32) for pair in (first, second)]
    b = [jnp.array([pair[1]], jnp.uint32) for pair in (first, second)]
    for (messages, size), one, other in zip((first, second), m, b):
        if messages * size < 2**48:
            assert int(total_bits(words(COUNTED(one, other)))[0]) == messages * size
    total = sum(messages * size for messages, size in (first, second))
    if total < 2**48:
        assert int(total_bits(words(ADDED(m, b)))[0]) == total


def test_many_rounds_carry_into_the_high_word():
    size, rounds = 3_579_139, 5000
    add = jax.jit(lambda bits: add_bits(bits, count_bits(jnp.array([1, 19, 0]), size)))
    bits = no_bits(3)
    for _ in range(rounds):
        bits = add(bits)
    assert total_bits(words(bits)).tolist() == [rounds * size, 19 * rounds * size, 0]


@settings(deadline=None, max_examples=200)
@given(st.integers(1, 10**7).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
def test_indices_take_the_shorter_of_bitmap_and_list(pair):
    size, count = pair
    width = max(int(np.ceil(np.log2(size))), 1)
    expected = 0 if count == size else min(count * width, size)
    assert int(index_bits(size, count)) == expected
    assert int(sparse_bits(size, count, 32)) == 32 * count + expected


def test_a_model_is_as_long_as_its_floats_are_wide():
    model = {"a": jnp.zeros((3, 4, 5)), "b": jnp.zeros((3, 7))}
    assert dense_bits(model) == 27 * 32
    with jax.enable_x64(True):
        assert dense_bits(jax.tree.map(lambda x: jnp.asarray(x, jnp.float64), model)) == 27 * 64
    assert double_sparse_bits(100, 10_000) == 1.63e4  # PaME III-B's example
