"""The flag --scale, which goes to the config file of a preset."""

import pytest
from shell import ROOT

from mdfl_jax.cli import sweep


def test_a_scale_without_a_config_file_is_a_mistake(mistake):
    assert "--scale=small is for --config=FILE" in mistake(sweep, "--scale=small")


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (["madfl.py:t9", "--scale=small"], "unknown argument 't9'; known: f2, "),
        (["madfl.py:f8", "--scale=small"], "argument 'f8' is in parts here: f8_35, f8_50"),
        (["madfl.py:t2,scale=large"], "unknown scale 'large'; known: paper, small, smoke"),
        (["digits.py", "--scale=small"], "--scale=small: configs/digits.py has no presets"),
        (["cifar_resnet.py:small", "--scale=small"], "argument 'small,scale=small'; it must be one of small, "),
    ],
)
def test_mistakes_are_one_line(mistake, monkeypatch, config, expected):
    monkeypatch.chdir(ROOT)
    line = mistake(sweep, "--cache=", f"--config=configs/{config[0]}", *config[1:], "--dry_run")
    assert expected in line
    assert "Traceback" not in line


def test_a_fault_in_a_file_of_presets_is_told_as_such(mistake, tmp_path):
    """And not as a file without presets, which also raises a TypeError."""
    path = tmp_path / "ours.py"
    path.write_text("def get_config(argument):\n    return len(3)\n")
    assert "ours.py:2: TypeError: object of type 'int' has no len()" in mistake(
        sweep, "--cache=", f"--config={path}", "--scale=small", "--dry_run"
    )
