"""The command `mdfl`: its subcommands, the words that stand for flags, and files of launch/ started as files."""

import subprocess
import sys
from pathlib import Path

import pytest
from absl import flags

from mdfl_jax.cli import entry, sweep, words
from mdfl_jax.config import config_files
from mdfl_jax.core.errors import UserError

ROOT = Path(__file__).parents[2]


def called(monkeypatch, *arguments):
    """Exit status of `mdfl` with these arguments, which end before a launcher starts."""
    monkeypatch.setattr(sys, "argv", ["mdfl", *arguments])
    with pytest.raises(SystemExit) as ended:
        entry.main()
    return ended.value.code


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"], ["help"]])
def test_alone_it_lists_every_command_in_a_line(arguments, monkeypatch, capsys):
    assert called(monkeypatch, *arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    for name in entry.COMMANDS:
        assert sum(line.startswith(f"  {name} ") for line in lines) == 1


def test_every_command_is_a_module_and_a_launcher_of_the_checkout():
    for name in entry.COMMANDS:
        assert (ROOT / "mdfl_jax" / "cli" / f"{name}.py").is_file()
        assert (ROOT / "launch" / f"{name}.py").is_file()


def test_an_unknown_command_is_one_line_with_a_suggestion(monkeypatch, capsys):
    assert called(monkeypatch, "swep") == 2
    out, err = capsys.readouterr()
    assert out == ""
    known = ", ".join(sorted(entry.COMMANDS))
    assert err == f"error: unknown command 'swep' (did you mean 'sweep'?); known: {known}\n"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["digits"], ["--config=FILE"]),
        (["digits", "--overwrite", "--workdir=x"], ["--config=FILE", "--overwrite", "--workdir=x"]),
        (["--workdir", "x", "digits"], ["--workdir", "x", "--config=FILE"]),
        (["--overwrite", "digits"], ["--overwrite", "--config=FILE"]),
        (["--nooverwrite", "digits"], ["--nooverwrite", "--config=FILE"]),
        (["--config.seeds", "2", "digits"], ["--config.seeds", "2", "--config=FILE"]),
        (["digits", "more"], ["--config=FILE", "more"]),
        (["--config=a.py", "digits"], ["--config=a.py", "digits"]),
        (["--config", "a.py"], ["--config", "a.py"]),
        ([], []),
    ],
)
def test_a_word_stands_for_the_config(given, expected):
    assert "overwrite" in flags.FLAGS  # of sweep, whose switches take no value
    assert words.named(given, {"config": lambda word: "FILE"}) == expected


def test_a_shipped_study_may_be_named_after_the_flag_too(tmp_path, monkeypatch):
    digits, cifar = str(ROOT / "configs" / "digits.py"), f"{ROOT / 'configs' / 'cifar_resnet.py'}:madfl"
    monkeypatch.chdir(tmp_path)
    assert words.with_shipped(["--config=digits", "--picture=a.png"]) == [f"--config={digits}", "--picture=a.png"]
    assert words.with_shipped(["-config", "cifar_resnet:madfl"]) == ["-config", cifar]
    for given in (["--config=digts"], ["--config=./digits"], ["--config.name=digits"], ["digits"], ["--config"]):
        assert words.with_shipped(given) == given
    (tmp_path / "digits").touch()
    assert words.with_shipped(["--config=digits"]) == ["--config=digits"]


def test_several_words_stand_for_flags_in_their_order():
    assert words.named(["mobility", "mine"], {"kind": str, "name": str}) == ["--kind=mobility", "--name=mine"]


def test_the_files_of_use_are_found_in_all_forms():
    given = ["--use=a.py", "--config.use=b.py, c.py", "digits", "-use", "d.py", "--used=x", "--config.user=y"]
    assert words.used_files(given) == ["a.py", "b.py", "c.py", "d.py"]


def test_a_name_finds_a_shipped_study_and_a_path_a_file():
    assert sweep.WORDS["config"]("digits") == str(ROOT / "configs" / "digits.py")
    assert config_files.find("cifar_resnet:madfl") == f"{ROOT / 'configs' / 'cifar_resnet.py'}:madfl"
    for path in ("./digits", "digits.py", "some/where.py:argument"):
        assert config_files.find(path) == path
    with pytest.raises(UserError, match=r"unknown study 'digts' \(did you mean 'digits'\?\); known: .*met_digits"):
        config_files.find("digts")


def test_every_shipped_study_has_a_name():
    assert set(config_files.names()) == {path.stem for path in (ROOT / "configs").glob("[a-z]*.py")}


@pytest.mark.parametrize("name", entry.COMMANDS)
def test_a_launcher_started_as_a_file_says_how_it_is_started(name, tmp_path):
    path = ROOT / "launch" / f"{name}.py"
    done = subprocess.run([sys.executable, "-S", str(path)], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: start it in the checkout's folder as python -m launch.{name}\n"


@pytest.mark.long
def test_help_lists_the_flags_of_the_command_in_both_forms():
    for command in (["mdfl_jax.cli.entry", "sweep"], ["launch.sweep"]):
        done = subprocess.run([sys.executable, "-m", *command, "--help"], cwd=ROOT, capture_output=True, text=True)
        assert "mdfl sweep digits" in done.stdout
        for flag in ("--config", "--use", "--workdir", "--target", "--shard"):
            assert f"  {flag}: " in done.stdout
