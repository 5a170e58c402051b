"""Programs made for devices that are not here are no programs for the tests that follow."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def _drop_programs() -> Iterator[None]:
    import jax

    yield
    jax.clear_caches()
