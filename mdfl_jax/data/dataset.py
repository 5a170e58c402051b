"""The type of a data set: labelled images, split into training, test and validation samples."""

from typing import NamedTuple

import numpy as np


class Dataset(NamedTuple):
    """Labelled images in host memory.

    Attributes:
      name: the name of the data source, for messages and reports.
      x_train: [n, H, W, channels] uint8.
      y_train: [n] int32, labels 0 .. num_classes - 1.
      x_test: [m, H, W, channels] uint8.
      y_test: [m] int32.
      num_classes: C, the number of labels.
      x_validation: [v, H, W, channels] uint8, taken from the training samples by `hold_out`; None if there are none.
      y_validation: [v] int32; None if there are none.
      client: [n] int32 from 0, the natural owner of each training sample, for example the writer of a digit. It decides
        nothing but the partition ``by_owner``. None if the source does not say it.
    """

    name: str
    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    num_classes: int
    x_validation: np.ndarray | None = None
    y_validation: np.ndarray | None = None
    client: np.ndarray | None = None


def hold_out(dataset: Dataset, count: int) -> Dataset:
    """Take validation samples from the training samples, at evenly spaced positions.

    Args:
      dataset: a data set without validation samples.
      count: v, the number of validation samples, below the number of training samples. 0 leaves the data set as it is.

    Returns:
      The data set with ``count`` fewer training samples and with validation samples.
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
        client=None if dataset.client is None else dataset.client[~held],
    )
