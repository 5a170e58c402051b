"""LEAF's folders of JSON: users are owners, all files are read, and what contradicts itself is refused."""

import json

import numpy as np
import pytest
from small import told

from mdfl_jax.data.dataset import Targets
from mdfl_jax.data.sources import data_names, load

RNG = np.random.default_rng(0)


def file(folder, split, users, /, name="all_data_0.json", **changes):
    """Write a file of users: name -> (x, y)."""
    content = {
        "users": list(users),
        "num_samples": [len(y) for _, y in users.values()],
        "user_data": {user: {"x": x, "y": y} for user, (x, y) in users.items()},
    }
    (folder / split).mkdir(parents=True, exist_ok=True)
    (folder / split / name).write_text(json.dumps(content | changes))


def drawn(count):
    return RNG.normal(size=(count, 3)).tolist(), RNG.integers(0, 4, count).tolist()


@pytest.mark.parametrize("place", ["", "data"])
def test_users_of_all_files_are_owners(tmp_path, place):
    folder, users = tmp_path / "mine" / place, {"f2": drawn(3), "f1": drawn(2), "f3": drawn(4)}
    tests = {"f1": drawn(2), "f9": drawn(1)}
    file(folder, "train", {"f2": users["f2"], "f1": users["f1"]}, "all_data_0.json")
    file(folder, "train", {"f3": users["f3"]}, "all_data_1.json", hierarchies=["a"])
    file(folder, "test", tests)
    data = load("mine", str(tmp_path))
    for split, given in (("train", [users[name] for name in ("f2", "f1", "f3")]), ("test", list(tests.values()))):
        np.testing.assert_array_equal(getattr(data, f"x_{split}"), np.concatenate([x for x, _ in given]).astype("f4"))
        np.testing.assert_array_equal(getattr(data, f"y_{split}"), np.concatenate([y for _, y in given]))
    assert data.client.tolist() == [1] * 3 + [0] * 2 + [2] * 4
    assert data.client_test.tolist() == [0, 0, -1]
    assert data.about.startswith("the owners are 4 users, 3 with training and 2 with test samples")
    assert "mine" in data_names(str(tmp_path))


def test_texts_are_sequences_of_characters_and_their_labels_follow_the_alphabet(tmp_path):
    """As LEAF's Shakespeare. Numbers such as 3.0 are labels, as the synthetic data of LEAF and FedProx have them."""
    file(tmp_path / "plays", "train", {"HAMLET": (["to be", "or no"], ["o", "t"])})
    file(tmp_path / "plays", "test", {"HAMLET": ([" to b"], ["e"])})
    data = load("plays", str(tmp_path))
    characters = sorted(set("to beor no to b"))
    expected = [[characters.index(c) for c in text] for text in ("to be", "or no")]
    assert data.x_train.tolist() == expected
    assert data.y_train.tolist() == [1, 2]
    assert data.y_test.tolist() == [0]
    assert data.vocabulary == len(characters)
    assert "samples are texts of 5 characters, 7 different ones" in data.about
    for name, y, kind in (("whole", [3.0, 1.0], Targets.LABELS), ("part", [3.0, 1.5], Targets.NUMBERS)):
        for split in ("train", "test"):
            file(tmp_path / name, split, {"a": ([[1.5], [2.5]], y)})
        assert load(name, str(tmp_path)).targets is kind


GOOD = {"a": ([[1.5], [2.5]], [0, 1])}


def test_wrong_files(tmp_path):
    file(tmp_path / "mine", "test", GOOD)
    for users, changes, says in [
        ({"a": ([[1.5], [2.5]], [0])}, {}, "user 'a' has 2 x and 1 y; num_samples is 1"),
        (GOOD, {"users": ["a", "b"]}, "users, num_samples and user_data are not of the same users"),
        (GOOD, {"user_data": {"a": {"x": [[1.5], [2.5]]}}}, "cannot be read (KeyError: 'y'"),
        ({"a": (["ab", "abc"], [0, 1])}, {}, "x has texts of 2 to 3 characters; allowed: one length"),
        ({"a": (["0001.jpg", "0002.jpg"], [0, 1])}, {}, "x has '0001.jpg', a number or file as a text"),
        ({"a": ([[1.5], [float("nan")]], [0, 1])}, {}, "x_train[1, 0] is nan; allowed: finite numbers"),
        ({}, {}, "0 training and 2 test samples; allowed: one of each at least"),
    ]:
        file(tmp_path / "mine", "train", users, **changes)
        file(tmp_path / "mine", "test", users if users and isinstance(users["a"][0][0], str) else GOOD)
        line = told(load, "mine", str(tmp_path))
        assert says in line
        assert f"data.name='mine', folder {str(tmp_path / 'mine')!r}" in line
    file(tmp_path / "mine", "train", GOOD)
    file(tmp_path / "mine", "train", GOOD, "copy.json")
    assert "train/copy.json': user 'a' is in another file of the folder" in told(load, "mine", str(tmp_path))
    for text in ("", "{", "[]", '{"users": []}', "[" * 100_000):
        (tmp_path / "mine" / "train" / "copy.json").write_text(text)
        assert "file 'train/copy.json': " in told(load, "mine", str(tmp_path))
