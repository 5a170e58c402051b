"""Data sources: scikit-learn's digits, npz files in a data directory, and prepared TensorFlow data sets."""

import importlib.util
import os
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from mdfl_jax.data.arrays import as_dataset
from mdfl_jax.data.dataset import Dataset
from mdfl_jax.errors import UserError, unknown_name
from mdfl_jax.registry import Registry

KEYS = ("x_train", "y_train", "x_test", "y_test")
OPTIONAL_KEYS = ("client",)  # the person or device that each training sample comes from
TFDS_PREFIX = "tfds:"
PUBLIC = ("mnist", "fashion_mnist", "cifar10", "cifar100")  # they have the same names in TensorFlow Datasets

SOURCES: Registry[Callable[[], dict[str, np.ndarray]]] = Registry("data.name")
"""Sources that need no data directory: name -> function that returns the four arrays of `KEYS`, as in an npz file.

The optional array ``client`` [n] of whole numbers says from which person or device each training sample comes.
"""


def load(name: str, directory: str = "", limit_train: int = 0, limit_test: int = 0) -> Dataset:
    """Load a data set by name.

    Args:
      name: a member of `SOURCES` (`digits`), or the stem of an npz file in the data directory (`mnist` for
        `mnist.npz`), or `tfds:<name>` for a TensorFlow data set prepared there. If a member of `SOURCES` and a file
        have the same name, the member is loaded.
      directory: the data directory; "" takes the environment variable MDFL_DATA_DIR. If neither is set, `tfds:` reads
        the default directory of tensorflow-datasets, and npz files cannot be loaded.
      limit_train: the largest number of training samples; 0 takes all. `balanced_subset` chooses them.
      limit_test: the same for test samples.

    Returns:
      The data set: images uint8 [n, H, W, channels], labels int32 [n], and the array ``client`` if the source has it.
      `num_classes` is the largest label of the training and test samples plus one, but at least the number that a
      TensorFlow data set declares. The limits do not change it.

    Raises:
      UserError: for an unknown name, no data directory, a file that is damaged or has other keys, shapes or types than
        those above, a TensorFlow data set that is not prepared, or a negative limit.

    >>> load("digits", limit_train=100).x_train.shape
    (100, 8, 8, 1)
    """
    where, declared_classes = f"data.name={name!r}", 0
    if name in SOURCES:
        arrays = SOURCES[name]()
        if not isinstance(arrays, Mapping) or not set(KEYS) <= set(arrays):
            raise UserError(f"{where}: the function must return a dictionary with {', '.join(KEYS)}")
    elif name.startswith(TFDS_PREFIX):
        from mdfl_jax.data import tfds

        arrays, declared_classes = tfds.read(name.removeprefix(TFDS_PREFIX), _data_directory(directory))
    else:
        path = _npz_path(name, directory)
        where += f", file {str(path)!r}"
        arrays = _read_npz(path, where)
    dataset = as_dataset(name, where, arrays, declared_classes)
    for field, limit in (("data.limit_train", limit_train), ("data.limit_test", limit_test)):
        if not isinstance(limit, (int, np.integer)) or limit < 0:
            raise UserError(f"{field}={limit}: allowed: a whole number, 0 (all samples) or more")
    train = balanced_subset(dataset.y_train, limit_train)
    test = balanced_subset(dataset.y_test, limit_test)
    return dataset._replace(
        x_train=dataset.x_train[train],
        y_train=dataset.y_train[train],
        client=None if dataset.client is None else dataset.client[train],
        x_test=dataset.x_test[test],
        y_test=dataset.y_test[test],
    )


def names(directory: str = "") -> list[str]:
    """List the names that `load` takes: members of `SOURCES`, the stems of npz files, and the form `tfds:<name>`.

    The npz files are those of ``directory`` or, if it is "", of MDFL_DATA_DIR.

    Raises:
      UserError: if the data directory does not exist or cannot be listed.
    """
    known = set(SOURCES)
    path = _data_directory(directory)
    if path:
        try:
            known.update(entry.removesuffix(".npz") for entry in os.listdir(path) if entry.endswith(".npz"))
        except OSError as error:
            raise UserError(f"data directory {path!r} cannot be listed ({error.strerror})") from error
    return [*sorted(known), f"{TFDS_PREFIX}<name>"]


def balanced_subset(labels: np.ndarray, limit: int) -> np.ndarray | slice:
    """Choose at most `limit` samples, as evenly over the classes as possible, without random numbers.

    The classes take turns in the order of their labels. In each turn a class gives its first sample that is not taken
    yet; a class without samples left is skipped. So the numbers of samples chosen from two classes differ by at most
    one, unless a class has no samples left.

    Args:
      labels: [n] whole numbers.
      limit: the number of samples wanted; 0, or a number above n, takes all.

    Returns:
      The indices of the chosen samples in their original order, [limit] int; or a slice of everything.

    >>> balanced_subset(np.array([0, 0, 0, 1, 1, 2]), 5)
    array([0, 1, 3, 4, 5])
    """
    if limit == 0 or limit >= len(labels):
        return slice(None)  # a slice, so that no copy of the images is made
    turns = np.lexsort((labels, _rank_in_class(labels)))
    return np.sort(turns[:limit])


@SOURCES.register("digits")
def digits() -> dict[str, np.ndarray]:
    """The 1,797 handwritten digits that come with scikit-learn: 8 x 8, grey levels 0 to 16, uint8.

    The test split is every fifth sample of each class, in the order of the file. It has 355 samples; the training split
    has 1,442.

    Returns:
      The four arrays of `KEYS`.

    Raises:
      UserError: if scikit-learn is not installed.
    """
    spec = importlib.util.find_spec("sklearn")
    if spec is None or spec.origin is None:
        raise UserError("data.name='digits' needs the package scikit-learn: pip install scikit-learn")
    path = Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz"
    if path.is_file():  # this takes 6 ms; importing sklearn.datasets for the same table takes a second
        table = np.loadtxt(path, delimiter=",", dtype=np.uint8)
    else:
        from sklearn.datasets import load_digits

        table = np.column_stack(load_digits(return_X_y=True)).astype(np.uint8)
    images, labels = table[:, :64].reshape(-1, 8, 8, 1), table[:, 64]
    test = _rank_in_class(labels) % 5 == 4
    return {"x_train": images[~test], "y_train": labels[~test], "x_test": images[test], "y_test": labels[test]}


def _rank_in_class(labels: np.ndarray) -> np.ndarray:
    """Count the earlier samples with the same label, for each sample: [n] int."""
    order = np.argsort(labels, kind="stable")
    ordered = labels[order]
    rank = np.empty(len(labels), int)
    rank[order] = np.arange(len(labels)) - np.searchsorted(ordered, ordered, side="left")
    return rank


def _data_directory(directory: str) -> str:
    """Return the data directory, or "" if none is set, after a check that it exists."""
    field = "data.dir" if directory else "the environment variable MDFL_DATA_DIR"
    path = os.path.expanduser(directory or os.environ.get("MDFL_DATA_DIR", ""))
    if path and not os.path.isdir(path):
        raise UserError(f"{field}={path!r}: no such directory; allowed: a folder that holds the data sets")
    return path


def _how_to_get(name: str) -> str:
    """Return the part of an error that says how to get a well-known data set; "" for other data sets."""
    if name not in PUBLIC:
        return ""
    return f"; docs/data.md, 'Your own data', shows how to make it, and data.name=tfds:{name} reads a prepared one"


def _npz_path(name: str, directory: str) -> Path:
    """Return the path `<directory>/<name>.npz`, after a check that the directory's listing has this file."""
    path, known = _data_directory(directory), names(directory)
    if not path:
        raise UserError(
            unknown_name("data.name", name, known)
            + "; another name is that of a file <data.dir>/<name>.npz, and neither data.dir"
            f" nor the environment variable MDFL_DATA_DIR is set{_how_to_get(name)}"
        )
    if name not in known or name.startswith(TFDS_PREFIX):
        missing = f"; no file {os.path.join(path, name + '.npz')!r}{_how_to_get(name)}"
        raise UserError(unknown_name("data.name", name, known) + missing)
    return Path(path) / f"{name}.npz"


def _read_npz(path: Path, where: str) -> dict[str, np.ndarray]:
    """Read the four arrays of an npz file, and the optional ones.

    Each array is read to its end, so that zipfile compares every checksum.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = {member.removesuffix(".npy"): member for member in archive.namelist()}
            if not members.keys() >= set(KEYS):
                found = ", ".join(repr(key) for key in sorted(members)[:10]) or "none"
                raise UserError(f"{where}: keys found: {found}; needed: {', '.join(KEYS)}")
            return {key: _read_member(archive, members[key]) for key in (*KEYS, *OPTIONAL_KEYS) if key in members}
    except UserError:
        raise
    # Damaged files raise BadZipFile, EOFError, OSError, ValueError, zlib.error, NotImplementedError, MemoryError and
    # others. The block above does nothing but read the file, so every exception means that the file is damaged.
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise UserError(f"{where}: cannot be read ({reason}); allowed: an undamaged npz, no pickled objects") from error


def _read_member(archive: zipfile.ZipFile, member: str) -> np.ndarray:
    with archive.open(member) as stream:
        array = np.lib.format.read_array(stream, allow_pickle=False)
        if stream.read(1):  # this also reads to the end of the stream, where zipfile compares the checksum
            raise ValueError(f"{member} is longer than its header says")
    return array
