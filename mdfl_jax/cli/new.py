"""Writes a member of your own, which runs at once, and a test of it, into the current folder.

mdfl new KIND NAME, or python -m launch.new KIND NAME
KIND: mobility, algorithm, compressor, graph, mixing, metric, model, loss, partition, dataset or figure
"""

import importlib.util
import keyword
import re
import sys
from pathlib import Path

from absl import flags

from mdfl_jax.cli import common
from mdfl_jax.core.errors import UserError, unknown_name

_KIND = flags.DEFINE_string("kind", "", "Family of the member, as the first word.")
_NAME = flags.DEFINE_string("name", "", "Its name, as the second word; the file is called NAME.py.")
WORDS, DOES = ("kind", "name"), ""

TEMPLATES = Path(__file__).parent / "templates"
STANDS_FOR_NAME = "my_name"  # in the templates; a class has the name MyName


def kinds() -> list[str]:
    """Return the kinds of members for which there is a template."""
    return sorted(path.stem for path in TEMPLATES.glob("*.py") if not path.stem.startswith("test_"))


def camel_case(name: str) -> str:
    """Return the name of a class: ``my_rule`` becomes ``MyRule``."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def fill_in(template: Path, name: str) -> str:
    """Return the text of a template for a member of this name."""
    text = template.read_text(encoding="utf-8")
    return text.replace(STANDS_FOR_NAME, name).replace(camel_case(STANDS_FOR_NAME), camel_case(name))


def check(kind: str, name: str) -> None:
    """Check the kind and the name of a new member.

    Raises:
      UserError: if there is no such kind; if the name is no identifier, is that of a member of this kind, or is that of
        a module, which a file of this name would hide.
    """
    from mdfl_jax.config.families import FAMILIES
    from mdfl_jax.data.sources import SOURCES
    from mdfl_jax.metrics import METRICS
    from mdfl_jax.report.registry import FIGURES

    if not kind or not name:
        raise UserError(f"a kind and a name are needed, as in: mdfl new mobility my_rule; kinds: {', '.join(kinds())}")
    if kind not in kinds():
        raise UserError(unknown_name("kind", kind, kinds()))
    if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_") or not name.isascii():
        raise UserError(f"the name is {name!r}; it must be letters, digits and underscores, and begin with a letter")
    registries = [*(family.registry for family in FAMILIES), METRICS, FIGURES]
    by_kind = {registry.kind: registry for registry in registries} | {"dataset": SOURCES}
    if name in by_kind[kind]:
        raise UserError(f"the name is {name!r}; there is a {kind} of this name already, choose another one")
    if not Path(f"{name}.py").exists() and importlib.util.find_spec(name):
        raise UserError(f"the name is {name!r}; a file {name}.py would hide a module of this name, choose another one")
    if re.search(rf"\b{name}\b", (TEMPLATES / f"{kind}.py").read_text(encoding="utf-8")):
        raise UserError(f"the name is {name!r}; the file of a {kind} uses this word already, choose another one")


def write(kind: str, name: str, folder: Path) -> list[Path]:
    """Write the file of a member and the file of its test.

    Args:
      kind: one of `kinds`.
      name: the name of the member, checked by `check`.
      folder: where the files go.

    Returns:
      The two paths.

    Raises:
      UserError: if one of the files exists, or if the folder cannot be written. Then nothing is written.
    """
    made = {
        folder / f"{name}.py": TEMPLATES / f"{kind}.py",
        folder / f"test_{name}.py": TEMPLATES / f"test_{kind}.py",
    }
    if there := [path for path in made if path.exists()]:
        raise UserError(f"{there[0]} exists; nothing is written, choose another name or remove the file")
    begun = list[Path]()
    for path, template in made.items():
        try:
            with path.open("x", encoding="utf-8") as file:
                begun.append(path)
                file.write(fill_in(template, name))
        except OSError as error:
            for written in begun:  # one file without the other would look whole
                written.unlink(missing_ok=True)
            raise UserError(f"{path}: it cannot be written: {error.strerror}") from None
    return begun


def main() -> int:
    """Write the two files and print how they are run."""
    common.setup_jax("", only_cpu=True)
    check(_KIND.value, _NAME.value)
    own, test = write(_KIND.value, _NAME.value, Path())
    installed = sys.argv[0].startswith("mdfl ")
    print(f"wrote {own} and {test}")
    print(f"  mdfl sweep ./{own}" if installed else f"  python -m launch.sweep --config={own}")
    print(f"  python -m pytest {test}")
    return 0
