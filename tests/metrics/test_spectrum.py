"""lambda_2 and components over neighbour lists, beside dense eigenvalues and SciPy's components."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components

from mdfl_jax.core.links import as_matrix, no_senders
from mdfl_jax.metrics import values
from mdfl_jax.networks.contact import listed_contacts
from mdfl_jax.networks.mixing import metropolis_hastings, uniform

N = 400
FIND = jax.jit(lambda place, radius: listed_contacts(place, None, jnp.full(N, radius), False, 60))
SECOND = jax.jit(values.lambda_2_of_lists)
COMPONENTS = jax.jit(values.components)


def crowd(radius, seed=0):
    met = FIND(jax.random.uniform(jax.random.key(seed), (N, 2)), radius)
    assert int(met.senders.most) <= 61
    return met


def second_by_numpy(mix, senders):
    dense = np.asarray(as_matrix(mix, senders), np.float64)
    return np.linalg.eigvalsh(dense.T @ dense)[-2]


@pytest.mark.few(2)
@pytest.mark.parametrize("radius", [0.03, 0.12])
@pytest.mark.parametrize("weigh", [metropolis_hastings, uniform])
def test_lambda_2_is_the_second_largest_eigenvalue(radius, weigh):
    met = crowd(radius)
    mix = weigh(met.heard, met.senders)
    wanted = second_by_numpy(mix, met.senders)
    assert float(SECOND(mix, met.senders)) == pytest.approx(wanted, rel=2e-5)
    if weigh is metropolis_hastings:
        assert (wanted > 1 - 1e-9) == (radius == 0.03)  # the sparse crowd falls apart


def test_without_links_all_eigenvalues_are_one():
    senders = no_senders(N, 5)
    assert float(SECOND(senders.own(N).astype(jnp.float32), senders)) == pytest.approx(1.0, rel=1e-5)


@pytest.mark.few(2)
@pytest.mark.parametrize("one_way", [False, True])
@pytest.mark.parametrize("radius", [0.02, 0.08])
def test_components_are_those_of_scipy(radius, one_way):
    met = crowd(radius, seed=1)
    heard = met.heard & (met.senders.ids < jnp.arange(N)[:, None]) if one_way else met.heard
    label = np.asarray(COMPONENTS(heard, met.senders))
    number, found = connected_components(np.asarray(as_matrix(heard, met.senders)), directed=False)
    assert len(np.unique(label)) == number > 1 or radius == 0.08
    for component in range(number):
        members = np.flatnonzero(found == component)
        assert (label[members] == members[0]).all()
