"""The numbers that all radios with a signal strength have."""

from mdfl_jax.core.numbers import Numbers, number


class SignalNumbers(Numbers):
    """The numbers of a signal besides those of its path loss, in decibel and metres.

    The noise is that of 10 MHz, -174 dBm/Hz + 70 dB, with a noise figure of 9 dB.
    """

    power: float = number(23.0, "power that clients send with, antennas included", unit="dBm")
    noise: float = number(-95.0, "noise of a receiver in its channel", unit="dBm")
    threshold: float = number(5.0, "signal-to-noise ratio below which a link is in outage", unit="dB")
    shadowing: float = number(0.0, "standard deviation of the shadowing; 0: none", unit="dB", at_least=0)
    shadowing_distance: float = number(
        25.0,
        "distance that a client moves until the shadowing's correlation is 1 / e",
        unit="m",
        above=0,
        part="shadowing",
    )
