"""Tables as people save them: each column is what it says, or the table is refused with the remedy."""

import numpy as np
import pandas as pd
from small import told

from mdfl_jax.data.formats import TableColumns
from mdfl_jax.data.sources import load


def table(rows=60, **more):
    drawn = np.random.default_rng(0)
    plain = {"a": drawn.normal(size=rows), "b": drawn.normal(size=rows)}
    return pd.DataFrame({**plain, **more, "label": ["red", "green", "blue"] * (rows // 3)})


def read(folder, frame, columns=TableColumns(), **form):
    frame.to_csv(folder / "mine.csv", **{"index": False} | form)
    return load("mine", str(folder), columns=columns)


def test_columns_that_may_be_something_else_are_asked_for(tmp_path):
    """With the field that decides, which then works."""
    rows = table()
    plain = rows.assign(last=np.arange(60) + 0.5)
    for frame, says, decided in [
        (plain.rename(columns={"label": "Class"}), "column 'Class' may be the target; data.target=Class says so, da",
         TableColumns(target="Class")),
        (table(clients=[k % 4 for k in range(60)]), "column 'clients' may be the owners; data.owner=clients says so",
         TableColumns(owner="clients")),
        (table(Id=range(60)), "column 'Id' numbers the rows; data.drop=Id leaves it out", TableColumns(drop=("Id",))),
        (rows.assign(label=[0.5, 1.5, 2.5] * 20), "column 'label' has 0.5, and labels are classes; call a column of",
         TableColumns(categories=("label",))),
        (rows.rename(columns={"label": "kind"}).assign(last=3), "column 'last', the target, has 3 in each row; dat",
         TableColumns(target="kind", drop=("last",))),
        (table(c=[10, 9, 100] * 20), "", TableColumns(categories=("c",))),
        (table(rows=6000).drop(columns="label").assign(price=np.arange(6000) // 5),
         "column 'price' has 1,200 different whole numbers; its name must be label",
         TableColumns(categories=("price",))),
    ]:  # fmt: skip
        if says:
            assert says in told(read, tmp_path, frame)
        found = read(tmp_path, frame, decided)
        assert found.num_classes == (1200 if "price" in frame else 3)
        assert found.x_train.shape[1] == (3 if "Class" in frame else 5 if "c" in frame else 2)
        assert (found.client is not None) == ("clients" in frame)
    for sep in ",;\t":
        line = told(read, tmp_path, rows, index=True, sep=sep)
        assert "column 1 has no name, as the index that pandas writes" in line
    assert told(read, tmp_path, rows, TableColumns(target="a", drop=("a",))).endswith(
        "data.drop names 'a', which is the target, the owners or a category"
    )
    absent = "data.drop is 'c'; allowed: one of its columns, 'a', 'b', 'label'"
    assert absent in told(read, tmp_path, rows, TableColumns(drop=("c",)))
    line = told(load, "digits", columns=TableColumns(target="a"))
    assert "data.target is 'a'; it must be empty: data.name='digits' is no table" in line


BEYOND = {"stamp": 2**60, "beyond": 2**70, "below": -(2**62), "second": 1_700_000_000, "unsigned": 2**63}


def test_whole_numbers_beyond_single_precision_stay_as_many(tmp_path):
    """They are centred while they are whole, as features and as targets; a number of names and a label is none."""
    for name, first in BEYOND.items():
        steps = np.arange(60) if name != "second" else 1000 * np.arange(60)
        whole = [first + int(step) for step in steps]
        found = read(tmp_path, table(**{name: whole}))
        column = np.concatenate([found.x_train[:, 2], found.x_test[:, 2]])
        assert np.array_equal(np.sort(column) - column.min(), steps)
        target = read(tmp_path, table(target=whole).drop(columns="label"))
        numbers = np.concatenate([target.y_train, target.y_test])
        assert np.array_equal(np.sort(numbers[:, 0]) - numbers.min(), steps)
        middle = (whole[0] + whole[-1]) // 2
        assert (f"{name} minus {middle:,}" in found.about) == (name != "second")
    apart = [2**60 + k for k in range(30)] + [2**61 + k for k in range(30)]
    for frame in (
        table(stamp=apart),
        table(target=apart).drop(columns="label"),
        table(stamp=[2**10 * k for k in apart]),
    ):
        line = told(read, tmp_path, frame)
        assert " has 60 different whole numbers, of which single precision tells 2 apart; allowed: numbers in a" in line


SPELT = """1,000 2,500 | 0,126 7,5 | 12% 7% | 1.037,1 1.040,2 | 5.3kg 7kg | 0x1f 0x2a | 1/2 3/4 | <5 >=7 | ~10k ~2M
2024-01-31 2024-02-01 | 08:30 17:05 | 31.1.2024 1.2.24 | 18-24 25-34 | 1_000 2_000 | $5 $7 | (5) (7) | 1d5 2d7
\u22121 \u22122 | \u0663\u066b5 \u0661 | 1st 2nd | 5% low | 1..5 6..9 | 3,5,7 1,5 | \u00bd \u00be | 5+ 7+"""


def test_what_may_be_a_number_or_a_date_is_no_category_unless_it_is_said(tmp_path):
    spelt = [cells.split() for line in SPELT.splitlines() for cells in line.split(" | ")]
    for cells in (*spelt, ["1 Jan 2020", "2 Feb 2021"], ["May 3, 2024", "June 4, 2024"], ["5.3 kg", "7 kg"]):
        frame = table(c=cells * 30)
        says = f"column 'c' has {cells[0]!r} in row 1 behind the header; allowed: numbers such as 1234.5, or "
        line = told(read, tmp_path, frame)
        assert says in line
        assert "data.categories=c takes its values as names, data.drop=c leaves it out" in line
        named = read(tmp_path, frame, TableColumns(categories=("c",)))
        is_test = frame.groupby("label").cumcount().to_numpy() % 5 == 4
        here = np.array(cells * 30)[:, None] == np.unique(cells)
        np.testing.assert_array_equal(named.x_train[:, 2:], here[~is_test])


def test_a_row_may_begin_as_a_comment_does(tmp_path):
    colours = ["#ff0000", "#00ff00", "red", "%blue"]
    frame = table()[["a", "label"]].assign(colour=colours * 15)[["colour", "a", "label"]]
    found = read(tmp_path, frame, TableColumns(categories=("colour",)))
    assert len(found.x_train) + len(found.x_test) == 60
    assert found.x_train.shape[1] == len(colours) + 1
    text = (tmp_path / "mine.csv").read_text().replace("#ff0000", "# ff0000")
    (tmp_path / "mine.csv").write_text(f"{text}# the end\n")
    found = load("mine", str(tmp_path), columns=TableColumns(categories=("colour",)))
    assert len(found.x_train) + len(found.x_test) == 45
    assert "; 15 lines that begin with # or % are left out" in found.about


def test_a_wrong_table_is_one_line(tmp_path):
    for text, says in [
        ("", "cannot be read (EmptyDataError"),
        ("a,b\n1,2\n,3\n", "column 'a' has an empty cell in row 2 behind the header"),
        ("a,label\n1,1\n2.5,1\n3_5x,1\n4,2", "column 'a' has numbers in most rows and '3_5x' in row 3 behind the"),
        ("1,2.5,-3\n4,5,6\n", "its first line has only numbers (1, 2.5, -3); allowed: a header with names"),
        ("a,b,red\n" + "1,2,red\n" * 9, "its first line has 'red', as a row below it"),
        ("a,b,a\n4,5,6\n", "two columns have the name 'a'; allowed: a name of its own for each"),
        ("label,target\n1,2\n", "there are the columns label and target; allowed: one of them"),
        ("a,label\n" + "\n".join(f"name{k},1" for k in range(101)), "column 'a' has 101 different texts"),
        ("a,b\n3e38,1.5\n" + "1,2.5\n" * 9, "x_train[0, 0] is 3e+38; allowed: finite numbers up to 1e+30"),
        ("x,m;label\n" + "0,5;1\n" * 9, "',' or ';' may divide its columns"),
    ]:
        (tmp_path / "mine.csv").write_text(text)
        line = told(load, "mine", str(tmp_path))
        assert f"file {str(tmp_path / 'mine.csv')!r}: " in line
        assert says in line
