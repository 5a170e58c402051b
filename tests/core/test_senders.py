"""Neighbour lists: what they are made of, beside sets of pairs in NumPy. What is read from them: tests/reference."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mdfl_jax.core.links import ALL_PAIRS, as_matrix, as_senders, from_pairs, heard_from, no_senders

N, PLACES, PAIRS = 7, 5, 14
CASES = settings(deadline=None, max_examples=60, derandomize=True)
ENDS = hnp.arrays(np.int32, (2, PAIRS), elements=st.integers(0, N - 1))
REAL = hnp.arrays(bool, PAIRS)
MAKE = jax.jit(from_pairs, static_argnums=(3, 4))
HEARD = jax.jit(heard_from)


@jax.jit
def made(matrix):
    """Lists of six neighbours at most, from a symmetric matrix [7, 7] of links."""
    neighbours = jnp.broadcast_to(jnp.arange(N - 1, -1, -1, dtype=jnp.int32), (N, N))
    return as_senders(neighbours, matrix[:, ::-1], jnp.sum(matrix, axis=1))


def rows_of(matrix, places):
    """The lists that a symmetric matrix of links means: a client, those that it hears in their order, and itself."""
    heard = [[i, *np.flatnonzero(matrix[i])] for i in range(len(matrix))]
    return np.array([(row + [row[0]] * places)[:places] for row in heard])


def assert_back(senders):
    """Every place knows the place of the opposite link; an own place is its own opposite."""
    ids, back = np.asarray(senders.ids), np.asarray(senders.back)
    for (i, place), j in np.ndenumerate(ids):
        if j == i:
            assert back[i, place] == place
        elif i in ids[j, 1:]:
            assert ids[j, back[i, place]] == i
            assert back[i, place] > 0


@CASES
@given(ENDS, REAL)
def test_lists_of_pairs_are_those_of_a_set(ends, real):
    """Pairs twice, in both directions, of a client with itself, and more than the places hold."""
    directed = np.zeros((N, N), bool)
    for i, j in ends.T[real]:
        directed[i, j] = i != j
    wanted = directed | directed.T
    senders = MAKE(*ends, real, N, PLACES)
    assert int(senders.most) == wanted.sum(axis=1).max() + 1
    np.testing.assert_array_equal(senders.ids, rows_of(wanted, PLACES))
    assert_back(senders)
    if int(senders.most) <= PLACES:
        heard = HEARD(senders, *ends, real)
        np.testing.assert_array_equal(as_matrix(heard, senders), directed)


@pytest.mark.parametrize("wide", [False, True])
def test_a_pair_gets_the_same_random_numbers_in_both_forms(wide):
    key, links = jax.random.key(5), np.ones((N, N), bool) & ~np.eye(N, dtype=bool)
    with jax.enable_x64(wide):
        senders, rows = made(links), np.arange(N)[:, None]
        used = np.asarray(senders.ids) != rows
        for draw in ("bits", "uniform", "uniform_of_pairs"):
            listed, whole = getattr(senders, draw)(key, N), getattr(ALL_PAIRS, draw)(key, N)
            assert listed.dtype == whole.dtype
            np.testing.assert_array_equal(listed[used], whole[rows, senders.ids][used])


def test_nobody_has_neighbours_in_empty_lists():
    senders = no_senders(N, PLACES)
    np.testing.assert_array_equal(senders.ids, rows_of(np.zeros((N, N), bool), PLACES))
    assert_back(senders)
    assert int(senders.most) == 1
