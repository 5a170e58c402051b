"""PaME's assumption 1 and the conditions (11) and (12) of its convergence theorem, for a given graph.

Condition (12) must hold for each node i: (1 - p)^t_i (1 + zeta)^2 + 2 p sum over its neighbours j of nu_j is less than
(gamma^(-k0 / 2) - zeta)^2. Here p = s / n, t_i is the number of neighbours that node i picks, and k0 is the period.
Condition (11) asks that gamma is above 1 and below zeta^(-2 / k0), so that the base of the square is positive.
"""

from typing import NamedTuple

import numpy as np


def communication_matrix(adjacency: np.ndarray) -> np.ndarray:
    """Return PaME's B, transposed: B[i, j] = 1 / m_i if i hears j, with the m_i that it hears; a node alone keeps 1.

    Args:
      adjacency: [..., N, N] bool.

    Returns:
      [..., N, N] float64 whose rows sum to one. Columns do so too (assumption 1) only if the graph is regular.
    """
    degree = adjacency.sum(-1, keepdims=True)
    return np.where(degree > 0, adjacency / np.maximum(degree, 1), np.eye(adjacency.shape[-1]))


def zeta(adjacency: np.ndarray) -> np.ndarray:
    """Compute zeta = max(|lambda_2(B)|, |lambda_m(B)|) (assumption 1), which must be below 1.

    It is 1 on a graph that is bipartite or not connected. Eigenvalues of directed graphs may be complex; their sizes
    are compared.

    Args:
      adjacency: [..., N, N] bool.

    Returns:
      [...] float64; 0 for one node.

    >>> round(zeta(~np.eye(5, dtype=bool)).item(), 6)  # the complete graph: 1 / (m - 1)
    0.25
    """
    matrix = communication_matrix(adjacency)
    if matrix.shape[-1] == 1:
        return np.zeros(matrix.shape[:-2])
    return np.minimum(np.sort(np.abs(np.linalg.eigvals(matrix)), axis=-1)[..., -2], 1.0)


class Conditions(NamedTuple):
    """The two sides of condition (12), and whether (11) and (12) hold.

    Attributes:
      left: [...] the left side of (12), the largest over the nodes.
      right: [...] its right side; 0 where gamma is too large for (11).
      hold: [...] bool.
    """

    left: np.ndarray
    right: np.ndarray
    hold: np.ndarray


def conditions(
    adjacency: np.ndarray, participation: float, transmission: float, growth: float, period: float
) -> Conditions:
    """Evaluate the conditions (11) and (12) on a graph.

    Args:
      adjacency: [..., N, N] bool, the graph of the first communication.
      participation: nu, the same for all nodes. They pick ceil(nu m_i) neighbours, as in the paper's experiments; its
        analysis has the floor, which makes the left side larger.
      transmission: p = s / n.
      growth: gamma.
      period: k0, the period of all nodes.
    """
    degree = adjacency.sum(-1)
    picked = np.ceil(participation * degree - 1e-6)
    found = zeta(adjacency)
    each = (1 - transmission) ** picked * np.square(1 + found)[..., None] + 2 * transmission * participation * degree
    base = growth ** (-period / 2) - found
    left, right = each.max(-1), np.square(np.maximum(base, 0.0))
    return Conditions(left, right, (left < right) & (growth > 1) & (base > 0))
