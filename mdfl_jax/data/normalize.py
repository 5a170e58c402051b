"""The mean and standard deviation by which samples and the targets of a regression are normalised."""

import numpy as np

from mdfl_jax.data.dataset import Dataset, Targets

MODES = ("auto", "none")
"""The values of the field data.normalize.

auto: grey levels and floats are normalised along the last axis, each channel or feature by its mean and standard
deviation over the training samples; so are the targets of a regression. Tokens and labels stay as they are.
none: nothing is normalised.
"""

ROWS = 65_536  # rows of float arrays that are converted to double precision at once
Moments = tuple[np.ndarray, np.ndarray]


def sample_moments(dataset: Dataset) -> Moments | None:
    """Return the mean and standard deviation of each channel or feature of the training samples, float32 [F] each.

    The standard deviation of a constant feature is set to 1. None if samples are not normalised.
    """
    if dataset.normalize == "none" or dataset.vocabulary:
        return None
    if dataset.x_train.dtype != np.uint8:
        return _moments_of_floats(dataset.x_train)
    # A histogram of the 256 levels needs no float copy of the images.
    levels = np.stack([np.bincount(c.reshape(-1), minlength=256) for c in np.moveaxis(dataset.x_train, -1, 0)])
    share = levels / levels.sum(axis=1, keepdims=True)
    mean = share @ np.arange(256)
    std = np.sqrt(share @ np.arange(256) ** 2 - mean**2)
    return _single(mean, std)


def target_moments(dataset: Dataset) -> Moments | None:
    """Return the mean and standard deviation of each target of a regression, float32 [K] each.

    The standard deviation of a constant target is set to 1. None if targets are not normalised.
    """
    if dataset.normalize == "none" or dataset.targets is not Targets.NUMBERS:
        return None
    return _moments_of_floats(dataset.y_train)


def _moments_of_floats(values: np.ndarray) -> Moments:
    """Compute the moments over all axes but the last one, in double precision."""
    rows = values.reshape(-1, values.shape[-1])
    mean = rows.mean(axis=0, dtype=np.float64)
    parts = (rows[start : start + ROWS] for start in range(0, len(rows), ROWS))  # a whole copy would take memory
    std = np.sqrt(sum(np.square(part - mean).sum(axis=0) for part in parts) / len(rows))
    constant = np.ptp(rows, axis=0) == 0  # rounding makes the deviation of a constant feature positive
    return _single(mean, np.where(constant, 0.0, std))


def _single(mean: np.ndarray, std: np.ndarray) -> Moments:
    return mean.astype(np.float32), np.where(std > 0, std, 1.0).astype(np.float32)
