"""IDX files, folders of Hugging Face's `datasets`, Python's help texts and arrays that a program gives."""

import gzip
import pydoc_data.topics
import sys

import numpy as np
import pytest
from small import told

from mdfl_jax.data import sources
from mdfl_jax.data.dataset import Targets
from mdfl_jax.data.sources import files_of, load, names
from mdfl_jax.data.sources.shipped import CHARACTERS

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _no_data_directory(monkeypatch):
    monkeypatch.delenv("MDFL_DATA_DIR", raising=False)


def refused(name, directory):
    line = told(load, name, str(directory))
    assert line.startswith(f"data.name={name!r}")
    return line


# IDX files.

IMAGES, LABELS = RNG.integers(0, 256, (12, 5, 4), np.uint8), (np.arange(12) % 3).astype(np.uint8)


def idx(array):
    header = bytes([0, 0, 8, array.ndim]) + b"".join(int(size).to_bytes(4, "big") for size in array.shape)
    return header + array.tobytes()


def save_idx(folder, compressed=False, **changes):
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "train-images-idx3-ubyte": idx(IMAGES),
        "train-labels-idx1-ubyte": idx(LABELS),
        "t10k-images-idx3-ubyte": idx(IMAGES[:6]),
        "t10k-labels-idx1-ubyte": idx(LABELS[:6]),
    }
    for name, whole in (content | {key.replace("_", "-"): value for key, value in changes.items()}).items():
        if compressed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(whole))
        else:
            (folder / name).write_bytes(whole)


@pytest.mark.parametrize(("compressed", "place"), [(False, "mnist"), (True, "mnist/raw"), (True, ".")])
def test_idx_files_are_read_where_they_lie(tmp_path, compressed, place):
    save_idx(folder := tmp_path / place, compressed)
    if place == "mnist/raw":  # as some mirrors have them
        for path in folder.iterdir():
            path.rename(folder / path.name.replace("-idx", ".idx"))
    data = load("mnist", str(tmp_path), limit_test=4)
    np.testing.assert_array_equal(data.x_train, IMAGES[..., None])
    np.testing.assert_array_equal(data.y_train, LABELS)
    assert len(data.x_test) == 4
    known = names(str(tmp_path))
    assert "mnist" in known
    assert ("fashion_mnist" in known) == (place == ".")
    assert len(files_of("mnist", str(tmp_path))) == 4


def test_damaged_idx_files(tmp_path):
    for whole, says in [
        (b"", "it begins with nothing; allowed: IDX of uint8, 00 00 08"),
        (idx(IMAGES)[:-1], "it holds 239 bytes behind its header, which says [12, 5, 4]; allowed: 240 bytes"),
        (idx(IMAGES[:5]), "y_train is uint8 [12] and x_train has 5 samples"),
    ]:
        for compressed in (False, True):
            save_idx(tmp_path / f"mnist{compressed}", compressed, train_images_idx3_ubyte=whole)
            assert says in refused(f"mnist{compressed}", tmp_path)
    save_idx(tmp_path / "cut", compressed=True)
    path = tmp_path / "cut" / "t10k-labels-idx1-ubyte.gz"
    whole = path.read_bytes()
    for damaged in (b"", whole[:-3], whole[:15], b"x" + whole[1:]):
        path.write_bytes(damaged)
        assert f"file {str(path)!r}" in refused("cut", tmp_path)


# Python's help texts.


def test_python_topics_are_the_texts_of_this_python():
    data = load("python_topics")
    assert (data.targets, data.vocabulary, data.num_strata) == (Targets.POSITIONS, 97, 1)
    np.testing.assert_array_equal(data.x_train[:, 1:], data.y_train[:, :-1])
    symbols = CHARACTERS + "?"
    for place, name in enumerate(sorted(pydoc_data.topics.topics)[:9]):
        text = "".join(c if c in CHARACTERS else "?" for c in pydoc_data.topics.topics[name])
        count = (len(text) - 1) // 64
        whole = np.concatenate([data.x_train[data.client == place], data.x_test[data.client_test == place]])
        order = [k for k in range(count) if k % 5 < 4] + [k for k in range(count) if k % 5 == 4]
        for k, row in zip(order, whole, strict=True):
            assert "".join(symbols[token] for token in row) == text[64 * k : 64 * k + 64]


# Hugging Face's datasets.


def save_hf(folder, train, test=None, **more):
    datasets = pytest.importorskip("datasets")
    features = more.pop("features", None)
    of = lambda columns: datasets.Dataset.from_dict(columns, features=features)  # noqa: E731
    splits = {"train": train, "test": train if test is None else test, **more}
    datasets.DatasetDict({name: of(columns) for name, columns in splits.items()}).save_to_disk(str(folder))


def test_folders_of_lists_tokens_columns_and_images(tmp_path):
    datasets = pytest.importorskip("datasets")
    columns = {"label": [0, 1, 0], "features": [[0.5, 1], [2, 3], [4, 5]], "client": [0, 1, 1]}
    save_hf(tmp_path / "mine", columns, validation=columns)
    data = load("hf:mine", str(tmp_path))
    assert data.x_train.tolist() == data.x_validation.tolist() == columns["features"]
    assert data.y_test.tolist() == [0, 1, 0]
    assert data.client.tolist() == data.client_test.tolist() == [0, 1, 1]
    tokens = RNG.integers(0, 50, (6, 4))
    save_hf(tmp_path / "tokens", {"input_ids": tokens.tolist(), "labels": (tokens - 1).tolist()})
    data = load("hf:tokens", str(tmp_path))
    assert (data.targets, data.vocabulary) == (Targets.POSITIONS, tokens.max() + 1)
    save_hf(tmp_path / "table", {"a": [1, 2, 3], "b": [0.5, 1.5, 2.5], "target": [0.25, 0.5, 1.0]})
    data = load("hf:table", str(tmp_path))
    assert data.x_train.tolist() == [[1, 0.5], [2, 1.5], [3, 2.5]]
    assert data.targets is Targets.NUMBERS
    images = RNG.integers(0, 256, (4, 6, 5), np.uint8)
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(num_classes=7)})
    save_hf(tmp_path / "images", {"image": list(images), "label": [0, 1, 2, 3]}, features=features)
    data = load("hf:images", str(tmp_path))
    np.testing.assert_array_equal(data.x_train, images[..., None])
    assert data.num_classes == 7
    cats, dogs = (datasets.ClassLabel(names=names) for names in (["cat", "dog"], ["dog", "cat"]))  # go by their names
    of = lambda kind: datasets.Dataset.from_dict(  # noqa: E731
        {"x": [0.5, 1.5], "label": [0, 1]},
        features=datasets.Features({"x": datasets.Value("float32"), "label": kind}),
    )
    datasets.DatasetDict({"train": of(cats), "test": of(dogs)}).save_to_disk(str(tmp_path / "pets"))
    assert load("hf:pets", str(tmp_path)).y_test.tolist() == [1, 0]
    wolves = datasets.ClassLabel(names=["cat", "wolf"])
    datasets.DatasetDict({"train": of(cats), "test": of(wolves)}).save_to_disk(str(tmp_path / "wild"))
    says = "split test: column 'label' has the classes cat, wolf, and the split train has cat, dog"
    assert says in refused("hf:wild", tmp_path)


def test_folders_that_cannot_be_read(tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    missing = "has a missing value (None) in row"
    for k, (columns, says) in enumerate([
        ({"y": [1], "a": [[1.0, 2.0]], "b": [1.0]}, "columns besides y and client: a [2], b []; allowed: one, or s"),
        ({"y": [1, 2], "a": [[1.0, 2.0], [1.0]]}, "column 'a' has values of [1] and [2]; allowed: numbers of one"),
        ({"y": [1, 2, 3], "a": [[[1]], [[3]], [[None]]]}, f"column 'a' {missing} 2"),
        ({"y": [1, 2], "a": [1, 2], "client": [0, None]}, f"column 'client' {missing} 1"),
    ]):  # fmt: skip
        save_hf(tmp_path / f"mine{k}", columns)
        assert says in refused(f"hf:mine{k}", tmp_path)
    assert "no folder" in refused("hf:absent", tmp_path)
    assert "neither data.dir nor MDFL_DATA_DIR is set" in refused("hf:absent", "")
    one = datasets.Dataset.from_dict({"x": [1.0], "y": [1]})
    one.save_to_disk(str(tmp_path / "one"))
    assert "splits found: one without a name; needed: train and test" in refused("hf:one", tmp_path)
    for path in (tmp_path / "mine3" / "train").glob("*.arrow"):
        path.write_bytes(path.read_bytes()[:40])
    assert "cannot be read from" in refused("hf:mine3", tmp_path)
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert "pip install 'mdfl_jax[hf]'" in refused("hf:one", tmp_path)


# Arrays that a program gives.


def test_given_arrays_have_a_name_as_long_as_they_are_needed():
    x, y = RNG.normal(size=(8, 2)), np.arange(8) % 2
    data = {"x_train": x, "y_train": y, "x_test": x, "y_test": y}
    with sources.given(data) as name:
        np.testing.assert_array_equal(load(name).x_train, x.astype(np.float32))
        with sources.given(data | {"y_test": 1 - y}) as other:
            assert other != name
    assert name not in sources.SOURCES
    of_all = lambda x: {key: x for key in sources.KEYS}  # noqa: E731, C420
    masked = np.ma.masked_array([[1, 2], [3, 4]], [[0, 0], [1, 0]])
    for wrong, says in [
        (3, "data is int; allowed: a dictionary with x_train, y_train, x_test, y_test"),
        ({"x_trian": 1}, "unknown key of data 'x_trian' (did you mean 'x_train'?)"),
        (of_all([[1], [1, 2]]), "data['x_test'] cannot be an array (ValueError"),
        (of_all(np.array([None])), "data['x_test'] is object [1]; allowed: an array of numbers"),
        (of_all(masked), "data['x_test'] is masked at [1, 0]; allowed: an array without masked"),
    ]:
        assert says in told(sources.given(wrong).__enter__)
