"""`mdfl new`: what it writes, and what it refuses. That this runs is in tests/docs/test_extending.py."""

from pathlib import Path

import pytest
from small import told

from mdfl_jax.contrib.new import command as new
from mdfl_jax.core.errors import UserError

pytestmark = pytest.mark.usefixtures("unregistered")


def test_each_kind_has_an_example_and_can_be_checked_for_its_names():
    assert len(new.RECIPES) == 13
    for kind in new.RECIPES:
        assert "def get_config():" in new.example(kind)
        new.check_entry(kind, "quite_new_name")


WRONG = {
    "mobility ": "a kind and a name are needed",
    "mobilty mine": r"unknown kind 'mobilty' (did you mean 'mobility'?)",
    **dict.fromkeys(("mobility my-rule", "mobility class", "graph ../x"), "it must be letters, digits and underscores"),
    "mobility dcm": "there is a mobility of this name already",
    "metric accuracy": "there is a metric of this name already",
    "mobility jnp": "the example of a mobility uses this word already",
}


def test_a_wrong_kind_or_name_is_refused():
    for words, expected in WRONG.items():
        assert expected in told(new.check_entry, *words.split(" "))


def test_the_command_writes_a_file_under_its_name_and_overwrites_none(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written = "wrote slow_walk.py\n  mdfl sweep ./slow_walk.py\n"
    assert call(new, "mobility", "slow_walk") == (0, written, "")
    text = Path("slow_walk.py").read_text()
    assert "restless" not in text.lower()
    assert "class SlowWalkNumbers(Numbers):" in text
    assert '@MOBILITIES.register("slow_walk", SlowWalkNumbers)' in text
    refused = "error: slow_walk.py exists; nothing is written, choose another name or remove the file\n"
    assert call(new, "graph", "slow_walk") == (2, "", refused)
    assert Path("slow_walk.py").read_text() == text
    with pytest.raises(UserError, match=r"mine\.py: it cannot be written: No such file or directory"):
        new.write_entry("graph", "mine", tmp_path / "no")
