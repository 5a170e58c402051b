"""The commands of `mdfl`: those of the core are modules of this folder, and a folder of contrib registers its own."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from mdfl_jax.core.registry import CONTRIB, Registry

if TYPE_CHECKING:
    from ml_collections import ConfigDict

    from mdfl_jax.core.devices import Wanted

OF_CORE = {
    "sweep": "runs a study: mdfl sweep digits, mdfl sweep ./my_study.py --config.rounds=100",
    "report": "makes the report of a study again, or compares several: mdfl report runs/digits runs/radius",
    "info": "prints versions and devices, or the entries of the registries: mdfl info --list, mdfl info algorithm.pame",
    "cite": "prints what a paper cites, as BibTeX: mdfl cite; with the papers of a study: mdfl cite runs/digits",
}
OF_CONTRIB: Registry[str] = Registry("command", home=CONTRIB)
"""The commands of contrib: name -> the module. A folder registers them in its `__init__.py`, with a line of help."""

DRY_RUNS: "Registry[Callable[[Wanted | None, ConfigDict, str], int]]" = Registry("dry run", contrib="estimates")
"""Dry runs: kind of the device, or "here" -> (device, configuration, effort) -> exit status."""


def commands() -> dict[str, str]:
    """Return the commands with a line of help each."""
    return OF_CORE | {name: OF_CONTRIB.doc(name) for name in OF_CONTRIB}


def module_of(name: str) -> str:
    """Return the module of a command: it has a function ``main``, and says what `cli.common.run_command` takes."""
    return f"mdfl_jax.cli.{name}" if name in OF_CORE else OF_CONTRIB[name]
