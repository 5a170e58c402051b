"""The files of kept models: what is written is read back, by any reader of safetensors, and mistakes are one line."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from mdfl_jax.core.errors import UserError
from mdfl_jax.storage.model_files import CLIENTS, Header, files_of, is_saved, nested, path_of, read, read_header, write
from mdfl_jax.study.keeping import named

HEADER = Header("0123456789abcdef", "my study", "dcm, alpha=0.1", 2, 7, 40, 0.875)
KEYS = st.text(st.sampled_from("ab/~01é"), min_size=1, max_size=4)
TREES = st.recursive(
    st.integers(0, 9).map(np.array), lambda inner: st.dictionaries(KEYS, inner, min_size=1, max_size=3)
)


@settings(deadline=None)
@given(tree=st.dictionaries(KEYS, TREES, min_size=1, max_size=3))
def test_a_tree_comes_back_whatever_its_keys_are(tree):
    assert nested(named({"params": tree, "batch_stats": {}}, CLIENTS), CLIENTS) == {"params": tree}
    names = list(named(tree, CLIENTS))
    assert len(set(names)) == len(names)
    assert all(name.startswith("clients/params/") for name in names)


def test_a_file_is_one_of_safetensors_with_its_metadata(tmp_path):
    tensors = {
        "clients/params/w": np.arange(12, dtype=np.float32).reshape(3, 4).T,  # not contiguous
        "clients/params/scale": np.ones(4, np.float64),
        "global/params/scale": np.array(2.5),
    }
    path = path_of(tmp_path, 2, 7, 40)
    assert path == tmp_path / "models" / "2" / "7-40.safetensors"
    write(path, HEADER, tensors)
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    for found in (load_file(path), read(path)):
        assert found.keys() == tensors.keys()
        for name, tensor in tensors.items():
            assert found[name].dtype == tensor.dtype
            np.testing.assert_array_equal(found[name], tensor)
    assert is_saved(path)
    assert read_header(path) == (HEADER, {name: tensor.shape for name, tensor in tensors.items()})


def test_the_files_of_a_seed_are_found_by_round(tmp_path):
    folder = path_of(tmp_path, 0, 1).parent
    folder.mkdir(parents=True)
    for name in ("1-20", "1-100", "1", "10", "10-20", "21-1", "1-last", "1x"):
        (folder / f"{name}.safetensors").touch()
    assert files_of(folder, 1) == {at: path_of(tmp_path, 0, 1, at) for at in (None, 20, 100)}
    assert files_of(folder, 3) == {}


def test_a_kill_while_writing_leaves_the_old_file(tmp_path, monkeypatch):
    path = path_of(tmp_path, 0, 0)
    write(path, HEADER, {"clients/params/w": np.zeros(3)})
    before = path.read_bytes()

    def killed(self, data):
        self.write_text("half of")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", killed)
        with pytest.raises(KeyboardInterrupt):
            write(path, HEADER, {"clients/params/w": np.ones(3)})
    assert path.read_bytes() == before
    assert list(files_of(path.parent, 0)) == [None]
    write(path, HEADER, {"clients/params/w": np.ones(3)})
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_other_files_are_refused_in_one_line(tmp_path):
    other = tmp_path / "w.safetensors"
    save_file({"fc.weight": np.zeros(2)}, other)
    assert not is_saved(other)
    assert not is_saved(tmp_path / "absent.safetensors")
    assert not is_saved(tmp_path)
    with pytest.raises(UserError, match=r"w\.safetensors': it holds no models of a study$"):
        read_header(other)
    with pytest.raises(UserError, match=r"absent\.safetensors': there is no such file$"):
        read(tmp_path / "absent.safetensors")
    path = path_of(tmp_path, 0, 0)
    write(path, HEADER, {"clients/params/w": np.zeros(300)})
    whole = path.read_bytes()
    for size in (0, 5, 60, len(whole) - 1):
        path.write_bytes(whole[:size])
        assert not is_saved(path)
        with pytest.raises(UserError, match=r"it is not a whole safetensors file \(") as caught:
            read(path)
        assert "\n" not in str(caught.value)


def test_a_flipped_bit_is_told(tmp_path):
    path, tensors = path_of(tmp_path, 0, 0), {"clients/params/w": np.ones((2, 3), np.float32), "global/b": np.ones(())}
    write(path, HEADER, tensors)
    content = path.read_bytes()
    for place in range(0, len(content), 5):
        path.write_bytes(content[:place] + bytes([content[place] ^ (1 << place % 8)]) + content[place + 1 :])
        try:
            found = read(path)
        except UserError as error:
            assert "\n" not in str(error)  # noqa: PT017 - a flip may also be one of white space
            continue
        assert found.keys() == tensors.keys()
        assert all((found[name] == tensor).all() for name, tensor in tensors.items())
