"""What pyproject.toml cannot say: the shipped studies and examples are installed below mdfl_jax."""

import os

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

SHIPPED = {"mdfl_jax.shipped.configs": "configs", "mdfl_jax.shipped.configs.data": "configs/data"}


class Build(build_py):
    """Adds the page of examples from which `mdfl new` writes its files."""

    def run(self) -> None:
        """Build, and copy the page."""
        super().run()
        if not self.editable_mode:
            self.copy_file("docs/extending.md", os.path.join(self.build_lib, "mdfl_jax", "shipped", "extending.md"))


setup(
    cmdclass={"build_py": Build},
    packages=[*find_packages(include=["mdfl_jax*"]), *SHIPPED],
    package_dir=SHIPPED,
    package_data={
        "mdfl_jax.core": ["papers.bib"],
        "mdfl_jax.contrib.comparison": ["*.jinja"],
        "mdfl_jax.report": ["assets/*"],
        "mdfl_jax.shipped.configs.data": ["*.gz", "ring_*.txt"],
    },
)
