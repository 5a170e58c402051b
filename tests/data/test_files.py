"""Tables, IDX files, folders of Hugging Face's `datasets`, Python's help texts and arrays that a program gives."""

import gzip
import pydoc_data.topics

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


# Tables.


def table(folder, text, name="mine"):
    (folder / f"{name}.csv").write_text(text)
    return load(name, str(folder))


def test_a_table_of_numbers_and_texts(tmp_path):
    rows = [f"{k}.5, {'red' if k % 3 else 'blue'}, {k % 2}" for k in range(20)]
    data = table(tmp_path, "size,colour,kind\n" + "\n".join(rows) + "\n")
    features = np.array([[k + 0.5, k % 3 == 0, k % 3 != 0] for k in range(20)], np.float32)  # blue, red
    test = np.array([k // 2 % 5 == 4 for k in range(20)])  # every fifth row of each label
    np.testing.assert_array_equal(data.x_train, features[~test])
    np.testing.assert_array_equal(data.x_test, features[test])
    np.testing.assert_array_equal(data.y_train, np.arange(20)[~test] % 2)
    np.testing.assert_array_equal(data.y_test, np.arange(20)[test] % 2)
    assert (data.targets, data.num_classes, data.client) == (Targets.LABELS, 2, None)
    assert names(str(tmp_path))[1] == "mine"
    assert files_of("mine", str(tmp_path)) == [tmp_path / "mine.csv"]


@pytest.mark.parametrize(
    ("header", "row", "kind", "first"),
    [
        ("a,b", lambda k: f"{k},{k % 3}", Targets.LABELS, 0),  # whole numbers in the last column
        ("a,b", lambda k: f"{k},{'yn'[k % 2]}", Targets.LABELS, 1),  # texts: n, y
        ("a,b", lambda k: f"{k},{k}.25", Targets.NUMBERS, 0.25),
        ("target,b", lambda k: f"{k + 7},{k}", Targets.NUMBERS, 7),
        ("label,b", lambda k: f"{k % 2 + 5.0},{k}", Targets.LABELS, 0),
        ("b,label,c", lambda k: f"{k},{-k % 3},{k}", Targets.LABELS, 0),
    ],
)
def test_the_target_of_a_table(tmp_path, header, row, kind, first):
    data = table(tmp_path, "\n".join([header, *map(row, range(30))]))
    assert data.targets is kind
    assert np.ravel(data.y_train)[0] == first


def test_clients_of_a_table_have_training_and_test_samples(tmp_path):
    rows = [f"{k},{'abc'[k % 3]},{k}.5" for k in range(45)]
    data = table(tmp_path, "\n".join(["x,client,y", *rows]))
    assert data.x_train.shape == (36, 1)
    assert data.client.tolist() == [int(x) % 3 for x in data.x_train[:, 0]]
    assert data.client_test.tolist() == [int(x) % 3 for x in data.x_test[:, 0]] == [0, 1, 2] * 3


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "cannot be read (EmptyDataError"),
        ("a,b\n", "it has no rows"),
        ("a,b\n1,2\n,3\n", "column 'a' has an empty cell in row 2 behind the header"),
        ("a,b\n1,2\n3, NA\n", "column 'b' has 'NA', a missing value, in row 2 behind the header; allowed: a value"),
        ("a,label\nx,1\nnull,2\n?,1", "column 'a' has 'null', a missing value, in row 2"),
        ("a,label\n1,1\n2.5,1\n3_5x,1\n4,2", "column 'a' has numbers in most rows and '3_5x' in row 3 behind the"),
        ("1,2.5,-3\n4,5,6\n", "its first line has only numbers (1, 2.5, -3); allowed: a header with names"),
        ("5.1,3.5,0.2,setosa\n4.9,3.0,0.2,setosa\n", "its first line has the number 5.1; allowed: a header with names"),
        ("a,b,a\n4,5,6\n", "two columns have the name 'a'; allowed: a name of its own for each"),
        ("a,b\n1,2,3\n4,5,6\n", "cannot be read (ParserWarning: Length of header"),
        ("a,b\n1,2\n1,2,3\n", "cannot be read (ParserError"),
        ("client,b\n1,2\n", "columns found: client, b; allowed: a feature and a target at least"),
        ("client\n1\n", "it has no column but that of the owners; allowed: a feature and a target at least"),
        ("label,target\n1,2\n", "there are the columns label and target; allowed: one of them"),
        ("target,b\nx,2\n", "column 'target' has texts; allowed: numbers (call a column of classes 'label')"),
        ("a,label\n" + "\n".join(f"name{k},1" for k in range(101)), "column 'a' has 101 different texts"),
        ("a,label\n1,1\n1,1\n1,1\n1,1\n", "it has 4 rows, with the label in the column 'label'; allowed: five rows"),
        ("a,b\n" + "1,2\n2,1\n" * 3, "it has 6 rows, with the label in the column 'b'; allowed: five rows"),
        ("a,b\n1,inf\n" + "1,2.5\n" * 9, "column 'b' has inf; allowed: finite numbers"),
        ("a,b\n3e38,1.5\n" + "1,2.5\n" * 9, "x_train[0, 0] is 3e+38; allowed: finite numbers up to 1e+30"),
        ("a,b\n1e-40,1.5\n" + "0,2.5\n" * 9, "x_train[..., 0] is at most 1e-40; allowed: 0, or 1e-30 and more"),
        (f"a,b\n{'9' * 400},1.5\n" + "1,2.5\n" * 9, "x_train[0, 0] is inf"),
        ("x,m;label\n" + "0,5;1\n" * 9, "',' or ';' may divide its columns"),
        ("a;b;label\n" + "0,5;1.5;1\n" * 9, "column 'b' has decimal points, and other columns have decimal commas"),
        ("0.5,2,red\n" + "1,2,red\n" * 9, "its first line has the number 0.5; allowed: a header with names (numbers"),
        ("a,b,red\n" + "1,2,red\n" * 9, "its first line has 'red', as a row below it"),
        ("y,a,b\n" + "1,2,3\n" * 9, "column 'y' may be the target, and so may the last one; data.target=y or data"),
        ("a b label\n" + "1 2 0\n" * 9, "columns found: a b label; allowed: a feature and a target at least"),
    ],
)
def test_a_wrong_table(tmp_path, text, says):
    (tmp_path / "mine.csv").write_text(text)
    line = refused("mine", tmp_path)
    assert f"file {str(tmp_path / 'mine.csv')!r}: " in line
    assert says in line


def test_names_and_texts_of_a_table_that_are_partly_numbers(tmp_path):
    rows = [f"{'1234x'[k % 5]},{'ab'[k % 2]},{'none'}" for k in range(40)]
    data = table(tmp_path, "\n".join(["label,0,1", *rows]))  # as the classes 0 to 9 and A to F
    assert data.num_classes == 5
    assert data.x_train.shape[1] == 3


def test_of_two_formats_the_array_file_is_read(tmp_path):
    table(tmp_path, "a,label\n" + "1,0\n2,1\n" * 5)
    x, y = RNG.normal(size=(6, 2)), np.zeros(6, int)
    np.savez(tmp_path / "mine.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    assert load("mine", str(tmp_path)).x_train.shape == (6, 2)


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


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("place", ["mnist", "mnist/raw", "."])
def test_idx_files_are_read_where_they_lie(tmp_path, compressed, place):
    save_idx(tmp_path / place, compressed)
    data = load("mnist", str(tmp_path), limit_test=4)
    np.testing.assert_array_equal(data.x_train, IMAGES[..., None])
    np.testing.assert_array_equal(data.y_train, LABELS)
    assert len(data.x_test) == 4
    known = names(str(tmp_path))
    assert "mnist" in known
    assert ("fashion_mnist" in known) == (place == ".")
    assert len(files_of("mnist", str(tmp_path))) == 4


@pytest.mark.parametrize(
    ("whole", "says"),
    [
        (b"", "it begins with nothing; allowed: IDX of uint8, 00 00 08"),
        (idx(IMAGES)[:-1], "it holds 239 bytes behind its header, which says [12, 5, 4]; allowed: 240 bytes"),
        (idx(IMAGES) + b"x", "it holds 241 bytes behind its header"),
        (b"\x00\x00\x0d" + idx(IMAGES)[3:], "it begins with 00 00 0d 03"),
        (b"<html>not found</html>", "it begins with 3c 68 74 6d"),
        (idx(IMAGES[:5]), "y_train is uint8 [12] and x_train has 5 samples"),
    ],
)
@pytest.mark.parametrize("compressed", [False, True])
def test_damaged_idx_files(tmp_path, whole, says, compressed):
    save_idx(tmp_path / "mnist", compressed, train_images_idx3_ubyte=whole)
    assert says in refused("mnist", tmp_path)


def test_idx_files_that_are_cut_or_missing(tmp_path):
    save_idx(tmp_path / "mnist", compressed=True)
    path = tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz"
    whole = path.read_bytes()
    for damaged in (b"", whole[:-3], whole[:15], b"x" + whole[1:]):
        path.write_bytes(damaged)
        assert f"file {str(path)!r}" in refused("mnist", tmp_path)
    path.unlink()
    plain = "t10k-labels-idx1-ubyte"
    assert f"missing in {str(path.parent)!r}; allowed: {plain} or {plain}.gz" in refused("mnist", tmp_path)


def test_idx_files_with_a_dot_in_their_names(tmp_path):
    save_idx(tmp_path / "dashes")
    for compressed in (False, True):
        save_idx(folder := tmp_path / f"dots{compressed}", compressed)
        for path in folder.iterdir():
            path.rename(folder / path.name.replace("-idx", ".idx"))
        for key in ("x_train", "y_train", "x_test", "y_test"):
            found, expected = (getattr(load(name, str(tmp_path)), key) for name in (folder.name, "dashes"))
            np.testing.assert_array_equal(found, expected)


# Python's help texts.


def test_python_topics_are_the_texts_of_this_python():
    data = load("python_topics")
    assert (data.targets, data.vocabulary, data.num_strata) == (Targets.POSITIONS, 97, 1)
    np.testing.assert_array_equal(data.x_train[:, 1:], data.y_train[:, :-1])
    topics = sorted(pydoc_data.topics.topics)
    symbols = CHARACTERS + "?"
    for name in ("for", "LAMBDAS" if "LAMBDAS" in topics else "lambda", topics[0]):
        text = "".join(c if c in CHARACTERS else "?" for c in pydoc_data.topics.topics[name])
        place, count = topics.index(name), (len(text) - 1) // 64
        train, test = data.client == place, data.client_test == place
        assert (train.sum() + test.sum(), test.sum()) == (count, count // 5)
        whole = np.concatenate([data.x_train[train], data.x_test[test]])
        order = [k for k in range(count) if k % 5 < 4] + [k for k in range(count) if k % 5 == 4]
        for k, row in zip(order, whole, strict=True):
            assert "".join(symbols[token] for token in row) == text[64 * k : 64 * k + 64]


def test_limits_of_sequences_are_evenly_spaced():
    whole, few = load("python_topics"), load("python_topics", limit_train=100, limit_test=7)
    place = np.arange(100) * len(whole.x_train) // 100
    np.testing.assert_array_equal(few.x_train, whole.x_train[place])
    np.testing.assert_array_equal(few.client, whole.client[place])
    assert len(few.x_test) == len(few.client_test) == 7


# Hugging Face's datasets.


def save_hf(folder, train, test=None, **more):
    datasets = pytest.importorskip("datasets")
    features = more.pop("features", None)
    of = lambda columns: datasets.Dataset.from_dict(columns, features=features)  # noqa: E731
    splits = {"train": train, "test": train if test is None else test, **more}
    datasets.DatasetDict({name: of(columns) for name, columns in splits.items()}).save_to_disk(str(folder))


def test_a_folder_of_lists_is_read(tmp_path):
    rows, labels = RNG.normal(size=(9, 3)).astype(np.float32), np.arange(9) % 2
    columns = {"label": labels.tolist(), "features": rows.tolist(), "client": (np.arange(9) // 3).tolist()}
    save_hf(tmp_path / "mine", columns, validation=columns)
    data = load("hf:mine", str(tmp_path))
    np.testing.assert_array_equal(data.x_train, rows)
    np.testing.assert_array_equal(data.y_test, labels)
    assert data.client.tolist() == data.client_test.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert data.x_validation.shape == (9, 3)


def test_folders_of_tokens_numbers_flags_and_images(tmp_path):
    datasets = pytest.importorskip("datasets")
    tokens = RNG.integers(0, 50, (6, 4))
    save_hf(tmp_path / "tokens", {"input_ids": tokens.tolist(), "labels": (tokens - 1).tolist()})
    data = load("hf:tokens", str(tmp_path))
    assert (data.targets, data.vocabulary) == (Targets.POSITIONS, tokens.max() + 1)
    save_hf(tmp_path / "table", {"a": [1, 2, 3], "b": [0.5, 1.5, 2.5], "target": [0.25, 0.5, 1.0]})
    data = load("hf:table", str(tmp_path))
    assert data.x_train.tolist() == [[1, 0.5], [2, 1.5], [3, 2.5]]
    assert data.targets is Targets.NUMBERS
    save_hf(tmp_path / "flags", {"x": [[1.0], [2.0]], "labels": [[True, False], [True, True]]})
    assert load("hf:flags", str(tmp_path)).targets is Targets.FLAGS
    images = RNG.integers(0, 256, (4, 6, 5), np.uint8)
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(num_classes=7)})
    save_hf(tmp_path / "images", {"image": list(images), "label": [0, 1, 2, 3]}, features=features)
    data = load("hf:images", str(tmp_path))
    np.testing.assert_array_equal(data.x_train, images[..., None])
    assert data.num_classes == 7
    features = datasets.Features({"x": datasets.Array2D((6, 5), "uint8"), "y": datasets.Value("int64")})
    save_hf(tmp_path / "bytes", {"x": list(images), "y": [0, 1, 2, 3]}, features=features)
    np.testing.assert_array_equal(load("hf:bytes", str(tmp_path)).x_train, images[..., None])


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"a": [1.0], "b": [2.0]}, "columns found: a, b; allowed: one of label, labels, target, y"),
        ({"y": [1]}, "columns besides y and client: none"),
        (
            {"y": [1], "a": [[1.0, 2.0]], "b": [1.0]},
            "columns besides y and client: a [2], b []; allowed: one, or several",
        ),
        (
            {"y": [1, 2], "a": [[1.0, 2.0], [1.0]]},
            "column 'a' has values of [1] and [2]; allowed: numbers of one shape",
        ),
        ({"y": [1, 2], "a": ["x", "y"]}, "x_train is <U1 [2]; allowed: uint8"),
        ({"y": [1, None], "a": [1.0, 2.0]}, "column 'y' has a missing value (None) in row 1; allowed: a value in each"),
        (
            {"y": [1, 2, 3], "a": [[[1], [2]], [[3], [4]], [[5], [None]]]},
            "column 'a' has a missing value (None) in row 2",
        ),
        ({"y": [1, 2], "a": [1, 2], "client": [0, None]}, "column 'client' has a missing value (None) in row 1"),
    ],
)
def test_a_wrong_folder(tmp_path, columns, says):
    save_hf(tmp_path / "mine", columns)
    assert says in refused("hf:mine", tmp_path)


def splits_of(folder, **columns):
    """Save splits whose columns have features of their own: name -> (values, features)."""
    datasets = pytest.importorskip("datasets")
    of = lambda values, features: datasets.Dataset.from_dict(values, features=datasets.Features(features))  # noqa: E731
    datasets.DatasetDict({split: of(*given) for split, given in columns.items()}).save_to_disk(str(folder))


def test_classes_and_columns_in_another_order_go_by_their_names(tmp_path):
    datasets = pytest.importorskip("datasets")
    animals, x = ["cat", "dog", "eel"], datasets.Value("float32")
    seen = {}
    for split, order in {"train": animals, "test": ["eel", "cat", "dog"], "validation": ["dog", "eel"]}.items():
        drawn = RNG.permutation(np.repeat(order, 4))
        seen[split] = ([animals.index(name) for name in drawn], RNG.normal(size=(len(drawn), 2)).astype(np.float32))
        values = {"label": [order.index(name) for name in drawn], "a": seen[split][1][:, 0], "b": seen[split][1][:, 1]}
        types = {"label": datasets.ClassLabel(names=order), "a": x, "b": x}
        columns = list(values) if split == "train" else list(values)[::-1]
        splits_of(tmp_path / split, **{split: ({k: values[k] for k in columns}, {k: types[k] for k in columns})})
    whole = {split: datasets.load_from_disk(str(tmp_path / split))[split] for split in seen}
    datasets.DatasetDict(whole).save_to_disk(str(tmp_path / "mine"))
    data = load("hf:mine", str(tmp_path))
    for split, (labels, features) in seen.items():
        assert getattr(data, f"y_{split}").tolist() == labels
        np.testing.assert_array_equal(getattr(data, f"x_{split}"), features)
    assert data.num_classes == 3


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["cat", "wolf"], "split test: column 'label' has the classes cat, wolf, and the split train has cat, dog"),
        (None, "split test: column 'label' has the classes none, and the split train has cat, dog; allowed: the same"),
    ],
)
def test_classes_of_other_names_are_refused(tmp_path, names, says):
    datasets = pytest.importorskip("datasets")
    of = lambda names: datasets.ClassLabel(names=names) if names else datasets.Value("int64")  # noqa: E731
    values = {"x": [0.5, 1.5], "label": [0, 1]}
    types = [{"x": datasets.Value("float32"), "label": of(given)} for given in (["cat", "dog"], names)]
    splits_of(tmp_path / "mine", train=(values, types[0]), test=(values, types[1]))
    assert says in refused("hf:mine", tmp_path)


def test_columns_of_another_split_are_refused(tmp_path):
    save_hf(tmp_path / "mine", {"x": [1.0], "y": [1]}, {"z": [1.0], "y": [1]})
    assert "split test: columns found: z, y; allowed: those of the split train, x, y" in refused("hf:mine", tmp_path)


def test_missing_bytes_and_flags_of_a_folder(tmp_path):
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({"x": datasets.List(datasets.Value("uint8"), 2), "y": datasets.Value("bool")})
    save_hf(tmp_path / "bytes", {"x": [[1, 2], [3, None]], "y": [True, False]}, features=features)
    assert "column 'x' has a missing value (None) in row 1" in refused("hf:bytes", tmp_path)
    save_hf(tmp_path / "flags", {"x": [[1, 2], [3, 4]], "y": [True, None]}, features=features)
    assert "column 'y' has a missing value (None) in row 1" in refused("hf:flags", tmp_path)


def test_folders_that_are_none(tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    assert "no folder" in refused("hf:absent", tmp_path)
    assert "neither data.dir nor MDFL_DATA_DIR is set" in refused("hf:absent", "")
    (tmp_path / "empty").mkdir()
    assert "cannot be read from" in refused("hf:empty", tmp_path)
    one = datasets.Dataset.from_dict({"x": [1.0], "y": [1]})
    one.save_to_disk(str(tmp_path / "one"))
    assert "splits found: one without a name; needed: train and test" in refused("hf:one", tmp_path)
    datasets.DatasetDict({"train": one}).save_to_disk(str(tmp_path / "train"))
    assert "splits found: train; needed: train and test" in refused("hf:train", tmp_path)
    save_hf(tmp_path / "cut", {"x": [1.0], "y": [1]})
    for path in (tmp_path / "cut" / "train").glob("*.arrow"):
        path.write_bytes(path.read_bytes()[:40])
    assert "cannot be read from" in refused("hf:cut", tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    assert "pip install 'mdfl_jax[hf]'" in refused("hf:one", tmp_path)


# Arrays that a program gives.


def test_given_arrays_have_a_name_as_long_as_they_are_needed():
    x, y = RNG.normal(size=(8, 2)), np.arange(8) % 2
    data = {"x_train": x, "y_train": y, "x_test": x, "y_test": y}
    with sources.given(data) as name:
        np.testing.assert_array_equal(load(name).x_train, x.astype(np.float32))
        assert name not in names()
        with sources.given(data | {"y_test": 1 - y}) as other:
            assert other != name
    assert name not in sources.SOURCES
    with sources.given({key: data[key] for key in reversed(data)}) as again:
        assert again == name


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (3, "data is int; allowed: a dictionary with x_train, y_train, x_test, y_test"),
        ({"x_train": 1}, "data has no y_train; needed: x_train, y_train, x_test, y_test"),
        ({"x_trian": 1}, "unknown key of data 'x_trian' (did you mean 'x_train'?)"),
        ({key: [[1], [1, 2]] for key in sources.KEYS}, "data['x_test'] cannot be an array (ValueError"),
        ({key: np.array([None]) for key in sources.KEYS}, "data['x_test'] is object [1]; allowed: an array of numbers"),
        (
            {key: np.array(["2026-01-01"], "datetime64[D]") for key in sources.KEYS},
            "data['x_test'] is datetime64[D] [1]; allowed: an array of numbers",
        ),
        (
            {key: np.ma.masked_array([[1, 2], [3, 4]], [[0, 0], [1, 0]]) for key in sources.KEYS},
            "data['x_test'] is masked at [1, 0]; allowed: an array without masked values",
        ),
    ],
)
def test_wrong_given_arrays(data, says):
    assert says in told(sources.given(data).__enter__)
