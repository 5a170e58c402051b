"""A tiny study: these tests are about what a study writes, not about what it learns."""

from collections.abc import Callable
from typing import Any

import pytest
from ml_collections import ConfigDict

from mdfl_jax.experiments import default_config


def tiny_config(**changes: Any) -> ConfigDict:
    config = default_config()
    start = {
        "name": "tiny",
        "seeds": 2,
        "rounds": 4,
        "eval_every": 2,
        "target": 0.3,
        "data.limit_train": 120,
        "data.limit_test": 60,
        "data.partition": "iid",
        "model.name": "linear",
        "network.num_clients": 6,
        "network.num_mobile": 2,
        "network.grid_size": 5,
    }
    config.update_from_flattened_dict(start | changes)
    return config


@pytest.fixture(scope="session")
def tiny() -> Callable[..., ConfigDict]:
    """The configuration of a study of some seconds, changed by path: tiny(**{"data.alpha": 0.1})."""
    return tiny_config
