"""Kept models in files: any tree comes back, and other files are refused. Damage: tests/storage/test_array_files.py."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file
from small import told

from mdfl_jax.storage import array_files
from mdfl_jax.storage.model_files import (
    CLIENTS,
    MODEL_FORMAT,
    Header,
    files_of,
    is_saved,
    named,
    nested_tensors,
    read,
    read_header,
)
from mdfl_jax.storage.model_files import write as write_models
from mdfl_jax.storage.study_files import model_path

RUN = "dpsgd.dcm-0123456789abcdef-s7-r40"
HEADER = Header(RUN, "my study", "dcm, alpha=0.1", 7, 40, 0.875)
KEYS = st.text(st.sampled_from("ab/~01é"), min_size=1, max_size=4)
TREES = st.recursive(
    st.integers(0, 9).map(np.array), lambda inner: st.dictionaries(KEYS, inner, min_size=1, max_size=3)
)


@settings(deadline=None, max_examples=30)
@given(tree=st.dictionaries(KEYS, TREES, min_size=1, max_size=3))
def test_a_tree_comes_back_whatever_its_keys_are(tree):
    assert nested_tensors(named({"params": tree, "batch_stats": {}}, CLIENTS), CLIENTS) == {"params": tree}
    names = list(named(tree, CLIENTS))
    assert len(set(names)) == len(names)
    assert all(name.startswith("clients/params/") for name in names)


def test_a_file_is_one_of_safetensors_with_its_header(tmp_path):
    tensors = {
        "clients/params/w": np.arange(12, dtype=np.float32).reshape(3, 4).T,  # not contiguous
        "clients/params/scale": np.ones(4, np.float64),
        "global/params/scale": np.array(2.5),
    }
    path = model_path(tmp_path, RUN, 40)
    assert path == tmp_path / "models" / f"{RUN}@40.safetensors"
    write_models(path, HEADER, tensors)
    for found in (load_file(path), read(path)):
        assert found.keys() == tensors.keys()
        for name, tensor in tensors.items():
            assert found[name].dtype == tensor.dtype
            np.testing.assert_array_equal(found[name], tensor)
    for name in (RUN, f"{RUN}0@20", f"{RUN}@last", f"{RUN}@", f"x{RUN}@20"):
        path.with_stem(name).touch()
    assert (files_of(tmp_path, RUN), files_of(tmp_path, "another")) == ({40: path}, {})
    assert is_saved(path)
    assert read_header(path) == (HEADER, {name: tensor.shape for name, tensor in tensors.items()})


def test_other_files_are_refused_in_one_line(tmp_path):
    other = tmp_path / "w.safetensors"
    save_file({"fc.weight": np.zeros(2)}, other)
    assert not any(map(is_saved, (other, tmp_path / "absent.safetensors", tmp_path)))
    assert "its header is none of this program" in told(read_header, other)
    for path, line in ((tmp_path / "absent", "there is no such file"), (tmp_path, f"{tmp_path}: ")):
        assert line in told(read, path)
    array_files.write(other, MODEL_FORMAT, {"run": RUN}, {}, compress=False)
    assert told(read_header, other).endswith("w.safetensors: it holds no models of a study")
    array_files.write(other, "run 2", HEADER._asdict(), {}, compress=False)
    assert "its format is 'run 2', and 'models 2' is needed" in told(read, other)
