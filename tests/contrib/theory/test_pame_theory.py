"""PaME's zeta and conditions in closed form."""

import numpy as np
import pytest

from mdfl_jax.contrib.theory import pame


def ring(n):
    return (np.roll(np.eye(n), 1, 0) + np.roll(np.eye(n), -1, 0)) > 0


def test_zeta_of_rings_and_complete_graphs_and_where_assumption_1_fails():
    for n in (3, 5, 9):
        eigenvalues = np.cos(2 * np.pi * np.arange(1, n) / n)
        assert pame.zeta(ring(n)) == pytest.approx(np.abs(eigenvalues).max())
        assert pame.zeta(~np.eye(n, dtype=bool)) == pytest.approx(1 / (n - 1))
    assert pame.zeta(ring(6)) == pytest.approx(1)  # bipartite: lambda_m is -1
    assert pame.zeta(np.zeros((4, 4), bool)) == pytest.approx(1)  # nobody hears anybody
    assert pame.zeta(np.zeros((1, 1), bool)) == 0


def test_the_sides_of_condition_12():
    graph = ~np.eye(5, dtype=bool)  # zeta 1/4, four neighbours
    found = pame.conditions(graph, participation=0.5, transmission=0.2, growth=1.01, period=2)
    assert found.left == pytest.approx(0.8**2 * 1.25**2 + 2 * 0.2 * 0.5 * 4)
    assert found.right == pytest.approx((1 / 1.01 - 0.25) ** 2)
    assert not found.hold
    # The paper says that a large p and a small nu satisfy it.
    holds = pame.conditions(graph, participation=0.01, transmission=0.999, growth=1.01, period=2)
    assert holds.left < holds.right
    assert holds.hold
    for growth, period in ((1.0, 2), (1.5, 8)):  # (11): above 1, and below zeta^(-2 / k0)
        assert not pame.conditions(graph, 0.01, 0.999, growth, period).hold
    assert pame.conditions(graph, 0.01, 0.999, 1.5, 8).right == 0
