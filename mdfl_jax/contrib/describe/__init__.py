"""What a file or a data set holds, and what the clients of a study will hold: `mdfl data`."""

from mdfl_jax.cli.commands import OF_CONTRIB

OF_CONTRIB.register(
    "data", doc="describes a trace or a contact list, mdfl data FILE, or a study's data, mdfl data --config=digits"
)("mdfl_jax.contrib.describe.command")
