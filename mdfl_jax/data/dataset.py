"""What a data source gives: labelled images, split into train and test."""

from typing import NamedTuple

import numpy as np


class Dataset(NamedTuple):
    """Labelled images in host memory.

    Attributes:
      name: the source's name, for messages and reports.
      x_train: [n, H, W, channels] uint8.
      y_train: [n] int32, labels 0 .. num_classes - 1.
      x_test: [m, H, W, channels] uint8.
      y_test: [m] int32.
      num_classes: number of labels, C.
      x_validation: [v, H, W, channels] uint8, taken off the training samples by `hold_out`; None where there are none.
      y_validation: [v] int32.
    """

    name: str
    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    num_classes: int
    x_validation: np.ndarray | None = None
    y_validation: np.ndarray | None = None


def hold_out(dataset: Dataset, count: int) -> Dataset:
    """Takes validation samples off the training samples, evenly spread over them.

    Args:
      dataset: without validation samples.
      count: how many, fewer than there are training samples; 0 leaves the data set as it is.
    """
    if not count:
        return dataset
    total = len(dataset.y_train)
    held = np.zeros(total, bool)
    held[np.arange(count) * total // count] = True
    return dataset._replace(
        x_train=dataset.x_train[~held],
        y_train=dataset.y_train[~held],
        x_validation=dataset.x_train[held],
        y_validation=dataset.y_train[held],
    )
