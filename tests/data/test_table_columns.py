"""Tables as people save them: each column is what it says, or the table is refused with the remedy."""

import numpy as np
import pandas as pd
import pytest
from small import told

from mdfl_jax.core.errors import UserError
from mdfl_jax.data.dataset import Targets
from mdfl_jax.data.formats import TableColumns
from mdfl_jax.data.sources import load


def table(rows=60, **more):
    drawn = np.random.default_rng(0)
    plain = {"a": drawn.normal(size=rows), "b": drawn.normal(size=rows)}
    return pd.DataFrame({**plain, **more, "label": ["red", "green", "blue"] * (rows // 3)})


def read(folder, frame, columns=TableColumns(), **form):
    frame.to_csv(folder / "mine.csv", **{"index": False} | form)
    return load("mine", str(folder), columns=columns)


def refused(folder, frame, columns=TableColumns(), **form):
    return told(read, folder, frame, columns, **form).partition("mine.csv': ")[2]


def test_the_index_of_pandas_is_no_feature(tmp_path):
    said = refused(tmp_path, table(), index=True)
    assert said.startswith("column 1 has no name, as the index that pandas writes")
    assert "index=False" in said


@pytest.mark.parametrize("name", ["Label", "LABEL ", "labels", "Class", "classes", "TARGET"])
def test_what_is_nearly_called_the_target_is_asked_for(tmp_path, name):
    frame = table().rename(columns={"label": name}).assign(last=np.arange(60) + 0.5)
    said = refused(tmp_path, frame)
    assert f"column {name!r} may be the target; data.target={name} says so, data.drop={name} leaves it out" in said
    found = read(tmp_path, frame, TableColumns(target=name))
    assert found.num_classes == 3
    assert found.x_train.shape[1] == 3
    left_out = read(tmp_path, frame, TableColumns(drop=(name,)))
    assert left_out.targets is Targets.NUMBERS
    assert left_out.x_train.shape[1] == 2


@pytest.mark.parametrize("name", ["Client", "clients", "owner", "client_id"])
def test_what_is_nearly_called_the_owners_is_asked_for(tmp_path, name):
    frame = table(**{name: [k % 4 for k in range(60)]})
    assert f"column {name!r} may be the owners; data.owner={name} says so" in refused(tmp_path, frame)
    found = read(tmp_path, frame, TableColumns(owner=name))
    assert found.x_train.shape[1] == 2
    assert sorted(np.unique(found.client)) == [0, 1, 2, 3]
    plain = read(tmp_path, frame.rename(columns={name: "client"}))
    for key in ("x_train", "y_train", "client"):
        np.testing.assert_array_equal(getattr(found, key), getattr(plain, key))


OTHERS = """1,000 2,500 | 0,126 7,5 | 12% 7% | 1.037,1 1.040,2 | 5.3kg 7kg | 0x1f 0x2a | 1/2 3/4 | <5 >=7 | ~10k ~2M
2024-01-31 2024-02-01 | 08:30 17:05 | 31.1.2024 1.2.24 | 18-24 25-34 | 1_000 2_000 | $5 $7 | (5) (7)
\u22121 \u22122 | \u0663\u066b5 \u0661 | 1st 2nd | 10k 2M | 5% low | low 5 | 0b101 0b11 | 1..5 6..9 | 1:2 1:3
3,5,7 1,5 | 1d5 2d7 | 1e5f 2e5f | \u00bd \u00be | 5+ 7+"""
SPELT = [cells.split() for line in OTHERS.splitlines() for cells in line.split(" | ")]
SPELT += [["1 Jan 2020", "2 Feb 2021"], ["May 3, 2024", "June 4, 2024"], ["12 %", "7 %"], ["5.3 kg", "7 kg"]]


@pytest.mark.parametrize("cells", SPELT, ids=" ".join)
def test_what_may_be_a_number_or_a_date_is_no_category_unless_it_is_said(tmp_path, cells):
    """As a feature, and as the target of any name but label."""
    frame = table(c=cells * 30)
    row, cell = (1, cells[0]) if cells[0] != "low" else (2, cells[1])
    said = refused(tmp_path, frame)
    assert said.startswith(
        f"column 'c' has {cell!r} in row {row} behind the header; allowed: numbers such as 1234.5, or "
    )
    assert "data.categories=c takes its values as names, data.drop=c leaves it out" in said
    named = read(tmp_path, frame, TableColumns(categories=("c",)))
    here = np.array(cells * 30)[:, None] == np.unique(cells)
    np.testing.assert_array_equal(named.x_train[:, 2:], here[~is_test(frame.label)])
    last = frame.drop(columns="label")[["a", "b", "c"]]
    assert refused(tmp_path, last).startswith("column 'c' has ")
    assert read(tmp_path, frame.assign(label=frame.c).drop(columns="c")).num_classes == 2


def is_test(label):
    """Every fifth row of each label."""
    return (label.groupby(label).cumcount() % 5 == 4).to_numpy()


def test_numbers_are_names_where_it_is_said(tmp_path):
    """As the codes of states: one-hot features in the order of the numbers, and classes for broken ones."""
    codes = [10, 9, 100] * 20
    found = read(tmp_path, table(c=codes), TableColumns(categories=("c",)))
    here = np.array(codes)[:, None] == [9, 10, 100]
    np.testing.assert_array_equal(found.x_train[:, 2:], here[~is_test(table().label)])
    assert "the features are a, b, c (3 texts)" in found.about
    halves = table().assign(label=[0.5, 1.5, 2.5] * 20)
    assert refused(tmp_path, halves) == (
        "column 'label' has 0.5, and labels are classes; call a column of numbers that are to be learnt 'target', or "
        "data.categories=label takes its values as classes"
    )
    assert read(tmp_path, halves, TableColumns(categories=("label",))).num_classes == 3
    assert read(tmp_path, table().assign(label=[1.0, 2.0, 3.0] * 20)).num_classes == 3
    many = table(rows=6000).drop(columns="label").assign(price=np.arange(6000) // 5)
    assert read(tmp_path, many, TableColumns(categories=("price",))).num_classes == 1200


@pytest.mark.parametrize(
    ("value", "name"), [("red", "label"), (3, "label"), (True, "label"), (2.5, "target"), (3, "target")]
)
def test_a_target_with_one_value_is_refused(tmp_path, value, name):
    """By its name, or as the last column, which is often something else."""
    frame = table().rename(columns={"label": "kind"}).assign(last=value)
    said = f"the target, has {value} in each row; data.target names one with several values"
    assert refused(tmp_path, frame) == f"column 'last', {said}"
    assert refused(tmp_path, frame.rename(columns={"last": name})) == f"column {name!r}, {said}"
    assert read(tmp_path, frame, TableColumns(target="kind", drop=("last",))).num_classes == 3


def test_arrays_with_one_target_are_told(tmp_path):
    arrays = {"x_train": np.ones((5, 2)), "y_train": np.full(5, 3), "x_test": np.ones((2, 2)), "y_test": np.full(2, 3)}
    np.savez(tmp_path / "one.npz", **arrays)
    assert load("one", str(tmp_path)).about == "all samples have the same target, so there is nothing to learn"
    np.savez(tmp_path / "two.npz", **{**arrays, "y_test": np.array([3, 4])})
    assert not load("two", str(tmp_path)).about


@pytest.mark.parametrize("form", [{"sep": ";"}, {"sep": "\t"}, {"sep": ";", "decimal": ","}])
def test_other_marks_and_decimal_commas_read_the_same(tmp_path, form):
    np.testing.assert_array_equal(read(tmp_path, table(), **form).x_train, read(tmp_path, table()).x_train)


def test_whole_numbers_beyond_64_bits_and_times_in_seconds(tmp_path):
    """Neither is a text, and no two numbers become one in single precision."""
    frame = table(big=[2**64 + 2**40 * k for k in range(60)], time=[1_700_000_000 + k for k in range(60)])
    found = read(tmp_path, frame)
    assert found.x_train.shape[1] == 4
    for column in (2, 3):
        assert len(np.unique(np.concatenate([found.x_train, found.x_test])[:, column])) == 60
    np.testing.assert_array_equal(np.diff(np.sort(np.concatenate([found.x_train, found.x_test])[:, 3])), 1)
    assert "big, time minus the mean, since float32 is too coarse" in found.about


def test_a_line_says_what_each_column_is(tmp_path):
    frame = table(colour=["x", "y"] * 30, client=[k % 4 for k in range(60)])
    assert read(tmp_path, frame).about == (
        "the target is the column label (3 labels), the owners are the column client, "
        "the features are a, b, colour (2 texts)"
    )
    many = pd.DataFrame(np.ones((10, 9)), columns=list("abcdefghi")).assign(y=np.arange(10) + 0.5)
    assert read(tmp_path, many).about == (
        "the target is the column y (a regression), the features are a, b, c, d, e, f and 3 more"
    )


@pytest.mark.parametrize("name", ["Id", "Unnamed: 0", "index", "row"])
def test_a_column_that_numbers_the_rows_is_no_feature(tmp_path, name):
    frame = table(**{name: range(60)})
    assert f"column {name!r} numbers the rows; data.drop={name} leaves it out" in refused(tmp_path, frame)
    assert read(tmp_path, frame, TableColumns(drop=(name,))).x_train.shape[1] == 2


def test_what_is_left_out_is_not_the_target(tmp_path):
    said = refused(tmp_path, table(), TableColumns(target="a", drop=("a",)))
    assert said == "data.drop names 'a', which is the target, the owners or a category"


def test_many_whole_numbers_are_not_guessed_to_be_classes(tmp_path):
    frame = table(rows=3000).drop(columns="label").assign(price=np.arange(3000))
    assert "column 'price' has 3,000 different whole numbers; its name must be label" in refused(tmp_path, frame)


def test_columns_that_are_not_there_and_sources_without_columns(tmp_path):
    assert "data.drop is 'c'; allowed: one of its columns, 'a', 'b', 'label'" in refused(
        tmp_path, table(), TableColumns(drop=("c",))
    )
    with pytest.raises(UserError, match=r"data\.target is 'a'; it must be empty: data\.name='digits' is no table"):
        load("digits", columns=TableColumns(target="a"))
