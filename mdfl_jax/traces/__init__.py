"""Traces: functions that read the files of mobility tools, resample them to rounds, describe them and write them.

The package uses NumPy and not JAX. `mdfl_jax.mobility.trace` makes movement from its tables, and `mdfl_jax.networks`
makes networks.
"""

from mdfl_jax.traces.contacts import contact_table
from mdfl_jax.traces.load import FORMATS, TRACE_FORMATS, detect, load, load_contacts, load_trace
from mdfl_jax.traces.resample import GAPS, resample
from mdfl_jax.traces.types import Contacts, ContactTable, Trace, TraceTable
from mdfl_jax.traces.vehicles import VEHICLES
from mdfl_jax.traces.write import write_bonnmotion, write_csv

__all__ = [
    "FORMATS",
    "GAPS",
    "TRACE_FORMATS",
    "VEHICLES",
    "ContactTable",
    "Contacts",
    "Trace",
    "TraceTable",
    "contact_table",
    "detect",
    "load",
    "load_contacts",
    "load_trace",
    "resample",
    "write_bonnmotion",
    "write_csv",
]
