"""The type of a data set: samples with their targets, split into training, test and validation samples."""

from enum import Enum
from typing import NamedTuple

import numpy as np

DECILES = 10  # groups of a regression's samples, by which partitions of label skew divide


class Targets(Enum):
    """The kinds of targets. The value describes the kind for messages.

    Attributes:
      LABELS: int32 [n], one label a sample.
      POSITIONS: int32 [n, T], one label at each position of a sequence; -1 means none there.
      NUMBERS: float32 [n, K], the targets of a regression.
      FLAGS: bool [n, K], whether each of K labels applies to a sample (multi-label).
    """

    LABELS = "one label a sample (whole numbers [n])"
    POSITIONS = "a label at each position (whole numbers [n, T])"
    NUMBERS = "regression targets (floats [n] or [n, K])"
    FLAGS = "multi-label targets (bool [n, K])"


class Dataset(NamedTuple):
    """Samples and targets in host memory.

    Attributes:
      name: the name of the data source, for messages and reports.
      x_train: [n, ...] uint8 (images [n, H, W, channels], grey levels), float32, or int32 tokens [n, T].
      y_train: the targets in one of the forms of `Targets`.
      x_test: [m, ...], as ``x_train``.
      y_test: [m, ...], as ``y_train``.
      num_classes: C, the number of labels; of a regression, the number K of its targets.
      x_validation: [v, ...], given by the source or taken from the training samples by `hold_out`; None if there are
        none.
      y_validation: [v, ...]; None if there are none.
      client: [n] int32 from 0, the natural owner of each training sample, for example the writer of a digit. It decides
        nothing but the partition ``by_owner`` and ``local_accuracy``. None if the source does not say it.
      client_test: [m] int32, the natural owner of each test sample with the numbers of ``client``; -1 for an owner
        without training samples. None if the source does not say it.
      stratum: [n] int32 from 0, the groups by which partitions divide samples without a label; None for labels.
      targets: the kind of the targets.
      vocabulary: V, if samples are tokens 0 .. V - 1; 0 for other samples.
      normalize: how samples are normalised, one of `mdfl_jax.data.normalize.MODES`.
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
    client_test: np.ndarray | None = None
    stratum: np.ndarray | None = None
    targets: Targets = Targets.LABELS
    vocabulary: int = 0
    normalize: str = "auto"

    @property
    def strata(self) -> np.ndarray:
        """The group of each training sample by which partitions divide, [n] int32 from 0: its label, if it has one."""
        return self.y_train if self.stratum is None else self.stratum

    @property
    def num_strata(self) -> int:
        """The number of these groups."""
        return self.num_classes if self.stratum is None else int(self.stratum.max()) + 1

    @property
    def are_images(self) -> bool:
        """Whether samples are images of grey levels, uint8 [H, W, channels]."""
        return self.x_train.dtype == np.uint8 and self.x_train.ndim == 4


def numbered_owners(client: np.ndarray, client_test: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
    """Renumber the natural owners of the training samples from 0 without gaps, in the order of their values.

    Args:
      client: [n] int, the owner of each training sample.
      client_test: [m] int, the owner of each test sample; None: not known.

    Returns:
      ([n] int32, [m] int32 with the same numbers, -1 for an owner without training samples; or None).

    >>> numbered_owners(np.array([7, 3, 7]), np.array([3, 5]))
    (array([1, 0, 1], dtype=int32), array([ 0, -1], dtype=int32))
    """
    known, owner = np.unique(client, return_inverse=True)
    if client_test is None:
        return owner.astype(np.int32), None
    place = np.minimum(np.searchsorted(known, client_test), len(known) - 1)
    return owner.astype(np.int32), np.where(known[place] == client_test, place, -1).astype(np.int32)


def default_strata(y: np.ndarray, targets: Targets) -> np.ndarray | None:
    """Group samples by their targets, for partitions that divide by label.

    Args:
      y: the targets of n training samples.
      targets: their kind.

    Returns:
      [n] int32 from 0. Of a regression, it is the decile of the first target (equal targets are in the order of the
      samples). Of multi-label targets, it is the first label that applies, and K if none does. All sequences are in one
      group. None for labels, which are groups themselves.
    """
    if targets is Targets.LABELS:
        return None
    if targets is Targets.POSITIONS:
        return np.zeros(len(y), np.int32)
    if targets is Targets.NUMBERS:
        rank = np.empty(len(y), np.int64)
        rank[np.argsort(y[:, 0], kind="stable")] = np.arange(len(y))
        return (rank * min(DECILES, len(y)) // len(y)).astype(np.int32)
    return np.where(y.any(axis=1), y.argmax(axis=1), y.shape[1]).astype(np.int32)


def evenly_spaced(total: int, count: int) -> np.ndarray:
    """Return ``count`` positions among ``total`` at equal distances, in increasing order.

    >>> evenly_spaced(10, 4)
    array([0, 2, 5, 7])
    """
    return np.arange(count) * total // count


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
    held = np.zeros(len(dataset.y_train), bool)
    held[evenly_spaced(len(held), count)] = True
    return subset(dataset, ~held)._replace(x_validation=dataset.x_train[held], y_validation=dataset.y_train[held])


def subset(dataset: Dataset, train: np.ndarray | slice) -> Dataset:
    """Return a data set with some of the training samples.

    Args:
      dataset: the data set.
      train: the samples that are kept: indices, [n] bool, or a slice.
    """
    of = lambda array: None if array is None else array[train]  # noqa: E731
    return dataset._replace(
        x_train=dataset.x_train[train],
        y_train=dataset.y_train[train],
        client=of(dataset.client),
        stratum=of(dataset.stratum),
    )
