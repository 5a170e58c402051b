"""The folder of compiled programs: only while a study runs from Python, and not where JAX has a folder already."""

import jax
import jax.numpy as jnp
import pytest
from jax.experimental.compilation_cache import compilation_cache

from mdfl_jax import UserError
from mdfl_jax.core.program_cache import FOLDER, SETTINGS, programs_kept

NAMES = (FOLDER, *SETTINGS)


@pytest.fixture
def unset():
    before = {name: getattr(jax.config, name) for name in NAMES}
    jax.config.update(FOLDER, None)
    yield
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


def compiled(number):
    return jax.jit(lambda x: jnp.sin(x) * number)(jnp.ones(3)).block_until_ready()


def test_programs_are_kept_for_a_while_and_jax_is_then_set_as_before(tmp_path, unset):
    before = [getattr(jax.config, name) for name in NAMES]
    folder, other = tmp_path / "programs", tmp_path / "other"
    jax.clear_caches()  # so that small programs of earlier tests are compiled here, too
    with programs_kept(str(folder)):
        compiled(0.25)
    programs = len(list(folder.glob("*-cache")))
    assert programs > 0
    assert [getattr(jax.config, name) for name in NAMES] == before
    compiled(0.375)
    jax.clear_caches()
    with programs_kept(str(folder)):
        compiled(0.25)  # the same program, which is read
        with programs_kept(None):  # JAX has a folder already
            compiled(0.625)
        with programs_kept(""):
            compiled(0.875)
            assert getattr(jax.config, FOLDER) is None
        with programs_kept(str(other)):
            compiled(0.125)
    assert len(list(folder.glob("*-cache"))) == programs + 1
    assert list(other.glob("*-cache"))


def test_a_folder_that_is_a_file_is_refused(tmp_path, unset):
    (tmp_path / "file").touch()
    with (
        pytest.raises(UserError, match=r"^cache=.*file: it is not a directory$"),
        programs_kept(str(tmp_path / "file")),
    ):
        pass
