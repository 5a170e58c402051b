"""`mdfl data --config`: the clients' data of a study without training, and its mistakes."""

import pytest
from small import TINY

from mdfl_jax.cli import data

pytestmark = pytest.mark.filterwarnings("ignore:the load_module")  # ml_collections
MISTAKES = """
 => --trace=FILE is missing: a trace to describe; or --config=FILE, a study
--picture=a.png => --picture=a.png needs --config=FILE
--config=tiny.py --trace=town.csv => --trace=town.csv and --config are both given
--config=tiny.py --picture=a.gif => --picture=a.gif: it must end in .png, .pdf or .svg
--config=tiny.py --picture=no/a.png => --picture=no/a.png: there is no folder 'no'
--config=tiny.py --config.data.alpha=0.0 => data.alpha is 0.0; it must be greater than 0
--config=tiny.py --config.data.partition=iidd => unknown partition 'iidd' (did you mean 'iid'?)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.py").write_text(TINY)
    return tmp_path


@pytest.mark.long
def test_counts_numbers_and_a_picture_for_each_data(call, folder):
    fields = "--config.data.partition=dirichlet", "--config.data.alpha=0.3"
    status, out, err = call(data, "--config=tiny.py", *fields, "--picture=clients.png")
    assert (status, err) == (0, "")
    assert "dirichlet, data.alpha=0.3" in out
    assert "earth mover's distance (1-norm)" in out
    assert out.endswith("picture: clients.png\n")
    assert (folder / "clients.png").read_bytes().startswith(b"\x89PNG")
    fields = "--config.baseline=", "--config.sweep=data.partition=iid,shards"
    status, out, _ = call(data, "--config=tiny.py", *fields, "--picture=clients.svg")
    assert status == 0
    assert out.count("total variation distance") == 2
    assert sorted(path.name for path in folder.glob("*.svg")) == ["clients_1.svg", "clients_2.svg"]


def test_a_table_of_samples_is_told_from_a_trace(call, mistake, folder):
    rows = [f"{k},{k % 7}.5,{'ab'[k % 2]}" for k in range(20)]
    (folder / "mine.csv").write_text("\n".join(["size,x,label", *rows]))
    status, out, err = call(data, "--trace=mine.csv")
    assert (status, err) == (0, "")
    assert "train samples  16" in out
    assert "read as        the target is the column label (2 labels), the features are size, x\n" in out
    (folder / "index.csv").write_text("\n".join([",size,label", *rows]))
    assert "index.csv': column 1 has no name, as the index that pandas writes" in mistake(data, "--trace=index.csv")
    (folder / "trace.csv").write_text("time,id,x,y\n" + "".join(f"{k},{n},{k},1\n" for k in range(3) for n in "ab"))
    assert call(data, "--trace=trace.csv")[1].startswith("trace")


@pytest.mark.parametrize("case", MISTAKES.strip("\n").splitlines())
def test_a_mistake_is_one_line_and_nothing_is_written(mistake, folder, case):
    given, expected = case.split(" => ")
    assert expected in mistake(data, *given.split())
    assert {path.name for path in folder.iterdir()} <= {"tiny.py", "__pycache__"}
