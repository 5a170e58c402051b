"""Files of named arrays: what is written comes back; damage to any byte, and whatever else is no such file, is told."""

import json
import os
import zlib

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import load_file, save_file

from mdfl_jax.core.errors import UserError
from mdfl_jax.storage import array_files, disk
from mdfl_jax.storage.array_files import checksum_of, checksums_in, is_of_kind, read, read_more, shapes_in, write

KIND = "some 1"
DTYPES = ["bool", "u1", "i2", "<u4", ">i4", "i8", "f2", "f4", ">f8", "c8", ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn]


@st.composite
def arrays(draw):
    """An array of any type and order in memory; an even one becomes much shorter when it is compressed."""
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=draw(st.sampled_from([3, 20]))))
    rng, even = np.random.default_rng(draw(st.integers(0, 99))), draw(st.booleans())
    values = np.full(shape[::-1], draw(st.integers(0, 1))) if even else rng.integers(0, 99, shape[::-1])
    return values.astype(draw(st.sampled_from(DTYPES))).T


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(st.text(st.sampled_from("ab/.é"), min_size=1), arrays(), max_size=4), st.booleans())
def test_arrays_of_any_type_and_shape_come_back(tmp_path_factory, found, compress):
    path = tmp_path_factory.getbasetemp() / "drawn" / "any.safetensors"
    write(path, KIND, {"a": [1, None, "é"]}, found, compress)
    header, again = read(path, KIND)
    assert (header["a"], is_of_kind(path, KIND), is_of_kind(path, "other 1")) == ([1, None, "é"], True, False)
    assert shapes_in(header) == {name: array.shape for name, array in found.items()}
    assert checksums_in(header) == {name: checksum_of(array) for name, array in again.items()}
    for some in (again, read_more(path, header, found), {k: read(path, KIND, only=[k, "none"])[1][k] for k in found}):
        assert some.keys() == found.keys()
        for name, array in found.items():
            assert (some[name].dtype, some[name].shape) == (array.dtype.newbyteorder("="), array.shape)
            assert some[name].tobytes() == array.astype(array.dtype.newbyteorder("=")).tobytes()


def test_any_reader_of_safetensors_reads_a_file_and_even_arrays_are_short(tmp_path):
    path, noise = tmp_path / "a.safetensors", np.random.default_rng(0).normal(size=(30, 40))
    write(path, KIND, {}, {"noise": noise, "even": np.zeros(10**6, np.float32)}, compress=True)
    assert path.stat().st_size < 40_000
    np.testing.assert_array_equal(load_file(path)["noise"], noise)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def refused(path, says="a"):
    with pytest.raises(UserError, match=says) as error:
        read(path, KIND)
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)


def test_each_flipped_bit_and_each_cut_is_one_line(tmp_path):
    """Zeros may be deflated in many ways, and a flipped bit can make one of another: then all numbers are right."""
    path, found = tmp_path / "a.safetensors", {"a": np.arange(6, dtype=np.int16).reshape(2, 3), "zero": np.zeros(2000)}
    write(path, KIND, {"n": 3}, found, compress=True)
    whole = path.read_bytes()
    deflated = len(whole) - load_file(path)["zero"].nbytes
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << place % 8)]) + whole[place + 1 :])
        try:
            again = read(path, KIND)[1]
        except UserError:
            refused(path)
        else:
            assert place >= deflated
            assert checksum_of(again["zero"]) == checksum_of(found["zero"])
        if place % 7 == 0:
            path.write_bytes(whole[:place])
            refused(path)
    path.write_bytes(whole + b"\0")
    refused(path)


def made_up(path, rest, stored):
    """Writes a file whose checksum of the header is right, whatever the header says."""
    text = array_files._SEALED.format(checksum=array_files._checksum_of_text(rest)) + rest
    save_file(stored, path, {array_files.KEY: text})


TWO = np.zeros(2, np.float32)


def test_a_header_that_nobody_writes_is_one_line(tmp_path):
    path, digest = tmp_path / "a.safetensors", checksum_of(TWO)
    for about, says in (
        (["float32", [3], digest, False], "'a' has another size than its header says"),
        (["float32", [2**62, 2**62], digest, False], "'a' has another size"),
        (["float32", [1, 2], digest, False], "the checksum of the array 'a' is wrong"),
        (["int32", [2], digest, False], "the checksum of the array 'a' is wrong"),
        (["float32", [2], "0" * 32, False], "the checksum of the array 'a' is wrong"),
        (["float32", [-2], digest, False], "damaged"),
        (["object", [1], digest, False], "damaged"),
        (["a type", [2], digest, False], "damaged"),
        (["float32", [2], digest, True], "damaged"),  # is not deflated
        *((odd, "damaged") for odd in (["float32"], 3, None)),
    ):
        made_up(path, json.dumps({"format": KIND, "arrays": {"a": about}})[1:], {"a": TWO})
        refused(path, says)
    for rest, says in (
        (f'"format": "{KIND}", "arrays": {"[" * 10**5}{"]" * 10**5}}}', "nested too deeply"),
        (f'"format": "{KIND}", "arrays": {{}}, "n": {"9" * 9999}}}', "damaged"),
        (f'"format": "{KIND}", "arrays": {{"b": []}}}}', "it has other arrays than its header says"),
        (f'"format": "{KIND}", "arrays": 3}}', "damaged"),
        (f'"format": "{KIND}"}}', "damaged"),
        ('"format": "other 1", "arrays": {}}', f"its format is 'other 1', and '{KIND}' is needed"),
        ('"format": ["a"], "arrays": {}}', "its format is"),
        ("", "damaged"),
    ):
        made_up(path, rest, {"a": TWO})
        refused(path, says)
        assert not is_of_kind(path, "none")


def test_what_unpacks_to_more_than_it_declares_or_than_fits_is_not_unpacked(tmp_path, monkeypatch):
    path, bomb = tmp_path / "a.safetensors", np.frombuffer(zlib.compress(bytes(2**26), 9), np.uint8)

    def declared(size):
        about = ["uint8", [size], checksum_of(TWO), True]
        made_up(path, json.dumps({"format": KIND, "arrays": {"a": about}})[1:], {"a": bomb})

    declared(10)
    refused(path, "another size")
    declared(2**70)
    refused(path, "GiB; this machine has")
    monkeypatch.setattr(disk, "host_memory", lambda: 2**22)
    declared(2**26)
    refused(path, "it unpacks to 0.1 GiB; this machine has 0.0 GiB of memory")


def test_an_array_of_another_run_is_none_of_the_header(tmp_path):
    """Of two files that have changed places, the header of the first tells that the arrays are others."""
    one, other = tmp_path / "one.safetensors", tmp_path / "other.safetensors"
    write(one, KIND, {}, {"a": TWO}, compress=False)
    write(other, KIND, {}, {"a": TWO + 1}, compress=False)
    header, _ = read(one, KIND)
    os.replace(other, one)
    with pytest.raises(UserError, match=r"one\.safetensors: .*the checksum of the array 'a' is wrong"):
        read_more(one, header, ["a"])
