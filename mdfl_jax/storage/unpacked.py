"""Bounds on what a file unpacks to, so that a small file of somebody else cannot fill the memory."""

import math
import zipfile
from pathlib import Path

import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.storage.host import host_memory

GIB = 2**30
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def check_size(size: int) -> None:
    """Check that the content of a file fits the memory.

    Args:
      size: its bytes once it is unpacked.

    Raises:
      UserError: if they are more than the memory that this process may have.
    """
    if size > (there := host_memory()):
        raise UserError(f"it unpacks to {size / GIB:,.1f} GiB; this machine has {there / GIB:,.1f} GiB of memory")


def check_npz(path: str | Path, together: bool = True) -> None:
    """Check the sizes of the arrays of an .npz file, before any of them is read.

    Args:
      path: the file.
      together: whether all arrays must fit the memory together, or only each by itself.

    Raises:
      UserError: if they do not fit, or if the header of an array says another size than the archive.
      Exception: whatever `zipfile` and NumPy raise for a damaged file.
    """
    with zipfile.ZipFile(path) as archive:
        sizes = [entry.file_size for entry in archive.infolist()]
        check_size((sum if together else max)(sizes) if sizes else 0)
        for entry in archive.infolist():
            with archive.open(entry) as stream:
                read_header = _HEADERS.get(np.lib.format.read_magic(stream))
                if read_header is None:
                    continue
                shape, _, dtype = read_header(stream)
                needed = stream.tell() + math.prod(shape) * dtype.itemsize
                if needed != entry.file_size and not dtype.hasobject:  # objects are refused where they are read
                    raise UserError(
                        f"the header of {entry.filename} says {list(shape)} {dtype}, {needed:,} bytes with the header; "
                        f"the archive holds {entry.file_size:,}"
                    )
