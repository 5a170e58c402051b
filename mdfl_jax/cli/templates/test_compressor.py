"""Tests of my_name.py: python -m pytest test_my_name.py"""

import jax
import my_name
import numpy as np


def test_it_keeps_the_coordinates_of_some_size():
    x = np.random.default_rng(0).normal(size=(4, 50)).astype(np.float32)
    message = my_name.compress(my_name.MyNameNumbers(cut=0.5), jax.random.key(0), x)
    for row, sent, count in zip(x, np.asarray(message.value), np.asarray(message.code)):
        kept = [value if abs(value) >= 0.5 * max(abs(row)) else 0.0 for value in row]
        np.testing.assert_array_equal(sent, np.float32(kept))
        assert count == np.count_nonzero(kept)


def test_fewer_coordinates_take_fewer_bits():
    x = np.random.default_rng(0).normal(size=(4, 50)).astype(np.float32)
    few, many = (my_name.MyNameNumbers(cut=cut) for cut in (0.9, 0.1))
    of = lambda numbers: np.asarray(my_name.bits(numbers, my_name.compress(numbers, jax.random.key(0), x)))  # noqa: E731
    assert (of(few) < of(many)).all()
    assert (of(few) > 0).all()
