"""Prints versions, devices and folders; with --list, the members of all families, such as algorithms and models.

mdfl info [--list] [--fields] [algorithm | algorithm.pame]
python -m launch.info [--list] [--fields] [--of=algorithm | --of=algorithm.pame] [--use=FILE]
"""

import os
import platform
from importlib.metadata import PackageNotFoundError, version

import jax
from absl import flags

from mdfl_jax.cli import common
from mdfl_jax.core import devices

_LIST = flags.DEFINE_bool("list", False, "Every member of every family with its numbers.")
_FIELDS = flags.DEFINE_bool("fields", False, "Every field and every member as a page in Markdown.")
_OF = flags.DEFINE_string("of", "", "With --list: of a family (algorithm) or a member (algorithm.pame) alone.")
common.use_flag()
WORDS, DOES = ("of",), "asking JAX for its devices and members"

PACKAGES = ("mdfl_jax", "jax", "jaxlib", "flax", "optax", "ml_collections", "numpy", "scipy")
OPTIONAL = ("tensorflow-datasets", "array_record")


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def main() -> int:
    """Print the facts that a bug report or a paper's appendix needs, or the members of the families."""
    common.setup_jax("")
    common.import_own_files()
    if _FIELDS.value:
        from mdfl_jax.cli.reference import page

        print(page(), end="")
        return 0
    if _LIST.value or _OF.value:
        from mdfl_jax.cli.catalogue import listing

        print(listing(_OF.value))
        return 0
    print(f"python {platform.python_version()} on {platform.platform()}, {devices.num_cores()} cores")
    for name in (*PACKAGES, *OPTIONAL):
        print(f"{name} {_version(name)}")
    for device in jax.devices():
        print(f"device {device.platform}:{device.id} {device.device_kind}")
    print(f"compilation cache {common.default_cache()}")
    print(f"data directory {os.environ.get('MDFL_DATA_DIR') or 'not set (MDFL_DATA_DIR)'}")
    return 0
