"""Data sources: what a good one gives, and the one line that each way of getting it wrong is told."""

import io
import os
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

from mdfl_jax.data.sources import balanced_subset, load, names


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
    line = told(load, *args, **kwargs)
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
    assert names(str(tmp_path))[:4] == ["digits", "fashion_mnist", "mnist", "python_topics"]
    assert refused("mnits", str(tmp_path)) == (
        "unknown data.name 'mnits' (did you mean 'mnist'?); known: digits, fashion_mnist, hf:<folder>, mnist, "
        "python_topics, tfds:<name>;"
        f" no file {str(tmp_path / 'mnits.npz')!r}"
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
    ({"y_test": np.arange(10, dtype=np.uint64) + 2**63}, "allowed: 0 to 65535"),
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


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_damaged_files(tmp_path, save):
    """Cut off, or with other bytes where the zip's directory stays intact: only the checksum or zlib can tell."""
    path = tmp_path / "bad.npz"
    save(path, **arrays())
    whole = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        data = archive.getinfo("x_train.npy").header_offset + 200  # past the headers
    junk = bytes(255 - byte for byte in whole[data : data + 200])
    for content in (*(whole[:length] for length in (0, 1, 100, len(whole) - 22, len(whole) - 1)), b"some text\n" * 50,
                    *(whole[:data] + junk[:length] + whole[data + length :] for length in (1, 200))):  # fmt: skip
        path.write_bytes(content)
        assert "cannot be read (" in refused("bad", str(tmp_path)), len(content)


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
