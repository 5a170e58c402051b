"""The form in which CPUs compute random bits: the bits are those of the paper and of JAX, and programs are small."""

import subprocess
import sys

import jax
import numpy as np
import pytest

from mdfl_jax.core import rng


def oracle(key: tuple[int, int], counter: tuple[int, int]) -> tuple[int, int]:
    """Threefry-2x32 with 20 rounds in whole numbers, as in the paper: a key word is added after every fourth round."""
    a, b = counter
    keys = [*key, key[0] ^ key[1] ^ 0x1BD11BDA]
    turns = [13, 15, 26, 6, 17, 29, 16, 24]
    for turn in range(20):
        if turn % 4 == 0:
            s = turn // 4
            a, b = (a + keys[s % 3]) % 2**32, (b + keys[(s + 1) % 3] + s) % 2**32
        a = (a + b) % 2**32
        d = turns[turn % 8]
        b = ((b << d) | (b >> (32 - d))) % 2**32 ^ a
    return (a + keys[5 % 3]) % 2**32, (b + keys[6 % 3] + 5) % 2**32


@pytest.mark.parametrize(
    ("key", "counter", "bits"),
    [  # the known answers that the paper's authors publish
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_known_answers(key, counter, bits):
    words = [np.asarray([word], np.uint32) for word in (*key, *counter)]
    assert tuple(int(x[0]) for x in jax.jit(rng.hashed)(*words)) == bits == oracle(key, counter)


@pytest.mark.parametrize("shape", [(), (5,), (3, 3, 1, 8), (2, 0)])
def test_jax_draws_these_bits_in_any_shape_also_mapped_over_keys(shape):
    # JAX's counter of an element is its index, and the bits of an element are the two words combined.
    keys = jax.random.split(jax.random.key(7), 3)
    words = [tuple(map(int, row)) for row in np.asarray(jax.random.key_data(keys))]
    found = np.asarray(jax.jit(jax.vmap(lambda key: jax.random.bits(key, shape)))(keys))
    for key, bits in zip(words, found):
        expected = [a ^ b for a, b in (oracle(key, (0, i)) for i in range(bits.size))]
        assert bits.reshape(-1).tolist() == expected


PROGRAM = """import jax
draw = lambda: jax.jit(lambda key: jax.random.bits(key, (5,))).lower(jax.random.key(7)).as_text()
before = draw()
import mdfl_jax
from mdfl_jax.core import rng
with rng.small_threefry():
    inside = draw()
print(before == draw(), "barrier" in before, "barrier" in inside)
from mdfl_jax.config import default_config
from mdfl_jax.engine.programs import Placement, traced_steps
from mdfl_jax.study import make_study
config = default_config()
config.data.name, config.data.dimension = "synthetic:linear", 3
config.network.num_clients, config.network.num_mobile = 4, 2
group = make_study(config).groups[0]
placement = Placement(group.simulation, 1)
runs = placement.inputs(group.hparams, __import__("numpy").zeros((1, 1), "uint32"))[0]
print("barrier" in next(iter(traced_steps(placement, runs, runs))).lower().as_text(), before == draw())
"""


def test_programs_of_the_user_keep_the_form_of_jax():
    """In the form of the package, each draw is behind barriers; a step of a study has this form."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True)
    assert done.stdout == "True False True\nTrue True\n"


@pytest.mark.parametrize("columns", [3, 10_000, 65_536, 100_003, 2**31])
def test_one_element_of_a_large_array_is_that_of_its_index(columns):
    """The index of an element of 100,000 x 100,000 needs more than 32 bits."""
    key, full = jax.random.key(7), 2**32 // columns  # the row in which the first 32 bits are full
    places = sorted({0, 1, columns // 2, columns - 2, columns - 1, min(full, columns - 1)})
    words = tuple(map(int, jax.random.key_data(key)))
    row, column = (np.array(x, np.uint32) for x in zip(*((i, j) for i in places for j in places)))
    high, low = jax.jit(rng.pair_words, static_argnums=3)(key, row, column, columns)
    wanted = [oracle(words, divmod(int(i) * columns + int(j), 2**32)) for i, j in zip(row, column)]
    assert [(int(a), int(b)) for a, b in zip(high, low)] == wanted
