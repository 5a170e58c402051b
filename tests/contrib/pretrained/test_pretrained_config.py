"""Pretrained weights in a study: what the task starts from, and the plan's note."""

import jax
import numpy as np
import pytest
from oracles.resnet import random_tensors

from mdfl_jax.contrib.pretrained import pretrained
from mdfl_jax.study import make_study
from mdfl_jax.study.plan import plan

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
