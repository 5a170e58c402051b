"""Workdirs put together as one study: `mdfl merge`."""

from mdfl_jax.cli.commands import OF_CONTRIB

OF_CONTRIB.register(
    "merge",
    doc="puts workdirs together, other seeds, points or machines: mdfl merge runs/one runs/two --workdir=runs/all",
)("mdfl_jax.contrib.merge.command")
