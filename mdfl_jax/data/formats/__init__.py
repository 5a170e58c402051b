"""The formats of files in a data directory. Each format is one module that makes a `Format`."""

from mdfl_jax.data.formats.csv_table import CSV
from mdfl_jax.data.formats.format import Format
from mdfl_jax.data.formats.idx import IDX
from mdfl_jax.data.formats.npz import NPZ

FORMATS = (NPZ, CSV, IDX)
"""The formats in the order in which they are tried, if a data directory has files of one name in several formats."""

__all__ = ["FORMATS", "Format"]
