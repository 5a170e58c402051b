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
    """

    name: str
    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    num_classes: int
