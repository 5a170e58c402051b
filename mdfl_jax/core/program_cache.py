"""The folder in which JAX keeps compiled programs for later processes of the commands and of `mdfl_jax.run`."""

import contextlib
import os
from collections.abc import Iterator

from mdfl_jax.core.errors import UserError, check_path

FOLDER = "jax_compilation_cache_dir"
SETTINGS = {  # a study has a dozen small programs, too
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}


def default_folder() -> str:
    """Return the folder for compiled programs: JAX_COMPILATION_CACHE_DIR, or one in the user's cache directory."""
    given = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return given if given is not None else os.path.join(base, "mdfl_jax", "xla")


def keep_programs(folder: str, name: str = "cache") -> None:
    """Keep compiled programs in a folder from now on.

    Args:
      folder: the folder; "" keeps none.
      name: the flag or argument by which the user has given the folder, for error lines.

    Raises:
      UserError: if the path is a file, or cannot be a path.
    """
    import jax

    check_path(name, folder)
    folder = os.path.expanduser(folder)
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise UserError(f"{name}={folder}: it is not a directory")
    for setting, value in {FOLDER: folder or None, **SETTINGS}.items():
        jax.config.update(setting, value)


@contextlib.contextmanager
def programs_kept(folder: str | None) -> Iterator[None]:
    """Keep compiled programs in a folder within this context; then restore JAX's settings.

    Args:
      folder: the folder; "" keeps none. None: that of JAX if it has one, else the default.

    Raises:
      UserError: as `keep_programs` does.
    """
    import jax
    from jax.experimental.compilation_cache import compilation_cache

    before = {name: getattr(jax.config, name) for name in (FOLDER, *SETTINGS)}
    keep_programs((before[FOLDER] or default_folder()) if folder is None else folder)
    compilation_cache.reset_cache()  # JAX reads the setting only at its first program
    try:
        yield
    finally:
        for setting, value in before.items():
            jax.config.update(setting, value)
        compilation_cache.reset_cache()
