"""Checks of the arrays that a data source gives, and their conversion to the types of `Dataset`."""

from collections.abc import Mapping

import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.data.dataset import Dataset, Targets, default_strata, numbered_owners

KEYS = ("x_train", "y_train", "x_test", "y_test")
OPTIONAL_KEYS = ("x_validation", "y_validation", "client", "client_test", "stratum")
SPLITS = ("train", "test", "validation")
# Every model has one output per class. So a wrong label such as 10**9 would cause an allocation failure much later.
MAX_CLASSES = 65_536
MAX_VOCABULARY = 2**20
SAMPLES = "uint8 grey levels, floats, or tokens [n, T] of whole numbers from 0 with another integer dtype"


def as_dataset(name: str, where: str, arrays: Mapping[str, np.ndarray], declared_classes: int = 0) -> Dataset:
    """Check the arrays of a data source and convert them to the shapes and types of `Dataset`.

    Args:
      name: the name of the data set.
      where: the beginning of an error message, which names the source.
      arrays: x_train, y_train, x_test and y_test, and some of `OPTIONAL_KEYS`, as in an npz file (docs/data.md).
      declared_classes: the number of classes that the source declares; 0 if it declares none.

    Raises:
      UserError: if an array has another shape or type than those that are allowed.
    """
    if ("x_validation" in arrays) != ("y_validation" in arrays):
        raise UserError(f"{where}: one of x_validation and y_validation is missing; allowed: both or none")
    splits = [split for split in SPLITS if f"x_{split}" in arrays]
    x = {split: _samples(where, f"x_{split}", arrays[f"x_{split}"]) for split in splits}
    for split in splits[1:]:
        if x[split].shape[1:] != x["train"].shape[1:] or x[split].dtype != x["train"].dtype:
            raise UserError(
                f"{where}: samples of x_train are {_shown(x['train'][0])} and of x_{split} {_shown(x[split][0])};"
                " allowed: one shape and type for both"
            )
    found = {split: _targets(where, split, arrays[f"y_{split}"], x[split]) for split in splits}
    kind, y = found["train"][0], {split: targets for split, (_, targets) in found.items()}
    for split in splits[1:]:
        if found[split][0] is not kind or y[split].shape[1:] != y["train"].shape[1:]:
            raise UserError(
                f"{where}: y_train has {kind.value} of the shape {list(y['train'].shape[1:])} and y_{split} "
                f"{found[split][0].value} of the shape {list(y[split].shape[1:])}; allowed: one kind and shape for both"
            )
    is_tokens = x["train"].dtype == np.int32
    client, client_test = _owners(where, arrays, len(x["train"]), len(x["test"]))
    return Dataset(
        name,
        x["train"],
        y["train"],
        x["test"],
        y["test"],
        _num_classes(where, kind, y, declared_classes),
        x.get("validation"),
        y.get("validation"),
        client,
        client_test,
        _strata(where, arrays, y["train"], kind),
        kind,
        max(int(tokens.max()) for tokens in x.values()) + 1 if is_tokens else 0,
    )


def _shown(sample: np.ndarray) -> str:
    return f"{list(sample.shape)} of {sample.dtype}"


def _samples(where: str, key: str, array: np.ndarray) -> np.ndarray:
    """Check samples. Return images as uint8 [n, H, W, channels], tokens as int32 [n, T], others as float32 [n, ...]."""
    found = f"{where}: {key} is {array.dtype} {list(array.shape)}"
    if array.dtype.kind not in "uif":
        raise UserError(f"{found}; allowed: {SAMPLES}")
    if array.ndim < 1 or 0 in array.shape:
        raise UserError(f"{found}; allowed: [n, ...], none of them 0")
    if array.dtype == np.uint8:
        if array.ndim == 4 and array.shape[1] in (1, 3) and array.shape[2] == array.shape[3] > 4:
            raise UserError(f"{found}, which looks like channels first; allowed: [n, H, W] or [n, H, W, channels]")
        return np.ascontiguousarray(array[..., None] if array.ndim in (1, 3) else array)
    if array.dtype.kind == "f":
        with np.errstate(over="ignore"):
            floats = np.ascontiguousarray(array[:, None] if array.ndim == 1 else array, np.float32)
        _check_finite(where, key, floats)
        return floats
    if array.ndim != 2:
        raise UserError(f"{found}; allowed: {SAMPLES}")
    low, high = int(array.min()), int(array.max())
    if low < 0 or high >= MAX_VOCABULARY:
        raise UserError(f"{where}: {key} has tokens from {low} to {high}; allowed: 0 to {MAX_VOCABULARY - 1}")
    return np.ascontiguousarray(array, np.int32)


def _check_finite(where: str, key: str, floats: np.ndarray) -> None:
    bad = ~np.isfinite(floats)
    if bad.any():
        place = tuple(int(i) for i in np.argwhere(bad)[0])
        raise UserError(f"{where}: {key}{list(place)} is {floats[place]}; allowed: finite numbers in single precision")


def _targets(where: str, split: str, array: np.ndarray, x: np.ndarray) -> tuple[Targets, np.ndarray]:
    """Check the targets of samples x, and return their kind and the targets in the form of `Targets`."""
    found = f"{where}: y_{split} is {array.dtype} {list(array.shape)}"
    if array.dtype.kind not in "iufb":
        raise UserError(f"{found}; allowed: whole numbers (labels), floats (regression) or bool [n, K] (multi-label)")
    if array.dtype.kind in "iu" and array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]  # the CIFAR files of Keras have this shape
    is_sequence = x.ndim == 2 if x.dtype == np.int32 else x.ndim == 3 and x.dtype == np.float32
    if array.dtype.kind == "b":
        kind, fits, allowed = Targets.FLAGS, array.ndim == 2, "[n, K], whether each of K labels applies"
    elif array.dtype.kind == "f":
        kind, fits, allowed = Targets.NUMBERS, array.ndim in (1, 2), "[n] or [n, K], the targets of a regression"
    elif is_sequence and array.ndim == 2 and array.shape[1] == x.shape[1]:
        kind, fits, allowed = Targets.POSITIONS, True, ""
    else:
        kind, fits = Targets.LABELS, array.ndim == 1
        allowed = "[n] or [n, 1], one label a sample, not one-hot; [n, T] for sequences of T; bool for several labels"
    if not fits or 0 in array.shape[1:]:
        raise UserError(f"{found}; allowed: {allowed}")
    if len(array) != len(x):
        raise UserError(f"{found} and x_{split} has {len(x)} samples; allowed: targets for each sample")
    if kind is Targets.FLAGS:
        return kind, np.ascontiguousarray(array)
    if kind is Targets.NUMBERS:
        with np.errstate(over="ignore"):
            floats = np.ascontiguousarray(array.reshape(len(array), -1), np.float32)
        _check_finite(where, f"y_{split}", floats)
        return kind, floats
    low, high, least = int(array.min()), int(array.max()), -1 if kind is Targets.POSITIONS else 0
    if low < least or high >= MAX_CLASSES:
        raise UserError(
            f"{where}: y_{split} has labels from {low} to {high}; allowed: {least} to {MAX_CLASSES - 1}"
            + (", where -1 means none" if least else "")
        )
    return kind, np.ascontiguousarray(array, np.int32)


def _num_classes(where: str, kind: Targets, y: dict[str, np.ndarray], declared: int) -> int:
    """Return the number of classes; for floats and flags the number of columns."""
    if kind in (Targets.NUMBERS, Targets.FLAGS):
        return y["train"].shape[1]
    for split, labels in y.items():
        if int(labels.max()) < 0:
            raise UserError(f"{where}: y_{split} has no labels, only -1; allowed: a label at one position at least")
    return max(declared, *(int(labels.max()) + 1 for labels in y.values()))


def _whole(where: str, key: str, array: np.ndarray, count: int, meaning: str) -> np.ndarray:
    """Check an array of one whole number a sample, and return it."""
    if array.dtype.kind not in "iu" or array.shape != (count,):
        raise UserError(
            f"{where}: {key} is {array.dtype} {list(array.shape)}; allowed: whole numbers [{count}], {meaning}"
        )
    return array


def _owners(
    where: str, arrays: Mapping[str, np.ndarray], train: int, test: int
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Check the owners of the samples. Number those of the training samples from 0, in the order of their values."""
    if "client" not in arrays:
        if "client_test" in arrays:
            raise UserError(f"{where}: client_test is given and client is not; allowed: both, or client alone")
        return None, None
    client = _whole(where, "client", arrays["client"], train, "the owner of each training sample")
    of_test = arrays.get("client_test")
    if of_test is not None:
        _whole(where, "client_test", of_test, test, "the owner of each test sample")
    return numbered_owners(client, of_test)


def _strata(where: str, arrays: Mapping[str, np.ndarray], y: np.ndarray, kind: Targets) -> np.ndarray | None:
    """Check the strata of the training samples and number them from 0; without the array, return the default ones."""
    if "stratum" not in arrays:
        return default_strata(y, kind)
    if kind is Targets.LABELS:
        raise UserError(f"{where}: stratum is given and y_train has labels, by which partitions divide; drop stratum")
    given = _whole(where, "stratum", arrays["stratum"], len(y), "the group of each training sample")
    return np.unique(given, return_inverse=True)[1].astype(np.int32)
