"""What the papers prove, as functions of numbers and of the links of a network, and what this says of a study."""

from mdfl_jax.cli.commands import OF_CONTRIB

OF_CONTRIB.register(
    "theory", doc="prints what theory says of a study, without running it: mdfl theory fedmobile_digits"
)("mdfl_jax.contrib.theory.command")
