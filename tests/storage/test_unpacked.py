"""What files of data, graphs and studies unpack to: looked at first, and refused in one line that names the file."""

import gzip
import io
import struct
import zipfile

import numpy as np
import pytest
from small import told

from mdfl_jax.contrib.partitions.table import read_table
from mdfl_jax.contrib.pretrained.pretrained import read_tensors
from mdfl_jax.core.errors import UserError
from mdfl_jax.data.formats import idx, npz
from mdfl_jax.networks.fixed import read_matrices
from mdfl_jax.storage import disk
from mdfl_jax.storage.study_files import read_streets

READERS = {
    "data": lambda path: npz.read_npz([path], f"data.name='a', file {str(path)!r}"),
    "graph": lambda path: read_matrices(path, 6),
    "owners": lambda path: read_table(str(path)),
    "streets": lambda path: read_streets(path.parent),
    "weights": read_tensors,
}
KEYS = ("x_train", "y_train", "x_test", "y_test")


def member(shape, content=b"", kind="<f4"):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": kind, "fortran_order": False, "shape": shape})
    return file.getvalue() + content


def refused(reader, path):
    line = told(READERS[reader], path)
    assert str(path) in line
    return line


def test_what_unpacks_to_more_than_the_memory_or_says_so_or_holds_objects_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "streets.npz"
    for reader in READERS:
        for shape in ((2**40,), (2**62, 2**62), (3,)):
            with zipfile.ZipFile(path, "w") as archive:
                for key in KEYS:
                    archive.writestr(f"{key}.npy", member(shape, bytes(16)))
            assert "the header of x_train.npy says" in refused(reader, path)
        names = {"data": KEYS, "owners": ["owner"], "streets": ["streets"], "graph": ["x_train"]}.get(reader, KEYS)
        np.savez(path, **{name: np.array([{}], object) for name in names})
        assert "bject" in refused(reader, path) or "pickle" in refused(reader, path)
    monkeypatch.setattr(disk, "host_memory", lambda: 2**20)
    np.savez_compressed(path, **{key: np.zeros(2**20, np.float32) for key in KEYS})
    assert path.stat().st_size < 2**18
    for reader in READERS:
        assert "GiB; this machine has 0.0 GiB of memory" in refused(reader, path)


@pytest.mark.parametrize("name", ["train-images-idx3-ubyte", "train-images-idx3-ubyte.gz"])
def test_an_idx_file_is_read_as_far_as_its_header_says(tmp_path, name):
    path, header = tmp_path / name, bytes([0, 0, 8, 3]) + struct.pack(">3I", 2, 4, 4)
    pack = gzip.compress if name.endswith("gz") else bytes
    path.write_bytes(pack(header + bytes(range(32))))
    assert idx.read_idx(path, "x").shape == (2, 4, 4)
    path.write_bytes(pack(header + bytes(2**24)))  # a bomb
    with pytest.raises(UserError, match=r"it holds at least 1,048,608 bytes behind its header, which says \[2, 4, 4\]"):
        idx.read_idx(path, "x")
    path.write_bytes(pack(bytes([0, 0, 8, 3]) + struct.pack(">3I", *[2**32 - 1] * 3)))
    with pytest.raises(UserError, match="GiB; this machine has"):
        idx.read_idx(path, "x")
    path.write_bytes(pack(bytes([0, 0, 8, 255]) + bytes(8)))
    with pytest.raises(UserError, match="it begins with 00 00 08 ff"):
        idx.read_idx(path, "x")
