"""Configurations: what each field takes, the line that each mistake is told, and that the odd ones run."""

import numpy as np
import pytest
from ml_collections import ConfigDict
from tiny import run_study

from mdfl_jax.config import default_config
from mdfl_jax.config.families import schema
from mdfl_jax.config.resolve import all_fields, check_value, resolve
from mdfl_jax.core.errors import UserError
from mdfl_jax.study import make_study


def told(config):
    with pytest.raises(UserError) as caught:
        make_study(config)
    line = str(caught.value)
    assert "\n" not in line
    return line


def test_the_defaults_are_those_of_the_dataclasses_and_locked():
    config = default_config()
    assert resolve(config) == schema()()
    with pytest.raises(AttributeError):
        config.network.radus = 3.0
    for path, field in all_fields().items():
        assert check_value(path, field.default) == field.default
        assert field.metadata["doc"]
        assert (field.default is None) == ("own" in field.metadata)


def takes(rules, value):
    """Whether the declared bounds of a field let a value pass."""
    return (
        value >= rules.get("at_least", value)
        and value <= rules.get("at_most", value)
        and ("above" not in rules or value > rules["above"])
        and ("below" not in rules or value < rules["below"])
        and not (rules.get("finite") and np.isinf(value))
        and not np.isnan(value)
        and not 2**31 <= value < np.inf
    )


def test_every_number_is_taken_within_its_bounds_and_refused_beyond_them():
    """Of every field of every member: the line names the field, its value and what is allowed, all in one line."""
    refused = 0
    for path, field in all_fields().items():
        declared = field.metadata.get("declared", [field.metadata])
        bounds = {
            rules[name] for rules in declared for name in ("at_least", "at_most", "above", "below") if name in rules
        }
        if field.type not in (int, float, tuple[int, ...]) or not bounds:
            continue
        near = {bound + step for bound in bounds for step in (-1, 0, 1)}
        for value in near if field.type is not float else near | {float("inf"), float("nan")}:
            given = (value,) if field.type == tuple[int, ...] else field.type(value)
            if any(takes(rules, value) for rules in declared):
                if not any(rules.get("odd") and value % 2 == 0 for rules in declared):
                    assert check_value(path, given) == given
                continue
            with pytest.raises(UserError) as caught:
                check_value(path, given)
            assert str(caught.value).startswith(
                f"{path} is {float(value) if field.type is float else value}; it must be "
            )
            assert "\n" not in str(caught.value)
            refused += 1
    assert refused > 150


def test_every_unknown_name_is_refused_in_one_line():
    for path, field in all_fields().items():
        if field.metadata.get("names"):
            with pytest.raises(UserError) as caught:
                check_value(path, "no such name")
            assert "unknown " in str(caught.value)
            assert "no such name" in str(caught.value)
            assert "\n" not in str(caught.value)


WRONG = [
    ("rounds", 5, "rounds is 5; it must be a multiple of eval_every, which is 2"),
    ("eval_every", 8, "rounds is 4; it must be a multiple of eval_every, which is 8"),
    ("name", "", "file name"),
    ("name", "..", "file name"),
    ("name", "a/b", "name is 'a/b'; it must be a file name"),
    ("name", "a" * 300, "at most 200 bytes"),
    ("data.alpha", 1e-40, "data.alpha is 1e-40, 0.0 in single precision"),
    ("data.alpha", 1e39, "data.alpha is 1e+39, inf in single precision"),
    ("data.partition", "dirichlt", "unknown partition 'dirichlt' (did you mean 'dirichlet'?); known: by_owner"),
    ("data.name", "digts", "unknown data.name 'digts' (did you mean 'digits'?); known: digits"),
    ("data.name", "", "data.name is ''"),
    ("model.kernel", 2, "model.kernel is 2; it must be odd"),
    ("network.num_mobile", 7, "network.num_mobile is 7; it must be at most network.num_clients, which is 6"),
    ("network.mobility", "dcn", "unknown mobility 'dcn' (did you mean 'dcm'?); known:"),
]


@pytest.mark.parametrize(("path", "value", "expected"), WRONG)
def test_a_value_that_does_not_fit_is_told_with_its_field_and_what_is_allowed(tiny, path, value, expected, monkeypatch):
    monkeypatch.delenv("MDFL_DATA_DIR", raising=False)
    line = told(tiny(**{path: value}))
    assert path in line or path == "eval_every"
    assert expected in line


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("network.radius", "3", "network.radius is '3'; it must be a number"),
        ("network.radius", True, "network.radius is True; it must be a number"),
        ("network.radius", 10**400, "it must be a number"),
        ("network.num_clients", 2.0, "network.num_clients is 2.0; it must be a whole number"),
        ("seeds", True, "seeds is True; it must be a whole number"),
        ("seeds", None, "seeds is None; it must be a whole number"),
        ("seeds", {"a": 1}, "it must be a whole number"),
        ("network.mobility", ["static"], "it must be a text"),
        ("engine.record_positions", 1, "engine.record_positions is 1; it must be true or false"),
        ("model.widths", "16", "model.widths is '16'; it must be whole numbers"),
        ("model.widths", (4.0,), "it must be whole numbers"),
    ],
)
def test_a_wrong_type_is_told(path, value, expected):
    section, _, field = path.rpartition(".")
    tree = {section: {field: value}} if section else {field: value}
    assert expected in told(ConfigDict(tree))


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ({"netwrk": {"radius": 3.0}}, "unknown config key 'netwrk'"),
        ({"network": {"radus": 3.0}}, "unknown config key 'network.radus' (did you mean 'network.radius'?); among"),
        ({"network": 3}, "network is 3; it must be a section"),
        ({"network": None}, "network is None; it must be a section"),
    ],
)
def test_a_config_of_another_shape_is_told(tree, expected):
    assert expected in told(ConfigDict(tree))


def test_whole_numbers_pass_as_numbers_and_infinity_where_it_has_a_meaning():
    assert check_value("network.radius", 3) == 3.0
    assert check_value("network.radius", float("inf")) == float("inf")
    assert check_value("model.widths", [4, 8]) == (4, 8)
    assert resolve(ConfigDict({"seeds": 2})).seeds == 2


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"data.partition": "classes_per_client", "data.classes_per_client": 11}, "is 11; digits has 10 classes"),
        ({"model.name": "cnn", "model.widths": ()}, "model.name cnn needs one width or more"),
        ({"model.name": "cnn", "model.widths": (2, 2, 2, 2)}, "8 x 8 images of digits there must be at most 3"),
    ],
)
def test_fields_that_do_not_fit_together_are_told(tiny, changes, expected):
    assert expected in told(tiny(**changes))


@pytest.mark.parametrize("content", ["cut", "keys", "shape", "pickled", "absent"])
def test_a_bad_data_file_is_told(tiny, tmp_path, content):
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (30, 6, 6), np.uint8), np.arange(30) % 3
    arrays = {"x_train": images, "y_train": labels, "x_test": images, "y_test": labels}
    changes = {"shape": {"x_test": images[:, :5]}, "pickled": {"y_train": np.array([{}] * 30, object)}}
    path = tmp_path / "mine.npz"
    if content != "absent":
        np.savez(path, **({"x": images} if content == "keys" else arrays | changes.get(content, {})))
    if content == "cut":
        path.write_bytes(path.read_bytes()[:-400])
    line = told(tiny(**{"data.name": "mine", "data.dir": str(tmp_path)}))
    assert str(path) in line
    expected = {
        "cut": "cannot be read",
        "keys": "needed: x_train",
        "shape": "one shape",
        "pickled": "no pickled objects",
    }
    assert expected.get(content, "unknown data.name 'mine'") in line


ODD = {
    # M, radius and cap are traced: all of these are one program.
    "everybody, nobody, no contact, no cap": {
        "sweep": "network.num_mobile=0,6; network.radius=0,inf; network.max_step=0,inf",
        "network.grid_size": 9,
        "engine.runs_per_batch": 8,
    },
    "one client": {"network.num_clients": 1, "network.num_mobile": 1, "data.partition": "dirichlet"},
    "more clients than samples, all on one place": {
        "network.num_clients": 30,
        "data.limit_train": 10,
        "network.grid_size": 1,
        "network.mixing": "fedavg",
        "data.partition": "dirichlet",
    },
    "minibatches, local steps, momentum, cosine": {
        "data.partition": "shards",
        "algorithm.batch_size": 4,
        "algorithm.local_steps": 3,
        "algorithm.momentum": 0.9,
        "algorithm.lr_schedule": "cosine",
    },
    "adam, exponential, nothing exchanged, no positions": {
        "algorithm.name": "local_only",
        "engine.record_positions": False,
        "data.partition": "classes_per_client",
        "algorithm.optimizer": "adam",
        "algorithm.lr": 0.01,
        "algorithm.lr_schedule": "exponential",
        "model.name": "mlp",
        "model.widths": (8,),
        "network.mobility": "dcm",
    },
}


@pytest.mark.long
@pytest.mark.parametrize("name", ODD)
def test_odd_settings_run_and_give_finite_results(tiny, tmp_path, name):
    study = make_study(tiny(**{"seeds": 1, "rounds": 2, **ODD[name]}))
    assert len(study.groups) == 1
    summary = run_study(study, tmp_path / "run")
    with np.load(tmp_path / "run" / "history.npz") as history:
        for key in history.files:
            values = history[key]
            unknown_at_first = key.endswith(("/train_loss", "/num_neighbours", "/lambda_2"))
            known = values[:, 1:] if unknown_at_first else values
            if key.endswith("/train_loss"):  # a client without samples has none
                holds = history[key.replace("train_loss", "label_counts")].sum(axis=-1) > 0
                assert (np.isfinite(known) == holds[:, None]).all()
            else:
                assert np.isfinite(known).all(), key
        for p, point in enumerate(summary["points"]):
            assert point["diverged"] == {}
            assert 0 <= point["final_accuracy"]["mean"] <= 1
            check_world(study.points[p].experiment.network, history, p, point)


def check_world(network, history, p, point):
    """What radius, M and cap say of contacts and distances."""
    heard, moved = history[f"{p}/num_neighbours"][0, 1:], history[f"{p}/distance_moved"][0, -1]
    if network.radius == float("inf") or network.grid_size == 1:
        assert (heard == network.num_clients - 1).all()
    if network.num_mobile == 0 or network.max_step == 0 or network.grid_size == 1:
        assert (moved == 0).all()
        assert point["distance_moved_per_mobile_client"] == 0
    if network.num_mobile == 0 and network.radius == 0:
        places = history[f"{p}/position"][0, 0]
        assert heard.max() == (places[:, None] == places[None]).all(-1).sum(1).max() - 1
