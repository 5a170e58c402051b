"""Files of the user: which files count as such, how they are imported, and how an error in one of them is told."""

import re
import sys

import pytest

import mdfl_jax
from mdfl_jax.cli.families import listing
from mdfl_jax.config.resolve import add_used_files, as_config, default_config, resolve
from mdfl_jax.core import own_files
from mdfl_jax.core.errors import UserError
from mdfl_jax.study import make_study

pytestmark = pytest.mark.usefixtures("unregistered")
SMALL = {
    **{"rounds": 2, "eval_every": 1, "seeds": 1, "model.name": "linear", "data.limit_train": 60, "data.limit_test": 30},
    **{"network.num_clients": 6, "network.num_mobile": 2, "network.grid_size": 5, "engine.client_devices": 1},
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
    """Writes stroll.py with a body of its rule into the current folder; returns the configuration that uses it."""
    monkeypatch.chdir(tmp_path)

    def write(body=GOOD):
        (tmp_path / "stroll.py").write_text(RULE.replace("BODY", body))
        return {**SMALL, "use": "stroll.py", "network.mobility": "stroll"}

    return write


def raised(function, *args):
    with pytest.raises(Exception) as caught:  # noqa: PT011  (any)
        function(*args)
    return caught.value


def test_a_file_is_imported_once_and_again_when_it_has_changed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "random.py"  # a name that Python has too
    path.write_text(f"open({str(tmp_path / 'log')!r}, 'a').write('1')\n")
    for given in ("random.py", str(path), "./random.py"):
        own_files.import_file(given)
    assert (tmp_path / "log").read_text() == "1"
    path.write_text(f"open({str(tmp_path / 'log')!r}, 'a').write('second')\n")
    own_files.import_file("random.py")
    assert (tmp_path / "log").read_text() == "1second"
    assert str(tmp_path) not in str(sys.modules["random"])


def test_a_configuration_that_names_its_file_gets_the_numbers_of_its_members(rule):
    given, config = rule(), default_config()
    assert "drift" not in config.motion
    for order in (given, dict(reversed(given.items()))):
        assert resolve(as_config({"motion.drift": 3, **order})).motion.drift == 3
    assert "drift = 1 (at least 0): grid points a round" in listing("mobility.stroll")
    with pytest.raises(UserError, match=r"motion\.drift is -1; it must be at least 0"):
        resolve(as_config({**given, "motion.drift": -1}))
    for more in (["stroll.py", "b.py"], []):  # each file once, those of the configuration first
        add_used_files(config, more)
        assert config.use == "stroll.py,b.py"


# Mistakes in members, told when the study is made.

BODIES = {
    "client.nowhere": r"12: AttributeError: 'GridClient' object has no attribute 'nowhere'$",
    "client.location": r"11: move returned int32\[6\]; it must return GridClient\(location=int32\[6\], destination=",
    "client._replace(location=jnp.zeros(2, int))": r"11: move returned int32\[6, 2\] in \.location; it must be int32",
}


@pytest.mark.parametrize("body", BODIES)
def test_a_mistake_in_a_rule_is_one_line_before_anything_is_written(rule, tmp_path, body):
    line = str(raised(mdfl_jax.run, rule(body), tmp_path / "run"))
    assert re.match(rf"stroll\.py:{BODIES[body]}", line), line
    assert "\n" not in line
    assert not (tmp_path / "run").exists()


MISTAKES = {  # member: (the fields that use it, the error, its file)
    "other arguments": (
        {"network.mobility": "wrong"},
        r"wrong\.py: TypeError: .*takes 2 positional arguments but 4 were given",
        "from mdfl_jax.mobility import MOBILITIES, grid_mobility\n@MOBILITIES.register('wrong')\ndef wrong():\n"
        "    return grid_mobility(lambda client, world: client)\n",
    ),
    "algorithm": (
        {"algorithm.name": "wrong"},
        r"wrong\.py:7: exchange returned .*; it must return \(.*, Links\(.*\)\)",
        "import jax\nfrom mdfl_jax.algorithms.dpsgd import local_then\nfrom mdfl_jax.algorithms.local import Settings\n"
        "from mdfl_jax.algorithms.registry import register\n@register('wrong')\ndef wrong(settings=Settings()):\n"
        "    def exchange(hparams, links, params, context):\n        return params\n"
        "    return local_then(settings, exchange, ())\n",
    ),
    "registered twice": (
        {},
        r"wrong\.py:3: mobility 'dcm' is there already, from .*",
        "from mdfl_jax.mobility import MOBILITIES\n\n@MOBILITIES.register('dcm')\ndef mine(): ...",
    ),
    "metric": (
        {},
        r"wrong\.py:4: KeyError: 'nothing'",
        "from mdfl_jax.metrics import HOLDS, metric\n@metric('wrong', still=HOLDS)\ndef wrong(at):\n"
        "    return at.models['nothing']\n",
    ),
}


@pytest.mark.parametrize("of", MISTAKES)
def test_a_mistake_in_a_member_is_told_when_the_study_is_made(of, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fields, expected, text = MISTAKES[of]
    (tmp_path / "wrong.py").write_text(text)
    line = str(raised(lambda: make_study(as_config({**SMALL, **fields, "use": "wrong.py"}))))
    assert re.search(f"^{expected}$", line), line


FORGETFUL = """import jax
import jax.numpy as jnp
from mdfl_jax.algorithms.local import Settings
from mdfl_jax.algorithms.registry import register
from mdfl_jax.core.message_bits import count_bits, dense_bits, messages_sent
from mdfl_jax.core.types import Algorithm, RoundStats

@register("forgetful")
def forgetful(settings=Settings()):
    def do_round(hparams, models, links, context):
        loss, found = context.gradient(models, context.key)
        models = jax.tree.map(lambda x, g: jnp.tensordot(links.mix, x - hparams.lr * g, 1), models, found)
        sent = messages_sent(links.adjacency, links.senders)
        return models, RoundStats(loss, sent, count_bits(sent, dense_bits(models)))
    return Algorithm(frozenset({"adjacency", "mix"}), lambda hparams, models: models, do_round, lambda state: state)
"""
FORGOTTEN = {
    "aggregation": (
        {"algorithm.aggregation": "median"},
        "median; it must be 'mean': forgetful mixes no .*",
    ),
    "steps": ({"algorithm.local_steps": 3}, "3; it must be 1: forgetful takes one gradient step a round"),
    "momentum": ({"algorithm.momentum": 0.9}, "0.9; it must be 0.0: forgetful has its step in its recursion, .*"),
    "attack": ({"attack.name": "sign_flip"}, "sign_flip; it must be empty: forgetful sends nothing by which .*"),
}


@pytest.mark.parametrize("of", FORGOTTEN)
def test_a_setting_that_an_algorithm_does_not_say_to_use_is_refused(of, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "forgetful.py").write_text(FORGETFUL)
    fields, expected = FORGOTTEN[of]
    line = str(raised(make_study, as_config({**SMALL, "use": "forgetful.py", "algorithm.name": "forgetful", **fields})))
    assert re.fullmatch(f"{next(iter(fields))} is {expected}", line), line
