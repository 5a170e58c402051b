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

from mdfl_jax.core.registry import Member
from mdfl_jax.data import sources
from mdfl_jax.data.sources import balanced_subset, load, names

REAL_DATA = os.environ.get("MDFL_DATA_DIR", "")


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


# Digits.


def test_digits_are_scikit_learns_split_by_every_fifth_of_a_class():
    data = load("digits")
    assert data.x_train.shape == (1442, 8, 8, 1)
    assert data.x_test.shape == (355, 8, 8, 1)
    assert data.x_train.dtype == np.uint8
    assert data.y_train.dtype == np.int32
    assert data.x_train.max() == 16
    assert (data.name, data.num_classes) == ("digits", 10)

    images, labels = load_digits(return_X_y=True)
    seen, train, test = [0] * 10, [], []
    for index, label in enumerate(labels):
        seen[label] += 1
        (test if seen[label] % 5 == 0 else train).append(index)
    for rows, x, y in ((train, data.x_train, data.y_train), (test, data.x_test, data.y_test)):
        np.testing.assert_array_equal(x.reshape(len(rows), 64), images[rows])
        np.testing.assert_array_equal(y, labels[rows])
    share = np.bincount(data.y_test) / np.bincount(labels)
    assert np.all(np.abs(share - 0.2) < 0.01)


# Limits.


@pytest.mark.parametrize("limit", [1, 3, 20, 26, 27, 1000])
def test_a_subset_takes_turns_over_the_classes(limit):
    labels = np.random.default_rng(1).permutation(np.repeat([0, 1, 2, 5], [15, 2, 7, 3]))
    queues = {label: [i for i, found in enumerate(labels) if found == label] for label in (0, 1, 2, 5)}
    turns = []
    while any(queues.values()):
        turns += [queue.pop(0) for queue in queues.values() if queue]
    np.testing.assert_array_equal(np.arange(27)[balanced_subset(labels, limit)], sorted(turns[:limit]))


def test_limits_keep_classes_balanced_and_repeat():
    data, again = load("digits", limit_train=105, limit_test=50), load("digits", limit_train=105, limit_test=50)
    assert sorted(np.bincount(data.y_train)) == [10] * 5 + [11] * 5
    assert np.bincount(data.y_test).tolist() == [5] * 10
    for a, b in zip(data, again):
        np.testing.assert_array_equal(a, b)
    few = load("digits", limit_train=3)
    assert (few.y_train.tolist(), few.num_classes, len(few.x_test)) == ([0, 1, 2], 10, 355)


@pytest.mark.parametrize("limit", [-1, 0.5])
def test_a_limit_that_is_no_count(limit):
    assert refused("digits", limit_train=limit).startswith(f"data.limit_train={limit}: allowed")
    assert refused("digits", limit_test=limit).startswith(f"data.limit_test={limit}: allowed")


# Files.


@pytest.mark.parametrize(
    ("save", "shape", "loaded"), [(np.savez, (7, 6), (7, 6, 1)), (np.savez_compressed, (32, 32, 3), (32, 32, 3))]
)
def test_npz_of_grey_and_colour_images(tmp_path, save, shape, loaded):
    wanted = arrays(shape)
    save(tmp_path / "mine.npz", **wanted | {"y_train": wanted["y_train"].astype(np.uint8)[:, None]}, extra=np.ones(3))
    data = load("mine", str(tmp_path))
    for x, y, split in ((data.x_train, data.y_train, "train"), (data.x_test, data.y_test, "test")):
        assert x.dtype == np.uint8
        assert y.dtype == np.int32
        np.testing.assert_array_equal(x, wanted[f"x_{split}"].reshape(-1, *loaded))
        np.testing.assert_array_equal(y, wanted[f"y_{split}"])
    assert (data.name, data.num_classes) == ("mine", 3)


@pytest.mark.parametrize(
    ("name", "near"),
    [("clients", "client"), ("x_val", "x_validation"), ("Y_train", "y_train"), ("strata", "stratum"), ("x_old", "")],
)
def test_an_array_of_a_name_that_is_like_a_known_one(tmp_path, name, near):
    np.savez(tmp_path / "mine.npz", **arrays(), **{name: np.zeros(30, int)})
    hint = f" (did you mean {near!r}?)" if near else ""
    assert f"mine.npz': unknown array {name!r}{hint}; known: x_train, y_train, " in refused("mine", str(tmp_path))


@pytest.mark.parametrize("name", ["classes", "label_names", "x"])
def test_an_array_of_another_name_is_not_read(tmp_path, name):
    np.savez(tmp_path / "mine.npz", **arrays(), **{name: np.array([{}])})  # it would need pickle
    assert load("mine", str(tmp_path)).x_train.shape == (30, 7, 6, 1)


def test_the_directory_comes_from_the_argument_then_from_the_environment(tmp_path, monkeypatch):
    for name, train in (("a", 4), ("b", 8)):
        (tmp_path / name).mkdir()
        np.savez(tmp_path / name / "mine.npz", **arrays(train=train))
    monkeypatch.setenv("MDFL_DATA_DIR", str(tmp_path / "a"))
    assert len(load("mine").x_train) == 4
    assert len(load("mine", str(tmp_path / "b")).x_train) == 8
    monkeypatch.setenv("HOME", str(tmp_path))
    assert len(load("mine", "~/b").x_train) == 8


@pytest.mark.skipif(
    not os.path.isfile(os.path.join(REAL_DATA, "mnist.npz")), reason="MDFL_DATA_DIR is not set or holds no mnist.npz"
)
def test_real_mnist():
    data = load("mnist", REAL_DATA, limit_test=1000)
    assert data.x_train.shape == (60000, 28, 28, 1)
    assert data.num_classes == 10
    assert np.bincount(data.y_test).tolist() == [100] * 10


def test_no_directory():
    assert "neither data.dir nor the environment variable MDFL_DATA_DIR is set" in refused("mnist")
    assert "did you mean 'digits'?" in refused("digit")


def test_an_absent_directory_is_named_by_where_it_was_set(tmp_path, monkeypatch):
    absent = str(tmp_path / "absent")
    assert refused("mnist", absent).startswith(f"data.dir={absent!r}: no such directory")
    assert refused("tfds:mnist", absent).startswith(f"data.dir={absent!r}: no such directory")
    monkeypatch.setenv("MDFL_DATA_DIR", absent)
    assert refused("mnist").startswith(f"the environment variable MDFL_DATA_DIR={absent!r}: no such directory")


@pytest.mark.parametrize("beside", ["wine", "my.data"])
def test_a_name_in_the_data_directory_is_no_path(tmp_path, monkeypatch, beside):
    """Whatever else is called so in the current folder; and the ending alone is left out of the remedy for a path."""
    monkeypatch.chdir(tmp_path)
    for name in ("wine", "my.data"):
        (tmp_path / f"{name}.csv").write_text("a,label\n" + "1,x\n2,y\n" * 9)
    (tmp_path / beside).write_text("something else")
    assert len(load("wine", ".").x_train) == len(load("my.data", ".").x_train) == 16
    (tmp_path / beside).unlink()
    (tmp_path / beside).mkdir()
    assert len(load(beside, str(tmp_path)).x_train) == 16
    assert refused("my.data.csv", ".").endswith("data.dir=. data.name=my.data")
    assert refused(f"{tmp_path}/my.data.csv").endswith(f"data.dir={tmp_path} data.name=my.data")
    assert refused(f"{tmp_path}/none.here.npz").endswith(f"data.dir={tmp_path} data.name=none.here")


def test_an_unknown_name_lists_the_known_ones(tmp_path):
    for name in ("mnist", "fashion_mnist"):
        np.savez(tmp_path / f"{name}.npz", **arrays())
    assert names(str(tmp_path))[:4] == ["digits", "fashion_mnist", "mnist", "python_topics"]
    assert refused("mnits", str(tmp_path)) == (
        "unknown data.name 'mnits' (did you mean 'mnist'?); known: digits, fashion_mnist, hf:<folder>, mnist, "
        "python_topics, tfds:<name>;"
        f" no file {str(tmp_path / 'mnits.npz')!r}"
    )
    for name in ("", "mnist.npz", "a\nb"):
        assert refused(name, str(tmp_path)).startswith(f"unknown data.name {name!r}")
    assert refused("../mnist.csv", str(tmp_path)).endswith("data.dir=.. data.name=mnist")


def complain(tmp_path, **members):
    np.savez(tmp_path / "bad.npz", **members)
    line = refused("bad", str(tmp_path))
    assert line.startswith(f"data.name='bad', file {str(tmp_path / 'bad.npz')!r}: ")
    return line


WRONG = [
    ({"x_train": np.zeros((30, 7, 6))}, "samples of x_train are [7, 6] of float32 and of x_test [7, 6, 1] of uint8"),
    (
        {"x_train": np.full((30, 4), np.nan), "x_test": np.ones((10, 4))},
        "x_train[0, 0] is nan; allowed: finite numbers",
    ),
    (
        {"x_train": np.ones((30, 4)), "x_test": np.full((10, 4), 3e38, np.float32)},
        "x_test[0, 0] is 3e+38; allowed: finite numbers up to 1e+30",
    ),
    ({"x_train": np.zeros((30, 7, 6), int)}, "x_train is int64 [30, 7, 6]; allowed: uint8 grey levels, floats, or tok"),
    ({"x_train": np.zeros((30, 7), int) - 1}, "x_train has tokens from -1 to -1; allowed: 0 to 1048575"),
    ({"x_train": np.uint8(1)}, "x_train is uint8 []; allowed: [n, ...]"),
    ({"x_test": np.zeros((10, 42), np.uint8)}, "samples of x_train are [7, 6, 1] of uint8 and of x_test [42] of uint8"),
    ({"x_train": np.zeros((0, 7, 6), np.uint8), "y_train": np.zeros(0, int)}, "x_train is uint8 [0, 7, 6]; allowed"),
    ({"x_train": np.zeros((30, 3, 8, 8), np.uint8)}, "looks like channels first; data.layout=channels_first reads it"),
    ({"x_train": np.array([["", "1"]] * 30)}, "x_train is <U1 [30, 2]; allowed: uint8 grey levels"),
    ({"x_train": np.array([[None, 1.0]] * 30)}, "cannot be read (ValueError: Object arrays cannot be loaded"),
    ({"x_test": np.zeros((10, 7, 7), np.uint8)}, "samples of x_train are [7, 6, 1] of uint8 and of x_test [7, 7, 1]"),
    ({"y_train": np.zeros(29, int)}, "y_train is int64 [29] and x_train has 30 samples"),
    ({"y_train": np.zeros((30, 7), int)}, "y_train is int64 [30, 7]; allowed: [n] or [n, 1], one label a sample, not"),
    ({"y_train": np.zeros(30, bool)}, "y_train is bool [30]; allowed: [n, K], whether each of K labels applies"),
    ({"y_train": np.zeros((30, 2, 2))}, "y_train is float64 [30, 2, 2]; allowed: [n] or [n, K], the targets of a regr"),
    (
        {"y_train": np.zeros(30)},
        "y_train has regression targets (floats [n] or [n, K]) of the shape [1] and y_test one",
    ),
    ({"y_train": np.ones((30, 2)), "y_test": np.full((10, 2), np.inf)}, "y_test[0, 0] is inf; allowed: finite numbers"),
    ({"y_test": np.array(["cat"] * 10)}, "y_test is <U3 [10]; allowed: whole numbers"),
    ({"y_test": np.arange(10) - 1}, "y_test has labels from -1 to 8; allowed: 0 to 65535"),
    ({"y_test": np.arange(10, dtype=np.uint64) + 2**63}, "allowed: 0 to 65535"),
    ({"x_validation": np.zeros((5, 7, 6), np.uint8)}, "one of x_validation and y_validation is missing"),
    ({"client_test": np.zeros(10, int)}, "client_test is given and client is not; allowed: both, or client alone"),
    (
        {"client": np.zeros(30, int), "client_test": np.zeros(9, int)},
        "client_test is int64 [9]; allowed: whole numbers",
    ),
    ({"stratum": np.zeros(30, int)}, "stratum is given and y_train has labels, by which partitions divide"),
]


@pytest.mark.parametrize(("changes", "expected"), WRONG, ids=[expected[:40] for _, expected in WRONG])
def test_wrong_arrays(tmp_path, changes, expected):
    assert expected in complain(tmp_path, **arrays(**changes))


def test_other_keys(tmp_path):
    line = complain(tmp_path, images=np.ones(3), y_train=np.ones(3))
    assert line.endswith("keys found: 'images', 'y_train'; needed: x_train, y_train, x_test, y_test")
    with zipfile.ZipFile(tmp_path / "bad.npz", "w"):
        pass
    assert "keys found: none" in refused("bad", str(tmp_path))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_damaged_files(tmp_path, save):
    path, memory = tmp_path / "bad.npz", io.BytesIO()
    save(memory, **arrays())
    whole = memory.getvalue()
    with zipfile.ZipFile(memory) as archive:
        member = archive.getinfo("x_train.npy")
    data = member.header_offset + 200  # past the member's zip header and, where stored, its npy header
    end = len(whole)
    damaged = [whole[:length] for length in (0, 1, 4, 100, end // 2, end - 60, end - 22, end - 1)]
    damaged += [whole[:data] + whole[data + 50 :], b"just some text\n" * 50]
    for length in (1, 20, 200):  # the zip's central directory stays intact: only the checksum or zlib can tell
        junk = bytes(255 - byte for byte in whole[data : data + length])
        damaged.append(whole[:data] + junk + whole[data + length :])
    for content in damaged:
        path.write_bytes(content)
        assert "cannot be read (" in refused("bad", str(tmp_path)), len(content)
    path.write_bytes(whole)
    load("bad", str(tmp_path))


def test_other_things_under_the_files_name(tmp_path):
    np.save(tmp_path / "bad.npy", np.arange(3))
    os.rename(tmp_path / "bad.npy", tmp_path / "bad.npz")
    assert "BadZipFile" in refused("bad", str(tmp_path))
    (tmp_path / "folder.npz").mkdir()
    assert "IsADirectoryError" in refused("folder", str(tmp_path))
    (tmp_path / "link.npz").symlink_to(tmp_path / "gone")
    assert "there is no such file" in refused("link", str(tmp_path))
    with zipfile.ZipFile(tmp_path / "long.npz", "w") as archive:
        for key, array in arrays().items():
            stream = io.BytesIO()
            np.save(stream, array)
            archive.writestr(f"{key}.npy", stream.getvalue() + b"more")
    assert "the header of x_train.npy says [30, 7, 6] uint8, 1,388 bytes with the header; the" in refused(
        "long", str(tmp_path)
    )


# TensorFlow Datasets.


class TinyImages(tfds.core.GeneratorBasedBuilder):
    """64 and 16 images, as bytes of PNG files: what can be prepared without TensorFlow."""

    VERSION = tfds.core.Version("1.0.0")
    shape, splits, supervised = (9, 8, 3), {"train": 64, "test": 16}, ("image", "label")

    def _info(self):
        features = {
            "image": tfds.features.Image(shape=self.shape, encoding_format="png"),
            "label": tfds.features.ClassLabel(num_classes=10),
        }
        return tfds.core.DatasetInfo(
            builder=self, supervised_keys=self.supervised, features=tfds.features.FeaturesDict(features)
        )

    def _split_generators(self, dl_manager):
        return {split: self._generate_examples(split) for split in self.splits}

    def _generate_examples(self, split):
        for index in range(self.splits[split]):
            stream = io.BytesIO()
            height, width = self.image_size(index)
            Image.fromarray(np.full((height, width, 3), index, np.uint8)).save(stream, "PNG")
            yield index, {"image": stream.getvalue(), "label": index % 7}

    def image_size(self, index):
        return 9, 8


class TinyUnsupervised(TinyImages):
    supervised = None


class TinySwapped(TinyImages):
    supervised = ("label", "image")


class TinyTrainOnly(TinyImages):
    splits = {"train": 64}  # noqa: RUF012


class TinyRagged(TinyImages):
    shape = (None, None, 3)

    def image_size(self, index):
        return 9, 8 + index % 2


class TinyUnsized(TinyImages):
    shape = (None, None, 3)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A tensorflow-datasets directory that holds every set above."""
    directory = tmp_path_factory.mktemp("tfds")
    for builder in (TinyImages, TinyUnsupervised, TinySwapped, TinyTrainOnly, TinyRagged, TinyUnsized):
        builder(data_dir=directory, file_format="array_record").download_and_prepare()
    return str(directory)


@pytest.mark.parametrize("name", ["tiny_images", "tiny_images:1.0.0", "tiny_unsized"])
def test_tfds_is_read_without_tensorflow(prepared, name):
    data = load(f"tfds:{name}", prepared, limit_test=7)
    assert "tensorflow" not in sys.modules
    assert (data.name, data.num_classes) == (f"tfds:{name}", 10)
    assert data.x_train.shape == (64, 9, 8, 3)
    assert data.x_train.dtype == np.uint8
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
    assert "pip install tensorflow-cpu" in line
    assert line.endswith(
        "python -c 'import tensorflow_datasets as tfds;"
        f' tfds.builder("mnist", data_dir="{tmp_path}", file_format="array_record").download_and_prepare()\''
    )
    assert capfd.readouterr() == ("", "")
    assert os.listdir(tmp_path) == []


def test_tfds_unknown_names(prepared):
    line = refused("tfds:mnits", prepared)
    assert line.startswith("unknown data.name 'tfds:mnits' (did you mean 'tfds:mnist'?); allowed: ")
    assert prepared in line
    for name in ("", "a b", "huggingface:mnist", "../x", "mnist/a=1,b=2", "<name>"):
        assert refused(f"tfds:{name}", prepared).startswith(f"data.name='tfds:{name}': allowed: tfds:<name>")
    assert "cannot be loaded at version 9.9.9" in refused("tfds:mnist:9.9.9", prepared)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tiny_unsupervised", "its supervised keys are None; allowed: one image"),
        ("tiny_swapped", "its supervised keys are ('label', 'image'); allowed: one image"),
        ("tiny_train_only", "splits found: train; needed: train and test"),
        ("tiny_ragged", "split train: has images of ["),
    ],
)
def test_tfds_of_other_content(prepared, name, expected):
    assert refused(f"tfds:{name}", prepared).startswith(f"data.name='tfds:{name}'")
    assert expected in refused(f"tfds:{name}", prepared)


def test_tfds_damaged(prepared, tmp_path):
    shutil.copytree(os.path.join(prepared, "tiny_images"), tmp_path / "tiny_images")
    folder = tmp_path / "tiny_images" / "1.0.0"
    records = folder / "tiny_images-train.array_record-00000-of-00001"
    content = records.read_bytes()
    for damaged in (b"", content[: len(content) // 2], bytes(len(content))):
        records.write_bytes(damaged)
        assert "cannot be read from directory" in refused("tfds:tiny_images", str(tmp_path))
    records.unlink()
    assert "No such file" in refused("tfds:tiny_images", str(tmp_path))

    info = folder / "dataset_info.json"
    text = info.read_text()
    info.write_text(text.replace('"array_record"', '"tfrecord"'))
    assert "is prepared as tfrecord; allowed: array_record" in refused("tfds:tiny_images", str(tmp_path))
    info.write_text(text[:30])
    assert "cannot be read from directory" in refused("tfds:tiny_images", str(tmp_path))


@pytest.mark.parametrize("package", ["tensorflow_datasets", "PIL"])
def test_tfds_without_its_packages(prepared, monkeypatch, package):
    for module in [name for name in sys.modules if name.startswith(f"{package}.")]:
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, package, None)
    assert "pip install 'mdfl_jax[tfds]'" in refused("tfds:tiny_images", prepared)


@pytest.mark.parametrize("returned", [None, {}, {"x_train": np.zeros((2, 1, 1, 1), np.uint8)}, 3])
def test_a_registered_source_that_returns_something_else_is_one_line(monkeypatch, returned):
    monkeypatch.setitem(sources.SOURCES._members, "mine", Member(lambda: returned))
    wanted = "the function must return a dictionary with x_train, y_train, x_test, y_test"
    assert refused("mine") == f"data.name='mine': {wanted}"
