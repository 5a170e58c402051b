"""Rules that choose partners: DPFL's greedy choice and FedAMP's weights by hand."""

import jax.numpy as jnp
import numpy as np
import pytest

from mdfl_jax import aggregate

CENTRES = np.array([0.0, 1.0, 1.2, 8.0, -0.9, np.nan])  # what each client would like its model to be
MODELS = jnp.array([[3.0], [0.5], [-2.0], [8.0], [1.0], [0.0]])


def loss(models):
    """The squared distance of each client's model from its centre; NaN for the last one, who has no samples."""
    return (models[:, 0] - CENTRES) ** 2


@pytest.mark.parametrize(
    ("most", "expected"),
    # client 0 has 3 and takes -2 (mean 1/2), then 0 (mean 1/3); each fourth model would make it worse
    [(1, 3.0), (2, 1 / 2), (3, 1 / 3), (4, 1 / 3)],
)
def test_dpfl_adds_the_best_model_for_the_average_while_it_is_no_worse(most, expected):
    after = aggregate("dpfl", MODELS, ~np.eye(6, dtype=bool), loss=loss, most_models=most)[:, 0]
    assert after[0] == pytest.approx(expected)
    assert after[3] == 8  # alone it is best, and every average is worse
    assert after[5] == 0  # without samples a client keeps its own model


def test_fedamp_weighs_by_cosine_and_keeps_the_own_share():
    models = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 5.0]])
    for sigma in (0.0, 2.0):
        share = np.exp(sigma) / (np.exp(sigma) + 1)
        expected = 0.3 * models[0] + 0.7 * (share * models[1] + (1 - share) * models[2])
        after = aggregate("fedamp", models, ~np.eye(3, dtype=bool), own_weight=0.3, attention=sigma)
        np.testing.assert_allclose(after[0], expected, rtol=1e-6)
    alone = aggregate("fedamp", models, np.zeros((3, 3), bool))
    np.testing.assert_array_equal(alone, models)
