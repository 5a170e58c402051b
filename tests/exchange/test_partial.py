"""Exact selections, drawn neighbours and coordinates, and the average over what came."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mdfl_jax.exchange import partial
from mdfl_jax.exchange.partial import (
    floor_of,
    partial_average,
    random_coordinates,
    random_neighbours,
    share_of,
    smallest,
)

N, SIZE = 5, 12
select = jax.jit(smallest, static_argnames="even")
coordinates = jax.jit(random_coordinates, static_argnums=(1, 2))
pick = jax.jit(random_neighbours)
average = jax.jit(partial_average)


@settings(max_examples=60, deadline=None)
@given(
    hnp.arrays(np.uint32, (N, SIZE), elements=st.sampled_from([0, 1, 2, 7, 2**31, 2**32 - 2, 2**32 - 1])),
    hnp.arrays(np.int32, N, elements=st.integers(0, SIZE)),
    st.booleans(),
)
def test_smallest_takes_exactly_so_many_the_first_of_equal_ones(words, count, even):
    """Many ties and both ends of the range: what a stable sort takes."""
    expected = np.argsort(np.argsort(words, axis=1, kind="stable"), axis=1, kind="stable") < count[:, None]
    assert (np.asarray(select(jnp.asarray(words), jnp.asarray(count), even=even)) == expected).all()


@settings(deadline=None)
@given(st.integers(1, 100), st.integers(1, 400), st.booleans())
def test_shares_round_the_exact_product(percent, size, single):
    """Ceil and floor of percent / 100 * size in whole numbers, though neither 0.2 nor 0.7 is a float."""
    share = np.float32(percent / 100) if single else percent / 100
    assert int(share_of(share, size)) == -(-percent * size // 100)
    assert int(floor_of(share, size)) == percent * size // 100


def test_random_coordinates_has_the_count_and_every_coordinate_equally_often():
    for count in (0, 1, 7, SIZE):
        assert np.asarray(coordinates(jax.random.key(1), N, SIZE, jnp.int32(count))).sum(axis=1).tolist() == [count] * N
    draws = np.asarray(
        jax.vmap(lambda k: coordinates(k, 4, 6, jnp.int32(2)))(jax.random.split(jax.random.key(0), 5000))
    )
    subsets = draws.reshape(-1, 6) @ (1 << np.arange(6))
    number = np.array([(subsets == s).sum() for s in np.unique(subsets)])
    assert len(number) == 15  # every pair occurs, and as often as any other
    assert ((number - 20_000 / 15) ** 2 / (20_000 / 15)).sum() < 36.1  # chi square, 14 degrees, 0.1 %


def test_a_few_rows_at_a_time_are_the_rows_of_all(monkeypatch):
    """Two of five rows a chunk, the last chunk short; of senders only, none, and under a mapping of seeds."""
    keys, counts = jax.random.split(jax.random.key(3), 3), jnp.array([0, 3, 12, 7, 1])
    whole = [np.asarray(random_coordinates(key, N, SIZE, counts)) for key in keys]
    monkeypatch.setattr(partial, "IN_CACHE", 2 * SIZE)
    draw = lambda key, who: random_coordinates(key, N, SIZE, counts, who)  # noqa: E731
    mapped = jax.jit(jax.vmap(draw, in_axes=(0, None)))
    for senders in ([1, 1, 1, 1, 1], [0, 1, 0, 1, 1], [0, 0, 0, 0, 1], [0, 0, 0, 0, 0]):
        who = np.array(senders, bool)
        assert (np.asarray(mapped(keys, jnp.asarray(who))) == np.stack(whole) & who[:, None]).all()
    last = np.arange(N) == N - 1  # known when it is compiled: one chunk and no more
    assert (np.asarray(jax.jit(lambda key: draw(key, jnp.asarray(last)))(keys[0])) == whole[0] & last[:, None]).all()


def test_random_neighbours_takes_ceil_of_the_share_uniformly():
    adjacency = np.zeros((7, 7), bool)
    for i, degree in enumerate((0, 1, 2, 3, 4, 5, 6)):
        adjacency[i, [j for j in range(7) if j != i][:degree]] = True
    for rate, expected in ((0.2, [0, 1, 1, 1, 1, 1, 2]), (0.5, [0, 1, 1, 2, 2, 3, 3]), (1.0, [0, 1, 2, 3, 4, 5, 6])):
        picked = np.asarray(pick(jax.random.key(0), jnp.asarray(adjacency), jnp.float32(rate)))
        assert picked.sum(axis=1).tolist() == expected
        assert not (picked & ~adjacency).any()
    draw = jax.vmap(lambda k: pick(k, jnp.asarray(adjacency), jnp.float32(0.2)))
    often = np.asarray(draw(jax.random.split(jax.random.key(2), 6000))).sum(axis=0)[6, :6]
    assert (np.abs(often - 2000) < 5 * np.sqrt(6000 * 2 / 9)).all()


def test_partial_average_of_some_receivers_at_a_time(monkeypatch):
    """Two receivers a chunk, as it is with many: the same, and who listens to nobody keeps its own."""
    own = jax.random.normal(jax.random.key(0), (9, 6))
    sent, neighbours = (jax.random.bernoulli(jax.random.key(k), 0.4, s) for k, s in ((1, (9, 6)), (2, (9, 9))))
    neighbours = neighbours.at[jnp.array([0, 3, 4])].set(False)
    whole = np.asarray(partial_average(own, sent, neighbours))
    monkeypatch.setattr(partial, "RECEIVERS", 2)
    chunked = jax.jit(lambda *args: partial_average(*args))(own, sent, neighbours)
    np.testing.assert_allclose(chunked, whole, rtol=1e-6)
    assert (whole[[0, 3, 4]] == np.asarray(own)[[0, 3, 4]]).all()


def test_partial_average_is_of_float32_at_least():
    """A large common part cancels: products of lower precision would show."""
    own = jnp.float32(1000) + jax.random.normal(jax.random.key(0), (40, 50)) / 100
    everyone = ~jnp.eye(40, dtype=bool)
    mean = np.asarray(average(own, jnp.ones((40, 50), bool), everyone), np.float64)
    exact = (np.asarray(own, np.float64).sum(axis=0) - np.asarray(own, np.float64)) / 39
    assert np.abs(mean - exact).max() < 5e-4
