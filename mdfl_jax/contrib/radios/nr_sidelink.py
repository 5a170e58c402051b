"""The rates of the 5G NR sidelink: the schemes of 3GPP TS 38.214, table 5.1.3.1-1.

A scheme with the modulation order Q and the code rate R carries e = Q R bits in a resource element, 168 of which fit
into a millisecond and 180 kHz. Its least SNR is that of the attenuated Shannon bound, e 168 / 180 = 0.4 log2(1 + SNR),
as the simulator WiLabV2Xsim takes it (MatFilesUtility5G/findRBsBeaconSINRmin_5G.m). Scheme 17 carries less than scheme
16 and is left out. Control and reference signals are not counted.
"""

import math

from mdfl_jax.contrib.radios.radio import RATES, Rate
from mdfl_jax.contrib.radios.rates import WIDEST_BAND, Table, by_table
from mdfl_jax.core.numbers import Numbers, number

ATTENUATION = 0.4
CODE_RATES = {  # in 1024ths, by modulation order
    2: (120, 157, 193, 251, 308, 379, 449, 526, 602, 679),
    4: (340, 378, 434, 490, 553, 616, 658),
    6: (466, 517, 567, 616, 666, 719, 772, 822, 873, 910, 948),
}


def _rows() -> Table:
    """Return the least SNR in dB and the bits per second and hertz of each scheme."""
    each = (order * rate / 1024 * 168 / 180 for order, rates in CODE_RATES.items() for rate in rates)
    return tuple((10 * math.log10(2 ** (bits / ATTENUATION) - 1), bits) for bits in each)


SIDELINK_RATES = _rows()


class SidelinkNumbers(Numbers):
    """The numbers of ``nr_sidelink``."""

    width: float = number(
        9e6,
        "bandwidth that is used; 9 MHz are 50 resource blocks of 180 kHz",
        unit="Hz",
        at_least=100,
        at_most=WIDEST_BAND,
    )


RATES.register(
    "nr_sidelink",
    SidelinkNumbers,
    doc="5G NR sidelink: the schemes of 3GPP TS 38.214, table 5.1.3.1-1.",
    formula="rate = e 168/180 width for the largest e of the table with e 168/180 <= 0.4 log2(1 + SNR)",
    cite="todisco2021",
)(Rate(lambda numbers, snr: numbers.width * by_table(SIDELINK_RATES, snr), lambda numbers: SIDELINK_RATES[0][0]))
