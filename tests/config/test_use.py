"""The field `use`: files that are imported before names are looked up, and mistakes in them, told before anything."""

import json
import re

import pytest

import mdfl_jax
from mdfl_jax.cli.catalogue import listing
from mdfl_jax.config.config_files import as_config
from mdfl_jax.config.resolve import add_used_files, completed, default_config, resolve
from mdfl_jax.core.errors import UserError
from mdfl_jax.study import make_study

pytestmark = pytest.mark.usefixtures("unregistered")
SMALL = {
    "rounds": 2,
    "eval_every": 1,
    "seeds": 1,
    "model.name": "linear",
    "network.num_clients": 6,
    "network.num_mobile": 2,
    "network.grid_size": 5,
    "engine.client_devices": 1,
    "data.limit_train": 60,
    "data.limit_test": 30,
}
RULE = """import jax
import jax.numpy as jnp
from mdfl_jax.mobility import MOBILITIES, grid_mobility
from mdfl_jax.core.numbers import Numbers, number

class StrollNumbers(Numbers):
    drift: int = number(1, "grid points a round", at_least=0)

@MOBILITIES.register("stroll", StrollNumbers)
def stroll():
    def move(key, client, world, plan):
        return BODY
    return grid_mobility(move)
"""
GOOD = "client._replace(location=(client.location + world.numbers.drift) % len(world.grid))"


@pytest.fixture
def rule(tmp_path, monkeypatch):
    """Writes stroll.py with a body of its rule into the current folder."""
    monkeypatch.chdir(tmp_path)

    def write(body=GOOD):
        (tmp_path / "stroll.py").write_text(RULE.replace("BODY", body))
        return {**SMALL, "use": "stroll.py", "network.mobility": "stroll"}

    return write


def test_added_files_follow_those_of_the_config_once():
    config = default_config()
    config.use = "a.py"
    add_used_files(config, ["b.py", "a.py"])
    assert config.use == "a.py,b.py"
    add_used_files(config, [])
    assert config.use == "a.py,b.py"
    assert config.is_locked


def test_a_dictionary_may_name_the_file_and_its_numbers_in_any_order(rule):
    given = rule()
    for order in (given, dict(reversed(given.items()))):
        assert resolve(as_config({"motion.drift": 3, **order})).motion.drift == 3
    assert "  stroll" in listing("mobility")
    assert "drift = 1 (at least 0): grid points a round" in listing("mobility.stroll")


def test_the_numbers_of_used_files_are_checked_like_others(rule):
    with pytest.raises(UserError, match=r"motion\.drift is -1; it must be at least 0"):
        resolve(as_config({**rule(), "motion.drift": -1}))


def test_a_config_that_names_its_file_gets_the_numbers_of_its_members(rule):
    rule()
    config = default_config()
    assert "drift" not in config.motion
    config.use, config.network.mobility, config.sweep = "stroll.py", "stroll", "motion.drift=1,2"
    assert completed(config) is config
    config.motion.drift = 4
    with pytest.raises(TypeError):
        config.motion.drift = "far"
    assert resolve(config).motion.drift == 4


@pytest.mark.long
def test_a_study_with_a_used_file_runs_and_records_it(rule, tmp_path):
    results = mdfl_jax.run({**rule(), "motion.drift": 2}, tmp_path / "run")
    manifest = json.loads((tmp_path / "run" / "config.json").read_text())
    assert manifest["config"]["use"] == "stroll.py"
    assert manifest["points"][0]["numbers"]["motion.drift"] == 2
    places = results.array("position")[0]  # [rounds + 1, clients, 2] on a grid of 5 x 5, row by row
    index = (places[..., 0] - 1) * 5 + places[..., 1] - 1
    assert ((index[1:, :2] - index[:-1, :2]) % 25 == 2).all()


@pytest.mark.long
def test_a_study_does_not_go_on_with_another_file(rule, tmp_path):
    config = rule()
    mdfl_jax.run(config, tmp_path / "run")
    mdfl_jax.run(config, tmp_path / "run")  # finished: read
    rule("client")
    with pytest.raises(UserError, match=r"it holds another study \(.*\): own_files\.stroll\.py is '\w{16}' there and"):
        mdfl_jax.run(config, tmp_path / "run")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("client.nowhere", r"^stroll\.py:12: AttributeError: 'GridClient' object has no attribute 'nowhere'$"),
        ("client if client.location > 3 else client", r"^stroll\.py:12: TracerBoolConversionError: "),
        ("world.grid + jnp.zeros(7)", r"^stroll\.py:12: \w+Error: .*shapes"),
        (
            "client.location",
            r"^stroll\.py:11: move returned int32\[6\]; it must return GridClient\(location=int32\[6\], destination=",
        ),
        (
            "client._replace(location=jnp.zeros(2, int))",
            r"^stroll\.py:11: move returned int32\[6, 2\] in \.location; it must be int32\[6\]$",
        ),
        (
            "client._replace(destination=client.location / 2)",
            r"^stroll\.py:11: move returned float32\[6\] in \.destination; it must be int32\[6\]$",
        ),
    ],
)
def test_a_mistake_in_a_rule_is_one_line_before_anything_is_written(rule, tmp_path, body, expected):
    given = rule(body)
    with pytest.raises(UserError) as told:
        mdfl_jax.run(given, tmp_path / "run")
    assert re.search(expected, str(told.value)), str(told.value)  # pytest's match would see JAX's notes too
    assert "\n" not in str(told.value)
    assert not (tmp_path / "run").exists()


MISTAKES = {
    "takes other arguments": (
        "from mdfl_jax.mobility import MOBILITIES, grid_mobility\n@MOBILITIES.register('wrong')\ndef wrong():\n"
        "    return grid_mobility(lambda client, world: client)\n",
        {"network.mobility": "wrong"},
        r"wrong\.py: TypeError: .*takes 2 positional arguments but 4 were given",
    ),
    "mixing": (
        "import jax.numpy as jnp\nfrom mdfl_jax.networks.mixing import MIXINGS\n@MIXINGS.register('wrong')\n"
        "def wrong(inputs):\n    return jnp.sum(inputs.adjacency, axis=1)\n",
        {"network.mixing": "wrong"},
        r"wrong\.py:3: wrong returned int32\[6\]; it must be float32\[6, 6\]",
    ),
    "graph": (
        "import jax.numpy as jnp\nfrom mdfl_jax.networks.graphs import GRAPHS, Graph\ndef draw(params, key, n):\n"
        "    return jnp.ones((n, n))\nGRAPHS.register('wrong')(Graph(draw))\n",
        {"network.graph": "wrong"},
        r"wrong\.py:3: draw returned float32\[6, 6\]; it must be bool\[6, 6\]",
    ),
    "partition": (
        "import jax.numpy as jnp\nfrom mdfl_jax.data.partition import PARTITIONS\n@PARTITIONS.register('wrong')\n"
        "def wrong(key, labels, settings):\n    return labels[:3]\n",
        {"data.partition": "wrong"},
        r"wrong\.py:3: wrong returned int32\[3\]; it must be int32\[60\]",
    ),
    "algorithm": (
        "import jax\nfrom mdfl_jax.algorithms.dpsgd import local_then\nfrom mdfl_jax.algorithms.local import Settings\n"
        "from mdfl_jax.algorithms.registry import register\n@register('wrong')\ndef wrong(settings=Settings()):\n"
        "    def exchange(hparams, key, links, params):\n        return params\n"
        "    return local_then(settings, exchange, ())\n",
        {"algorithm.name": "wrong"},
        r"wrong\.py:7: exchange returned .*; it must return \(.*, int32\[6\]\)",
    ),
    "compressor": (
        "from mdfl_jax.exchange.compressors import COMPRESSORS, Compressor, Message\n"
        "def compress(numbers, key, x):\n    return Message(x[:, :3], None)\n"
        "COMPRESSORS.register('wrong')(Compressor(compress, lambda numbers, message: message.value))\n",
        {"algorithm.name": "choco", "network.graph": "ring", "algorithm.compressor": "wrong"},
        r"wrong\.py:2: compress returned float32\[6, 3\]; it must be float32\[6, 650\]",
    ),
    "metric": (
        "from mdfl_jax.metrics import HOLDS, metric\n@metric('wrong', still=HOLDS)\ndef wrong(at):\n"
        "    return at.models['nothing']\n",
        {},
        r"wrong\.py:4: KeyError: 'nothing'",
    ),
}


@pytest.mark.parametrize("of", MISTAKES)
def test_a_mistake_in_a_member_is_told_when_the_study_is_made(of, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text, fields, expected = MISTAKES[of]
    (tmp_path / "wrong.py").write_text(text)
    with pytest.raises(UserError) as told:
        make_study(as_config({**SMALL, **fields, "use": "wrong.py"}))
    assert re.search(f"^{expected}$", str(told.value)), str(told.value)
