"""Rates by Shannon's formula, and by tables of modulation and coding schemes (MCS)."""

import itertools
import math

import jax
import jax.numpy as jnp

from mdfl_jax.contrib.radios.radio import RATES, Rate, ratio_of
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.geometry import points_of
from mdfl_jax.core.numbers import Numbers, Setting, number

Table = tuple[tuple[float, float], ...]  # rows of an SNR in dB and of the bits per second from there on
WIDEST_BAND = 300e9  # hertz: all frequencies of radio


class ShannonNumbers(Numbers):
    """The numbers of ``shannon``."""

    width: float = number(10e6, "bandwidth of the channel", unit="Hz", at_least=100, at_most=WIDEST_BAND)
    gap: float = number(
        3.0, "signal-to-noise ratio that real codes lose against Shannon's bound", unit="dB", at_least=0
    )


def shannon(numbers: ShannonNumbers, snr: jax.Array) -> jax.Array:
    """Return the bits per second at an SNR in dB.

    >>> float(shannon(ShannonNumbers(width=1e6, gap=0.0), jnp.float32(10 * jnp.log10(3.0)))).__round__(-1)
    2000000.0
    """
    return numbers.width * jnp.log2(1 + ratio_of(snr - numbers.gap))


RATES.register(
    "shannon",
    ShannonNumbers,
    doc="Shannon's capacity with a gap.",
    formula="rate = width log2(1 + 10^((SNR - gap) / 10))",
)(Rate(shannon, lambda numbers: -jnp.inf))


def by_table(table: Table, snr: jax.Array) -> jax.Array:
    """Return the bits per second of the fastest scheme whose SNR is reached; 0 below the first one.

    >>> by_table(((1.0, 10.0), (4.0, 30.0)), jnp.array([0.0, 1.0, 3.9, 50.0])).tolist()
    [0.0, 10.0, 10.0, 30.0]
    """
    snrs, bits = (jnp.asarray(column, jnp.float32) for column in zip(*table))
    place = jnp.searchsorted(snrs, snr, side="right")
    return jnp.concatenate([jnp.zeros(1, jnp.float32), bits])[place]


def check_table(what: str, table: Table) -> None:
    """Check that a table has rows, and that more signal means more bits.

    Raises:
      UserError: if it does not; the message names the first wrong row.
    """
    if not table:
        raise UserError(f"{what} has no row; it must be 'dB,bit/s; dB,bit/s; ...'")
    if infinite := [row for row in table if not all(map(math.isfinite, row))]:
        raise UserError(f"{what}: {infinite[0][0]:g},{infinite[0][1]:g} is not finite")
    for (snr, bits), (more, faster) in itertools.pairwise(table):
        if not (more > snr and faster > bits):
            raise UserError(
                f"{what}: {more:g},{faster:g} follows {snr:g},{bits:g}; both columns must grow from row to row"
            )
    if not table[0][1] > 0:
        raise UserError(f"{what}: {table[0][0]:g},{table[0][1]:g} carries nothing; a rate must be greater than 0")


class TableNumbers(Numbers):
    """The numbers of ``table``."""

    mcs: str = number("", "rows of an MCS table, 'dB,bit/s; dB,bit/s; ...': least SNR and rate", static=True)

    @property
    def rows(self) -> Table:
        """The rows of the table."""
        return tuple(points_of("radio.mcs", self.mcs))

    def check(self, setting: Setting) -> None:
        """Check the table."""
        check_table("radio.mcs", self.rows)


RATES.register(
    "table",
    TableNumbers,
    doc="The rates of a table of your own, `radio.mcs`.",
    formula="rate = that of the last row whose dB are at most SNR;  0 below the first one",
)(Rate(lambda numbers, snr: by_table(numbers.rows, snr), lambda numbers: numbers.rows[0][0]))
