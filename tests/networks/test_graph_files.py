"""Graphs as other tools write them: edge lists with counts, blanks and weights, and sparse matrices."""

import functools
import json

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.io import mmwrite
from small import told

from mdfl_jax.core.errors import UserError
from mdfl_jax.networks.fixed import read_matrices


@settings(max_examples=40, deadline=None)
@given(st.integers(3, 8), st.integers(0, 2**31), st.sampled_from([" ", ",", "\t"]), st.booleans(), st.booleans())
def test_what_networkx_writes_is_read(tmp_path_factory, clients, seed, mark, counted, weighted):
    graph = nx.connected_watts_strogatz_graph(clients, 2, 0.5, seed=seed)
    drawn = np.random.default_rng(seed)
    for i, j in graph.edges:
        graph.edges[i, j]["weight"] = round(drawn.uniform(0.01, 0.9 / clients), 4)
    path = tmp_path_factory.mktemp("graph") / "edges"
    nx.write_edgelist(graph, path, delimiter=mark, data=["weight"] if weighted else False)
    if counted:
        path.write_text(f"{clients}\n" + path.read_text())
    wanted = nx.to_numpy_array(graph, nodelist=range(clients), weight="weight" if weighted else None)
    if not weighted:
        assert read_matrices(path, clients).tolist() == [(wanted != 0).tolist()]
        return
    found = read_matrices(path, clients)
    np.testing.assert_allclose(found[0] - np.diag(np.diag(found[0])), wanted)
    np.testing.assert_allclose(found.sum(axis=2), 1)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "name", ["a.graphml", "a.gml", "links.json", "edges.json", "braces.txt", "a.edgelist", "a.csv", "a.mtx"]
)
def test_formats_of_networkx_and_matrix_market(tmp_path, name, weighted):
    """Of clients 2 to 6; those of weights have names. In a matrix there are no names, and rows sum to one."""
    path, names = tmp_path / name, dict(enumerate("abcde" if weighted else range(2, 7)))
    graph = nx.relabel_nodes(nx.cycle_graph(5), names)
    if weighted:
        nx.set_edge_attributes(graph, 0.25, "weight")
    wanted = nx.to_numpy_array(graph)
    wanted = wanted + 0.5 * np.eye(5) if weighted else wanted != 0
    if name.endswith(".json"):
        path.write_text(json.dumps(nx.node_link_data(graph, edges=path.stem)))
    elif name.endswith(".mtx"):
        mmwrite(path, sparse.csr_array(wanted.astype(float)))
    else:
        by_comma = functools.partial(nx.write_edgelist, delimiter=",")
        own = {"a.graphml": nx.write_graphml, "a.gml": nx.write_gml, "a.csv": by_comma}
        own.get(name, nx.write_edgelist)(graph, path)
    notes = list[str]()
    np.testing.assert_array_equal(read_matrices(path, 5, notes=notes), wanted[None])
    said = "clients a, b, c, d, e are numbered 0, 1, 2, 3, 4" if weighted else "clients 2 to 6 are numbered 0 to 4"
    assert notes == [said] * (name != "a.mtx")


def test_a_damaged_or_directed_graph_is_one_line(tmp_path):
    nx.write_graphml(nx.DiGraph([(0, 1), (1, 2), (2, 0)]), tmp_path / "a.graphml")
    assert "its links have one direction; graph.directed takes them as they are" in told(
        read_matrices, tmp_path / "a.graphml"
    )
    assert read_matrices(tmp_path / "a.graphml", directed=True)[0].sum() == 3
    (tmp_path / "a.json").write_text('{"nodes": [')
    assert "it is no node-link JSON that networkx reads (" in told(read_matrices, tmp_path / "a.json")


def test_three_rows_are_a_matrix_or_three_edges(tmp_path):
    path = tmp_path / "graph"
    path.write_text("0,1,0.3\n1,2,0.3\n2,0,0.3\n")
    np.testing.assert_allclose(read_matrices(path, 3), [[[0.4, 0.3, 0.3], [0.3, 0.4, 0.3], [0.3, 0.3, 0.4]]])
    path.write_text("0.4,0.3,0.3\n0.3,0.4,0.3\n0.3,0.3,0.4\n")
    np.testing.assert_allclose(read_matrices(path, 3), [[[0.4, 0.3, 0.3], [0.3, 0.4, 0.3], [0.3, 0.3, 0.4]]])
    path.write_text("0,1,1\n1,0,1\n1,1,0\n")
    assert read_matrices(path, 3).dtype == bool


def test_a_sparse_matrix_of_scipy(tmp_path):
    ring = sparse.csr_array(nx.to_numpy_array(nx.cycle_graph(5)))
    sparse.save_npz(tmp_path / "ring.npz", ring)
    assert read_matrices(tmp_path / "ring.npz", 5).tolist() == [(ring.toarray() != 0).tolist()]
    sparse.save_npz(tmp_path / "coo.npz", ring.tocoo())
    with pytest.raises(UserError):
        read_matrices(tmp_path / "coo.npz", 5)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("6\n0 1\n", "line 1: 6 clients; network.num_clients is 4"),
        ("0 1 0.7\n1 2 0.7\n2 3 0.1\n", "the weights of client 1 sum to 1.4; at most 1 is allowed"),
        ("0 1 0.1\n1 2 0.1\n1 0 0.2\n2 3 .1\n", "line 3: the weight of 1,0 is 0.2, and was 0.1 before"),
        (f"{2**60} {2**60 + 1}\n", f"it names the client {2**60}; a whole number must be below 2^53"),
        ("0 1\n1 7\n", "line 2: client 7 is unknown; clients are 0 to 3"),
        ("dear all,\nmine\n", "first line has 2; allowed: lines i,j or i,j,weight, a matrix N x N, or a file"),
        ("0 1 2 3 4\n", "1 rows of 5 columns; a matrix must be square, an edge list i,j or i,j,w"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path, text, told):
    (tmp_path / "graph").write_text(text)
    with pytest.raises(UserError) as caught:
        read_matrices(tmp_path / "graph", 4)
    assert told in str(caught.value).replace("1.4000000000000001", "1.4")
