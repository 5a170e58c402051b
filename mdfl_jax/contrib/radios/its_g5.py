"""The rates of IEEE 802.11p (ITS-G5) in a channel of 10 MHz.

The eight rates are those of the standard. The least SNR of each is the one that the simulator WiLabV2Xsim
(MatFilesUtilityIEEE80211p/SINRmin11p.m) takes from the sensitivities of a u-blox receiver.
"""

from mdfl_jax.contrib.radios.radio import RATES, Rate
from mdfl_jax.contrib.radios.rates import by_table
from mdfl_jax.core.numbers import Numbers

ITS_G5_RATES = (
    (4.1, 3.0e6),
    (5.6, 4.5e6),
    (6.5, 6.0e6),
    (9.0, 9.0e6),
    (11.7, 12.0e6),
    (15.5, 18.0e6),
    (19.9, 24.0e6),
    (22.0, 27.0e6),
)


RATES.register(
    "its_g5",
    Numbers,
    doc="IEEE 802.11p (ITS-G5), 10 MHz: 3 to 27 Mbit/s.",
    formula="rate = 3, 4.5, 6, 9, 12, 18, 24, 27 Mbit/s from SNR = 4.1, 5.6, 6.5, 9, 11.7, 15.5, 19.9, 22 dB on",
    cite="todisco2021",
)(Rate(lambda numbers, snr: by_table(ITS_G5_RATES, snr), lambda numbers: ITS_G5_RATES[0][0]))
