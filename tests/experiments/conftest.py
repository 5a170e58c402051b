"""A tiny study, and programs that compile fast: these tests are about what a study writes, not about its speed."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import pytest
from ml_collections import ConfigDict

from mdfl_jax.experiments import default_config

QUICKLY = {
    "jax_disable_most_optimizations": True,
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}


@pytest.fixture(scope="module", autouse=True)
def _compile_quickly() -> Iterator[None]:
    before = {name: jax.config.values[name] for name in QUICKLY}
    for name, value in QUICKLY.items():
        jax.config.update(name, value)
    yield
    for name, value in before.items():
        jax.config.update(name, value)
    jax.clear_caches()  # what was compiled here is slow to run


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
