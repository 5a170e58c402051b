"""A table of one quantity by two settings, as a paper prints it: `mdfl table`."""

from mdfl_jax.cli.commands import OF_CONTRIB

OF_CONTRIB.register("table", doc="saves a quantity of a study by two settings: mdfl table runs/pairs --to=table.tex")(
    "mdfl_jax.contrib.tables.command"
)
