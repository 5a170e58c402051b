"""`mdfl data --config`: the clients' data of a study without training, and its mistakes."""

import json
from pathlib import Path

import numpy as np
import pytest
from forked import Started
from small import TINY

pytestmark = pytest.mark.filterwarnings("ignore:the load_module")  # ml_collections
MISTAKES = """
 => --trace=FILE is missing: a trace to describe; or --config=FILE, a study
--picture=a.png => --picture=a.png needs --config=FILE
--config=tiny.py --trace=town.csv => --trace=town.csv and --config are both given
--config=tiny.py --picture=a.gif => --picture=a.gif: it must end in .png, .pdf or .svg
--config=tiny.py --picture=no/a.png => --picture=no/a.png: there is no folder 'no'
--config=tiny.py --target=a => --target=a is for a file; with --config it is --config.SECTION.KEY
--trace=tiny.csv --target=b => data.target is 'b'; allowed: one of its columns, 'a', 'label'
--trace=tiny.csv --target=a --radius=5 => --radius=5.0 is for a trace, and tiny.csv is none
--trace=tiny.csv --layout=channel_first => unknown layout 'channel_first' (did you mean 'channels_first'?)
--trace=tiny.py --drop=a => --drop=a is for a data set, and tiny.py is none
--trace=digits.csv => 'digits.csv': data.name=digits is a data set that needs no file; rename the file
--config=tiny.py --config.data.alpha=0.0 => data.alpha is 0.0; it must be greater than 0
--config=tiny.py --config.data.partition=iidd => unknown partition 'iidd' (did you mean 'iid'?)
"""


@pytest.fixture
def call(tmp_path_factory):
    """Runs the command in a process of its own, for its flag --target is also one of `mdfl sweep`."""

    def run(command, *args):
        ended = Started(tmp_path_factory.mktemp("log"), command, *args, cwd=Path.cwd()).ended()
        return ended.status, ended.out, ended.said()

    return run


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.py").write_text(TINY)
    for name in ("tiny.csv", "digits.csv"):
        (tmp_path / name).write_text("a,label\n" + "1,x\n2,y\n" * 9)
    return tmp_path


@pytest.mark.long
def test_counts_numbers_and_a_picture_for_each_data(call, folder):
    fields = "--config.data.partition=dirichlet", "--config.data.alpha=0.3"
    status, out, err = call("data", "--config=tiny.py", *fields, "--picture=clients.png")
    assert (status, err) == (0, "")
    assert "dirichlet, data.alpha=0.3" in out
    assert "earth mover's distance (1-norm)" in out
    assert out.endswith("picture: clients.png\n")
    assert (folder / "clients.png").read_bytes().startswith(b"\x89PNG")
    fields = "--config.baseline=", "--config.sweep=data.partition=iid,shards"
    status, out, _ = call("data", "--config=tiny.py", *fields, "--picture=clients.svg")
    assert status == 0
    assert out.count("total variation distance") == 2
    assert sorted(path.name for path in folder.glob("*.svg")) == ["clients_1.svg", "clients_2.svg"]


def test_a_table_of_samples_is_told_from_a_trace(call, mistake, folder):
    rows = [f"{k},{k % 7}.5,{'ab'[k % 2]}" for k in range(20)]
    (folder / "mine.csv").write_text("\n".join(["size,x,label", *rows]))
    status, out, err = call("data", "--trace=mine.csv")
    assert (status, err) == (0, "")
    assert "train samples  16" in out
    assert "read as        the target is the column label (2 labels), the features are size, x\n" in out
    (folder / "index.csv").write_text("\n".join([",size,label", *rows]))
    assert "index.csv': column 1 has no name, as the index that pandas writes" in mistake("data", "--trace=index.csv")
    (folder / "trace.csv").write_text("time,id,x,y\n" + "".join(f"{k},{n},{k},1\n" for k in range(3) for n in "ab"))
    assert call("data", "--trace=trace.csv")[1].startswith("trace")


def test_the_fields_of_a_data_set_are_flags(call, mistake, folder):
    rows = [f"{k},{k % 7}.5,{k % 3 + 1}/2,{'ab'[k % 2]}" for k in range(40)]
    (folder / "mine.csv").write_text("\n".join(["size,x,share,kind", *rows]))
    assert "column 'share' has '1/2' in row 1" in mistake("data", "mine.csv")
    said = call("data", "mine.csv", "--drop=share,x")[1]
    assert "read as        the target is the column kind (2 labels), the features are size\n" in said
    said = call("data", "mine.csv", "--categories=share", "--target=x", "--owner=kind")[1]
    assert "the target is the column x (a regression), the owners are the column kind, " in said
    assert "the features are size, share (3 texts)\n" in said
    x = np.zeros((10, 3, 8, 6), np.uint8)
    np.savez(folder / "photos.npz", x_train=x, y_train=np.arange(10), x_test=x, y_test=np.arange(10))
    assert "data.layout=channels_first reads it so" in mistake("data", "photos.npz")
    assert "[8, 6, 3], an image" in call("data", "photos.npz", "--layout=channels_first")[1]


def test_edge_lists_and_partitions_are_told(call, mistake, folder):
    (folder / "ring.edges").write_text("4\n0 1\n1 2\n2 3\n3 0\n")
    (folder / "bare.txt").write_text("0 1\n1 2\n")
    (folder / "weighted.csv").write_text("0,1,0.3\n1,2,0.25\n")
    for name, clients, links, degree, weights in [
        ("ring.edges", 4, 4, "mean 2.00, from 2 to 2", "no weights"),
        ("bare.txt", 3, 2, "mean 1.33, from 1 to 2", "no weights"),
        ("weighted.csv", 3, 2, "mean 1.33, from 1 to 2", "the weights of the links"),
    ]:
        status, out, err = call("data", name)
        assert (status, err) == (0, "")
        assert f"clients  {clients}\nlinks    {links} in both directions\ndegree   {degree}\n" in out
        assert f"read as  an edge list with {weights}" in out
    (folder / "bare.txt").write_text("0 1\n1 2\n2 x\n")
    assert "line 3: '2,x' is not of numbers with commas or blanks between" in mistake("data", "bare.txt")
    counts = {"Size of samples for labels in clients": [[[0, 20], [2, 5]], [[1, 7]]]}
    (folder / "config.json").write_text(json.dumps(counts))
    out = call("data", "config.json")[1]
    assert "clients    2\nlabels     3\nsamples    32, of a client 7 to 25\n" in out
    (folder / "config.json").write_text("{}")
    assert "is no partition of PFLlib: it has no pairs" in mistake("data", "config.json")


def test_the_current_folder_is_a_data_set_too(call, folder, monkeypatch):
    content = {"users": ["u"], "num_samples": [2], "user_data": {"u": {"x": [[1.5], [2.5]], "y": [0, 1]}}}
    for split in ("train", "test"):
        (folder / "faces" / split).mkdir(parents=True)
        (folder / "faces" / split / "all.json").write_text(json.dumps(content))
    expected = call("data", "faces")
    assert expected[0] == 0
    monkeypatch.chdir(folder / "faces")
    assert call("data", ".")[1].splitlines()[1:] == expected[1].splitlines()[1:]
    monkeypatch.chdir(folder / "faces" / "train")
    assert call("data", "..")[1].splitlines()[1:] == expected[1].splitlines()[1:]


@pytest.mark.parametrize("case", MISTAKES.strip("\n").splitlines())
def test_a_mistake_is_one_line_and_nothing_is_written(mistake, folder, case):
    given, expected = case.split(" => ")
    assert expected in mistake("data", *given.split())
    assert {path.name for path in folder.iterdir()} <= {"tiny.py", "tiny.csv", "digits.csv", "__pycache__"}
