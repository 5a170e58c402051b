"""Tests of my_name.py: python -m pytest test_my_name.py"""

import jax
import my_name
import numpy as np
import pytest

from mdfl_jax.networks.graphs import GraphParams


@pytest.mark.parametrize(("num_clients", "hops"), [(7, 1), (7, 2), (8, 3), (1, 2)])
def test_who_hears_whom(num_clients, hops):
    params = GraphParams(my_name.MyNameNumbers(hops=hops))
    links = np.asarray(my_name.draw(params, jax.random.key(0), num_clients))
    assert links.shape == (num_clients, num_clients)
    for i in range(num_clients):
        for j in range(num_clients):
            apart = min((i - j) % num_clients, (j - i) % num_clients)
            assert links[i, j] == (0 < apart <= hops)
