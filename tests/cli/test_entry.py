"""The command `mdfl`: its subcommands, the words that stand for flags, and files of launch/ started as files."""

import subprocess
import sys
from pathlib import Path

import pytest
from absl import flags
from forked import Started

import mdfl_jax
from mdfl_jax.cli import common, entry, sweep
from mdfl_jax.config import resolve
from mdfl_jax.core.errors import UserError

ROOT = Path(__file__).parents[2]


def called(monkeypatch, *arguments):
    """Exit status of `mdfl` with these arguments, which end before a launcher starts."""
    monkeypatch.setattr(sys, "argv", ["mdfl", *arguments])
    with pytest.raises(SystemExit) as ended:
        entry.main()
    return ended.value.code


def test_alone_it_lists_every_command_and_an_unknown_one_is_one_line(monkeypatch, capsys):
    for arguments in ([], ["--help"], ["-h"], ["help"]):
        assert called(monkeypatch, *arguments) == 0
        lines = capsys.readouterr().out.splitlines()
        assert all(sum(line.startswith(f"  {name} ") for line in lines) == 1 for name in entry.COMMANDS)
    assert called(monkeypatch, "--version") == 0
    assert capsys.readouterr().out == f"mdfl_jax {mdfl_jax.__version__}\n"
    assert called(monkeypatch, "swep") == 2
    out, err = capsys.readouterr()
    known = ", ".join(sorted(entry.COMMANDS))
    assert (out, err) == ("", f"error: unknown command 'swep' (did you mean 'sweep'?); known: {known}\n")


def test_the_help_of_each_command_ends_well(tmp_path):
    for name in entry.COMMANDS:
        ended = Started(tmp_path / name, "mdfl", name, "--help").ended()
        assert (ended.status, ended.err) == (0, "")
        assert f"mdfl {name} " in ended.out.partition("\nflags:\n")[0]


def parse(argv, words):
    """Parse a command line as `common.parse_flags` does, with no flag set before."""
    flags.FLAGS.unparse_flags()
    for name in flags.FLAGS:
        flags.FLAGS[name].unparse()
    common.parse_flags(argv, words)


@pytest.mark.parametrize(
    ("given", "config", "fields"),
    [
        (["digits", "--overwrite", "--workdir=x"], "digits", {}),
        (["--nooverwrite", "digits", "--config.seeds", "2"], "digits", {"seeds": "2"}),
        (["--config.sweep=network.radius=1,2", "--config", "a.py"], "a.py", {"sweep": "network.radius=1,2"}),
        (["-config.title=a\nb"], None, {"title": "a\nb"}),
    ],
)
def test_a_word_stands_for_the_config_and_fields_may_stand_anywhere(given, config, fields):
    parse(["sweep", *given], sweep.WORDS)
    assert flags.FLAGS["config"].value == config
    assert common.fields_given() == fields
    assert flags.FLAGS["overwrite"].value is ("--overwrite" in given)
    parse(["sweep"], sweep.WORDS)


def test_a_name_finds_a_shipped_study_and_a_path_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert set(resolve.study_names()) == {path.stem for path in (ROOT / "configs").glob("[a-z]*.py")}
    assert resolve.find_config("digits") == str(ROOT / "configs" / "digits.py")
    assert resolve.find_config("cifar_resnet:madfl") == f"{ROOT / 'configs' / 'cifar_resnet.py'}:madfl"
    (tmp_path / "digits").touch()  # a file of the name comes first
    assert resolve.find_config("digits:argument") == "digits:argument"
    with pytest.raises(UserError, match=r"unknown study 'digts' \(did you mean 'digits'\?\); \d+ are known"):
        resolve.find_config("digts")
    with pytest.raises(UserError, match=r"^--config=configs/digits: .* the shipped study is named digits; a file is"):
        resolve.find_config("configs/digits")


def test_a_module_of_launch_started_as_a_file_says_how_it_is_started(tmp_path):
    for name in entry.COMMANDS:
        command = [sys.executable, "-S", str(ROOT / "launch" / f"{name}.py")]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"error: start it as mdfl {name}\n"


def test_fields_of_the_command_line_are_set_after_the_cuts_of_a_quick_look():
    parse(["sweep", "digits", "--quick", "--config.seeds=3"], sweep.WORDS)
    config = common.config_of_flags(flags.FLAGS["quick"].value)
    assert (config.name, config.seeds, config.rounds, config.model.name) == ("digits_quick", 3, 20, "linear")


@pytest.mark.long
def test_a_quick_look_at_a_graph_ends_with_a_table_without_empty_columns_and_with_a_picture(call, tmp_path):
    parse(["sweep"], sweep.WORDS)  # no flag stays as a test before has set it
    given = ["--config.network.graph=ring", "--config.sweep=algorithm.lr=0.1,0.2", "--config.baseline="]
    status, out, err = call(sweep, "digits", "--quick", f"--workdir={tmp_path}", *given)
    assert status == 0, err
    header = next(line for line in out.splitlines() if "accuracy (%)" in line)
    assert "MB sent/client" in header
    assert "target" not in header
    assert "distance" not in header
    page, curves = tmp_path / "report.html", tmp_path / "figures" / "accuracy.png"
    assert out.endswith(f"report: {page}, curves: {curves}\n")
    assert min(page.stat().st_size, curves.stat().st_size) > 5000
