"""Models in files of the user's own: each mistake is one line that names the file and the line."""

import runpy

import pytest

from mdfl_jax.core.errors import UserError
from mdfl_jax.study import make_study

pytestmark = pytest.mark.usefixtures("unregistered")

FILE = """import flax.linen as nn
import jax.numpy as jnp
from flax import nnx
from mdfl_jax.config import default_config
from mdfl_jax.models import MODELS

class Linen(nn.Module):
    @nn.compact
    def __call__(self, x, train=False):
        x = nn.Dense({outputs})(x.reshape(x.shape[0], -1))
        return x + jnp.ones({added}) if train else x

class NNX(nnx.Module):
    def __init__(self, rngs):
        self.dense = nnx.Linear({inputs}, 10, rngs=rngs)
    def __call__(self, x):
        return self.dense(x.reshape(x.shape[0], -1))

def init(key, x):
    return {{"w": jnp.zeros((64, 10))}}

def apply(params, x):
    return x.reshape(x.shape[0], -1) @ params[{name!r}]

@MODELS.register("mine")
def mine(settings):
    return {given}

def get_config():
    config = default_config()
    config.model.name = "mine"
    config.algorithm.batch_size = 8
    return config
"""
USUAL = {"outputs": 10, "added": 10, "inputs": 64, "name": "w"}


def study(folder, **given):
    path = folder / "mine.py"
    path.write_text(FILE.format(**USUAL | given))
    return make_study(runpy.run_path(str(path))["get_config"]())


@pytest.mark.few(2)
@pytest.mark.parametrize("given", ["Linen()", "NNX", "(init, apply)"])
def test_without_a_mistake_a_study_is_made_without_adapt(given, tmp_path):
    assert study(tmp_path, given=given).groups[0].simulation.num_params == 64 * 10 + 10 * (given != "(init, apply)")


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("mistake", "line", "said"),
    [
        ({"given": "None"}, 25, "the model is None; it must be a module of flax linen, the class of a module of nnx, "),
        ({"given": "Linen()", "outputs": 5, "added": 5}, 8, "the model Linen returned float32[2, 5] for samples "),
        ({"given": "Linen()", "added": 3}, 11, "the model Linen cannot be trained: "),
        ({"given": "NNX", "inputs": "'64'"}, 15, "the model NNX cannot be made: TypeError: "),
        ({"given": "(init, apply)", "name": "v"}, 23, "the model apply cannot be called with samples "),
    ],
)
def test_a_mistake_is_one_line_with_file_and_line(mistake, line, said, tmp_path):
    with pytest.raises(UserError) as error:
        study(tmp_path, **mistake)
    message = str(error.value)
    assert f"mine.py:{line}: {said}" in message
    assert "\n" not in message
    assert message.count("mine.py") == 1
