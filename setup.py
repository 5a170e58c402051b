"""The parts of the package that pyproject.toml cannot say: the shipped studies are installed below mdfl_jax."""

from setuptools import find_packages, setup

SHIPPED = {"mdfl_jax.shipped.configs": "configs", "mdfl_jax.shipped.configs.data": "configs/data"}

setup(
    packages=[*find_packages(include=["mdfl_jax*"]), *SHIPPED],
    package_dir=SHIPPED,
    package_data={
        "mdfl_jax.cli": ["templates/*.py"],
        "mdfl_jax.report": ["assets/*"],
        "mdfl_jax.shipped.configs.data": ["*.gz"],
    },
)
