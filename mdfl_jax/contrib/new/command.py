"""Writes an example of an entry of your own, which runs at once, into the current folder.

mdfl new KIND NAME
KIND: mobility, algorithm, aggregation, attack, compressor, graph, mixing, metric, model, loss, partition, dataset or
figure

The examples are those of docs/extending.md.
"""

import importlib.util
import keyword
import re
from pathlib import Path

from absl import flags

from mdfl_jax.cli import common
from mdfl_jax.core.errors import UserError, unknown_name

_KIND = flags.DEFINE_string("kind", "", "Registry of the entry, as the first word.")
_NAME = flags.DEFINE_string("name", "", "Its name, as the second word; the file is called NAME.py.")
WORDS, DOES = ("kind", "name"), ""

RECIPES = {
    "aggregation": "An aggregation rule",
    "algorithm": "An algorithm",
    "attack": "An attack",
    "compressor": "A compressor",
    "dataset": "A data set",
    "figure": "A figure of the report",
    "graph": "A graph",
    "loss": "A loss",
    "metric": "A metric",
    "mixing": "Mixing weights",
    "mobility": "A mobility rule",
    "model": "A model",
    "partition": "A partition",
}
"""The section of docs/extending.md that has the example of each kind."""
_HEAD = '''"""{section} of your own: the example of docs/extending.md.

Run it with:       mdfl sweep ./{name}.py
Use it elsewhere:  add --use={name}.py to the command of any study
"""

'''


def example(kind: str) -> str:
    """Return the example of a kind."""
    from mdfl_jax.config.resolve import folder

    above = folder().parent  # the checkout, or mdfl_jax/shipped of an installed package
    page = above / "docs" / "extending.md"
    text = (page if page.is_file() else above / "extending.md").read_text(encoding="utf-8")
    return text.split(f"\n## {RECIPES[kind]}\n")[1].split("```python\n")[1].split("```")[0]


def rename(text: str, name: str) -> str:
    """Return the text of an example under another name. Its classes are called after it: ``MyRuleNumbers``."""
    (own,) = re.findall(r'config\.name = "(\w+)"', text)
    in_camel_case = lambda name: "".join(part[:1].upper() + part[1:] for part in name.split("_"))  # noqa: E731
    text = re.sub(rf"\b{in_camel_case(own)}(?=Numbers\b|\()", in_camel_case(name), text)
    return re.sub(rf"\b{own}\b", name, text)


def check_entry(kind: str, name: str) -> None:
    """Check the kind and the name of a new member.

    Raises:
      UserError: if there is no such kind; if the name is no identifier, is that of an entry of this kind, or is that of
        a module, which a file of this name would hide.
    """
    from mdfl_jax.config.sections import entry_registries
    from mdfl_jax.data.sources import SOURCES
    from mdfl_jax.metrics import METRICS
    from mdfl_jax.report.registry import FIGURES

    if not kind or not name:
        raise UserError(f"a kind and a name are needed, as in: mdfl new mobility my_rule; kinds: {', '.join(RECIPES)}")
    if kind not in RECIPES:
        raise UserError(unknown_name("kind", kind, RECIPES))
    if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_") or not name.isascii():
        raise UserError(f"the name is {name!r}; it must be letters, digits and underscores, and begin with a letter")
    registries = [*(family.registry for family in entry_registries()), METRICS, FIGURES]
    by_kind = {registry.kind: registry for registry in registries} | {"dataset": SOURCES}
    if name in by_kind[kind]:
        raise UserError(f"the name is {name!r}; there is a {kind} of this name already, choose another one")
    if not Path(f"{name}.py").exists() and importlib.util.find_spec(name):
        raise UserError(f"the name is {name!r}; a file {name}.py would hide a module of this name, choose another one")
    if re.search(rf"\b{name}\b", example(kind)):
        raise UserError(f"the name is {name!r}; the example of a {kind} uses this word already, choose another one")


def write_entry(kind: str, name: str, folder: Path) -> Path:
    """Write the file of an entry and return its path.

    Args:
      kind: one of `RECIPES`.
      name: the name of the entry, checked by `check_entry`.
      folder: where the file goes.

    Raises:
      UserError: if the file exists or cannot be written.
    """
    path, text = folder / f"{name}.py", _HEAD.format(section=RECIPES[kind], name=name) + rename(example(kind), name)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UserError(f"{path} exists; nothing is written, choose another name or remove the file") from None
    except OSError as error:
        raise UserError(f"{path}: it cannot be written: {error.strerror}") from None
    return path


def main() -> int:
    """Write the file and print how it is run."""
    common.setup_jax("", only_cpu=True)
    check_entry(_KIND.value, _NAME.value)
    own = write_entry(_KIND.value, _NAME.value, Path())
    print(f"wrote {own}")
    print(f"  mdfl sweep ./{own}")
    return 0
