"""Traces: functions that read the files of mobility tools, resample them to rounds, describe them and write them.

The package uses NumPy and not JAX. `mdfl_jax.mobility.trace` makes movement from its tables, and `mdfl_jax.networks`
makes networks.
"""

from mdfl_jax.traces.loading import detect, load
from mdfl_jax.traces.part import Part, part_of
from mdfl_jax.traces.reading import TRACE_FORMATS
from mdfl_jax.traces.resampling import GAPS, VEHICLES, contact_table, resample
from mdfl_jax.traces.trace import Contacts, ContactTable, Trace, TraceTable, write_bonnmotion, write_csv
