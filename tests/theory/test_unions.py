"""Union windows against hand-made windows, networkx-free oracles and brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdfl_jax.theory import mixing

N = 3


def links(*rounds, n=N, directed=False):
    """Adjacency [R, N, N] from the links (receiver, sender) of each round."""
    found = np.zeros((len(rounds), n, n), bool)
    for t, pairs in enumerate(rounds):
        for i, j in pairs:
            found[t, i, j] = True
            found[t, j, i] |= not directed
    return found


def test_hand_made_windows():
    """0-1 in even rounds, 1-2 in rounds 3 and 6: unions close when both have come."""
    adjacency = links([(0, 1)], [], [(0, 1)], [(1, 2)], [(0, 1)], [], [(0, 1), (1, 2)], [])
    closing = mixing.closing_rounds(mixing.next_links(adjacency))
    assert closing.tolist() == [3, 3, 3, 4, 6, 6, 6, mixing.NEVER]
    assert mixing.effective_windows(closing).tolist() == [4, 3, 2, 2]
    # Windows of 4: rounds 0-3 and 4-7 are connected; of 3: rounds 0-2 are not; of 2: rounds 0-1 are not.
    assert mixing.strong_window(closing) == 4
    assert mixing.num_components(adjacency).tolist() == [2, 3, 2, 2, 2, 3, 1, 3]


def test_a_network_that_never_connects():
    closing = mixing.closing_rounds(mixing.next_links(links(*[[(0, 1)]] * 6)))
    assert (closing == mixing.NEVER).all()
    assert np.isinf(mixing.effective_windows(closing)).all()
    assert np.isinf(mixing.strong_window(closing))


def test_complete_graphs_and_one_client():
    complete = np.tile(~np.eye(4, dtype=bool), (5, 1, 1))
    closing = mixing.closing_rounds(mixing.next_links(complete))
    assert closing.tolist() == [0, 1, 2, 3, 4]
    assert mixing.strong_window(closing) == 1
    alone = mixing.closing_rounds(mixing.next_links(np.zeros((4, 1, 1), bool)))
    assert alone.tolist() == [0, 1, 2, 3]


def test_directed_links_must_lead_both_ways():
    """A directed cycle of three is strongly connected; without one of its links it is not."""
    cycle = links([(0, 1)], [(1, 2)], [(2, 0)], [(0, 1)], directed=True)
    assert mixing.closing_rounds(mixing.next_links(cycle)).tolist() == [2, 3, mixing.NEVER, mixing.NEVER]


def strongly_connected(union):
    reach = np.linalg.matrix_power(union.astype(float) + np.eye(len(union)), len(union)) > 0
    return reach.all()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.booleans(), st.integers(2, 6))
def test_closing_rounds_are_those_of_brute_force(seed, directed, n):
    rng = np.random.default_rng(seed)
    rounds = 9
    adjacency = rng.random((2, rounds, n, n)) < 0.15
    if not directed:
        adjacency |= adjacency.swapaxes(-1, -2)
    adjacency &= ~np.eye(n, dtype=bool)
    closing = mixing.closing_rounds(mixing.next_links(adjacency))
    strong = mixing.strong_window(closing)
    for s in range(2):
        for k in range(rounds):
            ends = [t for t in range(k, rounds) if strongly_connected(adjacency[s, k : t + 1].any(0))]
            assert closing[s, k] == (ends[0] if ends else mixing.NEVER)
        sizes = [
            size
            for size in range(1, rounds // 2 + 1)
            if all(strongly_connected(adjacency[s, k * size : (k + 1) * size].any(0)) for k in range(rounds // size))
        ]
        assert strong[s] == (sizes[0] if sizes else np.inf)


@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_components_of_a_path_that_breaks(n):
    path = links([(i, i + 1) for i in range(n - 1)], n=n)[0]
    assert mixing.num_components(path) == 1
    assert mixing.num_components(np.zeros((n, n), bool)) == n
    if n > 3:
        path[1, 2] = path[2, 1] = False
        assert mixing.num_components(path) == 2
