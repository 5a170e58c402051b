"""Tests of my_name.py: python -m pytest test_my_name.py"""

import jax
import my_name
import numpy as np
import pytest

from mdfl_jax.data.partition import PartitionSettings


@pytest.mark.parametrize("skew", [0.0, 1.0, 2.0])
def test_every_sample_has_one_owner_and_clients_their_shares(skew):
    labels = np.arange(200) % 10
    settings = PartitionSettings(num_clients=4, num_classes=10, numbers=my_name.MyNameNumbers(skew=skew))
    owner = np.asarray(my_name.my_name(jax.random.key(0), labels, settings))
    assert owner.shape == labels.shape
    assert owner.dtype == np.int32
    share = np.arange(1, 5) ** skew
    np.testing.assert_allclose(np.bincount(owner, minlength=4), 200 * share / share.sum(), atol=1)


def test_another_key_gives_others():
    settings = PartitionSettings(num_clients=4, num_classes=10, numbers=my_name.MyNameNumbers())
    one, other = (np.asarray(my_name.my_name(jax.random.key(seed), np.zeros(200), settings)) for seed in (0, 1))
    assert (one != other).any()
