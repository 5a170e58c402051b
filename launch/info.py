"""Prints versions, devices and where things are kept: python -m launch.info"""

import os
import platform
from importlib.metadata import PackageNotFoundError, version

import jax

from launch import common

PACKAGES = ("mdfl_jax", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "ml_collections", "numpy", "scipy")
OPTIONAL = ("tensorflow-datasets", "array_record")


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def main() -> int:
    """Prints what a bug report or a paper's appendix needs."""
    common.setup_jax("")
    print(f"python {platform.python_version()} on {platform.platform()}, {common.num_cores()} cores")
    for name in (*PACKAGES, *OPTIONAL):
        print(f"{name} {_version(name)}")
    for device in jax.devices():
        print(f"device {device.platform}:{device.id} {device.device_kind}")
    print(f"compilation cache {common.default_cache()}")
    print(f"data directory {os.environ.get('MDFL_DATA_DIR') or 'not set (MDFL_DATA_DIR)'}")
    return 0


if __name__ == "__main__":
    common.run(main)
