"""A reader of data sets that Hugging Face's `datasets` has saved on disk. It never downloads one.

`DatasetDict.save_to_disk` makes such a folder. It needs the splits train and test, and may have validation. Columns:

- The targets are the column `label`, `labels`, `target` or `y`: ClassLabel or whole numbers, a list of whole numbers
  for each sequence, floats, or a list of bools.
- A column `client` of whole numbers has the natural owners.
- The samples are the only other column, of images or of lists or arrays of one size; or all other columns, if each has
  one number a sample.

Columns and classes go by their names. A split that has them in another order is read in that of the split train.
"""

import importlib
import os
from typing import Any

import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.data.files import while_reading
from mdfl_jax.data.sources import PREPARED

TARGETS = ("label", "labels", "target", "y")
_SPLITS = ("train", "test", "validation")


@PREPARED.register("hf:", doc="hf:<folder>")
def _read(folder: str, directory: str) -> tuple[dict[str, np.ndarray], int]:
    """Read a saved data set.

    Args:
      folder: the folder, inside of the data directory.
      directory: the data directory.

    Returns:
      The arrays by the names that they have in an npz file; and the number of classes that the set declares, or 0.

    Raises:
      UserError: if `datasets` is not installed, if there is no such folder or if it is damaged, or for splits and
        columns other than those above.
    """
    where = f"data.name={'hf:' + folder!r}"
    if not directory:
        raise UserError(f"{where} is a folder in data.dir; neither data.dir nor MDFL_DATA_DIR is set")
    path = os.path.join(directory, folder)
    if not folder or not os.path.isdir(path):
        raise UserError(f"{where}: no folder {path!r}; allowed: a folder made by save_to_disk")
    with while_reading(where, extra="hf", place=repr(path)):
        datasets = importlib.import_module("datasets")
        splits = datasets.load_from_disk(path)
        if not isinstance(splits, datasets.DatasetDict) or not {"train", "test"} <= set(splits):
            found = ", ".join(splits) if isinstance(splits, datasets.DatasetDict) else "one without a name"
            raise UserError(f"{where}: splits found: {found}; needed: train and test")
        arrays: dict[str, np.ndarray] = {}
        for split in _SPLITS:
            if split in splits:
                arrays |= _of_split(splits[split], split, splits["train"], f"{where}, split {split}")
        train = splits["train"]
        declared = len(_names(_element(train.features[_target(train.column_names, where)])))
    return arrays, declared


def _of_split(split: Any, name: str, train: Any, where: str) -> dict[str, np.ndarray]:
    """Return the samples, the targets and, except for validation samples, the owners of a split.

    Args:
      split: the split.
      name: its name.
      train: the split train, whose columns and classes decide the order.
      where: the beginning of an error message.
    """
    target = _target(train.column_names, where)
    others = [column for column in train.column_names if column not in (target, "client")]
    if {*split.column_names} - {"client"} != {target, *others}:
        found, wanted = ", ".join(split.column_names), ", ".join(train.column_names)
        raise UserError(f"{where}: columns found: {found}; allowed: those of the split train, {wanted}")
    for column in split.column_names:
        _check_complete(split.data.column(column), f"{where}: column {column!r}")
    whole = split.with_format("numpy")[:]
    arrays = {}
    for column in split.column_names:
        said = f"{where}: column {column!r}"
        own, first = (_element(of.features.get(column)) for of in (split, train))
        arrays[column] = _numbered(_array(whole[column], own, said), _names(own), _names(first), said)
    y, client = arrays.pop(target), arrays.pop("client", None)
    if len(others) == 1:
        x = arrays[others[0]]
    elif others and all(array.ndim == 1 and array.dtype.kind in "iufb" for array in arrays.values()):
        x = np.stack([arrays[column].astype(np.float64) for column in others], axis=1)
    else:
        shown = ", ".join(f"{column} {list(array.shape[1:])}" for column, array in arrays.items()) or "none"
        raise UserError(
            f"{where}: columns besides {target} and client: {shown}; allowed: one, or several with one number a sample"
        )
    arrays = {f"x_{name}": x, f"y_{name}": y}
    if client is not None and name != "validation":
        arrays["client" if name == "train" else "client_test"] = client
    return arrays


def _target(columns: list[str], where: str) -> str:
    named = [column for column in TARGETS if column in columns]
    if len(named) != 1:
        raise UserError(f"{where}: columns found: {', '.join(columns)}; allowed: one of {', '.join(TARGETS)}")
    return named[0]


def _check_complete(column: Any, where: str) -> None:
    """Refuse a column of Arrow with a missing value. NumPy's casts would make 0 or True of it."""
    before = 0
    for chunk in column.chunks:
        rows = np.flatnonzero(_missing(chunk))
        if len(rows):
            raise UserError(f"{where} has a missing value (None) in row {before + rows[0]}; allowed: a value in each")
        before += len(chunk)


def _missing(array: Any) -> np.ndarray:
    """Tell for each value of an Arrow array [n] whether it is missing or, being a list, has a missing element."""
    array = getattr(array, "storage", array)  # of an array type that `datasets` has made
    compute, types = (importlib.import_module(f"pyarrow.{part}") for part in ("compute", "types"))
    missing = np.array(array.is_null())
    nested = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    if not missing.any() and any(is_list(array.type) for is_list in nested):
        missing[np.asarray(compute.list_parent_indices(array))[_missing(array.flatten())]] = True
    return missing


def _element(feature: Any) -> Any:
    """Return the feature of a column, or that of the elements of its lists."""
    while getattr(feature, "feature", None) is not None:
        feature = feature.feature
    return feature


def _names(element: Any) -> list[str]:
    """Return the names of the classes that a column has; none if it has no classes."""
    return list(getattr(element, "names", None) or ())


def _numbered(array: np.ndarray, own: list[str], first: list[str], where: str) -> np.ndarray:
    """Return labels with the numbers that the names of their classes have in the split train; -1 stays -1."""
    if own == first:
        return array
    if not own or not set(own) <= set(first):
        shown, known = (", ".join(names[:5]) + ", ..." * (len(names) > 5) or "none" for names in (own, first))
        raise UserError(f"{where} has the classes {shown}, and the split train has {known}; allowed: the same names")
    return np.array([*(first.index(name) for name in own), -1])[array]


def _array(values: Any, element: Any, where: str) -> np.ndarray:
    """Return a column as an array. Bytes come as int64 from `datasets` and are made uint8 again."""
    array = values if isinstance(values, np.ndarray) else np.asarray(values)
    if array.dtype.hasobject:
        shapes = {np.shape(value) for value in values}
        shown = " and ".join(str(list(shape)) for shape in sorted(shapes)[:2])
        raise UserError(f"{where} has values of {shown}; allowed: numbers of one shape for all")
    if getattr(element, "dtype", "") == "uint8":
        return array.astype(np.uint8)
    return array.astype(bool) if getattr(element, "dtype", "") == "bool" else array
