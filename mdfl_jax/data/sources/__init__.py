"""Loads a data set by its name: sources without a directory, files in a data directory, and prepared data sets.

A file of this folder registers sources in `SOURCES`. `mdfl_jax.contrib.formats` has readers of prepared data sets.
"""

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.core.own_files import error_words
from mdfl_jax.core.registry import Registry
from mdfl_jax.data.dataset import (
    KEYS,
    OPTIONAL_KEYS,
    Dataset,
    Targets,
    as_dataset,
    evenly_spaced,
    for_testing,
    rank_in_group,
    subset,
)
from mdfl_jax.data.formats import FORMATS, NO_COLUMNS, Format, TableColumns, formats_in_order
from mdfl_jax.storage.given import GIVEN, keep_known

SOURCES: Registry[Callable[[], dict[str, np.ndarray]]] = Registry("data.name", home="mdfl_jax.data.sources")
"""Sources: name -> function that returns the arrays of a data set, by the names that they have in an npz file.

x_train, y_train, x_test and y_test are needed; docs/data.md lists the others and the allowed types.
"""


WELL_KNOWN = {
    "mnist": "lecun1998",
    "fashion_mnist": "xiao2017",
    "cifar10": "krizhevsky2009",
    "cifar100": "krizhevsky2009",
}
"""Well-known data sets, which have the same names in TensorFlow Datasets, with what to cite (`core.papers`)."""
_Arrays = tuple[dict[str, np.ndarray], int]


PREPARED: Registry[Callable[[str, str], _Arrays]] = Registry("prefix of data.name", contrib="formats.sources")
"""Readers of data sets that other libraries have prepared, by the beginning of the names of these sets.

A reader is a function (rest of the name, data directory) -> (arrays by name, the number of classes that the set
declares, or 0). Its description in the registry is the form of the names.
"""

FETCHERS: Registry[Callable[[str, str], None]] = Registry("fetcher of data sets", contrib="formats.sources")
"""Functions that fetch a set of `WELL_KNOWN` once, by the prefix with which `PREPARED` then reads it.

A fetcher is a function (name, data directory), which raises a `UserError` if it cannot.
"""


def load(
    name: str,
    directory: str = "",
    limit_train: int = 0,
    limit_test: int = 0,
    columns: TableColumns = NO_COLUMNS,
    layout: str = "auto",
) -> Dataset:
    """Load a data set by name.

    Args:
      name: a member of `SOURCES` (`digits`), or the name of a data set in the data directory in one of the formats
        (`mnist` for `mnist.npz`, `mnist.csv` or the IDX files of MNIST), or `tfds:<name>` or `hf:<folder>` for one that
        TensorFlow Datasets or Hugging Face's `datasets` has prepared there. They are searched in this order. A set of
        `WELL_KNOWN` that is not there is fetched once (`fetch`).
      directory: the data directory; "" takes the environment variable MDFL_DATA_DIR. If neither is set, `tfds:` reads
        the default directory of tensorflow-datasets, and files cannot be loaded.
      limit_train: the largest number of training samples; 0 takes all. Of samples with one label `balanced_subset`
        chooses them, of others they are evenly spaced.
      limit_test: the same for test samples.
      columns: which columns of a table are what.
      layout: where images have their channels, one of `mdfl_jax.data.dataset.LAYOUTS`.

    Returns:
      The data set. Labels that are not 0 to K - 1 are numbered in ascending order. `num_classes` is K, but at least the
      number that the source declares. The limits do not change it.

    Raises:
      UserError: for an unknown name, no data directory, a file that is damaged or has other keys, shapes or types than
        docs/data.md allows, a data set that is not prepared, or a negative limit.

    >>> load("digits", limit_train=100).x_train.shape
    (100, 8, 8, 1)
    """
    where, declared_classes = f"data.name={name!r}", 0
    about, is_table = "", False
    source = name if name in SOURCES or _is_there(name, directory) else fetch(name, directory)
    prefix = next((prefix for prefix in PREPARED if source.startswith(prefix)), "")
    if name in SOURCES:
        arrays = SOURCES[name]()
        if not isinstance(arrays, Mapping) or not set(KEYS) <= set(arrays):
            raise UserError(f"{where}: the function must return a dictionary with {', '.join(KEYS)}")
        arrays = {key: _array(arrays[key], f"{where}: {key}") for key in (*KEYS, *OPTIONAL_KEYS) if key in arrays}
    elif prefix:
        arrays, declared_classes = PREPARED[prefix](source.removeprefix(prefix), data_directory(directory))
        about = f"read as {source}" if source != name else ""
    else:
        kind, files = _files(name, directory)
        where += f", {'file' if len(files) == 1 else 'folder'} {os.path.commonpath(files)!r}"
        is_table = kind.is_table
        arrays = kind.read(files, where, columns) if is_table else kind.read(files, where)
        about = str(arrays.pop("about", ""))
    if columns != NO_COLUMNS and not is_table:
        field, value = next((field, value) for field, value in columns._asdict().items() if value)
        given = value if isinstance(value, str) else ",".join(value)
        raise UserError(f"data.{field} is {given!r}; it must be empty: data.name={name!r} is no table")
    dataset = as_dataset(name, where, arrays, declared_classes, layout)
    dataset = dataset._replace(about="; ".join(filter(None, (about, dataset.about))))
    for field, limit in (("data.limit_train", limit_train), ("data.limit_test", limit_test)):
        if not isinstance(limit, (int, np.integer)) or limit < 0:
            raise UserError(f"{field}={limit}: allowed: a whole number, 0 (all samples) or more")
    test = _limited(dataset.y_test, limit_test, dataset.targets)
    return subset(dataset, _limited(dataset.y_train, limit_train, dataset.targets))._replace(
        x_test=dataset.x_test[test],
        y_test=dataset.y_test[test],
        client_test=None if dataset.client_test is None else dataset.client_test[test],
    )


def fetch(name: str, directory: str = "") -> str:
    """Fetch a set of `WELL_KNOWN` if it is not prepared yet, which needs the extra tfds and, once, a network.

    Args:
      name: the name; another one than those of `WELL_KNOWN` is returned as it is.
      directory: as in `load`.

    Returns:
      The name under which `load` reads the set.

    Raises:
      UserError: if it cannot be fetched. The line says what to put where.
    """
    prefix = next(iter(FETCHERS), "")
    if name not in WELL_KNOWN or not prefix:
        return name
    try:
        FETCHERS[prefix](name, data_directory(directory))
    except UserError as error:
        raise UserError(f"{_missing(name, directory)}; {error}") from None
    return f"{prefix}{name}"


def _is_there(name: str, directory: str) -> bool:
    """Tell whether a data directory has files of a data set."""
    path = data_directory(directory)
    return bool(path) and any(name in kind.names(Path(path), os.listdir(path)) for kind in formats_in_order())


def _limited(y: np.ndarray, limit: int, targets: Targets) -> np.ndarray | slice:
    """Return the samples that a limit leaves, as indices or a slice of everything."""
    if limit == 0 or limit >= len(y):
        return slice(None)  # a slice, so that no copy of the samples is made
    return balanced_subset(y, limit) if targets is Targets.LABELS else evenly_spaced(len(y), limit)


def data_names(directory: str = "") -> list[str]:
    """List the names that `load` takes: members of `SOURCES`, data sets of a directory, and the forms `tfds:<name>`.

    The directory is ``directory`` or, if it is "", that of MDFL_DATA_DIR.

    Raises:
      UserError: if the data directory does not exist or cannot be listed.
    """
    path = data_directory(directory)
    known = {name for name in SOURCES if not name.startswith(GIVEN)}
    if path:
        try:
            entries = os.listdir(path)
        except OSError as error:
            raise UserError(f"data directory {path!r} cannot be listed ({error.strerror})") from error
        known.update(*(kind.names(Path(path), entries) for kind in formats_in_order()))
    return [*sorted(known), *(PREPARED.doc(prefix) for prefix in PREPARED)]


def name_of_data(path: Path) -> str:
    """Return the name of the data set that a file or a folder is, in the folder in which it lies; "" if it is none.

    Raises:
      UserError: if the name is that of a source, which would be loaded in its place.
    """
    if (path / "dataset_dict.json").is_file():
        return f"hf:{path.name}"
    for kind in formats_in_order():
        for name in sorted(kind.names(path.parent, [path.name])):
            files = kind.files(path.parent, name)
            if path in files or all(path in file.parents for file in files):
                if name in SOURCES:
                    raise UserError(
                        f"{str(path)!r}: data.name={name} is a data set that needs no file; rename the file"
                    )
                return name
    return ""


@contextlib.contextmanager
def known_data(arrays: Mapping[str, Any] | tuple[Any, Any]) -> Iterator[str]:
    """Make a data set of arrays known by a name inside the context.

    The name contains a digest of the arrays. So a study with the same settings and other arrays is another study.

    Args:
      arrays: x_train, y_train, x_test and y_test, and perhaps the other arrays of docs/data.md; or a pair (x, y), of
        which every fifth sample of a label is for testing.

    Yields:
      The name for the field data.name.

    Raises:
      UserError: for other keys, or for a pair that cannot be divided.
    """
    if isinstance(arrays, tuple) and len(arrays) == 2:
        arrays = _divided(*arrays)
    if not isinstance(arrays, Mapping):
        raise UserError(f"data is {type(arrays).__name__}; allowed: (x, y), or a dictionary with {', '.join(KEYS)}")
    for key in arrays:
        if key not in (*KEYS, *OPTIONAL_KEYS):
            raise UserError(unknown_name("key of data", str(key), (*KEYS, *OPTIONAL_KEYS)))
    if missing := [key for key in KEYS if key not in arrays]:
        raise UserError(f"data has no {missing[0]}; needed: {', '.join(KEYS)}")
    digest, found = hashlib.sha256(), {key: _array(arrays[key], f"data[{key!r}]") for key in sorted(arrays)}
    for key, array in found.items():
        digest.update(f"{key} {array.dtype.str} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array).data if array.size else b"")
    name = f"{GIVEN}{digest.hexdigest()[:16]}"
    add = SOURCES.register(name, doc="Arrays that a Python program has given.")
    with keep_known(name, lambda: add(lambda: found), lambda: SOURCES.remove(name)):
        yield name


def _divided(x: Any, y: Any) -> dict[str, np.ndarray]:
    """Divide samples into those for training and every fifth one of a label, or of all, for testing."""
    x, y = _array(x, "data[0]"), _array(y, "data[1]")
    if x.shape[:1] != y.shape[:1] or not x.ndim:
        raise UserError(f"data is (x, y) of {list(x.shape)} and {list(y.shape)}; allowed: a target for each sample")
    test = for_testing(y if y.ndim == 1 and y.dtype.kind != "f" else np.zeros(len(y), int))
    if not test.any():
        raise UserError(f"data is (x, y) of {len(x)} samples; allowed: five of one label, of which one is for testing")
    return {"x_train": x[~test], "y_train": y[~test], "x_test": x[test], "y_test": y[test]}


def _array(value: Any, what: str) -> np.ndarray:
    """Return a value as an array, after a check that it is one of numbers, or of bools, none of them masked."""
    if np.ma.is_masked(value):
        place = [int(i) for i in np.argwhere(np.ma.getmaskarray(value))[0]]
        raise UserError(f"{what} is masked at {place}; allowed: an array without masked values")
    try:
        array = np.asarray(value)
    except ValueError as error:  # lists of unequal lengths
        raise UserError(f"{what} cannot be an array ({error_words(error)})") from error
    if array.dtype.kind not in "biuf":
        raise UserError(f"{what} is {array.dtype} {list(array.shape)}; allowed: an array of numbers")
    return array


def balanced_subset(labels: np.ndarray, limit: int) -> np.ndarray:
    """Choose at most `limit` samples, as evenly over the classes as possible, without random numbers.

    The classes take turns in the order of their labels. In each turn a class gives its first sample that is not taken
    yet; a class without samples left is skipped. So the numbers of samples chosen from two classes differ by at most
    one, unless a class has no samples left.

    Args:
      labels: [n] whole numbers.
      limit: the number of samples wanted, at most n.

    Returns:
      The indices of the chosen samples in their original order, [limit] int.

    >>> balanced_subset(np.array([0, 0, 0, 1, 1, 2]), 5)
    array([0, 1, 3, 4, 5])
    """
    turns = np.lexsort((labels, rank_in_group(labels)))
    return np.sort(turns[:limit])


def data_directory(directory: str) -> str:
    """Return the data directory, or "" if none is set, after a check that it exists."""
    field = "data.dir" if directory else "the environment variable MDFL_DATA_DIR"
    path = os.path.expanduser(directory or os.environ.get("MDFL_DATA_DIR", ""))
    if path and not os.path.isdir(path):
        raise UserError(f"{field}={path!r}: no such directory; allowed: a folder that holds the data sets")
    return path


def _how_to_get(name: str) -> str:
    """Return the part of an error that says how to get a well-known data set; "" for other data sets."""
    if name not in WELL_KNOWN:
        return ""
    return (
        f"; docs/data.md, 'Your own data', shows how to make it, and data.name=tfds:{name} reads a prepared one; "
        "data.name=digits needs no files, as in mdfl sweep digits"
    )


def _files(name: str, directory: str) -> tuple[Format, list[Path]]:
    """Return the format and the files of a data set, after a check that the directory's listing has it."""
    path = data_directory(directory)
    for kind in formats_in_order() if path else ():
        if name in kind.names(Path(path), os.listdir(path)):
            return kind, kind.files(Path(path), name)
    if (parent := os.path.dirname(name)) or os.path.isfile(name):
        stem = name_of_data(Path(name)) or Path(name).name.removesuffix(".npz").removesuffix(".csv")
        raise UserError(
            f"data.name is {name!r}, a path; a file is named by its folder and its name without the ending: "
            f"data.dir={parent or '.'} data.name={stem}"
        )
    raise UserError(_missing(name, directory))


def _missing(name: str, directory: str) -> str:
    """Return the line about a data set that is not there."""
    path, unknown = data_directory(directory), unknown_name("data.name", name, data_names(directory))
    if not path:
        return (
            f"{unknown}; another name is that of a file <data.dir>/<name>.npz, and neither data.dir nor the environment"
            f" variable MDFL_DATA_DIR is set{_how_to_get(name)}{PREPARED.lacks()}"
        )
    others = " or ".join(known for known in FORMATS if known != "npz")
    tried = f"no file {os.path.join(path, name + '.npz')!r}, nor one in the format {others}"
    return f"{unknown}; {tried}{_how_to_get(name)}{PREPARED.lacks()}"
