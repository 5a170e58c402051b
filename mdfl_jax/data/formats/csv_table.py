"""The format of tables: `<name>.csv` in the data directory, a row for each sample and a header.

- The target is the column `label` or `target`, or else the last one. Whole numbers and texts are labels, which are
  numbered in the order of their values. Numbers with a decimal point, and all numbers of a column `target`, are the
  targets of a regression.
- A column `client` has the natural owners, of training and test samples.
- Each other column is a feature, a float. A column of texts is one-hot, in the alphabetic order of its values. If most
  of its cells are numbers, the others are probably mistakes, and the table is refused.
- Each cell has a value: empty ones and those of `MISSING` are refused.
- Every fifth row is a test sample: of each client if there is a column `client`, else of each label.
"""

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.data.dataset import for_testing
from mdfl_jax.data.files import while_reading
from mdfl_jax.data.formats import FORMATS, of_ending

TARGETS = ("label", "target")
MOST_VALUES = 100  # of a column of texts; a column with more is probably a name or a date, which is no feature

MISSING = ("NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "-nan", "NULL", "null", "None", "?")  # as pandas, and "?"


def read(files: list[Path], where: str) -> dict[str, np.ndarray]:
    """Read a table and split it.

    Returns:
      x_train, x_test float32 [n, F], y_train, y_test, and client and client_test if there is such a column.

    Raises:
      UserError: if the file is damaged, has missing values or no header, or a column that cannot be used.
    """
    table = _table(files[0], where)
    column = _target_column(list(table.columns), where)
    features = [_feature(table, name, where) for name in table.columns if name not in (column, "client")]
    if not features:
        raise UserError(f"{where}: columns found: {', '.join(table.columns)}; allowed: a feature and a target at least")
    x = np.concatenate(features, axis=1).astype(np.float32)
    y = _target(table, column, where)
    client = np.unique(table["client"].to_numpy(), return_inverse=True)[1] if "client" in table else None
    group = client if client is not None else y if y.dtype.kind == "i" else np.zeros(len(y), int)
    test = for_testing(group)
    if not test.any():
        raise UserError(
            f"{where}: it has {len(x)} rows; allowed: five rows of one {'client' if client is not None else 'label'} "
            "at least, of which the fifth is for testing"
        )
    owners = {} if client is None else {"client": client[~test], "client_test": client[test]}
    return {"x_train": x[~test], "y_train": y[~test], "x_test": x[test], "y_test": y[test], **owners}


def _table(path: Path, where: str) -> Any:
    import pandas as pd

    with while_reading(where, "a CSV file with a header"), warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # rows that are longer than the header
        table = pd.read_csv(path, skipinitialspace=True, keep_default_na=False, na_values=[""], index_col=False)
        # Once more the header alone, since pandas has renamed the second of two equal names.
        header = pd.read_csv(path, skipinitialspace=True, keep_default_na=False, header=None, nrows=1, dtype=str)
    _check_header([str(name) for name in header.to_numpy()[0]], where)
    if not len(table):
        raise UserError(f"{where}: it has no rows; allowed: a header and a row for each sample")
    for name in table.columns:
        empty = np.flatnonzero(table[name].isna())
        if len(empty):
            raise UserError(
                f"{where}: column {name!r} has an empty cell in row {empty[0] + 1} behind the header; allowed: a value "
                "in each cell"
            )
        if table[name].dtype.kind not in "iufb":
            texts = table[name].astype(str).str.strip()
            missing = np.flatnonzero(texts.isin(MISSING))
            if len(missing):
                raise UserError(
                    f"{where}: column {name!r} has {texts.iloc[missing[0]]!r}, a missing value, in row "
                    f"{missing[0] + 1} behind the header; allowed: a value in each cell"
                )
    return table


def _check_header(names: list[str], where: str) -> None:
    """Refuse a first line of numbers, which is probably the first sample, and two columns of one name."""
    if all(_are_numbers(names)):
        shown = ", ".join(names[:5]) + ", ..." * (len(names) > 5)
        raise UserError(f"{where}: its first line has only numbers ({shown}); allowed: a header with names")
    for place, name in enumerate(names):
        if name and name in names[:place]:
            raise UserError(f"{where}: two columns have the name {name!r}; allowed: a name of its own for each")


def _are_numbers(texts: Any) -> np.ndarray:
    import pandas as pd

    return pd.to_numeric(pd.Series(texts, dtype=str), errors="coerce").notna().to_numpy()


def _check_texts(texts: np.ndarray, name: str, where: str) -> None:
    """Refuse a column of texts most of which are numbers."""
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
    others = [name for name in columns if name != "client"]
    if not others:
        raise UserError(f"{where}: columns found: {', '.join(columns)}; allowed: a feature and a target at least")
    return named[0] if named else others[-1]


def _feature(table: Any, name: str, where: str) -> np.ndarray:
    """Return a column as features [n, F]: F = 1 for numbers, and the number of different values for texts."""
    values = table[name].to_numpy()
    if values.dtype.kind in "iufb":
        return values.astype(np.float64)[:, None]
    texts = table[name].astype(str).to_numpy(str)
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
    return np.unique(known, return_inverse=True)[1]


FORMATS.register("csv", doc="Tables of comma-separated values.")(of_ending(".csv", read, place=1))
