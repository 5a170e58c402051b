"""Pretrained weights in a study: what the task starts from, and the plan's note."""

import jax
import numpy as np
import pytest
from oracles.resnet import random_tensors

from mdfl_jax.config.resolve import resolve
from mdfl_jax.models import pretrained
from mdfl_jax.study import make_study
from mdfl_jax.study.plan import plan
from mdfl_jax.study.prepare.task import PretrainedFiles, build_task, load_dataset

RESNET = {"model.name": "resnet18", "model.base_width": 2}


def of_grey_images(**settings):
    """Weights for the digits, which have one channel."""
    tensors = random_tensors("resnet18", width=2, **settings)
    return tensors | {"conv1.weight": tensors["conv1.weight"][:, :1]}


@pytest.fixture
def file(tmp_path):
    np.savez(tmp_path / "w.npz", **of_grey_images(num_classes=1000))
    return str(tmp_path / "w.npz")


@pytest.mark.long
def test_a_task_starts_from_its_data_and_draws_the_head(tiny, file):
    experiment = resolve(tiny(**RESNET, **{"model.pretrained": file}))
    dataset = load_dataset(experiment.data)
    weights = PretrainedFiles().weights(experiment, dataset)
    task, drawn = build_task(experiment, dataset, pretrained=weights.tree), build_task(experiment, dataset)
    init, key = jax.jit(task.init), jax.random.key(0)
    start = init(task.data, key)
    assert jax.tree.map(np.shape, start) == jax.tree.map(np.shape, jax.eval_shape(drawn.init, drawn.data, key))
    head = jax.jit(lambda key: drawn.init(drawn.data, key)["params"]["fc"]["kernel"])(key)
    np.testing.assert_array_equal(start["params"]["fc"]["kernel"], head)
    tensors = np.load(file)
    conv = start["params"]["layer1_0"]["conv2"]["conv"]["kernel"]
    np.testing.assert_array_equal(conv, tensors["layer1.0.conv2.weight"].transpose(2, 3, 1, 0))
    var = start["batch_stats"]["layer4_0"]["downsample"]["norm"]["batch"]["var"]
    np.testing.assert_array_equal(var, tensors["layer4.0.downsample.1.running_var"])
    # The weights are an argument of the compiled function, not in it.
    doubled = task.data._replace(pretrained=jax.tree.map(lambda leaf: 2 * leaf, task.data.pretrained))
    again = init(doubled, key)["params"]["layer1_0"]["conv2"]["conv"]["kernel"]
    np.testing.assert_array_equal(again, 2 * conv)


@pytest.mark.long
def test_a_study_with_and_without_weights_reads_them_once_and_says_what_was_taken(tiny, file, monkeypatch):
    reads, read = [], pretrained.READERS[".npz"]
    monkeypatch.setitem(pretrained.READERS, ".npz", lambda path: reads.append(path) or read(path))
    sweep = f"model.pretrained+algorithm.local_steps=+1,{file}+1,{file}+2"
    study = make_study(tiny(**RESNET, sweep=sweep))
    assert [group.pretrained and group.pretrained.file for group in study.groups] == [None, file, file]
    assert reads == [file]
    line = (
        f"  note: model.pretrained {file!r}: 99 tensors taken; conv1.weight taken, 7x7 summed to 3x3; fc.weight, "
        "fc.bias left out (of 1000 classes, here there are 10; drawn at random); 20 left out (counters that have no "
        "use here)"
    )
    assert plan(study).splitlines().count(line) == 1
    for group in study.groups:
        assert len(jax.tree.leaves(group.simulation.data.pretrained)) == (100 if group.pretrained else 0)
