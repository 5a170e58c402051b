"""Graphs in configurations: files of links and weights, and runs over them."""

import numpy as np
import pytest
from tiny import run_study

from mdfl_jax.networks.fixed import read_matrices
from mdfl_jax.study import make_study
from tests.reference import graphs as oracle

N = 6


def write(path, content):
    if isinstance(content, str):
        path.write_text(content)
    elif path.suffix == ".npz":
        np.savez(path, **(content if isinstance(content, dict) else {"a": content}))
    elif path.suffix == ".csv":
        np.savetxt(path, content, delimiter=",", fmt="%g")
    else:
        np.save(path, content)
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


@pytest.mark.long
def test_graphs_and_files_run(tiny, tmp_path):
    """Space, graphs and a list of graphs in one study: counted neighbours and messages are those of the graphs."""
    both = np.stack([RING, oracle.links(N, "star")])
    path = str(write(tmp_path / "both.npy", both))
    study = make_study(tiny(sweep="network.graph=ring,complete,file,", **{"graph.file": path, "seeds": 2}))
    summary = run_study(study, tmp_path / "run")
    assert [point["id"] for point in summary["points"]] == ["ring", "complete", "file", "graph="]
    with np.load(tmp_path / "run" / "history.npz") as history:
        heard = [history[f"{p}/num_neighbours"][:, -1] for p in range(3)]
        sent = [history[f"{p}/messages"][:, -1] for p in range(3)]
        moved = [history[f"{p}/distance_moved"] for p in range(3)]
    mean = both.sum(axis=2).mean(axis=0)
    for found, expected in zip(heard, (2, N - 1, mean)):
        np.testing.assert_allclose(found, np.broadcast_to(expected, (2, N)))
    for found, expected in zip(sent, (2, N - 1, mean)):
        np.testing.assert_array_equal(found, np.broadcast_to(4 * np.asarray(expected), (2, N)))
    assert not np.any(moved)
