"""Log-distance path loss: the signal falls by 10 n dB with each factor of ten in the distance.

Within a metre the loss is that at one metre. The defaults are those of vehicles in streets without line of sight at
5.9 GHz in 3GPP TR 37.885 (table 6.2.1-1), 36.85 + 30 log10 d + 18.9 log10 f with f in GHz. Its highway with line of
sight is 32.4 + 20 log10 d + 20 log10 f, so radio.exponent=2 and radio.reference_loss=47.82.
"""

import jax
import jax.numpy as jnp

from mdfl_jax.contrib.radios.radio import RADIOS, PathLoss, SignalNumbers
from mdfl_jax.core.numbers import number


class LogDistanceNumbers(SignalNumbers):
    """The numbers of ``log_distance``."""

    exponent: float = number(3.0, "path loss exponent n; 2 is free space", above=0, source="3GPP TR 37.885")
    reference_loss: float = number(51.42, "path loss at one metre", unit="dB", source="3GPP TR 37.885")


def loss(numbers: LogDistanceNumbers, distance: jax.Array) -> jax.Array:
    """Return the path loss in dB at distances in metres.

    >>> numbers = LogDistanceNumbers(exponent=3.0, reference_loss=40.0)
    >>> loss(numbers, jnp.array([0.0, 1.0, 10.0, 100.0])).tolist()
    [40.0, 40.0, 70.0, 100.0]
    """
    return numbers.reference_loss + 10 * numbers.exponent * jnp.log10(jnp.maximum(distance, 1))


def reach(numbers: LogDistanceNumbers, most: jax.Array) -> jax.Array:
    """Return the largest distance in metres with at most a loss of ``most`` dB; 0 where even one metre has more.

    >>> reach(LogDistanceNumbers(exponent=3.0, reference_loss=40.0), jnp.array([30.0, 40.0, 70.0])).tolist()
    [0.0, 1.0, 10.0]
    """
    above = most - numbers.reference_loss
    return jnp.where(above >= 0, 10 ** (above / (10 * numbers.exponent)), 0)


RADIOS.register(
    "log_distance",
    LogDistanceNumbers,
    doc="Path loss by the logarithm of the distance, with shadowing that is correlated in space if set.",
    formula="SNR = power - (reference_loss + 10 n log10 d) - X + 10 log10 G - noise;  link: SNR >= threshold, d <= R;  "
    "X ~ N(0, shadowing^2), corr(X, X') = exp(-(m_i + m_j) / shadowing_distance)",
    cite="gudmundson1991; wang2008",
)(PathLoss(loss, reach))
