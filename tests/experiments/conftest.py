"""A tiny study: these tests are about what a study writes, not about what it learns."""

from collections.abc import Callable

import pytest
from ml_collections import ConfigDict
from tiny import tiny_config


@pytest.fixture(scope="session")
def tiny() -> Callable[..., ConfigDict]:
    """The configuration of a study of some seconds, changed by path: tiny(**{"data.alpha": 0.1})."""
    return tiny_config
