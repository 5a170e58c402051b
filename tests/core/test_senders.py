"""Neighbour lists: what they are made of, and what is read from them, beside sets of pairs and matrices in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mdfl_jax.core.links import ALL_PAIRS, as_matrix, as_senders, carried, from_pairs, heard_from, no_senders

N, PLACES, PAIRS = 7, 5, 14
CASES = settings(deadline=None, max_examples=60, derandomize=True)
ENDS = hnp.arrays(np.int32, (2, PAIRS), elements=st.integers(0, N - 1))
REAL = hnp.arrays(bool, PAIRS)
LINKS = hnp.arrays(bool, (N, N)).map(lambda m: np.triu(m, 1) | np.triu(m, 1).T)
MAKE = jax.jit(from_pairs, static_argnums=(3, 4))
HEARD = jax.jit(heard_from)
CARRY = jax.jit(carried)


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


@CASES
@given(LINKS, hnp.arrays(np.float32, (N, N), elements=st.integers(1, 9)), hnp.arrays(np.int32, N))
def test_what_is_read_from_lists_is_what_a_matrix_says(links, drawn, of_client):
    senders = made(links)
    np.testing.assert_array_equal(senders.ids, rows_of(links, N + 1))
    assert_back(senders)
    assert int(senders.most) == links.sum(axis=1).max() + 1
    rows = np.arange(N)[:, None]
    used = np.asarray(senders.ids) != rows
    values = jnp.where(used, drawn[rows, senders.ids], 0)
    whole = np.where(links, drawn, 0)
    np.testing.assert_array_equal(as_matrix(values, senders), whole)
    np.testing.assert_array_equal(as_matrix(senders.opposite(values), senders), whole.T)
    np.testing.assert_array_equal(senders.sums(values), whole.sum(axis=0))
    np.testing.assert_array_equal(senders.sums(values > 4), (whole > 4).sum(axis=0))
    few = of_client % 5
    np.testing.assert_array_equal(senders.sum_of(values, few.astype(np.float32)), whole @ few)
    np.testing.assert_array_equal(as_matrix(senders.on_own(few), senders), np.diag(few))
    np.testing.assert_array_equal(senders.of(few)[used], np.broadcast_to(few, (N, N))[rows, senders.ids][used])
    np.testing.assert_array_equal(senders.at(jnp.full(N, 1)), rows_of(links, N + 1)[:, 1])


@CASES
@given(LINKS, LINKS, hnp.arrays(np.float32, (N, N), elements=st.integers(1, 9)))
def test_values_of_links_go_with_them_to_the_next_round(before, after, drawn):
    old, new = made(before), made(after)
    values = jnp.where(np.asarray(old.ids) != np.arange(N)[:, None], drawn[np.arange(N)[:, None], old.ids], 0)
    found = as_matrix(CARRY(old.ids, values, new), new)
    np.testing.assert_array_equal(found, np.where(before & after, drawn, 0))


@pytest.mark.parametrize("wide", [False, True])
def test_a_pair_gets_the_same_random_numbers_in_both_forms(wide):
    key, links = jax.random.key(5), np.ones((N, N), bool) & ~np.eye(N, dtype=bool)
    with jax.enable_x64(wide):
        senders = made(links)
        for draw in ("bits", "uniform"):
            listed, whole = getattr(senders, draw)(key, N), getattr(ALL_PAIRS, draw)(key, N)
            assert listed.dtype == whole.dtype
            np.testing.assert_array_equal(listed, whole[np.arange(N)[:, None], senders.ids])


def test_nobody_has_neighbours_in_empty_lists():
    senders = no_senders(N, PLACES)
    np.testing.assert_array_equal(senders.ids, rows_of(np.zeros((N, N), bool), PLACES))
    assert_back(senders)
    assert int(senders.most) == 1
