"""Tables as people save them: each column is what it says, or the table is refused with the remedy."""

import numpy as np
import pandas as pd
import pytest

from mdfl_jax.core.errors import UserError
from mdfl_jax.data.dataset import Targets
from mdfl_jax.data.formats import TableColumns
from mdfl_jax.data.sources import load


def table(rows=60, **more):
    drawn = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "a": drawn.normal(size=rows),
            "b": drawn.normal(size=rows),
            **more,
            "label": ["red", "green", "blue"] * (rows // 3),
        }
    )


def read(folder, frame, columns=TableColumns(), **form):
    frame.to_csv(folder / "mine.csv", **{"index": False} | form)
    return load("mine", str(folder), columns=columns)


def told(folder, frame, columns=TableColumns(), **form):
    with pytest.raises(UserError) as caught:
        read(folder, frame, columns, **form)
    assert "\n" not in str(caught.value)
    return str(caught.value).partition("mine.csv': ")[2]


def test_the_index_of_pandas_is_no_feature(tmp_path):
    said = told(tmp_path, table(), index=True)
    assert said.startswith("column 1 has no name, as the index that pandas writes")
    assert "index=False" in said


@pytest.mark.parametrize("name", ["Label", "LABEL ", "labels", "Class", "classes", "TARGET"])
def test_what_is_nearly_called_the_target_is_asked_for(tmp_path, name):
    frame = table().rename(columns={"label": name}).assign(last=1.5)
    said = told(tmp_path, frame)
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
    assert f"column {name!r} may be the owners; data.owner={name} says so" in told(tmp_path, frame)
    found = read(tmp_path, frame, TableColumns(owner=name))
    assert found.x_train.shape[1] == 2
    assert sorted(np.unique(found.client)) == [0, 1, 2, 3]
    plain = read(tmp_path, frame.rename(columns={name: "client"}))
    for key in ("x_train", "y_train", "client"):
        np.testing.assert_array_equal(getattr(found, key), getattr(plain, key))


@pytest.mark.parametrize(
    ("cells", "what"),
    [
        (["1,000", "2,500"], "numbers in another spelling, as '1,000'"),
        (["0,126", "7,5"], "numbers in another spelling, as '0,126'"),
        (["12 %", "7 %"], "numbers in another spelling, as '12 %'"),
        (["2024-01-31", "2024-02-01"], "dates or times, as '2024-01-31'"),
        (["1.037,1", "1.040,2"], "numbers in another spelling, as '1.037,1'"),
        (["5.3 kg", "7 kg"], "numbers with units, as '5.3 kg'"),
        (["08:30", "17:05"], "dates or times, as '08:30'"),
        (["1 Jan 2020", "2 Feb 2021"], "dates or times, as '1 Jan 2020'"),
        (["31.1.2024", "1.2.24"], "dates or times, as '31.1.2024'"),
    ],
)
def test_numbers_and_dates_in_other_spellings_are_no_texts(tmp_path, cells, what):
    said = told(tmp_path, table(c=cells * 30))
    assert f"column 'c' has {what} in row 1" in said
    assert "data.drop=c" in said
    assert read(tmp_path, table(c=cells * 30), TableColumns(drop=("c",))).x_train.shape[1] == 2


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
    assert f"column {name!r} numbers the rows; data.drop={name} leaves it out" in told(tmp_path, frame)
    assert read(tmp_path, frame, TableColumns(drop=(name,))).x_train.shape[1] == 2


def test_what_is_left_out_is_not_the_target(tmp_path):
    said = told(tmp_path, table(), TableColumns(target="a", drop=("a",)))
    assert said == "data.drop names 'a', which is the target or the owners"


def test_many_whole_numbers_are_not_guessed_to_be_classes(tmp_path):
    frame = table(rows=3000).drop(columns="label").assign(price=np.arange(3000))
    assert "column 'price' has 3,000 different whole numbers; its name must be label" in told(tmp_path, frame)


def test_columns_that_are_not_there_and_sources_without_columns(tmp_path):
    assert "data.drop is 'c'; allowed: one of its columns, 'a', 'b', 'label'" in told(
        tmp_path, table(), TableColumns(drop=("c",))
    )
    with pytest.raises(UserError, match=r"data\.target is 'a'; it must be empty: data\.name='digits' is no table"):
        load("digits", columns=TableColumns(target="a"))
