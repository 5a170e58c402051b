"""The panels of a report: each file of this folder registers one picture, and `load` imports them all."""

import importlib
import pkgutil


def load() -> None:
    """Imports every file of this folder, so that its panel is registered (`mdfl_jax.report.registry`)."""
    for module in sorted(found.name for found in pkgutil.iter_modules(__path__)):
        importlib.import_module(f"{__name__}.{module}")
