"""Meeting and cover times of hand-made links."""

import numpy as np
import pytest

from mdfl_jax.contrib.theory import walks
from mdfl_jax.contrib.theory.mixing import next_links


def adjacency_of(rounds, n):
    found = np.zeros((1, len(rounds), n, n), bool)
    for t, pairs in enumerate(rounds):
        for i, j in pairs:
            found[0, t, i, j] = found[0, t, j, i] = True
    return found


def test_hand_made_meetings():
    """Client 0 is mobile. It meets 1 in rounds 1 and 3, and 2 in round 2 only."""
    following = next_links(adjacency_of([[], [(0, 1)], [(0, 2)], [(0, 1)]], 3))
    mobile = np.array([[True, False, False]])
    # From rounds 0 and 1, at most 2 rounds: client 1 after 1 and 0, client 2 after 2 and 1.
    assert walks.meeting_times(following, mobile) == pytest.approx([1.0])
    alone, together = walks.cover_times(following, mobile)
    assert (alone[0], together[0]) == (2, 2)
