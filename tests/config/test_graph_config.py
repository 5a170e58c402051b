"""Graphs in configurations: files of links and weights, and runs over them."""

import numpy as np
import pytest

from mdfl_jax.networks.fixed import read_matrices
from tests.reference import graphs as oracle

N = 6


def write(path, content):
    if isinstance(content, str):
        path.write_text(content)
    elif path.suffix == ".csv":
        np.savetxt(path, content, delimiter=",", fmt="%g")
    else:
        np.savez(path, a=content) if path.suffix == ".npz" else np.save(path, content)
    return path


RING = oracle.links(N, "ring")
RING_TEXT = "# a ring\ni,j\n0,1\n1,2\n\n2,3\n3,4\n4, 5\n5,0\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("g.txt", RING_TEXT),
        ("g.csv", RING.astype(int)),
        ("g.npy", RING),
        ("g.npy", RING.astype(np.float32)),
        ("g.npz", RING.astype(np.int8)),
        ("g.npy", RING[None]),
    ],
)
def test_a_ring_in_every_form(tmp_path, name, content):
    read = read_matrices(write(tmp_path / name, content), N)
    assert read.dtype == bool
    np.testing.assert_array_equal(read, RING[None])


def test_directed_edges_and_weights(tmp_path):
    read = read_matrices(write(tmp_path / "g.txt", RING_TEXT), N, directed=True)
    np.testing.assert_array_equal(
        read[0], np.triu(RING, 1) & np.eye(N, k=1, dtype=bool) | np.eye(N, k=1 - N, dtype=bool)
    )
    weights = np.stack([(np.eye(N) + RING / 2) / 2, np.eye(N)])
    np.testing.assert_array_equal(read_matrices(write(tmp_path / "w.npy", weights), N), weights)
