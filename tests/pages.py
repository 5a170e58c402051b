"""What README.md and the pages of docs/ print: blocks of code, and the commands among them with what they print."""

import re
import shlex
import subprocess
from pathlib import Path
from typing import NamedTuple

from mdfl_jax.config import resolve

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PROGRAMS = {"mdfl", "make", "pip", "python", "python3", "git", "gcloud", "srun", "cd", "export"}
PLACEHOLDER = re.compile(r"\b[A-Z]{2,}\b(?![=._])|\.\.\.")
"""A word of the text that stands for a file, a folder or a name of the reader: DIR, FILE, NAME."""


class Block(NamedTuple):
    """A block of code of a page."""

    language: str
    text: str
    line: int  # of the page, of its first line


class Command(NamedTuple):
    """A printed command: its words after the shell has seen them, and the lines that are printed below it."""

    words: list[str]
    output: list[str]
    line: int

    @property
    def program(self) -> str:
        """The name of the command, such as sweep, make or benchmarks.quote, without the variables before it."""
        words = [word for word in self.words if not re.match(r"[A-Z_]+=", word)]
        if "-m" in words:
            return words[words.index("-m") + 1]
        programs = [word.rpartition("/")[2] for word in words]
        return words[programs.index("mdfl") + 1] if "mdfl" in programs else programs[0]

    @property
    def arguments(self) -> list[str]:
        """The words behind the name of the command, without a redirection of the shell."""
        known = next(i for i, word in enumerate(self.words) if word.rpartition("/")[2] == self.program)
        behind = self.words[known + 1 :]
        return behind[: behind.index(">")] if ">" in behind else behind

    @property
    def is_ours(self) -> bool:
        """Whether it is one of the simulator's own commands."""
        return any(word.rpartition("/")[2] == "mdfl" for word in self.words)


def blocks(text: str) -> list[Block]:
    """The blocks of code of a page."""
    found = re.finditer(r"^```(\w*)[^\n]*\n(.*?)^```", text, re.M | re.S)
    return [Block(one[1], one[2], text.count("\n", 0, one.start(2)) + 1) for one in found]


def _loops_written_out(text: str) -> str:
    """`for x in a b; do` ... `done`, as the commands of each turn."""

    def turns(found: re.Match) -> str:
        return "".join(found[3].replace(f"${found[1]}", value) for value in found[2].split())

    return re.sub(r"^for (\w+) in ([^;]*); do\n(.*?)^done\n", turns, text, flags=re.M | re.S)


def commands_of(block: Block) -> list[Command]:
    """The commands of a block. If some lines have a prompt ($), the lines without are what the commands print."""
    if block.language not in ("", "bash"):
        return []
    found, has_prompt = [], re.search(r"^\w*\$ ", block.text, re.M)
    for line in _loops_written_out(block.text.replace("\\\n", " ")).splitlines():
        prompted = re.match(r"\w*\$ +", line)
        plain = line[prompted.end() :] if prompted else line.strip()
        first = next((word for word in plain.split() if not re.match(r"[A-Z_]+=", word)), "")
        if prompted or (not has_prompt and first.rpartition("/")[2] in PROGRAMS):
            found.append(Command(shlex.split(plain, comments=True), [], block.line))
        elif has_prompt and found:
            found[-1].output.append(line)
    return found


def commands(page: Path) -> list[Command]:
    """All commands of a page, of its blocks and alone in a sentence, in the order of the page."""
    text = page.read_text()
    found = [command for block in blocks(text) for command in commands_of(block)]
    prose = re.sub(r"^(```+).*?^\1", lambda block: "\n" * block[0].count("\n"), text, flags=re.M | re.S)
    for span in re.finditer(r"`((?:python -m benchmarks\.|mdfl |make )[^`]+)`", prose):
        line = prose.count("\n", 0, span.start()) + 1
        found.append(Command(shlex.split(span[1].replace("\n", " "), comments=True), [], line))
    return found


def without_optional(arguments: list[str]) -> list[str]:
    """Arguments in brackets may be left out: the brackets fall away, and so do those that name a placeholder."""
    plain = [(word[1:-1], True) if re.fullmatch(r"\[.*\]", word) else (word, False) for word in arguments]
    return [word for word, optional in plain if not (optional and PLACEHOLDER.search(word))]


def config_of(arguments: list[str]) -> str:
    """The value of --config, or that of the word that stands for it; "" if there is none."""
    for word in arguments:
        if word.startswith("--config="):
            given = word.partition("=")[2]
            return resolve.find_config(given) if given.partition(":")[0] in resolve.study_names() else given
    named = [word for word in arguments if not word.startswith("-") and not PLACEHOLDER.search(word)]
    if not named or named[0].endswith((".xml", ".xml.gz", ".csv")):  # a trace is no study
        return ""
    return resolve.find_config(named[0]) if named[0].partition(":")[0] in resolve.study_names() else named[0]


def follow(text: str, folder: Path, environment: dict[str, str]) -> list[tuple[str, list[str]]]:
    """Does what a text says, in a folder: writes its files and runs its commands, as a reader would.

    A block with a title is a file of this name, a block of `bash` is run, and a block of `text` is what the commands
    before it print.

    Args:
      text: a page, or a section of one.
      folder: where the files are written and the commands are run.
      environment: the variables of the commands.

    Returns:
      For each block of commands what they print, and the lines that the text says.
    """
    done: list[tuple[str, list[str]]] = []
    for block in re.finditer(r'^```(\w*)(?: title="([^"]+)")?\n(.*?)^```', text, re.M | re.S):
        language, title, content = block.groups()
        if title:
            (folder / title).write_text(content)
        elif language == "bash":
            ended = subprocess.run(
                ["bash", "-eo", "pipefail", "-c", content],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=600,
            )
            assert ended.returncode == 0, f"{content}{ended.stdout[-1000:]}{ended.stderr[-2000:]}"
            done.append((ended.stdout, []))
        elif language == "text":
            done[-1][1].extend(content.splitlines())
    return done


NUMBER = re.compile(r"-?\d[\d,]*\.?\d*(?:e[-+]\d+)?")


def missing(printed: str, said: list[str]) -> list[str]:
    """The lines that a text says and the commands do not print, in this order. Their numbers may differ a little.

    Processors round differently, and training amplifies it. So a mean and the half-width of its interval, in percent,
    may differ by 2, and so may other numbers with decimals above 10; smaller ones may differ by 10 %, those above 0.1
    by 0.03; whole numbers by 5 %. A line of three dots stands for any lines.
    """
    left = [line for line in said if line.strip() not in ("...", "")]
    for line in printed.splitlines():
        if left and _alike(line, left[0]):
            left.pop(0)
    return left


def _alike(line: str, other: str) -> bool:
    words = [re.sub(r"[\s+-]+", " ", NUMBER.sub("#", each)).strip() for each in (line, other)]
    if words[0] != words[1]:
        return False
    in_percent = [bool(re.match(r"\s*(\+-|±)", other[found.end() :])) for found in NUMBER.finditer(other)]
    half_width = [bool(re.search(r"(\+-|±)\s*$", other[: found.start()])) for found in NUMBER.finditer(other)]
    percent = [mean or half for mean, half in zip(in_percent, half_width)]
    return all(map(_close, NUMBER.findall(line), NUMBER.findall(other), percent))


def _close(text: str, other: str, in_percent: bool) -> bool:
    value, wanted = (float(each.replace(",", "").strip(".")) for each in (text, other))
    if "." not in other:
        allowed = 0.05 * abs(wanted)
    elif in_percent or abs(wanted) > 10:
        allowed = max(2.0, 0.05 * abs(wanted))
    else:
        allowed = max(0.1 * abs(wanted), 0.03 if abs(wanted) > 0.1 else 0.0)
    return abs(value - wanted) <= allowed
