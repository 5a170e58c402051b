"""Sums of many rounds, and what an algorithm computes and sends."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import LocalNumbers, Settings
from mdfl_jax.algorithms.pame import PaMENumbers
from mdfl_jax.algorithms.registry import ignored_by, resolved
from mdfl_jax.core.message_bits import sparse_bits, total_bits, words
from mdfl_jax.networks.costs import (
    LinkLoad,
    Work,
    add,
    gradient_calls,
    no_total,
    probe,
    work_of,
)


def test_a_million_short_rounds_are_added_without_drift():
    """A plain sum in single precision of 0.1 is wrong by 1 % after a million additions."""
    short = jnp.float32(0.1)
    total = jax.jit(lambda: jax.lax.fori_loop(0, 10**6, lambda _, total: add(total, short), no_total()))()
    np.testing.assert_allclose(total.value, 10**6 * float(short), rtol=1e-6)
    plain = jax.jit(lambda: jax.lax.fori_loop(0, 10**6, lambda _, total: total + short, jnp.float32(0)))()
    assert abs(plain / 1e5 - 1) > 5e-3


MODEL = {"w": jax.ShapeDtypeStruct((5, 4), jnp.float32), "b": jax.ShapeDtypeStruct((4,), jnp.float32)}
DENSE = 24 * 32


def make(name, steps=3, **values):
    steps = 1 if "local_steps" in ignored_by(name) else steps
    return ALGORITHMS[name](Settings(num_local_steps=steps)), resolved(name, "", values).traced(), steps


@pytest.mark.few(4)
@pytest.mark.parametrize("name", ["dfedsam", *sorted(set(ALGORITHMS) - {"dfedsam"})])
def test_gradients_of_every_algorithm(name):
    """One a local step; sharpness-aware steps take two, and variance-reduced ones one at the anchor too."""
    algorithm, numbers, steps = make(name)
    assert gradient_calls(algorithm, numbers, MODEL) == steps * (2 if name in ("dfedsam", "dmgt_svrg") else 1)


def test_work_is_counted_in_samples():
    held = jnp.array([4, 0, 10])
    np.testing.assert_array_equal(Work(3, 0).samples(held), [12, 0, 30])
    np.testing.assert_array_equal(Work(3, 8).samples(held), [24, 0, 24])
    np.testing.assert_array_equal(Work(2, 8, epochs=3).samples(held), [24, 0, 60])  # whatever the batches
    for name, gradients in (("dpsgd", 1), ("dfedsam", 2)):
        epochs = ALGORITHMS[name](Settings(num_local_epochs=5))
        assert work_of(epochs, resolved(name, "", {}), MODEL, 16, 5) == Work(gradients, 16, True, 5)
    for name, uses_links in (("dpsgd", True), ("epidemic", True), ("local_only", False), ("allreduce", False)):
        algorithm, numbers, steps = make(name)
        assert work_of(algorithm, numbers, MODEL, 16) == Work(steps, 16, uses_links)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("dpsgd", LinkLoad(1, DENSE)),
        ("sgp", LinkLoad(1, DENSE + 32)),  # the model and its weight
        ("gradient_tracking", LinkLoad(2, 2 * DENSE)),  # two messages from the second round on
        ("kgt", LinkLoad(2, 2 * DENSE)),
        ("dmgt_svrg", LinkLoad(4, 4 * DENSE)),  # each of two steps of gossip
        ("local_only", LinkLoad(1, DENSE)),  # nothing is sent: a whole model is assumed
    ],
)
def test_load_of_a_link(name, expected):
    algorithm, numbers, _ = make(name)
    assert probe(algorithm, MODEL)(numbers)[:2] == expected[:2]


def test_load_follows_the_numbers_of_a_point():
    """PaME sends a share of the coordinates and their indices; one program serves all shares."""
    load = probe(ALGORITHMS["pame"](Settings()), MODEL)
    for share, count in ((0.25, 6), (0.5, 12), (1.0, 24)):
        numbers = PaMENumbers(transmission=share).traced()
        assert load(numbers)[:2] == (1, total_bits(words(sparse_bits(24, count, 32))))
    whole = probe(ALGORITHMS["dpsgd"](Settings()), MODEL)(LocalNumbers().traced())
    assert whole == LinkLoad(1, DENSE, 32 + 5)  # one of 24 coordinates, and which
