"""The disc: all clients within the radius hear each other, whatever the distance."""

from mdfl_jax.contrib.radios.radio import RADIOS

RADIOS.register(
    "disc",
    doc="Clients hear each other within the radius; no signal strengths.",
    formula="link: d <= R",
    cite="madfl: II-A",
)(None)
