"""Networks of meetings: patterns as the paper says, last and next as they follow, pairs disjoint and uniform."""

import jax
import jax.numpy as jnp
import numpy as np
from worlds import played

from mdfl_jax.core.types import NEVER
from mdfl_jax.networks.meetings import MeetingsParams, meeting_table, meetings, uniform_pairs
from mdfl_jax.networks.wrappers.roadside import matching

N, SLOTS = 12, 260


def history(pattern, params=MeetingsParams(), slots=SLOTS):
    """The links of every slot."""
    return played(meetings(N, pattern), params, slots)[1]


TABLE = MeetingsParams(table=meeting_table([0, 0, 3, 5, 5, 5], [9, 4, 0, 7, 30, 8], N))


def test_last_and_next_are_those_of_a_table():
    """The other patterns are those of the reference."""
    links = history("table", TABLE, slots=40)
    at, last, following = map(np.asarray, links.server)
    for t, i in np.ndindex(at.shape):
        met = np.flatnonzero(at[:, i])
        assert last[t, i] == max([m for m in met if m <= t], default=-1)
        later = [m for m in met if m > t]
        assert following[t, i] == later[0] if later else following[t, i] >= 40


def gaps_of(links):
    at = np.asarray(links.server.now)
    return np.concatenate([np.diff(np.flatnonzero(at[:, i])) for i in range(at.shape[1])])


def test_random_gaps_are_uniform():
    links = history("random", slots=4000)
    gaps = gaps_of(links)
    assert np.asarray(links.server.now).argmax(axis=0).tolist() == list(range(N))
    assert (gaps.min(), gaps.max()) == (30, 50)
    share = np.bincount(gaps, minlength=51)[30:] / len(gaps)
    assert (abs(share - 1 / 21) < 5 * np.sqrt(1 / 21 / len(gaps))).all()


def test_exponential_gaps_are_truncated():
    """Mean and distribution of the exponential given that it is at most 80, rounded up to slots."""
    gaps = gaps_of(history("exponential", slots=6000))
    assert gaps.min() >= 1
    assert gaps.max() <= 80
    edges = np.arange(0, 81)
    below = (1 - np.exp(-edges / 30)) / (1 - np.exp(-80 / 30))
    observed = np.array([(gaps <= edge).mean() for edge in edges])
    assert abs(observed - below).max() < 1.95 / np.sqrt(len(gaps))


def test_expected_meetings():
    """Not known: the pattern's mean gap after the last, of a table the mean seen so far; after this slot always."""
    links = history("exponential", MeetingsParams(known_next=False))
    last, following = np.asarray(links.server.last), np.asarray(links.server.following)
    assert (following == np.maximum(last + 30, np.arange(SLOTS)[:, None] + 1)).all()
    table = np.asarray(history("table", TABLE._replace(known_next=False), slots=40).server.following)
    assert table[3, 5] == NEVER  # nobody has told of a meeting yet
    assert table[7, 5] == 15  # one gap of 8 slots, from the start
    assert table[8, 5] == 12  # 8 and 1: 4.5 slots, rounded to the even number
    assert table[25, 5] == 26


def test_pairs_are_uniform():
    partner = np.asarray(jax.vmap(lambda k: uniform_pairs(k, 6, 0.7))(jax.random.split(jax.random.key(0), 6000)))
    for i in range(6):
        share = np.bincount(partner[:, i], minlength=6) / 6000
        assert abs(share[i] - 1 / 3) < 0.03  # two pairs of three
        assert (abs(np.delete(share, i) - 2 / 15) < 0.025).all()


def test_matchings_are_random():
    """Of clients in range of road-side units: on a path of three each of both pairs is as likely as the other."""
    path = jnp.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], bool)
    partner = jax.vmap(lambda k: matching(k, path))(jax.random.split(jax.random.key(0), 2000))
    assert abs(float((partner[:, 1] == 0).mean()) - 0.5) < 0.06
    one_way = jnp.array([[0, 1], [0, 0]], bool)  # heard, but not hearing
    assert matching(jax.random.key(0), one_way).tolist() == [0, 1]
