"""The studies of a module share their compiled programs, so that a study that was run before takes a tenth."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def _shared_programs() -> Iterator[None]:
    from mdfl_jax.engine.programs import Compiler  # not before the environment is set
    from mdfl_jax.study import runner

    compiler = Compiler()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "Compiler", lambda: compiler)
        yield
