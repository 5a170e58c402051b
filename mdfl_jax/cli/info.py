"""Prints versions, devices and folders; with --list, the entries of all registries, such as algorithms.

mdfl info [--list | --fields] [algorithm | algorithm.pame | algorithm.lr] [--use=FILE]
"""

import os
import platform
from importlib.metadata import PackageNotFoundError, version

import jax
from absl import flags

from mdfl_jax.cli import common, families
from mdfl_jax.core import devices, program_cache

_LIST = flags.DEFINE_bool("list", False, "Every entry of every registry with its formula and its hyperparameters.")
_OF = flags.DEFINE_string(
    "of", "", "A registry (algorithm), an entry (algorithm.pame) or a field (algorithm.lr) alone."
)
_FIELDS = flags.DEFINE_bool("fields", False, "Every field that all studies have, in Markdown.")
common.use_flag()
WORDS, DOES = ("of",), "asking JAX for its devices and entries"
PACKAGES = ("mdfl_jax", "jax", "jaxlib", "flax", "optax", "ml_collections", "numpy", "scipy")
OPTIONAL = ("tensorflow-datasets", "array_record")


def main() -> int:
    """Print the facts that a bug report or a paper's appendix needs, or what is known of the families."""
    common.setup_jax("")
    common.import_own_files()
    if _FIELDS.value:
        print(families.fields(), end="")
        return 0
    if _LIST.value or _OF.value:
        print(families.listing(_OF.value))
        return 0
    print(f"python {platform.python_version()} on {platform.platform()}, {devices.num_cores()} cores")
    for name in (*PACKAGES, *OPTIONAL):
        print(f"{name} {_version(name)}")
    for device in jax.devices():
        print(f"device {device.platform}:{device.id} {device.device_kind}")
    print(f"compilation cache {program_cache.default_folder()}")
    print(f"data directory {os.environ.get('MDFL_DATA_DIR') or 'not set (MDFL_DATA_DIR)'}")
    return 0


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
