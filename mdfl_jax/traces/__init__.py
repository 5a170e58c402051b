"""Traces: reading the files that mobility tools write, resampling them to rounds, describing and writing them.

The package is plain NumPy; `mdfl_jax.mobility.trace` makes a movement of it, `mdfl_jax.networks` networks.
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
