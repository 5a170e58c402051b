"""Studies of data of one's own: from Python, with a loss or a partition of one's own, and their mistakes."""

import jax.numpy as jnp
import numpy as np
import pytest
from small import told

import mdfl_jax
from mdfl_jax.cli.families import listing
from mdfl_jax.config.resolve import as_config
from mdfl_jax.contrib.describe.partitions import describe_data, draw
from mdfl_jax.core.numbers import number
from mdfl_jax.data.partition import PARTITIONS
from mdfl_jax.report.tables import note
from mdfl_jax.study import make_study
from mdfl_jax.study.plan import plan
from mdfl_jax.study.study import check_traced
from mdfl_jax.tasks.losses import LOSSES, LossNumbers

RNG = np.random.default_rng(0)
X, NOISE = RNG.normal(size=(150, 4)), RNG.normal(size=150)
Y = X @ [1.0, -2, 0.5, 0] + 0.1 * NOISE
TINY = {"seeds": 2, "rounds": 4, "eval_every": 2, "model.name": "linear", "algorithm.lr": 0.1}
TINY |= {"network.num_clients": 5, "network.num_mobile": 2, "network.grid_size": 4, "network.mobility": "dcm"}


def arrays(y=Y, **more):
    return {"x_train": X[:100], "y_train": y[:100], "x_test": X[100:], "y_test": y[100:], **more}


@pytest.fixture
def studied(tmp_path):
    """A function that makes the study of arrays in a file, with changed fields."""

    def make(arrays, **changes):
        np.savez(tmp_path / "mine.npz", **arrays)
        config = as_config(TINY | {"data.name": "mine", "data.dir": str(tmp_path)} | changes)
        return make_study(config)

    return make


@pytest.mark.long
def test_a_study_of_given_arrays_goes_on_with_the_same_arrays_only(tmp_path):
    first = mdfl_jax.run(TINY, tmp_path / "run", data=arrays(), progress=False)
    assert first.array("accuracy")[:, -1].min() > first.array("accuracy")[:, 0].max()
    again = mdfl_jax.run(TINY, tmp_path / "run", data=arrays(), progress=False)
    np.testing.assert_array_equal(again.array("accuracy"), first.array("accuracy"))
    assert again.summary["accuracy_is"] == again.manifest["accuracy_is"] == "max(R^2, 0)"
    assert note(again).startswith("Final test accuracy (it is max(R^2, 0)): mean")
    line = told(mdfl_jax.run, TINY, tmp_path / "run", data=arrays(Y + 1), progress=False)
    assert "data.name" in line
    assert not [name for name in mdfl_jax.data.sources.SOURCES if name.startswith("given:")]


MISTAKES = [
    (arrays(), {"metrics": "personal_acuracy"}, "did you mean 'personal_accuracy'"),
    (arrays(), {"metrics": "loss"}, "'loss' is measured in every study; on request are"),
    (arrays(), {"metrics": "class_accuracy"}, "'class_accuracy' needs test samples with labels, one each, which"),
    (arrays(), {"metrics": "local_accuracy"}, "'local_accuracy' needs test samples with natural owners (the array"),
    (arrays(), {"model.loss": "cross_entropy"}, "model.loss is cross_entropy; mine has regression targets"),
    (arrays(), {"model.loss": "crossentropy"}, "unknown loss 'crossentropy' (did you mean 'cross_entropy'?)"),
    (arrays(), {"data.crop": 2}, "data.crop is 2; mine has samples [4] of float32, and images of uint8 only can be"),
    (arrays(), {"model.name": "cnn"}, "cnn"),
    (arrays(x_validation=X[:8], y_validation=Y[:8]), {"data.validation": 5}, "data.validation is 5; mine has 8 valid"),
    (arrays(), {"data.partition": "by_owner"}, "mine has no array 'client'"),
    (arrays(), {"data.name": "synthetic:linear", "model.loss": "squared_error"}, "it must be empty with data.name syn"),
]


def test_a_mistake_is_one_line(studied):
    for given, changes, says in MISTAKES:
        assert says in told(studied, given, **changes)
    line = told(mdfl_jax.run, TINY | {"data.name": "mnist"}, data=arrays())
    assert line == "data is given and data.name is 'mnist'; allowed: one of them"
    assert "with an integer dtype they would be labels" in plan(studied(arrays((Y > 0).astype(float))))
    study = studied(arrays(stratum=np.arange(100) % 4), **{"data.partition": "shards"})
    assert "; the loss is squared_error, and accuracy means max(R^2, 0)" in plan(study)
    (drawn,) = draw(study)
    assert "which hold 100 samples of 4 strata" in describe_data(study, drawn)
    np.testing.assert_array_equal(drawn.counts[0].sum(axis=0), np.bincount(study.groups[0].dataset.strata))


class HuberNumbers(LossNumbers):
    delta: float = number(1.0, "error from which the loss is linear", static=True, above=0)


def huber(numbers, outputs, targets):
    size = abs(outputs - targets)
    return (size * size / 2).clip(max=numbers.delta * (size - numbers.delta / 2)).mean(axis=-1)


@pytest.mark.usefixtures("unregistered")
def test_a_loss_and_a_partition_of_ones_own(studied):
    LOSSES.register("huber", HuberNumbers, "Linear for large errors.")(LOSSES["squared_error"]._replace(losses=huber))
    study = studied(arrays(), **{"sweep": "model.delta=0.5,2", "model.loss": "huber"})
    assert [point.experiment.model.delta for point in study.points] == [0.5, 2.0]
    assert len(study.groups) == 2  # a number of a loss is static
    assert "delta = 1.0 (greater than 0): error from which the loss is linear" in listing("loss.huber")
    line = told(studied, arrays(), **{"model.delta": -1.0, "model.loss": "huber"})
    assert "model.delta is -1.0; it must be greater than 0" in line
    PARTITIONS.register("stripes")(lambda key, labels, settings: labels % 6)
    line = told(studied, arrays((X[:, 0] * 3).astype(int) % 6), **{"data.partition": "stripes"})
    assert "returned owners from 0 to 5 with seed 0; they must be -1 (nobody) to 4" in line
    assert "test_studies.py" in line


@pytest.mark.usefixtures("single_again")
@pytest.mark.parametrize(
    "fields",
    [
        {"cost.short_contact": "largest", "cost.bandwidth": 900.0},
        {"cost.short_contact": "largest", "cost.bandwidth": 900.0, "engine.links": "lists"},
        {"algorithm.aggregation": "reputation"},
        {"presence.name": "markov", "presence.newcomers": "neighbour"},
        {"cost.joules_per_sample": 1.0, "energy.capacity": 9.0},
    ],
)
def test_what_a_round_keeps_has_its_types_where_models_are_of_double_precision(fields):
    double = {"data.name": "synthetic:linear", "engine.precision": "float64", "engine.client_devices": 1}
    group = make_study(as_config({**TINY, **double, **fields})).groups[0]
    check_traced(group.simulation, group.hparams[0])


def test_a_study_of_double_precision_leaves_the_callers_process_as_it_was():
    double = {"data.name": "synthetic:linear", "engine.precision": "float64", "rounds": 2, "eval_every": 2}
    mdfl_jax.run({**TINY, **double}, progress=False)
    assert jnp.arange(2.0).dtype == jnp.float32
