"""`mdfl data --config`: the clients' data of a study without training, and its mistakes."""

from pathlib import Path

import numpy as np
import pytest
from forked import answers
from small import TINY

pytestmark = pytest.mark.filterwarnings("ignore:the load_module")  # ml_collections
MISTAKES = """
 => what to describe is missing: mdfl data FILE, or mdfl data --config=digits for a study's data
--config=tiny.py --trace=town.csv => --trace=town.csv and --config are both given
--config=tiny.py --target=a => --target=a is for a file; with --config it is --config.SECTION.KEY
--trace=tiny.csv --target=b => data.target is 'b'; allowed: one of its columns, 'a', 'label'
--trace=tiny.csv --layout=channel_first => unknown layout 'channel_first' (did you mean 'channels_first'?)
--trace=numbers.txt => ; it is no data set, graph or partition either
--trace=digits.csv => 'digits.csv': data.name=digits is a data set that needs no file; rename the file
--config=tiny.py --config.data.partition=iidd => unknown partition 'iidd' (did you mean 'iid'?)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.py").write_text(TINY)
    for name in ("tiny.csv", "digits.csv"):
        (tmp_path / name).write_text("a,label\n" + "1,x\n2,y\n" * 9)
    (tmp_path / "numbers.txt").write_text("5 4 3\n2 0 1\n0 0 7\n")
    return tmp_path


@pytest.fixture
def told(tmp_path_factory):
    """Runs command lines in one process of their own, for the flag --target is also one of `mdfl sweep`.

    Returns what each prints: where it succeeds, or where it is wrong its error, checked to be one line.
    """

    def said(*lines, status=0):
        ended = answers(tmp_path_factory.mktemp("log"), "data", map(str.split, lines), Path.cwd())
        for of in ended:
            if status:
                assert (of.status, of.out, of.err[:7], of.err.count("\n")) == (2, "", "error: ", 1), of
            else:
                assert (of.status, of.err) == (0, ""), of
        return [of.err if status else of.out for of in ended]

    return said


@pytest.mark.long
def test_counts_and_numbers_of_each_data(told):
    one, two = told(
        "--config=tiny.py --config.data.partition=dirichlet --config.data.alpha=0.3",
        "--config=tiny.py --config.baseline= --config.sweep=data.partition=iid,shards",
    )
    assert "dirichlet, data.alpha=0.3" in one
    assert "earth mover's distance (1-norm)" in one
    assert two.count("total variation distance") == 2


def test_a_table_of_samples_is_told_from_a_trace_and_read_as_the_flags_say(told, folder):
    rows = [f"{k},{k % 7}.5,{k % 3 + 1}/2,{'ab'[k % 2]}" for k in range(40)]
    (folder / "mine.csv").write_text("\n".join(["size,x,share,kind", *rows]))
    (folder / "index.csv").write_text("\n".join([",x,share,label", *rows]))
    (folder / "trace.csv").write_text("time,id,x,y\n" + "".join(f"{k},{n},{k},1\n" for k in range(3) for n in "ab"))
    x = np.zeros((10, 3, 8, 6), np.uint8)
    np.savez(folder / "photos.npz", x_train=x, y_train=np.arange(10), x_test=x, y_test=np.arange(10))
    (folder / "held.json").write_text('{"1": [0, 3], "2": [1, 2, 4]}')
    dropped, regression, photos, trace, held = told(
        "mine.csv --drop=share,x",
        "mine.csv --categories=share --target=x --owner=kind",
        "photos.npz --layout=channels_first",
        "--trace=trace.csv",
        "held.json",
    )
    assert "train samples  32" in dropped
    read = "the target is the column kind (2 labels), the features are size; labels a, b are numbered 0, 1\n"
    assert f"read as        {read}" in dropped
    assert "the target is the column x (a regression), the owners are the column kind, " in regression
    assert "the features are size, share (3 texts)\n" in regression
    assert "[8, 6, 3], an image" in photos
    assert trace.startswith("trace")
    assert "clients 1 to 2 are numbered 0 to 1" in held
    assert "5; a client holds from 2 to 3\n" in held
    share, index, layout = told("mine.csv", "--trace=index.csv", "photos.npz", status=2)
    assert "column 'share' has '1/2' in row 1" in share
    assert "index.csv': column 1 has no name, as the index that pandas writes" in index
    assert "data.layout=channels_first reads it so" in layout


def test_a_mistake_is_one_line_and_nothing_is_written(told, folder):
    cases = [line.split(" => ") for line in MISTAKES.strip("\n").splitlines()]
    for (given, expected), said in zip(cases, told(*(given for given, _ in cases), status=2), strict=True):
        assert expected in said, given
    assert {path.name for path in folder.iterdir()} <= {
        "tiny.py",
        "tiny.csv",
        "digits.csv",
        "numbers.txt",
        "__pycache__",
    }
