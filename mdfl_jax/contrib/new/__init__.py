"""An entry of your own to begin with: `mdfl new`."""

from mdfl_jax.cli.commands import OF_CONTRIB

OF_CONTRIB.register("new", doc="writes an entry of your own to begin with: mdfl new mobility my_rule")(
    "mdfl_jax.contrib.new.command"
)
