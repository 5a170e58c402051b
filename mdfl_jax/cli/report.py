"""Makes the report of a study again, finished or not, or compares several studies; shows it; saves one figure.

mdfl report runs/digits [--x=bits] [--page_only]
mdfl report runs/digits runs/radius [--out=runs/both] [--baseline="digits: dcm"]
mdfl report runs/digits --follow
mdfl report runs/digits --figure=accuracy --to=accuracy.pdf [--width=column] [--points="static; dcm"]
"""

import re
import signal
from collections.abc import Sequence
from pathlib import Path

from absl import flags

from mdfl_jax.cli import common
from mdfl_jax.core.errors import UserError, check_path, unknown_name
from mdfl_jax.report import figures, page
from mdfl_jax.report.registry import COMPARISONS
from mdfl_jax.results.results import Results
from mdfl_jax.results.unfinished import NotYetError
from mdfl_jax.storage import disk
from mdfl_jax.storage.study_files import CONFIG

_DIRS = flags.DEFINE_multi_string("workdir", [], "Folder of a study. Words stand for it too; several are compared.")
_X = flags.DEFINE_string(
    "x",
    None,
    "X axis of the curves: rounds (or round), messages, bits or another metric declared as an axis; default: the"
    " study's.",
)
_OUT = flags.DEFINE_string(
    "out",
    None,
    "Folder for the report, or FILE.html for the page alone. Default: the study's; several: compare-... beside it.",
)
_BASELINE = flags.DEFINE_string(
    "baseline", "", "Point of a comparison that the others are compared with: STUDY: POINT."
)
_PAGE_ONLY = flags.DEFINE_bool("page_only", False, "Write report.html only, no tables and no files of figures.")
_FIGURE = flags.DEFINE_string("figure", None, "One figure, to be saved with --to; list: print their names.")
_TO = flags.DEFINE_string("to", None, "File of --figure: .png, .pdf, .svg or .csv.")
_WIDTH = flags.DEFINE_string("width", None, "Width of --figure: column (3.5 inches), page (7.2; default) or inches.")
_POINTS = flags.DEFINE_string(
    "points",
    None,
    "Points of --figure: their ids, separated by ';'.",
)
_FOLLOW = flags.DEFINE_bool(
    "follow", None, "Write the page again while the study runs, until it has finished; the page reloads itself."
)
common.use_flag()
WORDS, DOES = ("workdir",), "drawing tables, figures and the page"


def main() -> int:
    """Write the report, or what the flags ask for, and prints its path."""
    dirs = [Path(name) for name in _DIRS.value]
    if not dirs:
        raise UserError("the folder of a study is missing: mdfl report DIR; several folders are compared")
    for name in (*dirs, _OUT.value or "", _TO.value or ""):
        check_path("the path", str(name))
    asked = _asked()
    common.import_own_files()
    if asked == "figure":
        _save_figure(_read(dirs))
    elif asked == "follow":
        _follow(dirs)
    else:
        print(_write(_read(dirs), dirs))
    return 0


TAKES = {
    "figure": ("x", "baseline", "use", "figure", "to", "width", "points"),
    "follow": ("x", "baseline", "use", "follow"),
    "report": ("x", "baseline", "use", "out", "page_only"),
}
"""What the command can be asked for, and the flags that each takes."""


def _asked() -> str:
    """Return what the command is asked for, a key of `TAKES`.

    Raises:
      UserError: if a flag has no effect there, or if one is missing.
    """
    values = {name: flags.FLAGS[name].value for names in TAKES.values() for name in names}
    given = [name for name, value in values.items() if value not in (None, False, "", [])]
    asked = next((name for name in ("figure", "follow") if name in given), "report")
    for name in given:
        if name not in TAKES[asked] and name in (*TAKES, *TAKES["report"]):
            writes = "the page alone" if asked == "follow" else "no report"
            raise UserError(f"--{asked} writes {writes}, so it cannot be combined with --{name}")
        if name not in TAKES[asked]:
            raise UserError(f"--{name} is for one figure: add --figure=NAME; --figure=list prints the names")
    if values["figure"] == "list" and values["to"]:
        raise UserError(f"--figure=list prints the names of the figures, so --to={values['to']} has no effect")
    if asked == "figure" and values["figure"] != "list" and not values["to"]:
        raise UserError(f"--to=FILE is missing: the file of the figure, such as {values['figure']}.pdf")
    return asked


def _read(dirs: Sequence[Path]) -> Results:
    """Read the study, or several as one that compares them."""
    if len(dirs) > 1:
        return COMPARISONS["studies"](dirs, _BASELINE.value, _X.value or "")
    if _BASELINE.value:
        only = "only a comparison of several studies takes it; name several folders"
        raise UserError(f"--baseline={_BASELINE.value}: {only}")
    return Results.read(dirs[0]).shown(_X.value or "")


def _default_folder(dirs: Sequence[Path]) -> Path:
    """Return the folder of a comparison beside that of the first study: compare-A-B."""
    first = dirs[0] if dirs[0].name not in ("", "..") else dirs[0].resolve()
    names = [re.sub(r"[^\w.]+", "-", path.resolve().name) for path in dirs]
    more = f"-and-{len(names) - 3}-more" if len(names) > 3 else ""
    return first.parent / f"compare-{'-'.join(names[:3])}{more}"


def _write(run: Results, dirs: Sequence[Path]) -> Path:
    """Write the report of the study or the comparison in some folders, and return the path of its page.

    Raises:
      UserError: if the folder of the report holds another study, or if it cannot be written.
    """
    out = Path(_OUT.value) if _OUT.value else _default_folder(dirs) if len(dirs) > 1 else None
    if _OUT.value and out is not None and not out.parent.is_dir():
        raise UserError(f"--out={out}: there is no folder {str(out.parent)!r}")
    if out is not None and (out / CONFIG).exists():
        raise UserError(f"--out={out}: it holds a study; choose another folder")
    is_page = out is not None and out.suffix == ".html"
    if not is_page and not _PAGE_ONLY.value:
        return run.report(out, run.x_axis)
    path = out if out is not None and is_page else (out or dirs[0]) / "report.html"
    try:
        path.parent.mkdir(exist_ok=True)
        disk.write_text(path, page.render(run))
    except OSError as error:
        raise UserError(f"{error.filename or path}: cannot be written: {error.strerror or error}") from None
    return path


def _save_figure(run: Results) -> None:
    """Save one figure, or print the names of all that apply."""
    if _FIGURE.value == "list":
        print("\n".join(f"{name:16} {what}" for name, what in figures.list_figures(run)))
        return
    name, path, width = str(_FIGURE.value), Path(str(_TO.value)), figures.width_in_inches(_WIDTH.value or "page")
    figures.save_figure(run if _POINTS.value is None else run.only(_indices(run, _POINTS.value)), name, path, width)
    print(path)


def _indices(run: Results, text: str) -> list[int]:
    """Return the indices of the sweep points whose ids a text names.

    Raises:
      UserError: if there is no such sweep point, or if none or one twice is named.
    """
    ids = run.points
    names = [part.strip() for part in text.split(";") if part.strip()]
    for name in names:
        if name not in ids:
            raise UserError(f"--points={text}: {unknown_name('point', name, ids)}")
    if not names or len(set(names)) < len(names):
        raise UserError(f"--points={text}: it must name at least one point, and none twice; known: {'; '.join(ids)}")
    return list(map(ids.index, names))


def _follow(dirs: Sequence[Path]) -> None:
    """Write the page of studies that may still run until they have finished, or until Ctrl-C."""
    from mdfl_jax.report.follow import keep_page

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a Ctrl-C is how the command may end
    folder = _default_folder(dirs) if len(dirs) > 1 else dirs[0]
    names = ("config.json", "metrics.jsonl", "runs")

    def make() -> tuple[str, bool]:
        for path in dirs:
            if not (path / CONFIG).exists() and (path.is_dir() or not path.exists()):
                raise NotYetError(f"{path}: there is no study yet")
        run = _read(dirs)
        return page.render(run), run.manifest.get("status") == "finished"

    path = folder / "report.html"
    try:
        keep_page(make, lambda: [each / name for each in dirs for name in names], path)
    except OSError as error:
        raise UserError(f"{error.filename or path}: cannot be written: {error.strerror or error}") from None
