"""Studies of objects: what a Python program hands over in place of names and files."""

import collections
import dataclasses
import functools
import os
import subprocess
import sys
import threading
import types
from contextlib import ExitStack

import flax.linen as nn
import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pandas as pd
import pytest
from flax import nnx
from scipy.sparse import csr_array
from small import told

import mdfl_jax
from mdfl_jax.config.resolve import as_config
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.own_files import digest_of_code
from mdfl_jax.data.sources import SOURCES, load
from mdfl_jax.models.model import MODELS
from mdfl_jax.networks.fixed import graph_file, read_matrices
from mdfl_jax.study import make_study
from mdfl_jax.study.objects import known_objects
from mdfl_jax.traces import loading

N = 6
RNG = np.random.default_rng(0)
Y = np.arange(100) % 3
X = RNG.normal(size=(100, 4)) + np.eye(4)[Y]
TINY = {"rounds": 2, "eval_every": 2, "seeds": 1, "network.num_clients": N}
RING = nx.cycle_graph(N)
PLACES = pd.DataFrame(
    [(t, f"car{i}", 10.0 * i + t / 3, 0.1 * t) for t in range(6) for i in range(N)], columns=["time", "id", "x", "y"]
)
CONTACTS = pd.DataFrame([(t, i, (i + t) % N) for t in range(1, 4) for i in range(N)], columns=["round", "i", "j"])


class Net(nn.Module):
    width: int = 3

    @nn.compact
    def __call__(self, x):
        return nn.Dense(3)(nn.relu(nn.Dense(self.width)(x)))


class Layers(nnx.Module):
    def __init__(self, rngs):
        self.layer = nnx.Linear(4, 3, rngs=rngs)

    def __call__(self, x):
        return self.layer(x)


def pair(start):
    return lambda key, samples: {"w": jnp.asarray(start)}, lambda params, samples: samples @ params["w"]


def names(config=TINY, **objects):
    """The names of the runs of a study of objects."""
    with known_objects(as_config(config), data=objects.pop("data", (X, Y)), **{"model": Net(), **objects}) as complete:
        return make_study(complete).names


def test_a_graph_and_a_table_are_what_their_files_are(tmp_path):
    edges = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (0, 3)]
    (tmp_path / "graph.csv").write_text("".join(f"{i},{j}\n" for i, j in edges))
    from_file = read_matrices(tmp_path / "graph.csv", N)
    graph = nx.Graph(edges)
    named = nx.relabel_nodes(graph, dict(zip(graph, "abcdef")))  # whose nodes are in the order of the edges
    matrix = nx.to_numpy_array(graph, nodelist=range(N))
    for form in (edges, np.array(edges), graph, named, matrix, matrix.astype(bool).tolist(), csr_array(matrix)):
        with graph_file(form) as path:
            np.testing.assert_array_equal(read_matrices(path, N), from_file)
    for few, links in (([[0.5, 0.5], [0.5, 0.5]], [[1, 1]] * 2), (np.array([[0, 1], [0, 0]], bool), [[0, 1], [0, 0]])):
        for form in (few, np.array(few), tuple(map(list, few))):
            with graph_file(form) as path:
                found = read_matrices(path, 2, directed=True, allow_disconnected=True)[0]
            np.testing.assert_array_equal(found > 0, links)
    for form in ([(0, 1), (1, 2)], [[0, 1], [1, 2]], ((0, 1), (1, 2)), [(0, 1, 0.5), (1, 2, 0.5)], [(4, 6), (6, 7)]):
        with graph_file(form) as path:
            hears = read_matrices(path, 3)[0]
        uniform = mdfl_jax.mixing_weights("uniform", hears)
        np.testing.assert_array_equal(mdfl_jax.mixing_weights("uniform", form), uniform)
        assert (np.asarray(uniform)[1] > 0).tolist() == [True] * 3
    with graph_file([(i, j, 0.25) for i, j in edges]) as path:
        assert np.diagonal(read_matrices(path, N)[0]).tolist() == [0.5, 0.5, 0.5, 0.25, 0.5, 0.75]
    with graph_file(nx.DiGraph([(0, 1), (1, 0), (1, 2), (2, 1), (0, 2)])) as path:
        assert read_matrices(path, 3, directed=True)[0].astype(int).tolist() == [[0, 1, 1], [1, 0, 1], [0, 1, 0]]
    for table in (PLACES, CONTACTS, PLACES.assign(time=pd.Timestamp("2026-01-01") + pd.to_timedelta(PLACES.time, "s"))):
        table.to_csv(tmp_path / "trace.csv", index=False)
        with loading.table_file(table) as path:
            found, wanted = (
                dataclasses.asdict(loading.load(path)),
                dataclasses.asdict(loading.load(tmp_path / "trace.csv")),
            )
        for field in found.keys() - {"path", "source"}:
            np.testing.assert_array_equal(found[field], wanted[field], err_msg=field)


def test_a_pair_of_arrays_is_divided_and_two_classes_are_labels():
    with ExitStack() as stack:
        enter = lambda *pair: load(stack.enter_context(mdfl_jax.data.sources.known_data(pair)))  # noqa: E731
        whole = enter(X, Y)
        assert np.bincount(whole.y_test).tolist() == [6, 6, 6]  # every fifth of 34, 33 and 33
        assert {*map(tuple, whole.x_train)}.isdisjoint(map(tuple, whole.x_test))
        assert len(whole.x_train) + len(whole.x_test) == 100
        for two in (Y > 0, np.where(Y > 0, 1, -1), (Y > 0).astype(np.uint8)):
            found = enter(X, two)
            assert (found.num_classes, found.targets, found.y_train.dtype) == (2, whole.targets, np.int32)
            assert [*np.bincount(found.y_train), *np.bincount(found.y_test)] == [28, 53, 6, 13]


OBJECTS = [
    {},
    {"data": (X, (Y + 1) % 3)},
    {"model": Net(4)},
    {"model": nn.Sequential([nn.Dense(3)])},
    {"model": nn.Sequential([nn.Dense(3), nn.Dense(3)])},
    {"model": Layers},
    {"model": lambda rngs: nnx.Linear(4, 3, rngs=rngs)},
    {"model": lambda rngs: nnx.Linear(4, 3, rngs=rngs, use_bias=False)},
    {"model": pair(np.zeros((4, 3)))},
    {"model": pair(np.eye(4, 3))},
    {"graph": RING},
    {"graph": nx.path_graph(N)},
    {"trace": PLACES},
    {"trace": PLACES.assign(x=PLACES.x + 1e-9)},
    {"trace": CONTACTS},
]


def test_a_run_is_named_by_the_contents_of_its_objects():
    first = [names(**objects) for objects in OBJECTS]
    assert len(set(map(str, first))) == len(OBJECTS)
    again = [{"data": (X.copy(), Y.copy())}, {"graph": nx.to_numpy_array(RING)}, {"trace": PLACES.copy()}]
    again += [{"model": Net(width=4)}, {"model": pair(np.eye(4, 3))}]
    assert [names(**objects) for objects in again] == [first[k] for k in (0, 10, 12, 2, 9)]
    with known_objects(as_config(TINY), trace=CONTACTS.set_axis(["Round", "User 1", "node2"], axis=1)) as complete:
        assert complete.network.mobility == "contacts"
        assert len(make_study(complete).names) == 1
    swept = TINY | {"sweep": "network.graph=file,ring"}
    assert names(swept, graph=RING)[0] == first[10][0]


def scaled(factor):
    def decorate(function):
        @functools.wraps(function)
        def product(x):
            return factor * function(x)

        return product

    return decorate


def returned(function):
    @jax.custom_vjp
    def same(x):
        return x

    same.defvjp(lambda x: (x, None), function)
    return same


def test_an_object_is_known_until_the_last_of_equal_studies_ends():
    here = known_objects(as_config(TINY), data=(X, Y), model=Net(), graph=RING)
    there = known_objects(as_config(TINY), data=(X.copy(), Y), model=Net(), graph=RING.copy())
    first, second = here.__enter__(), there.__enter__()
    assert first == second
    here.__exit__(None, None, None)
    assert make_study(second).names
    there.__exit__(None, None, None)
    for registry, name in ((MODELS, first.model.name), (SOURCES, first.data.name)):
        assert name not in registry
    with pytest.raises(UserError, match="there is no such file"):
        read_matrices(first.graph.file, N)


DIFFERENT = [
    ({"narrow": "relu"}, {"wide": "relu"}),
    (functools.partial(dict, width=8, depth=2), functools.partial(dict, depth=8, width=2)),
    (np.dtype("f4"), np.dtype("f2")),
    ({"a", "b"}, {"a", "c"}),
    (frozenset("ab"), frozenset("ac")),
    (range(3), range(4)),
    (jnp.add, jnp.multiply),
    (np.add, np.multiply),
    (jnp, np),
    (len, abs),
    (jax.random.key(0), jax.random.key(1)),
    (collections.deque([1]), collections.deque([2])),
    (types.SimpleNamespace(a=1), types.SimpleNamespace(b=1)),
    (np.array([None, 1]), np.array([None, 2])),
    (np.ma.array([1, 2], mask=[0, 1]), np.ma.array([1, 2], mask=[1, 0])),
    (nn.initializers.normal(0.1), nn.initializers.normal(0.2)),
    (jax.vmap(len), jax.vmap(len, in_axes=1)),
    (scaled(2)(len), scaled(3)(len)),
    (returned(lambda left, g: (g,)), returned(lambda left, g: (2 * g,))),
    (lambda x, train: x * train, lambda x, deterministic: x * deterministic),
    (lambda x: x in {"a", "b"}, lambda x: x in {"a", "c"}),
    (lambda x: [x * "relu" for _ in x], lambda x: [x * "gelu" for _ in x]),
    (lambda x: lambda: X, lambda x: lambda: Y),
    (type("Net", (), {"size": property(lambda net: 1)}), type("Net", (), {"size": property(lambda net: 2)})),
]


def test_no_two_objects_have_one_identity_and_what_cannot_be_told_is_refused():
    found = [digest_of_code([Net(width=value)]) for pair in DIFFERENT for value in pair]
    assert len(set(found)) == len(found)
    assert found == [digest_of_code([Net(width=value)]) for pair in DIFFERENT for value in pair]
    assert digest_of_code([{"a": {1, 2}}]) == digest_of_code([{"a": {2, 1}}])
    for untold, kind in ((threading.Lock(), "_thread.lock"), (np.frompyfunc(len, 1, 1), "numpy.ufunc")):
        with pytest.raises(UserError, match=f"it holds an object of {kind}, of which no value can be told; allowed"):
            digest_of_code([Net(width=untold)])


SCRIPT = """
import flax.linen as nn, jax.numpy as jnp
from mdfl_jax.core.own_files import digest_of_code
class Net(nn.Module):
    width: int = 3
    kinds: frozenset = frozenset("abc")
    @nn.compact
    def __call__(self, x):
        return nn.Dense(3)(nn.relu(nn.Dense(self.width)(x)) * ("a" in {"a", "b"}))
start = jnp.eye(4, 3)
print(digest_of_code([Net()]), digest_of_code([(lambda key, x: start, lambda params, x: x @ params)]))
"""


@pytest.mark.long
def test_a_script_has_the_same_models_in_each_process_and_in_other_lines(tmp_path):
    found = []
    for k, text in enumerate((SCRIPT, "# moved\n" + SCRIPT, SCRIPT.replace("4, 3", "4, 3, 1"))):
        (tmp_path / "script.py").write_text(text)
        environment = os.environ | {"PYTHONHASHSEED": str(k)}
        command = [sys.executable, str(tmp_path / "script.py")]
        found.append(
            subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.split()
        )
    assert found[0] == found[1]
    assert found[0][0] == found[2][0]
    assert found[0][1] != found[2][1]


@pytest.mark.long
def test_a_study_of_objects_goes_on_with_the_same_objects_only(tmp_path, capsys):
    objects = {"data": (X, Y + 1), "model": Net(), "graph": RING, "progress": False}
    first = mdfl_jax.run(TINY, tmp_path, **objects | {"progress": True})
    assert "labels 1 to 3 are numbered 0 to 2\n" in capsys.readouterr().err
    longer = mdfl_jax.run(TINY | {"rounds": 4}, tmp_path, **objects)
    np.testing.assert_array_equal(longer.array("accuracy")[:, :2], first.array("accuracy"))
    assert longer.array("loss")[0, -1].mean() < longer.array("loss")[0, 0].mean()
    np.testing.assert_array_equal(mdfl_jax.Results.load(tmp_path).array("loss"), longer.array("loss"))
    line = told(mdfl_jax.run, TINY, tmp_path, **objects | {"model": Net(4)})
    assert "model.name is 'given:" in line
    line = told(mdfl_jax.run, TINY, tmp_path, **objects | {"graph": nx.path_graph(N)})
    assert "graph.file is 'given:" in line


HOLED = PLACES.assign(x=[np.nan if k == 3 else x for k, x in enumerate(PLACES.x)])
MISTAKES = [
    ({"graph": nx.cycle_graph(7)}, {}, "graph.npy': a graph of 7 clients; network.num_clients is 6"),
    ({"graph": nx.DiGraph(nx.path_graph(N).edges)}, {}, "client 0 hears 1 and not the other way round; graph.directed"),
    ({"graph": nx.Graph([(0, 0), *RING.edges])}, {}, "client 0 has a link to itself"),
    ({"graph": [(0, 1), (1, 9)]}, {}, "graph.txt': line 2: client 9 is unknown; clients are 0 to 5"),
    ({"graph": np.eye(N) / 2}, {}, "the weights of client 0 sum to 0.5"),
    ({"graph": "ring"}, {}, "graph is str; allowed: a graph of networkx, a matrix"),
    ({"graph": [[0, 1], [1]]}, {}, "graph is list; allowed"),
    ({"graph": RING}, {"network.graph": "ring"}, "graph is given and network.graph is 'ring'; allowed: one of them"),
    ({"model": nn.Dense(4)}, {}, "the model Dense returned float32[2, 4] for samples float32[2, 4]; it must be flo"),
    ({"model": pair(np.zeros(4))}, {}, "the model <lambda> returned float32[2] for samples"),
    ({"model": 3}, {}, "the model is 3; it must be a module of flax linen"),
    ({}, {"model.name": "mlp"}, "model is given and model.name is 'mlp'; allowed: one of them"),
    ({}, {"sweep": "model.name=linear,mlp"}, "model is given, and sweep varies model.name; allowed: one of them"),
    ({}, {"sweep": "rounds+data.name=2+digits,4+a"}, "data is given, and sweep varies data.name; allowed: one of"),
    ({"graph": RING}, {"sweep": "graph.file=a,b"}, "graph is given, and sweep varies graph.file; allowed: one of"),
    ({"trace": PLACES}, {"sweep": "trace.file=a,b"}, "trace is given, and sweep varies trace.file; allowed: one"),
    ({"data": (X, Y[1:])}, {}, "data is (x, y) of [100, 4] and [99]; allowed: a target for each sample"),
    ({"data": (X[:3], Y[:3])}, {}, "data is (x, y) of 3 samples; allowed: five of one label"),
    ({"data": [X, Y]}, {}, "data is list; allowed: (x, y), or a dictionary with x_train"),
    ({"data": (X, ["a"] * 100)}, {}, "data[1] is <U1 [100]; allowed: an array of numbers"),
    ({"trace": HOLED}, {}, "trace.csv', line 5: x is ''; it must be a number"),
    ({"trace": PLACES[["time", "id", "x"]]}, {}, "line 1: columns time,id,x; they must be time,id,x,y or"),
    ({"trace": PLACES[PLACES.id < "car3"]}, {}, "has 3 vehicles, which is the most"),
    ({"trace": "a.csv"}, {}, "trace is str; allowed: a pandas.DataFrame; trace.file names a file"),
]


def test_a_mistake_is_one_line_that_names_the_object():
    for objects, changes, says in MISTAKES:
        assert says in told(mdfl_jax.run, TINY | changes, **{"data": (X, Y), "model": Net(), **objects})
