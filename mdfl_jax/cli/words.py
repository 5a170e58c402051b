"""Command lines before absl parses them: words that stand for flags, and the files of --use."""

import itertools
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from absl import flags

from mdfl_jax.config import config_files
from mdfl_jax.core.errors import UserError


class Each(NamedTuple):
    """The function from a word to a value of a flag that takes every word, such as the folders of a command."""

    value: Callable[[str], str]

    def __call__(self, word: str) -> str:
        """Return the value of a word."""
        return self.value(word)


def used_files(argv: Sequence[str]) -> list[str]:
    """Return the files of --use and of --config.use on a command line, in their order."""
    found: list[str] = []
    for i, arg in enumerate(argv):
        if given := re.fullmatch(r"--?(config\.)?use(?:=(.*))?", arg, re.DOTALL):
            value = given.group(2) if given.group(2) is not None else "".join(argv[i + 1 : i + 2])
            found += [path.strip() for path in value.split(",") if path.strip()] if given.group(1) else [value]
    return found


def named(argv: Sequence[str], words: Mapping[str, Callable[[str], str]]) -> list[str]:
    """Replace the words on a command line by flags: ``digits --overwrite`` by ``--config=.../digits.py --overwrite``.

    Args:
      argv: the arguments, without the name of the command.
      words: the flags that the words stand for, in their order, each with the function from a word to its value. A flag
        with `Each` takes all words that are left.

    Returns:
      The arguments. Words beyond those in ``words`` stay as they are, and so do all if the first flag is given, unless
      it takes several.

    Raises:
      UserError: from the function of a word.
    """
    first = [name for name, of in list(words.items())[:1] if not isinstance(of, Each)]
    left = {} if any(re.match(rf"--?{name}(=|$)", arg) for arg in argv for name in first) else dict(words)
    found, is_value = list[str](), False
    for arg in argv:
        if not arg.startswith("-") and not is_value and left:
            name, of = next(iter(left.items()))
            arg = f"--{name}={of(arg)}"
            if not isinstance(of, Each):
                del left[name]
        is_value = not is_value and arg.startswith("-") and "=" not in arg and not _is_switch(arg.lstrip("-"))
        found.append(arg)
    return found


def with_shipped(argv: Sequence[str]) -> list[str]:
    """Replace the name of a shipped study in --config by its file: ``--config=digits`` by ``--config=.../digits.py``.

    A file of this name in the current folder comes first. A name that is not shipped stays as it is.

    Args:
      argv: the arguments, without the name of the command.
    """
    found = list[str]()
    for i, arg in enumerate(argv):
        given = re.fullmatch(r"(--?config=)(.*)", arg, re.DOTALL)
        before, value = given.groups() if given else ("", arg)
        is_value = given or (i > 0 and re.fullmatch("--?config", argv[i - 1]))
        name = value.partition(":")[0]
        shipped_one = is_value and name in config_files.names() and not os.path.isfile(name)
        found.append(before + config_files.find(value) if shipped_one else arg)
    return found


def with_scale(argv: Sequence[str]) -> list[str]:
    """Give --scale to the config file: ``--config=FILE:t2 --scale=small`` becomes ``--config=FILE:t2,scale=small``.

    Args:
      argv: the arguments, without the name of the command.

    Raises:
      UserError: if there is no config file that could take the scale.
    """
    given = [(re.fullmatch("--?scale(?:=(.*))?", arg), after) for arg, after in itertools.pairwise([*argv, ""])]
    scales = [after if flag.group(1) is None else flag.group(1) for flag, after in given if flag]
    if not scales:
        return list(argv)
    found = list[str]()
    for i, arg in enumerate(argv):
        whole, apart = re.match("--?config=", arg), i > 0 and re.fullmatch("--?config", argv[i - 1])
        found.append(f"{arg}{'' if ':' in arg else ':'},scale={scales[-1]}" if whole or apart else arg)
    if found == list(argv):
        raise UserError(f"--scale={scales[-1]} is for --config=FILE, which is not given here")
    return found


def _is_switch(name: str) -> bool:
    """Tell whether a flag takes no value of its own: a boolean one, or a request for help."""
    names = {name, name.removeprefix("no")} & set(flags.FLAGS)
    return any(flags.FLAGS[known].boolean for known in names) or name in ("help", "helpshort", "helpfull", "?")
