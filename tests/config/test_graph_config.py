"""Graphs in configurations: files of links and weights, the line that each mistake is told, programs and runs."""

import numpy as np
import pytest
from oracles import graphs as oracle
from tiny import run_study

from mdfl_jax.core.errors import UserError
from mdfl_jax.networks.graph_files import read_matrices
from mdfl_jax.study import make_study

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


TWO = np.kron(np.eye(2), ~np.eye(3, dtype=bool)).astype(bool)
ARROW = np.triu(np.ones((N, N)), 1)
WRONG = {
    "absent": (None, "there is no such file"),
    "loop.txt": ("0,1\n2,2\n", "client 2 has a link to itself"),
    "loop.npy": (np.ones((N, N)), "client 0 has a link to itself"),
    "unknown.txt": ("0,1\n1,6\n", "line 2: client 6 is unknown; clients are 0 to 5, by network.num_clients"),
    "negative.txt": ("0,-1\n", "line 1: client -1 is unknown"),
    "half.txt": ("0,1.5\n", "line 1: client 1.5 is unknown"),
    "oblong.npy": (np.zeros((N, 5)), "an array of 1 x 6 x 5; matrices must be square"),
    "oblong.csv": (np.zeros((N, 5)), "6 rows of 5 columns; a matrix must be square"),
    "flat.npy": (np.zeros(N), "matrices must be square"),
    "small.npy": (oracle.links(5, "ring"), "a graph of 5 clients; network.num_clients is 6"),
    "apart.npy": (
        TWO,
        "the graph is not connected: 2 parts, one of them around client 0, 1, 2; graph.allow_disconnected",
    ),
    "arrow.npy": (ARROW, "client 0 hears 1 and not the other way round; graph.directed takes that"),
    "rows.npy": (RING * 0.4, "the weights of client 0 sum to 0.8 in matrix 0; rows must sum to 1"),
    "nan.npy": (np.full((N, N), np.nan), "a weight is not finite"),
    "words.txt": ("0,1\none,two\n", "line 2: 'one,two' is not of numbers and commas"),
    "ragged.txt": ("0,1\n0,1,2\n", "line 2: 3 columns where the first line has 2"),
    "empty.txt": ("# nothing\n", "it holds no line of numbers"),
    "two.npz": ({"a": RING, "b": RING}, "it must hold one array, and holds 2 (a, b)"),
    "text.npy": (np.array([["a"] * N] * N), "it must hold booleans or numbers"),
    "cut.npy": ("not an array", "it cannot be read"),
    "cut.npz": ("not an archive", "it cannot be read"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_file_is_told(tiny, tmp_path, name):
    content, expected = WRONG[name]
    path = tmp_path / name
    if content is not None:
        write(path, content)
    with pytest.raises(UserError) as caught:
        make_study(tiny(**{"network.graph": "file", "graph.file": str(path)}))
    line = str(caught.value)
    assert line.startswith(f"graph.file: {str(path)!r}: ")
    assert expected in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"network.graph": "rng"}, "unknown graph 'rng' (did you mean 'ring'?)"),
        ({"network.graph": "file"}, "graph.file is ''; network.graph file needs one"),
        (
            {"network.graph": "ring", "graph.file": "x.txt"},
            "graph.file is 'x.txt'; network.graph is 'ring', and it must",
        ),
        ({"graph.file": "x.txt"}, "network.graph is '', and it must be file"),
        ({"network.graph": "torus"}, "network.num_clients is 6; a torus needs"),
        ({"network.graph": "random_regular", "graph.degree": 6}, "graph.degree is 6; it must be less than"),
        ({"network.graph": "ring", "network.mixing": "speed_aware"}, "a graph knows no speeds"),
        ({"network.graph": "ring", "network.link_fading": 0.1}, "a graph knows no distances"),
        ({"graph.rewire": 1.5}, "graph.rewire is 1.5; it must be at least 0 and at most 1"),
        ({"sweep": "network.graph=ring,torus"}, "sweep, point 'torus': network.num_clients is 6"),
    ],
)
def test_fields_that_do_not_fit_are_told(tiny, changes, expected):
    with pytest.raises(UserError) as caught:
        make_study(tiny(**changes))
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("sweep", "groups"),
    [
        ("network.graph=ring,star", 2),
        ("graph.degree=2,4; graph.rewire=0,0.5", 1),
        ("network.mobility=static,trace,random_walk", 1),  # not looked at
        ("network.link_failure=0,0.1,0.2", 2),
    ],
)
def test_numbers_of_a_graph_share_a_program(tiny, sweep, groups):
    assert len(make_study(tiny(sweep=sweep, **{"network.graph": "small_world"})).groups) == groups


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


@pytest.mark.long
def test_the_middle_of_the_periods_counts(tiny, tmp_path):
    """Bounds 1 and 3: a period of 2, so 2 of 4 rounds; half of five neighbours: three picked, three to five heard."""
    changes = {"network.graph": "complete", "algorithm.period_max": 3, "algorithm.participation": 0.5}
    study = make_study(tiny(**changes, seeds=1))
    run_study(study, tmp_path / "run")
    with np.load(tmp_path / "run" / "history.npz") as history:
        sent, heard = history["0/messages"][0, -1], history["0/num_neighbours"][0, 1:]
    assert ((sent >= 2 * 3) & (sent <= 2 * 5)).all()
    np.testing.assert_allclose(2 * heard.sum(), sent.sum())


@pytest.mark.usefixtures("unregistered")
def test_what_a_network_does_not_give_is_told(tiny):
    """An algorithm's needs in words, and what the network is called."""
    from mdfl_jax.algorithms.dpsgd import dpsgd
    from mdfl_jax.algorithms.registry import ALGORITHMS
    from mdfl_jax.core.types import FIXED, SYMMETRIC

    @ALGORITHMS.register("needy")
    def needy(settings):
        return dpsgd(settings)._replace(needs=frozenset({"adjacency", "mix", SYMMETRIC, FIXED}))

    def told(**changes):
        with pytest.raises(UserError) as caught:
            make_study(tiny(**{"algorithm.name": "needy", **changes}))
        assert "\n" not in str(caught.value)
        return str(caught.value)

    assert told() == (
        "needy needs the same links in every round, which network.mobility=random_movement with "
        "network.contact=disc, network.mixing=metropolis_hastings, does not give"
    )
    line = told(**{"network.graph": "star", "network.mixing": "uniform", "network.link_failure": 0.1})
    assert line == (
        "needy needs the same links in every round and symmetric mixing weights, which network.graph=star and "
        "failing links, network.mixing=uniform, does not give"
    )
    make_study(tiny(**{"algorithm.name": "needy", "network.graph": "star", "algorithm.participation": 0.5}))


@pytest.mark.long
def test_every_algorithm_runs_over_a_thinned_graph(tiny, tmp_path):
    """One study of all: finite, and in four rounds of period 2 what each sends is counted in two of them."""
    names = "dpsgd,nids,gradient_tracking,dfedsam,dfedavgm,epidemic,epidemic_oracle"
    changes = {"network.graph": "complete", "algorithm.period_max": 3, "algorithm.num_peers": 2}
    study = make_study(tiny(sweep=f"algorithm.name={names}", **changes, seeds=1))
    summary = run_study(study, tmp_path / "run")
    with np.load(tmp_path / "run" / "history.npz") as history:
        sent = [history[f"{p}/messages"][0, -1] for p in range(len(study.points))]
    # Rounds 0 and 2; nids is silent in round 0, gradient_tracking sends once and then twice.
    for messages, expected in zip(sent, (10, 5, 15, 10, 10, 4, 4)):
        np.testing.assert_array_equal(messages, expected)
    for point in summary["points"]:
        assert point["diverged"] == {}
        assert 0 <= point["final_accuracy"]["mean"] <= 1
    with pytest.raises(UserError, match=r"nids needs symmetric mixing weights, which network\.graph=exponential"):
        make_study(tiny(**{"algorithm.name": "nids", "network.graph": "exponential"}))
