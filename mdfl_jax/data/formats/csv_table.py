"""The format of tables: `<name>.csv` in the data directory, a row for each sample and a header.

- The target is the column that `data.target` names; else `label` or `target`, or else the last one. Whole numbers and
  texts are labels, which are numbered in the order of their values. Numbers with a decimal point, and all numbers of a
  column `target`, are the targets of a regression.
- The natural owners of training and test samples are the column that `data.owner` names, else `client`.
- Each other column is a feature, a float, but for those that `data.drop` names. A column of names is one-hot, in
  the order of its values. Texts that may be something else, as 1,000, <5, 1/2 and dates, are refused.
- `data.categories` names the columns whose values are names whatever they look like: classes, or one-hot features.
- Each cell has a value: empty ones and those of `_MISSING` are refused.
- Every fifth row is a test sample: of each owner if there are owners, else of each label.
- Columns are divided as those of any table (`mdfl_jax.core.tables.Rows`).

Nothing is guessed: a column without a name, or one that is nearly called as the target or the owners, is refused.
"""

import io
import itertools
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.numbering import numbering
from mdfl_jax.core.tables import DECIMAL_COMMA, Rows, is_name
from mdfl_jax.data.dataset import for_testing, in_single, whole_as_floats
from mdfl_jax.data.files import while_reading
from mdfl_jax.data.formats import FORMATS, NO_COLUMNS, TableColumns, of_ending
from mdfl_jax.storage.disk import host_memory
from mdfl_jax.storage.given import LARGE, at_line, lines_in, open_file

TARGETS, OWNER = ("label", "target"), "client"
NEARLY = {
    "data.target": ("label", "labels", "class", "classes", "target", "targets"),
    "data.owner": (
        *("client", "clients", "clientid", "owner", "owners", "user", "users", "userid", "id", "subject", "subjectid"),
        *("participant", "participantid", "patient", "patientid", "person", "personid", "device", "deviceid"),
    ),
}
"""Names, without case and anything but letters, that are nearly those of the target and of the owners."""
NUMBERS_ROWS = re.compile(r"(unnamed:? ?\d+|level_\d+|(row|sample)?[ _]?(id|index|number|no|nr)\.?|rows?|rownames?|#|)")
MOST_VALUES = 100  # of a column of texts; a column with more is probably a name or a date, which is no feature
MOST_CLASSES = 1000  # of whole numbers; a column with more is probably a quantity
_FEW = 6  # features that the line about a table names
_HEADER = "allowed: a header with names (numbers only as 0, 1, 2 or 1, 2, 3)"
_WHOLE = re.compile(r"[+-]?\d{1,999}")

_MISSING = (  # as pandas, and others
    *("NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "-nan", "NaT", "NULL", "null", "None"),
    *("?", "-", "--", "."),
)


def _read(files: list[Path], where: str, columns: TableColumns = NO_COLUMNS) -> dict[str, Any]:
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
    table, notes = _table(files[0], where)
    for field, value in columns._asdict().items():
        names = [value] if isinstance(value, str) else value
        if unknown := [name for name in names if name and name not in table]:
            found = ", ".join(map(repr, table.columns[:20]))
            raise UserError(f"{where}: data.{field} is {unknown[0]!r}; allowed: one of its columns, {found}")
    if left := [name for name in (columns.target, columns.owner, *columns.categories) if name in columns.drop]:
        raise UserError(f"{where}: data.drop names {left[0]!r}, which is the target, the owners or a category")
    table = table.drop(columns=list(columns.drop))
    owner = columns.owner or (OWNER if OWNER in table else "")
    target = columns.target or _target_column([name for name in table.columns if name != owner], where)
    inputs = [name for name in table.columns if name not in (target, owner)]
    _check_index(table[inputs], where)
    _check_names(inputs, columns, where)
    if not inputs:
        raise UserError(f"{where}: columns found: {', '.join(table.columns)}; allowed: a feature and a target at least")
    features, moved = _features(table[inputs], columns.categories, where)
    y, away = _target(table[target].to_numpy(), target, target in columns.categories, where)
    moved[target] = away
    classes = np.unique(table[target].to_numpy()).tolist() if y.dtype.kind == "i" else []
    notes += [numbering("labels", classes)] * (classes != list(range(len(classes))))
    client = np.unique(table[owner].to_numpy(), return_inverse=True)[1] if owner else None
    group = client if client is not None else y if y.dtype.kind == "i" else np.zeros(len(y), int)
    test = for_testing(group)
    if not test.any():
        one, column = ("client", owner) if client is not None else ("label", target)
        raise UserError(
            f"{where}: it has {len(y)} rows, with the {one} in the column {column!r}; allowed: five rows of one {one} "
            "at least, of which the fifth is for testing"
        )
    if (y == y[0]).all():
        has = f"column {target!r}, the target, has {table[target].iloc[0]} in each row"
        raise UserError(f"{where}: {has}; data.target names one with several values")
    x = np.concatenate(list(features.values()), axis=1)
    single, coarse = in_single(where, {"train": x[~test], "test": x[test]}, "x")
    owners = {} if client is None else {"client": client[~test], "client_test": client[test]}
    arrays = {"x_train": single["train"], "y_train": y[~test], "x_test": single["test"], "y_test": y[test], **owners}
    return {**arrays, "about": "; ".join([_about(target, y, owner, features, coarse, moved), *notes])}


def _about(
    target: str,
    y: np.ndarray,
    owner: str,
    features: Mapping[str, np.ndarray],
    coarse: np.ndarray,
    moved: Mapping[str, int],
) -> str:
    """Return a line that says what each column of a table is."""
    kind = f"{len(np.unique(y))} labels" if y.dtype.kind == "i" else "a regression"
    width = np.array([values.shape[1] for values in features.values()])
    words = [name if of == 1 else f"{name} ({of} texts)" for name, of in zip(features, width)]
    more = f" and {len(words) - _FEW} more" if len(words) > _FEW else ""
    said = f"the target is the column {target} ({kind}), "
    said += f"the owners are the column {owner}, " if owner else ""
    said += f"the features are {', '.join(words[:_FEW])}{more}"
    centred = [name for name, of in zip(np.repeat(list(features), width), coarse) if of]
    said += "".join(f"; {name} minus {away:,}" for name, away in list(moved.items())[:_FEW] if away)
    return said + (f"; {', '.join(centred[:_FEW])} minus the mean, since float32 is too coarse" if centred else "")


def _check_index(table: Any, where: str) -> None:
    """Refuse a column of numbers that is called as an index and has another whole number in each row."""
    for name in filter(lambda name: NUMBERS_ROWS.fullmatch(name.strip().lower()), table.columns):
        values = table[name].to_numpy()
        if values.dtype.kind not in "iuf" or len(values) < 2:
            continue
        if (values == np.round(values)).all() and len(np.unique(values)) == len(values):
            raise UserError(f"{where}: column {name!r} numbers the rows; data.drop={name} leaves it out")


def _check_names(features: Sequence[str], columns: TableColumns, where: str) -> None:
    """Refuse features that are nearly called as the target or as the owners, unless it is said what these are."""
    for field, nearly in NEARLY.items():
        if columns.target if field == "data.target" else columns.owner:
            continue
        if found := [name for name in features if re.sub(r"[\W_]", "", name).lower() in nearly]:
            what = "the target" if field == "data.target" else "the owners"
            remedy = f"{field}={found[0]} says so, data.drop={found[0]} leaves it out"
            raise UserError(f"{where}: column {found[0]!r} may be {what}; {remedy}")


def _table(path: Path, where: str) -> tuple[Any, list[str]]:
    """Return the table with numbers where all cells of a column are numbers, and else with texts without outer blanks.

    Whole numbers beyond 64 bits stay texts. The second result says what of the file was not taken as it is.
    """
    import pandas as pd

    notes = list[str]()
    with while_reading(where, "a CSV file with a header"), warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # rows that are longer than the header
        with open_file(path, min(LARGE, host_memory())) as file:
            rows = Rows(lines_in(file, notes), at_line, has_header=True)
            text = io.BytesIO("".join([rows.header_text, "\n", *rows.texts()]).encode())
        notes += rows.notes
        form: Any = {"sep": r"\s+" if rows.mark == " " else rows.mark, "skipinitialspace": True}
        form |= {"keep_default_na": False, "low_memory": False, "na_values": [""], "index_col": False}
        table = pd.read_csv(text, **form)
        cells = itertools.chain.from_iterable(_texts(table).values() if rows.mark != "," else ())
        if any(DECIMAL_COMMA.fullmatch(str(cell).strip()) for cell in cells):
            text.seek(0)
            table = pd.read_csv(text, decimal=",", **form)
        table = table.copy()  # one block of numbers, where pandas has one for each column
    _check_header(rows.header, where)  # where pandas has renamed the second of two equal names
    if not len(table):
        raise UserError(f"{where}: it has no rows; allowed: a header and a row for each sample")
    empty, places = np.nonzero(table.isna().to_numpy())
    if len(empty):
        earliest = int(np.lexsort((empty, places))[0])
        raise UserError(
            f"{where}: column {table.columns[places[earliest]]!r} has an empty cell in row {empty[earliest] + 1} "
            "behind the header; allowed: a value in each cell"
        )
    for name, cells in _texts(table).items():
        texts = cells.str.strip()
        missing = np.flatnonzero(texts.isin(("", *_MISSING)))
        if len(missing):
            raise UserError(
                f"{where}: column {name!r} has {texts.iloc[missing[0]]!r}, a missing value, in row {missing[0] + 1} "
                "behind the header; allowed: a value in each cell"
            )
        if (texts == name.strip()).any():
            raise UserError(f"{where}: its first line has {name.strip()!r}, as a row below it; {_HEADER}")
        if list(texts) != list(table[name]):
            table[name] = texts
    return table, notes


def _texts(table: Any) -> dict[str, Any]:
    """Return the columns that have texts, by their names."""
    return {name: table[name].astype(str) for name, of in zip(table.columns, table.dtypes) if of.kind not in "iufb"}


def _check_header(names: list[str], where: str) -> None:
    """Refuse a first line of numbers, which is probably the first sample, and two columns of one name."""
    numbers = [name for name, is_number in zip(names, _are_numbers(names)) if is_number]
    if len(numbers) == len(names):
        shown = ", ".join(names[:5]) + ", ..." * (len(names) > 5)
        raise UserError(f"{where}: its first line has only numbers ({shown}); {_HEADER}")
    if numbers not in [[str(k + first) for k in range(len(numbers))] for first in (0, 1)]:
        raise UserError(f"{where}: its first line has the number {numbers[0]}; {_HEADER}")
    if cells := [name for name in names if name in ("True", "False") or _is_cell(name)]:
        raise UserError(f"{where}: its first line has {cells[0]}; {_HEADER}")
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


def _are_whole(texts: Iterable[str]) -> bool:
    """Tell whether all texts are whole numbers, of which only those beyond 64 bits are still texts."""
    return all(_WHOLE.fullmatch(text) for text in texts)


def _long(texts: Iterable[str]) -> np.ndarray:
    """Return whole numbers that are still texts as Python integers."""
    return np.array(list(map(int, texts)), object)


def _is_cell(name: str) -> bool:
    """Tell whether the name of a column is rather the cell of a sample: it has digits and no letter, as 1,000 or <5."""
    return any(map(str.isnumeric, name)) and not any(map(str.isalpha, name)) and not _are_numbers([name])[0]


def _check_texts(texts: Sequence[str], name: str, where: str) -> None:
    """Refuse a column of texts of which some are no names: numbers, or what may be numbers or dates."""
    numbers = _are_numbers(texts)
    if numbers.all():
        raise UserError(f"{where}: column {name!r} has decimal points, and other columns have decimal commas")
    others = np.array([not is_name(text) for text in texts])
    if not others.any():
        return
    most = 2 * numbers.sum() > len(numbers)
    row = int(np.argmin(numbers) if most else np.argmax(others))
    found = f"{'numbers in most rows and ' if most else ''}{texts[row]!r} in row {row + 1} behind the header"
    raise UserError(
        f"{where}: column {name!r} has {found}; allowed: numbers such as 1234.5, or names, which begin with a letter; "
        f"data.categories={name} takes its values as names, data.drop={name} leaves it out"
    )


def _target_column(columns: list[str], where: str) -> str:
    named = [name for name in TARGETS if name in columns]
    if len(named) > 1:
        raise UserError(f"{where}: there are the columns label and target; allowed: one of them")
    if not columns:
        raise UserError(f"{where}: it has no column but that of the owners; allowed: a feature and a target at least")
    if not named and (nearly := [name for name in columns[:-1] if name.strip().lower() == "y"]):
        raise UserError(
            f"{where}: column {nearly[0]!r} may be the target, and so may the last one; data.target={nearly[0]} or "
            f"data.target={columns[-1]} says so"
        )
    return named[0] if named else columns[-1]


def _features(table: Any, categories: Sequence[str], where: str) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """Return each column as features, and what is subtracted from columns of whole numbers (`whole_as_floats`).

    Features are [n, F]: F = 1 for numbers, and the number of different values for names.
    """
    is_number = [of.kind in "iufb" and name not in categories for name, of in zip(table.columns, table.dtypes)]
    numbers = iter(table.loc[:, is_number].to_numpy(np.float64).T[:, :, None])
    found, moved = dict[str, np.ndarray](), dict[str, int]()
    for name, of, known in zip(table.columns, table.dtypes, is_number):
        found[name] = next(numbers) if known else np.zeros((0, 1))
        is_long = not known and name not in categories and _are_whole(table[name])
        if is_long or (known and of.kind in "iu"):
            whole = _long(table[name]) if is_long else table[name].to_numpy()
            found[name], moved[name] = whole_as_floats(where, f"column {name!r}", whole[:, None])
        elif not known:
            found[name] = _of_texts(table[name].to_numpy(), name, name in categories, where)
    return found, moved


def _of_texts(values: np.ndarray, name: str, are_names: bool, where: str) -> np.ndarray:
    if not are_names:
        _check_texts(values.tolist(), name, where)
    known, place = np.unique(values, return_inverse=True)
    if len(known) > MOST_VALUES:
        raise UserError(
            f"{where}: column {name!r} has {len(known)} different texts; allowed: numbers, or at most {MOST_VALUES} "
            "texts, which become one-hot features"
        )
    return np.eye(len(known))[place]


def _target(values: np.ndarray, name: str, are_names: bool, where: str) -> tuple[np.ndarray, int]:
    """Return the targets, int [n] labels or float [n], and what is subtracted from whole numbers."""
    is_long = values.dtype.kind not in "iufb" and _are_whole(values)
    is_number = values.dtype.kind in "iuf" or is_long
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise UserError(f"{where}: column {name!r} has {values[~np.isfinite(values)][0]}; allowed: finite numbers")
    if not are_names:
        if name == "target" and not is_number:
            raise UserError(f"{where}: column 'target' has texts; allowed: numbers (call a column of classes 'label')")
        if name == "label" and values.dtype.kind == "f" and (broken := values[values != np.round(values)]).size:
            raise UserError(
                f"{where}: column 'label' has {broken[0]:g}, and labels are classes; call a column of numbers that are "
                "to be learnt 'target', or data.categories=label takes its values as classes"
            )
        if is_number and (name == "target" or (name != "label" and values.dtype.kind == "f")):
            if values.dtype.kind == "f":
                return values, 0
            return whole_as_floats(where, f"column {name!r}", _long(values) if is_long else values)
        if not is_number and values.dtype.kind != "b" and name != "label":
            _check_texts(values.tolist(), name, where)  # a last column, whose cells say whether they are classes
    if not is_number and values.dtype.kind != "b":
        values = values.astype(str)
    classes, place = np.unique(_long(values) if is_long else values, return_inverse=True)
    if is_number and not are_names and name != "label" and len(classes) > MOST_CLASSES:
        raise UserError(
            f"{where}: column {name!r} has {len(classes):,} different whole numbers; its name must be label if they "
            "are classes, or target if they are the numbers of a regression"
        )
    return place, 0


FORMATS.register("csv", doc="Tables of comma-separated values.")(of_ending(".csv", _read, place=1, is_table=True))
