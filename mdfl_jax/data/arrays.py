"""Checks of the arrays that a data source gives."""

import numpy as np

from mdfl_jax.data.dataset import Dataset
from mdfl_jax.errors import UserError

# Every model has one output per class. So a wrong label such as 10**9 would cause an allocation failure much later.
MAX_CLASSES = 65_536


def as_dataset(name: str, where: str, arrays: dict[str, np.ndarray], declared_classes: int) -> Dataset:
    """Check the arrays of a data source and convert them to the shapes and types of `Dataset`.

    Args:
      name: the name of the data set.
      where: the beginning of an error message, which names the source.
      arrays: x_train, y_train, x_test and y_test, and perhaps client, as in an npz file (docs/data.md).
      declared_classes: the number of classes that the source declares; 0 if it declares none.

    Raises:
      UserError: if an array has another shape or type than those that are allowed.
    """
    x_train, x_test = (_images(where, key, arrays[key]) for key in ("x_train", "x_test"))
    if x_train.shape[1:] != x_test.shape[1:]:
        raise UserError(
            f"{where}: images of x_train are {list(x_train.shape[1:])} and of x_test {list(x_test.shape[1:])};"
            " allowed: one shape for both"
        )
    y_train = _labels(where, "train", arrays["y_train"], len(x_train))
    y_test = _labels(where, "test", arrays["y_test"], len(x_test))
    num_classes = max(declared_classes, int(y_train.max()) + 1, int(y_test.max()) + 1)
    client = _clients(where, arrays["client"], len(x_train)) if "client" in arrays else None
    return Dataset(name, x_train, y_train, x_test, y_test, num_classes, client=client)


def _images(where: str, key: str, array: np.ndarray) -> np.ndarray:
    """Check images and return them as uint8 [n, H, W, channels]."""
    found = f"{where}: {key} is {array.dtype} {list(array.shape)}"
    if array.dtype != np.uint8:
        raise UserError(f"{found}; allowed: uint8 (grey levels 0 to 255, not scaled)")
    if array.ndim not in (3, 4) or 0 in array.shape:
        raise UserError(f"{found}; allowed: [n, H, W] or [n, H, W, channels], none of them 0")
    if array.ndim == 4 and array.shape[1] in (1, 3) and array.shape[2] == array.shape[3] > 4:
        raise UserError(f"{found}, which looks like channels first; allowed: [n, H, W] or [n, H, W, channels]")
    return np.ascontiguousarray(array if array.ndim == 4 else array[..., None])


def _labels(where: str, split: str, array: np.ndarray, count: int) -> np.ndarray:
    """Check labels and return them as int32 [count]."""
    found = f"{where}: y_{split} is {array.dtype} {list(array.shape)}"
    if array.dtype.kind not in "iu":
        raise UserError(f"{found}; allowed: whole numbers (an integer dtype)")
    if array.ndim == 2 and array.shape[1] == 1:  # the CIFAR files of Keras have this shape
        array = array[:, 0]
    if array.ndim != 1:
        raise UserError(f"{found}; allowed: [n] or [n, 1], one label an image, not one-hot")
    if len(array) != count:
        raise UserError(f"{found} and x_{split} has {count} images; allowed: one label an image")
    low, high = int(array.min()), int(array.max())
    if low < 0 or high >= MAX_CLASSES:
        raise UserError(f"{where}: y_{split} has labels from {low} to {high}; allowed: 0 to {MAX_CLASSES - 1}")
    return array.astype(np.int32)


def _clients(where: str, array: np.ndarray, count: int) -> np.ndarray:
    """Check the owners of the training samples and number them from 0: [count] int32, in the order of their values."""
    if array.dtype.kind not in "iu" or array.shape != (count,):
        raise UserError(
            f"{where}: client is {array.dtype} {list(array.shape)}; allowed: whole numbers [{count}], the owner of each"
            " training sample"
        )
    return np.unique(array, return_inverse=True)[1].astype(np.int32)
