"""Radios of clients in the air and on the ground: the loss depends on the elevation, at which buildings hide a client.

Between a client in the air and one on the ground, at the elevation theta in degrees and the slant distance s
(Al-Hourani, Kandeepan and Lardner, 2014):

    loss = 20 log10(4 pi f s / c) + P eta_los + (1 - P) eta_nlos,   P = 1 / (1 + a exp(-b (theta - a)))

where P is the probability of a line of sight. The loss is the mean over it, as in the paper. Two clients in the air
see each other (P = 1), and between two on the ground the loss is that of `mdfl_jax.contrib.radios.log_distance`, by
default that of streets at 2 GHz (3GPP TR 37.885). Distances of the world are those on the ground. Heights are drawn
once, or those of a trace at the beginning of each round.
"""

import math

import jax
import jax.numpy as jnp

from mdfl_jax.contrib.radios import log_distance
from mdfl_jax.contrib.radios.log_distance import LogDistanceNumbers
from mdfl_jax.contrib.radios.radio import RADIOS, PathLoss
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.numbers import Setting, number

ENVIRONMENTS = {
    "suburban": (4.88, 0.43, 0.1, 21.0),
    "urban": (9.61, 0.16, 1.0, 20.0),
    "dense_urban": (12.08, 0.11, 1.6, 23.0),
    "high_rise": (27.23, 0.08, 2.3, 34.0),
}
"""a, b, and the excess losses in dB at 2 GHz with and without a line of sight (Al-Hourani et al., 2014)."""
FLYING = ("mobile", "static", "all")
LIGHT = 299_792_458.0  # metres a second
_HALVINGS = 40
NEAREST, FARTHEST = -3.0, 12.0  # of the search for a reach, powers of ten in metres


class AirToGroundNumbers(LogDistanceNumbers):
    """The numbers of ``air_to_ground``."""

    reference_loss: float = number(42.54, "path loss at one metre on the ground", unit="dB", source="3GPP TR 37.885")
    height: float = number(100.0, "height of the clients in the air, in the mean", unit="m", above=0)
    height_spread: float = number(
        0.0, "heights are drawn in [1 - spread, 1 + spread] times the mean, once for a seed", at_least=0, below=1
    )
    flying: str = number("mobile", "clients in the air", static=True, names=FLYING)
    antenna: float = number(1.5, "height of the clients on the ground", unit="m", at_least=0)
    frequency: float = number(2.0, "frequency of the carrier", unit="GHz", at_least=0.03125, at_most=300)
    environment: str = number("urban", "buildings between the air and the ground", static=True, names=ENVIRONMENTS)

    def check(self, setting: Setting) -> None:
        """Check that nobody in the air is below the antennas on the ground."""
        lowest = self.height * (1 - self.height_spread)
        if lowest <= self.antenna:
            raise UserError(
                f"radio.height is {self.height:g}; the lowest client in the air, at {lowest:g} m, must be above "
                f"radio.antenna, which is {self.antenna:g}"
            )


def heights(
    numbers: AirToGroundNumbers, drawn: jax.Array, mobile: jax.Array, traced: jax.Array | None = None
) -> jax.Array:
    """Return the heights of the clients in metres, [N].

    Args:
      numbers: the numbers of the radio.
      drawn: [N] uniform draws in [0, 1).
      mobile: [N] bool, the mobile clients.
      traced: [N] heights of a trace, NaN where it has none; who is not above the antennas on the ground is on the
        ground. None: there are none.
    """
    flies = {"mobile": mobile, "static": ~mobile, "all": jnp.ones_like(mobile)}[numbers.flying]
    own = jnp.where(flies, numbers.height * (1 + numbers.height_spread * (2 * drawn - 1)), numbers.antenna)
    return own if traced is None else jnp.where(jnp.isnan(traced), own, jnp.maximum(traced, numbers.antenna))


def sight(numbers: AirToGroundNumbers, elevation: jax.Array) -> jax.Array:
    """Return the probability of a line of sight at elevations in degrees.

    >>> urban = sight(AirToGroundNumbers(), jnp.array([0.0, 9.61, 45.0, 90.0]))
    >>> [round(float(p), 3) for p in urban]
    [0.022, 0.094, 0.968, 1.0]
    """
    a, b, _, _ = ENVIRONMENTS[numbers.environment]
    return 1 / (1 + a * jnp.exp(-b * (elevation - a)))


def ground_loss(numbers: AirToGroundNumbers, distance: jax.Array, mine: jax.Array, theirs: jax.Array) -> jax.Array:
    """Return the path loss in dB between clients at distances on the ground and at two heights, all in metres."""
    _, _, excess, hidden = ENVIRONMENTS[numbers.environment]
    above = jnp.abs(mine - theirs)
    slant = jnp.maximum(jnp.hypot(distance, above), 1)
    seen = sight(numbers, jnp.degrees(jnp.arctan2(above, distance)))
    seen = jnp.where(jnp.minimum(mine, theirs) > numbers.antenna, 1, seen)
    free = 20 * jnp.log10(slant * numbers.frequency) + 20 * math.log10(4e9 * math.pi / LIGHT)
    on_ground = jnp.maximum(mine, theirs) <= numbers.antenna
    return jnp.where(on_ground, log_distance.loss(numbers, distance), free + seen * excess + (1 - seen) * hidden)


def ground_reach(numbers: AirToGroundNumbers, most: jax.Array, mine: jax.Array, theirs: jax.Array) -> jax.Array:
    """Return the largest distance on the ground with at most a loss of ``most`` dB, by bisection; 0 for none.

    The loss grows with the distance, since both the slant distance and the buildings in between do.
    """

    def halve(_: int, bounds: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = bounds
        middle = (low + high) / 2
        fits = ground_loss(numbers, 10**middle, mine, theirs) <= most
        return jnp.where(fits, middle, low), jnp.where(fits, high, middle)

    start = jnp.zeros(jnp.broadcast_shapes(most.shape, mine.shape, theirs.shape), jnp.float32)
    low = jax.lax.fori_loop(0, _HALVINGS, halve, (start + NEAREST, start + FARTHEST))[0]
    return jnp.where(ground_loss(numbers, jnp.float32(0), mine, theirs) <= most, 10**low, 0)


RADIOS.register(
    "air_to_ground",
    AirToGroundNumbers,
    doc="Drones and clients on the ground: the line of sight is the likelier the higher the elevation.",
    formula="SNR as of log_distance;  loss = 20 log10(4 pi f s / c) + P eta_los + (1 - P) eta_nlos;  "
    "P = 1 / (1 + a exp(-b (theta - a)))",
    cite="alhourani2014",
)(PathLoss(ground_loss, ground_reach, heights, ("height", "height_spread", "flying")))
