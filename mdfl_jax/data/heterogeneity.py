"""Numbers that say how unequal the clients' data are, from the number of samples of each client and label.

All functions take ``counts`` [N, C], the number of samples of each client and label, as NumPy arrays in host memory. A
client's distribution of labels is p_i(c) = counts[i, c] / sum_c counts[i, c], and the global one is
p(c) = sum_i counts[i, c] / n. Clients without samples have no distribution of labels and are left out of the means over
clients; they count in the numbers about sizes.
"""

from typing import NamedTuple

import numpy as np


class Heterogeneity(NamedTuple):
    """The numbers of one partition.

    Attributes:
      total_variation: mean total variation distance of the clients' labels, in [0, 1].
      earth_movers: mean earth mover's distance of the clients' labels in the 1-norm, in [0, 2].
      effective_classes: mean number of effective classes of a client, in [1, C].
      size_gini: Gini coefficient of the clients' numbers of samples, in [0, 1 - 1/N].
      size_variation: coefficient of variation of the clients' numbers of samples, at least 0.
      smallest, largest: the smallest and the largest number of samples of a client.
      empty: the number of clients without samples.
    """

    total_variation: float
    earth_movers: float
    effective_classes: float
    size_gini: float
    size_variation: float
    smallest: float
    largest: float
    empty: float


def heterogeneity(counts: np.ndarray) -> Heterogeneity:
    """Compute all numbers of a partition.

    Args:
      counts: [N, C] whole numbers, at least one of them above 0.

    Returns:
      The numbers, in double precision.
    """
    sizes = np.asarray(counts).sum(axis=1)
    return Heterogeneity(
        total_variation(counts),
        earth_movers_distance(counts),
        effective_classes(counts),
        gini(sizes),
        coefficient_of_variation(sizes),
        float(sizes.min()),
        float(sizes.max()),
        float((sizes == 0).sum()),
    )


def label_distributions(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the label distributions of the clients that hold samples, [K, C], and the global one, [C]."""
    exact = np.asarray(counts, np.float64)
    held = exact[exact.sum(axis=1) > 0]
    return held / held.sum(axis=1, keepdims=True), exact.sum(axis=0) / exact.sum()


def total_variation(counts: np.ndarray) -> float:
    """Compute the mean over clients of TV(p_i, p) = (1/2) sum_c |p_i(c) - p(c)|.

    It is 0 if all clients have the same labels in the same proportions. With C classes of the same size, it is
    1 - 1/C if every client holds one class.
    """
    own, overall = label_distributions(counts)
    return float(np.abs(own - overall).sum(axis=1).mean() / 2)


def earth_movers_distance(counts: np.ndarray) -> float:
    """Compute the mean over clients of the earth mover's distance sum_c |p_i(c) - p(c)|.

    The ground distance decides what this distance is. Labels have no order, so all pairs of different labels are
    equally far. Then the earth mover's distance is the total variation distance times this distance. We take the
    distance 2 between two labels, the 1-norm of the difference of their one-hot vectors, so that the result is the
    1-norm of p_i - p, as in Zhao et al., "Federated learning with non-IID data", 2018, section 3.
    """
    return 2 * total_variation(counts)


def effective_classes(counts: np.ndarray) -> float:
    """Compute the mean over clients of the effective number of classes exp(-sum_c p_i(c) log p_i(c)).

    It is the exponential of Shannon's entropy, the Hill number of order 1 (Hill, Ecology 1973): k if a client holds k
    classes in equal parts, and less if the parts are unequal.
    """
    own, _ = label_distributions(counts)
    logarithm = np.log(own, out=np.zeros_like(own), where=own > 0)
    return float(np.exp(-(own * logarithm).sum(axis=1)).mean())


def gini(sizes: np.ndarray) -> float:
    """Compute the Gini coefficient sum_i sum_j |n_i - n_j| / (2 N sum_i n_i) of the numbers of samples [N].

    It is 0 if all are equal and 1 - 1/N if one client holds all samples.
    """
    ordered = np.sort(np.asarray(sizes, np.float64))
    count = len(ordered)
    rank = np.arange(1, count + 1)
    return float(((2 * rank - count - 1) * ordered).sum() / (count * ordered.sum()))


def coefficient_of_variation(sizes: np.ndarray) -> float:
    """Compute the standard deviation of the numbers of samples [N] (divided by N) over their mean."""
    exact = np.asarray(sizes, np.float64)
    return float(exact.std() / exact.mean())
