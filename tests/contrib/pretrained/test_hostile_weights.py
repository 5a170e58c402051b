"""Files of PyTorch that somebody made to do harm or that hold no dense tensors: one line, and nothing in them is run.

They are made by hand, so that neither making nor refusing them needs PyTorch. Other weights that do harm are in
tests/attack/test_hostile_files.py and tests/storage/test_unpacked.py.
"""

import os
import pickle
import zipfile

from small import told

from mdfl_jax.contrib.pretrained.pretrained import read_tensors
from mdfl_jax.storage import disk

DENSE = b"ctorch._utils\n_rebuild_tensor_v2\n."


class Code:
    """Pickled, it makes a folder where it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def archive(path, **entries):
    """A file of PyTorch's format: a zip of one folder, whose entries have __ for / and _dot_ for a dot."""
    with zipfile.ZipFile(path, "w") as made:
        for name, content in entries.items():
            made.writestr(f"w/{name.replace('__', '/').replace('_dot_', '.')}", content)
    return path


def lines(path):
    line = told(read_tensors, path)
    assert line.startswith(repr(str(path)))
    return line


PICKLES = [
    (b"ctorch._utils\n_rebuild_sparse_tensor\n.", "it holds a sparse tensor; only dense ones are taken"),
    (b"cos\nsystem\n(S'touch ran'\ntR.", "a pickle, which needs code to be read; only tensors are taken (os.syst"),
    (b"\x80\x04\x8c\x02os\x8c\x06system\x93.", "only tensors are taken (STACK_GLOBAL)"),
    (b"these are words", "it is not a whole PyTorch file"),
    (b"\x80\x02}q\x00(X\x05\x00", "it is not a whole PyTorch file"),
]


def test_a_pickle_of_something_else_is_told_and_not_carried_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path, made = tmp_path / "w.pt", tmp_path / "made"
    for content, expected in PICKLES:
        archive(path, data_dot_pkl=content, data__0=b"\0" * 8)
        assert expected in lines(path)
        path.write_bytes(pickle.dumps(3, protocol=2) + content)
        assert expected in lines(path)
    for protocol in (0, 4):
        path.write_bytes(pickle.dumps({"a": Code(made)}, protocol))
        assert "a pickle, which needs code to be read" in lines(path)
    archive(path, data_dot_pkl=DENSE, constants_dot_pkl=b".", code____torch___dot_py=b"def f(): 1")
    assert "it is a TorchScript archive, which is a program; save the model's state_dict()" in lines(path)
    archive(path, version=b"3")
    assert "it is not a whole PyTorch file (it holds 0 data.pkl)" in lines(path)
    path.write_bytes(archive(path, data_dot_pkl=DENSE, data__0=b"\0" * 999).read_bytes()[:-40])
    assert "it is not a whole PyTorch file" in lines(path)
    assert os.listdir() == ["w.pt"]


def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    """An eighth of a gigabyte of zeros in a megabyte, on a machine of 64 MiB; of .npz see tests/storage."""
    monkeypatch.setattr(disk, "host_memory", lambda: 2**26)
    with zipfile.ZipFile(tmp_path / "w.pt", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as made:
        made.writestr("w/data.pkl", DENSE)
        with made.open("w/data/0", "w") as file:
            for _ in range(2**3):
                file.write(bytes(2**24))
    assert (tmp_path / "w.pt").stat().st_size < 2**20
    assert "it unpacks to 0.1 GiB; this machine has 0.1 GiB of memory" in lines(tmp_path / "w.pt")
