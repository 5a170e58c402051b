"""Data sources: what a good one gives, and the one line that each way of getting it wrong is told.

Of arrays in .npz and IDX files, data sets of TensorFlow and of Hugging Face, what is shipped, and arrays of a program.
"""

import gzip
import io
import os
import pydoc_data.topics
import shutil
import sys
import time
import zipfile

import numpy as np
import pytest
import tensorflow_datasets as tfds
from PIL import Image
from sklearn.datasets import load_digits
from small import told

from mdfl_jax.data import sources
from mdfl_jax.data.dataset import Targets
from mdfl_jax.data.sources import WELL_KNOWN, balanced_subset, data_names, load
from mdfl_jax.data.sources.shipped import CHARACTERS

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _no_data_directory(monkeypatch):
    monkeypatch.delenv("MDFL_DATA_DIR", raising=False)


def arrays(shape=(7, 6), train=30, test=10, classes=3, **changes):
    rng = np.random.default_rng(0)
    good = {
        "x_train": rng.integers(0, 256, (train, *shape), np.uint8),
        "y_train": np.arange(train) % classes,
        "x_test": rng.integers(0, 256, (test, *shape), np.uint8),
        "y_test": np.arange(test) % classes,
    }
    return good | changes


def refused(*args, **kwargs):
    """The line that `load` answers a mistake with."""
    line = told(load, *map(str, args), **kwargs)
    assert "data." in line or "MDFL_DATA_DIR" in line
    return line


def test_digits_are_scikit_learns_split_by_every_fifth_of_a_class():
    data = load("digits")
    assert (data.name, data.num_classes, data.x_train.dtype, data.y_train.dtype) == ("digits", 10, np.uint8, np.int32)
    images, labels = load_digits(return_X_y=True)
    seen, train, test = [0] * 10, [], []
    for index, label in enumerate(labels):
        seen[label] += 1
        (test if seen[label] % 5 == 0 else train).append(index)
    for rows, x, y in ((train, data.x_train, data.y_train), (test, data.x_test, data.y_test)):
        np.testing.assert_array_equal(x, images[rows].reshape(-1, 8, 8, 1))
        np.testing.assert_array_equal(y, labels[rows])


def test_limits_take_turns_over_the_classes():
    labels = np.random.default_rng(1).permutation(np.repeat([0, 1, 2, 5], [15, 2, 7, 3]))
    queues = {label: [i for i, found in enumerate(labels) if found == label] for label in (0, 1, 2, 5)}
    turns = []
    while any(queues.values()):
        turns += [queue.pop(0) for queue in queues.values() if queue]
    for limit in (1, 3, 20, 26, 27, 1000):
        np.testing.assert_array_equal(np.arange(27)[balanced_subset(labels, limit)], sorted(turns[:limit]))
    data = load("digits", limit_train=105, limit_test=50)
    assert sorted(np.bincount(data.y_train)) == [10] * 5 + [11] * 5
    assert np.bincount(data.y_test).tolist() == [5] * 10


# Files.


def test_npz_of_grey_and_colour_images(tmp_path):
    for save, shape, loaded in ((np.savez, (7, 6), (7, 6, 1)), (np.savez_compressed, (32, 32, 3), (32, 32, 3))):
        wanted = arrays(shape)
        changed = wanted | {"y_train": wanted["y_train"].astype(np.uint8)[:, None]}
        save(tmp_path / "mine.npz", **changed, classes=np.array([{}]))  # which would need pickle, and is not read
        data = load("mine", str(tmp_path))
        for x, y, split in ((data.x_train, data.y_train, "train"), (data.x_test, data.y_test, "test")):
            assert (x.dtype, y.dtype) == (np.uint8, np.int32)
            np.testing.assert_array_equal(x, wanted[f"x_{split}"].reshape(-1, *loaded))
            np.testing.assert_array_equal(y, wanted[f"y_{split}"])
        assert (data.name, data.num_classes) == ("mine", 3)


def test_what_is_not_there_is_told_by_where_it_was_set(tmp_path, monkeypatch):
    for name in ("mnist", "fashion_mnist"):
        np.savez(tmp_path / f"{name}.npz", **arrays())
    assert data_names(str(tmp_path))[:4] == ["digits", "fashion_mnist", "mnist", "python_topics"]
    assert refused("mnits", str(tmp_path)) == (
        "unknown data.name 'mnits' (did you mean 'mnist'?); known: digits, fashion_mnist, hf:<folder>, mnist, "
        "python_topics, tfds:<name>;"
        f" no file {str(tmp_path / 'mnits.npz')!r}, nor one in the format csv or idx or leaf"
    )
    assert refused(f"{tmp_path}/none.here.npz").endswith(f"data.dir={tmp_path} data.name=none.here")  # a name, no path
    monkeypatch.setenv("MDFL_DATA_DIR", str(tmp_path))
    assert len(load("mnist").x_train) == 30
    monkeypatch.delenv("MDFL_DATA_DIR")
    assert "neither data.dir nor the environment variable MDFL_DATA_DIR is set" in refused("mnist")
    absent = str(tmp_path / "absent")
    assert refused("tfds:mnist", absent).startswith(f"data.dir={absent!r}: no such directory")
    monkeypatch.setenv("MDFL_DATA_DIR", absent)
    assert refused("mnist").startswith(f"the environment variable MDFL_DATA_DIR={absent!r}: no such directory")


WRONG = [
    ({"x_train": np.full((30, 4), np.nan), "x_test": np.ones((10, 4))}, "x_train[0, 0] is nan; allowed: finite num"),
    ({"x_train": np.zeros((30, 7), int) - 1}, "x_train has tokens from -1 to -1; allowed: 0 to 1048575"),
    ({"x_train": np.zeros((30, 3, 8, 8), np.uint8)}, "looks like channels first; data.layout=channels_first reads it"),
    ({"x_train": np.array([[None, 1.0]] * 30)}, "cannot be read (ValueError: Object arrays cannot be loaded"),
    ({"y_train": np.zeros((30, 7), int)}, "y_train is int64 [30, 7]; allowed: [n] or [n, 1], one label a sample, not"),
    ({"y_train": np.zeros(30)}, "y_train has regression targets (floats [n] or [n, K]) of the shape [1] and y_test o"),
    ({"y_test": np.array(["cat"] * 10)}, "y_test is <U3 [10]; allowed: whole numbers"),
    ({"y_test": np.arange(10, dtype=np.uint64) + 2**63}, "allowed: whole numbers below 2^53"),
    ({"client_test": np.zeros(10, int)}, "client_test is given and client is not; allowed: both, or client alone"),
    ({"stratum": np.zeros(30, int)}, "stratum is given and y_train has labels, by which partitions divide"),
    ({"clients": np.zeros(30, int)}, "unknown array 'clients' (did you mean 'client'?); known: x_train, y_train, "),
]


def test_wrong_arrays(tmp_path):
    begin = f"data.name='bad', file {str(tmp_path / 'bad.npz')!r}: "
    for changes, expected in WRONG:
        np.savez(tmp_path / "bad.npz", **arrays(**changes))
        line = refused("bad", str(tmp_path))
        assert line.startswith(begin)
        assert expected in line
    np.savez(tmp_path / "bad.npz", images=np.ones(3), y_train=np.ones(3))
    needed = "keys found: 'images', 'y_train'; needed: x_train, y_train, x_test, y_test"
    assert refused("bad", str(tmp_path)).endswith(needed)
    with zipfile.ZipFile(tmp_path / "long.npz", "w") as archive:
        for key, array in arrays().items():
            stream = io.BytesIO()
            np.save(stream, array)
            archive.writestr(f"{key}.npy", stream.getvalue() + b"more")
    longer = "the header of x_train.npy says [30, 7, 6] uint8, 1,388 bytes with the header; the"
    assert longer in refused("long", str(tmp_path))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([0, 1, 2], ""),
        ([1, 2, 3], "labels 1 to 3 are numbered 0 to 2"),
        ([-1, 1, 5], "labels -1, 1, 5 are numbered 0, 1, 2"),
        ([10, 200, 3000], "labels 10, 200, 3000 are numbered 0, 1, 2"),
    ],
)
def test_labels_are_numbered_in_ascending_order_and_told(tmp_path, values, said):
    """Also under the names of MedMNIST, whose labels are [n, 1]; a label that training lacks is noted."""
    y = np.array(values)[np.arange(30) % 3]
    np.savez(tmp_path / "mine.npz", **arrays(y_train=y, y_test=y[:10]))
    data = load("mine", str(tmp_path))
    assert (data.num_classes, data.about) == (3, said)
    np.testing.assert_array_equal(data.y_train, np.arange(30) % 3)
    given = arrays(y_train=y[:, None], y_test=y[:10, None])
    names_there = {
        "x_train": "train_images",
        "y_train": "train_labels",
        "x_test": "test_images",
        "y_test": "test_labels",
    }
    np.savez(tmp_path / "medical.npz", **{names_there[key]: array for key, array in given.items()})
    np.testing.assert_array_equal(load("medical", str(tmp_path)).y_test, data.y_test)
    np.savez(tmp_path / "less.npz", **arrays(y_train=np.where(y == values[2], values[0], y), y_test=y[:10]))
    lacks = f"no training sample has the label {values[2]} of test samples"
    assert load("less", str(tmp_path)).about.split("; ")[0] == lacks


# TensorFlow Datasets.


class TinyImages(tfds.core.GeneratorBasedBuilder):
    """64 and 16 images, as bytes of PNG files: what can be prepared without TensorFlow."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        image = tfds.features.Image(shape=(9, 8, 3), encoding_format="png")
        features = {"image": image, "label": tfds.features.ClassLabel(num_classes=10)}
        keys = ("image", "label")
        return tfds.core.DatasetInfo(builder=self, supervised_keys=keys, features=tfds.features.FeaturesDict(features))

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples(64), "test": self._generate_examples(16)}

    def _generate_examples(self, count):
        for index in range(count):
            stream = io.BytesIO()
            Image.fromarray(np.full((9, 8, 3), index, np.uint8)).save(stream, "PNG")
            yield index, {"image": stream.getvalue(), "label": index % 7}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tfds")
    TinyImages(data_dir=directory, file_format="array_record").download_and_prepare()
    return str(directory)


def test_tfds_is_read_without_tensorflow(prepared):
    for name in ("tiny_images", "tiny_images:1.0.0"):
        data = load(f"tfds:{name}", prepared, limit_test=7)
        assert "tensorflow" not in sys.modules
        assert (data.name, data.num_classes, data.x_train.dtype) == (f"tfds:{name}", 10, np.uint8)
        index = data.x_train[:, 0, 0, 0]  # every pixel of an image is its index
        assert sorted(index) == list(range(64))
        np.testing.assert_array_equal(data.x_train, np.broadcast_to(index[:, None, None, None], (64, 9, 8, 3)))
        np.testing.assert_array_equal(data.y_train, index % 7)
        assert sorted(data.y_test) == list(range(7))


def test_tfds_not_prepared_is_told_at_once(tmp_path, capfd):
    start = time.perf_counter()
    line = refused("tfds:mnist", str(tmp_path))
    assert time.perf_counter() - start < 3  # reading it would retry the download for 205 seconds
    assert line.startswith(f"data.name='tfds:mnist' is not prepared in directory {str(tmp_path)!r}.")
    assert line.endswith(
        "python -c 'import tensorflow_datasets as tfds;"
        f' tfds.builder("mnist", data_dir="{tmp_path}", file_format="array_record").download_and_prepare()\''
    )
    assert capfd.readouterr() == ("", "")
    assert os.listdir(tmp_path) == []


def test_a_public_set_that_is_not_there_is_fetched_once(tmp_path, monkeypatch):
    """Of a builder that needs no network; a closed network is told at once, with what belongs where."""
    monkeypatch.setitem(WELL_KNOWN, "tiny_images", "")
    for _ in range(2):
        data = load("tiny_images", str(tmp_path))
        assert (data.name, data.num_classes, len(data.x_train)) == ("tiny_images", 10, 64)
        assert data.about == "read as tfds:tiny_images"
        monkeypatch.setattr(TinyImages, "_split_generators", None)  # a second preparation would fail
    monkeypatch.setattr("urllib.request.urlopen", lambda *_, **__: time.sleep(60))
    monkeypatch.setattr("mdfl_jax.contrib.formats.sources.tfds._PATIENCE", 0.5)
    start = time.perf_counter()
    line = refused("cifar10", str(tmp_path))
    assert time.perf_counter() - start < 10
    assert f"no file {str(tmp_path / 'cifar10.npz')!r}, nor one in" in line
    assert "; docs/data.md, 'Your own data', shows how to make it" in line
    assert f"a folder cifar10 that another machine has prepared belongs into {tmp_path}" in line
    assert "cifar10" not in os.listdir(tmp_path)


def test_tfds_that_cannot_be_read(prepared, tmp_path, monkeypatch):
    for name, says in {
        "mnits": "unknown data.name 'tfds:mnits' (did you mean 'tfds:mnist'?); allowed: ",
        "../x": "data.name='tfds:../x': allowed: tfds:<name>",
        "mnist:9.9.9": "cannot be loaded at version 9.9.9",
    }.items():
        assert says in refused(f"tfds:{name}", prepared)
    shutil.copytree(os.path.join(prepared, "tiny_images"), tmp_path / "tiny_images")
    folder = tmp_path / "tiny_images" / "1.0.0"
    records = folder / "tiny_images-train.array_record-00000-of-00001"
    content = records.read_bytes()
    for damaged in (b"", content[: len(content) // 2], bytes(len(content))):
        records.write_bytes(damaged)
        assert "cannot be read from directory" in refused("tfds:tiny_images", str(tmp_path))
    info = folder / "dataset_info.json"
    info.write_text(info.read_text().replace('"array_record"', '"tfrecord"'))
    assert "is prepared as tfrecord; allowed: array_record" in refused("tfds:tiny_images", str(tmp_path))
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert "pip install 'mdfl_jax[tfds]'" in refused("tfds:tiny_images", prepared)


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
    known = data_names(str(tmp_path))
    assert "mnist" in known
    assert ("fashion_mnist" in known) == (place == ".")


def test_damaged_idx_files(tmp_path):
    for whole, says in [
        (b"", "it begins with nothing; allowed: IDX of uint8, 00 00 08"),
        (idx(IMAGES)[:-1], "it holds 239 bytes behind its header, which says [12, 5, 4]; allowed: 240 bytes"),
        (idx(IMAGES[:5]), "y_train is uint8 [12] and x_train has 5 samples"),
    ]:
        for compressed in (False, True):
            save_idx(tmp_path / f"mnist{compressed}", compressed, train_images_idx3_ubyte=whole)
            assert says in refused(f"mnist{compressed}", tmp_path)


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
    with sources.known_data(data) as name:
        np.testing.assert_array_equal(load(name).x_train, x.astype(np.float32))
        with sources.known_data(data | {"y_test": 1 - y}) as other:
            assert other != name
    assert name not in sources.SOURCES
    of_all = lambda x: {key: x for key in sources.KEYS}  # noqa: E731, C420
    masked = np.ma.masked_array([[1, 2], [3, 4]], [[0, 0], [1, 0]])
    for wrong, says in [
        (3, "data is int; allowed: (x, y), or a dictionary with x_train, y_train, x_test, y_test"),
        ({"x_trian": 1}, "unknown key of data 'x_trian' (did you mean 'x_train'?)"),
        (of_all([[1], [1, 2]]), "data['x_test'] cannot be an array (ValueError"),
        (of_all(np.array([None])), "data['x_test'] is object [1]; allowed: an array of numbers"),
        (of_all(masked), "data['x_test'] is masked at [1, 0]; allowed: an array without masked"),
    ]:
        assert says in told(sources.known_data(wrong).__enter__)
