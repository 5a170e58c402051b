"""Every command that README.md and docs/ print: its flags and fields exist; it runs or is traced, with few rounds."""

import ast
import functools
import re

import pytest
from forked import Started
from pages import PAGES, PLACEHOLDER, ROOT, commands, config_of, without_optional
from tables import with_fields

from mdfl_jax.cli import entry
from mdfl_jax.cli.commands import module_of
from mdfl_jax.config.resolve import as_config
from mdfl_jax.core.sweep_text import split_axes
from mdfl_jax.study import make_study
from mdfl_jax.study.study import check_traced

pytestmark = pytest.mark.usefixtures("unregistered")  # some shipped studies register a member
PRINTED = [(page, command) for page in PAGES for command in commands(page)]
OURS = [(page, command) for page, command in PRINTED if command.is_ours]
ALWAYS = {"config", "scale", "use", "help", "flagfile"}
EXACT = ("theory", "new", "data")  # run as printed, and what is printed below them is what they print
NOT_RUN = {
    "loggers=wandb": "needs an account or WANDB_MODE=offline: tests/contrib/loggers/test_loggers.py",
    "--target=": "needs the compiler of the device, some gigabytes, and minutes: tests/contrib/estimates",
    "--on=": "needs a cluster, or its package: tests/docs/test_hosts_page.py",
    "resnet18.safetensors": "needs torchvision's weights: tests/contrib/pretrained/test_pretrained.py",
    "my_file.py": "stands for any of the examples below it, which tests/docs/test_extending.py runs",
    "./my_study.py": "stands for a file of the reader",
    "mobility.my_rule": "tests/docs/test_tasks.py",
    "city ": "needs SUMO's traffic of 57 MB; the study of a hundred vehicles is run",
    "city:roadside ": "needs SUMO's traffic of 57 MB; the study of a hundred vehicles is run",
}
FOLLOWED = {
    "tasks.md",
    "tutorial.md",
    "gallery.md",
}  # as printed: test_tasks.py, test_notebook.py, benchmarks/gallery.py
CONVOLUTIONAL = ("cnn", "lenet", "gn_lenet", "resnet")
FOREIGN = {"venv", "git", "gcloud", "srun", "cd", "export", "python", "python3", "exe"}


@functools.cache
def flags_of(command):
    """The names of the flags that the module of a command defines, by its source."""
    tree = ast.parse(ROOT.joinpath(*module_of(command).split(".")).with_suffix(".py").read_text())
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    names = [call.args[0] for call in calls if call.func.attr.startswith("DEFINE_")]
    several = [node.generators[0] for node in ast.walk(tree) if isinstance(node, ast.DictComp)]
    loops = {loop.target.id: ast.literal_eval(loop.iter) for loop in several if isinstance(loop.iter, ast.Tuple)}
    return {each for name in names for each in ([name.value] if isinstance(name, ast.Constant) else loops[name.id])}


def fields_set(arguments):
    """The fields that --config.FIELD=TEXT sets, with their texts."""
    return dict(found.groups() for word in arguments if (found := re.fullmatch(r"--config\.([\w.]+)=(.*)", word, re.S)))


def test_there_are_commands_and_none_is_unknown():
    assert len(OURS) > 50
    known = {*entry.COMMANDS, *FOREIGN, "make", "pip"}
    for page, command in PRINTED:
        assert command.program in known or command.program.startswith(("benchmarks.", "examples.")), (
            f"{page.name}: {command.words}"
        )


def test_their_flags_exist():
    for page, command in OURS:
        known = {*ALWAYS, *flags_of(command.program)}
        words = without_optional(command.arguments)
        flags = [re.match(r"--(?:no)?([a-z_]+)", word)[1] for word in words if word.startswith("--")]
        assert set(flags) <= known, f"{page.name}: {command.words}"


# What follows runs them, in processes of their own, in an empty folder in which configs/ is that of the checkout. Of a
# page other than the README, studies that differ by their config and fields alone, and that no later command reads, are
# made and their programs traced; only the first one is run. What stands on several pages is traced, or told, once.


def sweep_of(paths, values):
    """The text of one axis with some of its values."""
    return f"{'+'.join(paths)}={','.join(map('+'.join, values))}"


def shorter(arguments):
    """The arguments with flags behind them that make a study of seconds: few rounds, one seed, a part of the sweep.

    A linear model stands for convolutional ones, with which the tasks and the tutorial are done as printed.
    """
    config, given = as_config(config_of(arguments)), fields_set(arguments)
    sweep, baseline = (given.get(field, config[field]) for field in ("sweep", "baseline"))
    short = {"rounds": "2", "eval_every": "2", "seeds": "1"}
    if "first_seed" in given:
        short["first_seed"] = "1"  # a page has it for the seeds that follow those of another study, which has one now
    if config.model.name.startswith(CONVOLUTIONAL):
        short["model.name"] = "linear"
    axes, by_two = [], "--workdir=runs/pairs" in arguments  # a table by two settings needs two values of each
    for paths, values in split_axes(sweep).items():
        first = values[: 2 if by_two else 1]
        axes.append(sweep_of(paths, [v for v in values if v in first or sweep_of(paths, [v]) in baseline]))
    return [
        *arguments,
        *(f"--config.{path}={text}" for path, text in short.items()),
        f"--config.sweep={'; '.join(axes)}",
    ]


def run(command, folder, variables):
    """Runs a command in a folder, a study shortened; returns what it prints."""
    arguments = without_optional(command.arguments)
    if command.program == "sweep":
        arguments = [*shorter(arguments), "--overwrite", *["--noreport"] * ("--dry_run" not in arguments)]
    ended = Started(folder / ".said", "mdfl", command.program, *arguments, cwd=folder, variables=variables).ended()
    assert ended.status == 0, f"{arguments}: {ended.err[-2000:]}"
    return ended.out


@functools.cache
def traced(*arguments):
    """Makes a shortened study and traces its programs."""
    for group in make_study(with_fields(as_config(config_of(arguments)), fields_set(arguments))).groups:
        check_traced(group.simulation, group.hparams[0])


DONE: set[str] = set()  # the arguments of commands of earlier pages


def is_only_made(command, page, behind):
    """Whether a command is made and traced, but not run; ``behind`` are the commands behind it on its page."""
    arguments = without_optional(command.arguments)
    plain = all(not word.startswith("-") or word.startswith(("--config", "--workdir=")) for word in arguments)
    if not plain or command.program != "sweep" or page.name == "README.md":
        return False
    named = [word.partition("=")[2] for word in arguments if word.startswith("--workdir=")]
    folder = named[0] if named else f"runs/{fields_set(arguments).get('name') or as_config(config_of(arguments)).name}"
    return not any(folder in word for other in behind for word in other.arguments)


@pytest.mark.long
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if any(page == of for of, _ in OURS) and page.name not in FOLLOWED],
    ids=lambda page: page.name,
)
def test_every_command_of_a_page_runs_or_is_traced(page, tmp_path, stand_ins, monkeypatch):
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    (tmp_path / "mydata.npz").symlink_to(stand_ins / "mnist.npz")  # the reader's own
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MDFL_DATA_DIR", str(stand_ins))
    of_page, studies = [command for of, command in OURS if of == page], 0
    for k, command in enumerate(of_page):
        text = " ".join([*without_optional(command.arguments), ""])
        if not command.arguments or PLACEHOLDER.search(text) or any(word in text for word in NOT_RUN):
            continue
        studies += command.program == "sweep"
        if studies > 1 and is_only_made(command, page, of_page[k + 1 :]):
            traced(
                *(word for word in shorter(without_optional(command.arguments)) if not word.startswith("--workdir="))
            )
            continue
        if command.program == "info" and text in DONE:
            continue
        DONE.add(text)
        printed = run(command, tmp_path, {"HOME": "/nowhere"})
        for line in command.output if command.program in EXACT else ():
            assert line in printed.splitlines()
