"""The format of NumPy's npz files: `<name>.npz` in the data directory."""

import difflib
import zipfile
from pathlib import Path

import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.data.dataset import KEYS, OPTIONAL_KEYS
from mdfl_jax.data.files import while_reading
from mdfl_jax.data.formats import FORMATS, of_ending
from mdfl_jax.storage.disk import check_npz
from mdfl_jax.storage.given import LARGE, open_file

MEDMNIST = {f"{a}_{b}": f"{x}_{s}" for a, s in (("train", "train"), ("val", "validation"), ("test", "test"))
            for b, x in (("images", "x"), ("labels", "y"))}  # fmt: skip
"""The names of MedMNIST's arrays (Yang and others, 2023), and ours."""
ALIKE = 0.75  # the likeness (`difflib`) from which a name is taken for a misspelt one


def read_npz(files: list[Path], where: str) -> dict[str, np.ndarray]:
    """Read the four arrays of an npz file, and the optional ones.

    Each array is read to its end, so that zipfile compares every checksum. MedMNIST's names are known; arrays of other
    names are not read.

    Raises:
      UserError: if the file is damaged, lacks one of the four arrays, or has one whose name is probably misspelt.
    """
    undamaged = while_reading(where, "an undamaged npz, no pickled objects")
    with undamaged, open_file(files[0], LARGE) as file, zipfile.ZipFile(file) as archive:
        check_npz(file)
        members = {member.removesuffix(".npy"): member for member in archive.namelist()}
        if {*members} <= {*MEDMNIST}:
            members = {MEDMNIST[name]: member for name, member in members.items()}
        if not members.keys() >= set(KEYS):
            found = ", ".join(repr(key) for key in sorted(members)[:10]) or "none"
            raise UserError(f"{where}: keys found: {found}; needed: {', '.join(KEYS)}")
        for name in sorted(members):
            _check_name(name, where)
        return {key: _read_member(archive, members[key]) for key in (*KEYS, *OPTIONAL_KEYS) if key in members}


def _check_name(name: str, where: str) -> None:
    """Refuse the name of an array that is not known but begins with x_ or y_, or is like a known one."""
    known, word = (*KEYS, *OPTIONAL_KEYS), name.lower()
    longer = [key for key in known if len(word) > 2 and key.startswith(word)]
    near = [*longer, *difflib.get_close_matches(word, known, n=1, cutoff=ALIKE)][:1]
    if name not in known and (near or word.startswith(("x_", "y_"))):
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise UserError(f"{where}: unknown array {name!r}{hint}; known: {', '.join(known)}; or a name unlike these")


def _read_member(archive: zipfile.ZipFile, member: str) -> np.ndarray:
    with archive.open(member) as stream:
        array = np.lib.format.read_array(stream, allow_pickle=False)
        if stream.read(1):  # this also reads to the end of the stream, where zipfile compares the checksum
            raise ValueError(f"{member} is longer than its header says")
    return array


FORMATS.register("npz", doc="NumPy's npz files.")(of_ending(".npz", read_npz, place=0))
