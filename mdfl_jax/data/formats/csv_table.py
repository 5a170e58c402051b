"""The format of tables: `<name>.csv` in the data directory, a row for each sample and a header.

- The target is the column that `data.target` names; else `label` or `target`, or else the last one. Whole numbers and
  texts are labels, which are numbered in the order of their values. Numbers with a decimal point, and all numbers of a
  column `target`, are the targets of a regression.
- The natural owners of training and test samples are the column that `data.owner` names, else `client`.
- Each other column is a feature, a float, but for those that `data.drop` names. A column of texts is one-hot, in the
  alphabetic order of its values. Texts that are numbers or dates in another spelling are refused.
- Each cell has a value: empty ones and those of `MISSING` are refused.
- Every fifth row is a test sample: of each owner if there are owners, else of each label.
- Columns are divided by commas, or else by semicolons (then numbers may have decimal commas) or tabs.

Nothing is guessed: a column without a name, or one that is nearly called as the target or the owners, is refused.
"""

import csv
import re
import warnings
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.data.dataset import for_testing
from mdfl_jax.data.files import while_reading
from mdfl_jax.data.formats import FORMATS, NO_COLUMNS, TableColumns, of_ending

TARGETS, OWNER = ("label", "target"), "client"
NEARLY = {
    "data.target": ("label", "labels", "class", "classes", "target", "targets"),
    "data.owner": ("client", "clients", "client_id", "owner", "owners"),
}
"""Names, without case and blanks, that are nearly those of the target and of the owners."""
MOST_VALUES = 100  # of a column of texts; a column with more is probably a name or a date, which is no feature
MOST_CLASSES = 1000  # of whole numbers; a column with more is probably a quantity
FEW = 6  # features that the line about a table names
_OTHER_NUMBER = re.compile(
    r"[+-]?\d+(,\d+)+(\.\d+)?|[+-]?\d{1,3}(\.\d{3})+(,\d+)?|[+-]?\d+([ '_]\d{3})+|[+-]?\d+([.,]\d+)?\s?[%€$]"
)
_DECIMAL_COMMA = re.compile(r"[+-]?(\d*,(\d{1,2}|\d{4,})|\d{4,},\d+|0,\d+)")  # 1,000 may be a thousand
_WITH_UNIT = re.compile(r"[+-]?\d+([.,]\d+)?\s?[a-zA-Zµ°/]{1,4}")  # if all cells of a column are so
_DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}.*|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}.*|\d{1,2} \w{3,9} \d{4}.*|\d{1,2}:\d{2}(:\d{2})?"
)

MISSING = (  # as pandas, and others
    *("NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "-nan", "NULL", "null", "None"),
    *("?", "-", "--", "."),
)


def read(files: list[Path], where: str, columns: TableColumns = NO_COLUMNS) -> dict[str, Any]:
    """Read a table and split it.

    Args:
      files: the file.
      where: the beginning of an error message.
      columns: which columns are what.

    Returns:
      x_train, x_test float32 [n, F], y_train, y_test, client and client_test if there are owners, and ``about``, a line
      that says what each column is.

    Raises:
      UserError: if the file is damaged, has missing values or no header, or a column that cannot be used.
    """
    table = _table(files[0], where)
    for field, names in (("target", [columns.target]), ("owner", [columns.owner]), ("drop", columns.drop)):
        if unknown := [name for name in names if name and name not in table]:
            found = ", ".join(map(repr, table.columns[:20]))
            raise UserError(f"{where}: data.{field} is {unknown[0]!r}; allowed: one of its columns, {found}")
    if left := [name for name in (columns.target, columns.owner) if name and name in columns.drop]:
        raise UserError(f"{where}: data.drop names {left[0]!r}, which is the target or the owners")
    table = table.drop(columns=list(columns.drop))
    owner = columns.owner or (OWNER if OWNER in table else "")
    target = columns.target or _target_column([name for name in table.columns if name != owner], where)
    _check_names([name for name in table.columns if name not in (owner, target)], columns, where)
    inputs = [name for name in table.columns if name not in (target, owner)]
    if not inputs:
        raise UserError(f"{where}: columns found: {', '.join(table.columns)}; allowed: a feature and a target at least")
    features = _features(table[inputs], where)
    _check_index(features, where)
    y = _target(table, target, where)
    client = np.unique(table[owner].to_numpy(), return_inverse=True)[1] if owner else None
    group = client if client is not None else y if y.dtype.kind == "i" else np.zeros(len(y), int)
    test = for_testing(group)
    if not test.any():
        raise UserError(
            f"{where}: it has {len(y)} rows; allowed: five rows of one {'client' if client is not None else 'label'} "
            "at least, of which the fifth is for testing"
        )
    x = np.concatenate(list(features.values()), axis=1)
    merged = _are_merged(x)
    x = np.where(merged, x - x[~test].mean(axis=0), x).astype(np.float32)
    owners = {} if client is None else {"client": client[~test], "client_test": client[test]}
    about = _about(target, y, owner, features, merged)
    return {"x_train": x[~test], "y_train": y[~test], "x_test": x[test], "y_test": y[test], **owners, "about": about}


def _about(target: str, y: np.ndarray, owner: str, features: Mapping[str, np.ndarray], merged: np.ndarray) -> str:
    """Return a line that says what each column of a table is."""
    kind = f"{len(np.unique(y))} labels" if y.dtype.kind == "i" else "a regression"
    width = np.array([values.shape[1] for values in features.values()])
    words = [name if of == 1 else f"{name} ({of} texts)" for name, of in zip(features, width)]
    more = f" and {len(words) - FEW} more" if len(words) > FEW else ""
    said = f"the target is the column {target} ({kind}), "
    said += f"the owners are the column {owner}, " if owner else ""
    said += f"the features are {', '.join(words[:FEW])}{more}"
    centred = [name for name, of in zip(np.repeat(list(features), width), merged) if of]
    return said + (f"; {', '.join(centred[:FEW])} minus the mean, since float32 is too coarse" if centred else "")


def _check_index(features: Mapping[str, np.ndarray], where: str) -> None:
    """Refuse a column that is called as an index and numbers the rows."""
    for name, values in features.items():
        is_called = re.fullmatch(r"(unnamed: ?\d+|id|index|row|no\.?|nr\.?|)", name.strip().lower())
        if is_called and len(values) > 1 and values.shape[1] == 1 and (np.diff(values[:, 0]) == 1).all():
            raise UserError(f"{where}: column {name!r} numbers the rows; data.drop={name} leaves it out")


def _are_merged(x: np.ndarray) -> np.ndarray:
    """Return for each column whether different numbers of it become one in float32."""
    count = lambda values: (np.diff(np.sort(values, axis=0), axis=0) != 0).sum(axis=0)  # noqa: E731
    return count(x.astype(np.float32)) < count(x)


def _check_names(features: Sequence[str], columns: TableColumns, where: str) -> None:
    """Refuse features that are nearly called as the target or as the owners, unless it is said what these are."""
    for field, nearly in NEARLY.items():
        if columns.target if field == "data.target" else columns.owner:
            continue
        if found := [name for name in features if re.sub(r"\s", "", name).lower() in nearly]:
            what = "the target" if field == "data.target" else "the owners"
            remedy = f"{field}={found[0]} says so, data.drop={found[0]} leaves it out"
            raise UserError(f"{where}: column {found[0]!r} may be {what}; {remedy}")


def _table(path: Path, where: str) -> Any:
    import pandas as pd

    with while_reading(where, "a CSV file with a header"), warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # rows that are longer than the header
        with open(path, encoding="utf-8-sig", newline="") as file:
            first, second = file.readline(), file.readline()
        mark = "," if "," in first or not max(first.count(";"), first.count("\t")) else max(";\t", key=first.count)
        comma = mark == ";" and any(_DECIMAL_COMMA.fullmatch(cell.strip()) for cell in second.split(mark))
        form: Any = {"sep": mark, "skipinitialspace": True, "keep_default_na": False, "low_memory": False}
        table = pd.read_csv(path, na_values=[""], index_col=False, decimal="," if comma else ".", **form)
        table = table.copy()  # one block of numbers, where pandas has one for each column
        # Once more the header alone, since pandas has renamed the second of two equal names.
        header = next(csv.reader([first], delimiter=mark, skipinitialspace=True), [])
    _check_header(header, where)
    if not len(table):
        raise UserError(f"{where}: it has no rows; allowed: a header and a row for each sample")
    rows, places = np.nonzero(table.isna().to_numpy())
    if len(rows):
        earliest = int(np.lexsort((rows, places))[0])
        raise UserError(
            f"{where}: column {table.columns[places[earliest]]!r} has an empty cell in row {rows[earliest] + 1} behind "
            "the header; allowed: a value in each cell"
        )
    for name in [name for name, of in zip(table.columns, table.dtypes) if of.kind not in "iufb"]:
        texts = table[name].astype(str).str.strip()
        missing = np.flatnonzero(texts.isin(MISSING))
        if len(missing):
            raise UserError(
                f"{where}: column {name!r} has {texts.iloc[missing[0]]!r}, a missing value, in row {missing[0] + 1} "
                "behind the header; allowed: a value in each cell"
            )
    return table


def _check_header(names: list[str], where: str) -> None:
    """Refuse a first line with numbers, which is probably the first sample, and two columns of one name.

    Columns may be numbered (0, 1, 2, ..., label), as pandas names those of an array.
    """
    is_number = _are_numbers(names)
    numbers = [float(name) for name, of in zip(names, is_number) if of]
    if numbers and (all(is_number) or any(after - before != 1 for before, after in pairwise(numbers))):
        shown = ", ".join(names[:5]) + ", ..." * (len(names) > 5)
        only = "only " * bool(all(is_number))
        raise UserError(
            f"{where}: its first line has {only}numbers ({shown}), as a sample has; allowed: a header with a name for "
            "each column"
        )
    seen = set[str]()
    for place, name in enumerate(names):
        if not name.strip():
            raise UserError(
                f"{where}: column {place + 1} has no name, as the index that pandas writes; allowed: a name for each "
                "column (write the table with index=False)"
            )
        if name in seen:
            raise UserError(f"{where}: two columns have the name {name!r}; allowed: a name of its own for each")
        seen.add(name)


def _are_numbers(texts: Any) -> np.ndarray:
    import pandas as pd

    return pd.to_numeric(pd.Series(texts, dtype=str), errors="coerce").notna().to_numpy()


def _check_texts(texts: np.ndarray, name: str, where: str) -> None:
    """Refuse a column of texts most of which are numbers."""
    forms = [(_OTHER_NUMBER, "numbers in another spelling"), (_DATE, "dates or times")]
    if all(_WITH_UNIT.fullmatch(text.strip()) for text in texts):
        forms.append((_WITH_UNIT, "numbers with units"))
    for form, what in forms:
        row = next((k for k, text in enumerate(texts) if form.fullmatch(text.strip())), -1)
        if row >= 0:
            found = f"column {name!r} has {what}, as {str(texts[row])!r} in row {row + 1} behind the header"
            raise UserError(f"{where}: {found}; allowed: numbers such as 1234.5, or data.drop={name}")
    numbers = _are_numbers(texts)
    if 2 * numbers.sum() > len(numbers):
        row = np.flatnonzero(~numbers)[0]
        raise UserError(
            f"{where}: column {name!r} has numbers in most rows and {str(texts[row])!r} in row {row + 1} behind the "
            "header; allowed: only numbers, or texts (put a letter before numbers that are names)"
        )


def _target_column(columns: list[str], where: str) -> str:
    named = [name for name in TARGETS if name in columns]
    if len(named) > 1:
        raise UserError(f"{where}: there are the columns label and target; allowed: one of them")
    if not columns:
        raise UserError(f"{where}: it has no column but that of the owners; allowed: a feature and a target at least")
    return named[0] if named else columns[-1]


def _features(table: Any, where: str) -> dict[str, np.ndarray]:
    """Return each column as features [n, F]: F = 1 for numbers, and the number of different values for texts."""
    is_number = [of.kind in "iufb" for of in table.dtypes]
    numbers = iter(table.loc[:, is_number].to_numpy(np.float64).T[:, :, None])
    return {
        name: next(numbers) if known else _of_texts(table, name, where) for name, known in zip(table.columns, is_number)
    }


def _of_texts(table: Any, name: str, where: str) -> np.ndarray:
    texts = table[name].astype(str).to_numpy(str)
    if _are_numbers(texts).all():  # whole numbers beyond 2^64
        return texts.astype(np.float64)[:, None]
    _check_texts(texts, name, where)
    known, place = np.unique(texts, return_inverse=True)
    if len(known) > MOST_VALUES:
        raise UserError(
            f"{where}: column {name!r} has {len(known)} different texts; allowed: numbers, or at most {MOST_VALUES} "
            "texts, which become one-hot features"
        )
    return np.eye(len(known))[place]


def _target(table: Any, name: str, where: str) -> np.ndarray:
    """Return the targets: int [n] labels, or float [n]."""
    values = table[name].to_numpy()
    is_number = values.dtype.kind in "iuf"
    if name == "target" and not is_number:
        raise UserError(f"{where}: column 'target' has texts; allowed: numbers (call a column of classes 'label')")
    if is_number and (name == "target" or (name != "label" and values.dtype.kind == "f")):
        return values.astype(np.float64)
    known = values if values.dtype.kind in "iufb" else table[name].astype(str).to_numpy(str)
    if known.dtype.kind == "U" and name != "label":  # a last column, whose cells say whether they are classes
        _check_texts(known, name, where)
    classes, place = np.unique(known, return_inverse=True)
    if is_number and name != "label" and len(classes) > MOST_CLASSES:
        raise UserError(
            f"{where}: column {name!r} has {len(classes):,} different whole numbers; its name must be label if they "
            "are classes, or target if they are the numbers of a regression"
        )
    return place


FORMATS.register("csv", doc="Tables of comma-separated values.")(of_ending(".csv", read, place=1, is_table=True))
