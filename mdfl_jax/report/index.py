"""Makes the page that lists the studies of a folder, with their verdicts and links to their reports."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from mdfl_jax.core.errors import UserError
from mdfl_jax.report.page import ASSETS, save
from mdfl_jax.report.read import read_workdir
from mdfl_jax.report.unfinished import NotYetError
from mdfl_jax.report.verdict import verdict
from mdfl_jax.results.studies import read_study, runs_in
from mdfl_jax.storage.study_files import CONFIG, run_path

DEEPEST = 3  # folders below the given one in which studies are looked for
NAME = "index.html"
_MARK = "mdfl_jax: studies"  # how the page of `write_index` is known again


class Listed(NamedTuple):
    """A row of the page.

    Attributes:
      folder: The folder of the study, below that of the page.
      page: The path of its report, below that of the page; '' if there is none.
      title: Its title, or its name.
      done, runs: How many of its runs are there, and how many it has.
      points, seeds, rounds: How many of these it has.
      verdict: What it has shown, in a sentence, or why it cannot be read.
    """

    folder: str
    page: str
    title: str
    done: int
    runs: int
    points: int
    seeds: int
    rounds: int
    verdict: str


def find_studies(folder: Path) -> Iterator[Path]:
    """Yield the folders of studies below a folder, in the order of their names. No link is followed."""

    def below(path: Path, depth: int) -> Iterator[Path]:
        try:
            inner = sorted(entry for entry in path.iterdir() if entry.is_dir() and not entry.is_symlink())
        except OSError:
            return
        for entry in inner:
            if (entry / CONFIG).is_file():
                yield entry
            if depth < DEEPEST:
                yield from below(entry, depth + 1)

    yield from below(folder, 1)


def list_study(folder: Path, workdir: Path) -> Listed:
    """Return the row of a study.

    Args:
      folder: The folder of the page.
      workdir: The folder of the study.
    """
    place, page = str(workdir.relative_to(folder)), workdir / "report.html"
    link = str(page.relative_to(folder)) if page.is_file() else ""
    try:
        manifest = read_study(workdir)
        names = [run for _, _, run in runs_in(manifest)]
        done = sum(run_path(workdir, run).is_file() for run in names)
        about = len(manifest["points"]), len(manifest["seeds"]), int(manifest["config"]["rounds"])
        title = str(manifest.get("title") or manifest.get("name") or place)
    except UserError as error:
        return Listed(place, link, place, 0, 0, 0, 0, 0, str(error))
    try:
        study = read_workdir(workdir)
        said = verdict(study.summary, study.config, manifest_points=manifest["points"])[0]
    except NotYetError:
        said = "It has no evaluation yet."
    except UserError as error:
        said = str(error)
    return Listed(place, link, title, done, len(names), *about, said)


def render_index(folder: Path) -> str:
    """Return the page of the studies below a folder as HTML. Every text of a study is escaped.

    Raises:
      UserError: If there is no study below the folder.
    """
    rows = [list_study(folder, workdir) for workdir in find_studies(folder)]
    if not rows:
        raise UserError(f"{folder}: it holds no study, and neither do the folders in it")
    environment = Environment(
        loader=FileSystemLoader(ASSETS), autoescape=True, trim_blocks=True, undefined=StrictUndefined
    )
    text: dict[str, Any] = {
        "title": f"Studies in {folder.resolve().name}",
        "mark": _MARK,
        "rows": rows,
        "styles": [Markup((ASSETS / "page.css").read_text(encoding="utf-8"))],
        "scripts": [Markup((ASSETS / name).read_text(encoding="utf-8")) for name in ("core.js", "table.js")],
    }
    return environment.get_template("index.html.jinja").render(**text)


def write_index(folder: Path, path: Path | None = None) -> Path:
    """Write the page of the studies below a folder, and return its path.

    Args:
      folder: The folder.
      path: The file; None: index.html in the folder. A file there that is no page of this kind is not replaced.

    Raises:
      UserError: If there is no study, or if the file cannot be written.
    """
    path = path or folder / NAME
    try:
        if path.exists() and _MARK not in path.read_text(encoding="utf-8", errors="replace")[:2000]:
            raise UserError(f"{path}: it is a file of something else; name another one with --out=FILE.html")
        save(path, render_index(folder))
    except OSError as error:
        raise UserError(f"{error.filename or path}: cannot be written: {error.strerror or error}") from None
    return path
