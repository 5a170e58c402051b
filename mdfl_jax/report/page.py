"""Makes report.html, one page without external resources."""

import base64
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from mdfl_jax.core import own_files
from mdfl_jax.core.errors import UserError
from mdfl_jax.report import figures, tables
from mdfl_jax.report.registry import FIGURES, panels_in_order, script_json
from mdfl_jax.report.setting import describe_making, describe_setting
from mdfl_jax.report.sheet import MISSING
from mdfl_jax.report.style import looks
from mdfl_jax.report.verdict import verdict
from mdfl_jax.results.records import title_of
from mdfl_jax.results.results import VIEWS, Results, list_files
from mdfl_jax.storage import disk
from mdfl_jax.storage.study_files import CONFIG, locked

ASSETS = Path(__file__).parent / "assets"


@VIEWS.register("report")
def write_report(results: Results, folder: str | Path | None, x: str) -> Path:
    """Write the page of results with its tables and figures into a folder (`Results.report`)."""
    if folder is None and results.workdir is None:
        raise UserError("report: the study has no workdir; give a folder: results.report('runs/report')")
    target = Path(folder or results.workdir or "")
    own = results.workdir is not None and target.resolve() == results.workdir.resolve()
    if not own and (target / CONFIG).exists():
        raise UserError(f"report: folder is {str(target)!r}, which holds another study; choose another folder")
    found = results.shown(x)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"report: folder is {str(target)!r}; it cannot be made: {error.strerror}") from None
    return write_files(found, target)


def write_files(study: Results, folder: Path) -> Path:
    """Write tables/, figures/ and report.html of a study into a folder, and return the path of report.html.

    Raises:
      UserError: if the folder cannot be written to.
    """
    path = folder / "report.html"
    for name in ("tables", "figures"):
        if (folder / name).is_symlink():
            raise UserError(f"{folder / name}: it is a link to another folder, and no report is written through a link")
    is_study = (folder / CONFIG).is_file()
    finished = is_study and study.manifest.get("status") == "finished"
    try:
        with contextlib.ExitStack() as alone:
            if finished:  # nobody takes runs of it, so other commands that draw it may wait
                alone.enter_context(locked(folder))
                for name in ("", "tables", "figures"):
                    disk.remove_parts(folder / name)
            made = tables.write_summary(study, folder / "tables")
            made += figures.write_figures(study, folder / "figures")
            disk.write_text(path, render(study))
            if is_study:
                if not finished:
                    alone.enter_context(locked(folder))
                list_files(folder, [*made, path])
    except OSError as error:
        raise UserError(f"{error.filename or folder}: cannot be written: {error.strerror}") from None
    return path


def _fill(template: str, assets: Sequence[Path], **text: Any) -> str:
    """Return a page with style sheets and scripts inside, made of a template, which escapes every text."""
    inside = lambda end: [Markup(path.read_text(encoding="utf-8")) for path in assets if path.suffix == end]  # noqa: E731
    templates = Environment(
        loader=FileSystemLoader(ASSETS), autoescape=True, trim_blocks=True, undefined=StrictUndefined
    )
    return templates.get_template(template).render(styles=inside(".css"), scripts=inside(".js"), **text)


def render(study: Results) -> str:
    """Return the page as HTML, with all that it needs inside. Every text of the study is escaped."""
    panels = [_panel(study, name) for name, panel in panels_in_order().items() if panel.applies(study)]
    return _fill(
        "page.html.jinja",
        _assets(panels),
        title=title_of(study.manifest) or (study.workdir or Path()).name,
        remarks=study.remarks,
        verdict=verdict(study),
        setting=[] if study.parts else describe_setting(study),
        columns=tables.page_columns(study),
        looks=looks(study),
        note=tables.note(study),
        panels=panels,
        making=describe_making(study),
        missing=MISSING,
        study=_study(study),
    )


def render_alone(study: Results, name: str) -> str:
    """Return a page with one panel and nothing else, as a notebook shows it. The panel must have a chart."""
    panel = _panel(study, name)
    is_plotly = panel["chart"].kind == "plotly"
    assets = [path for path in _assets([panel]) if is_plotly or not path.name.startswith("plotly")]
    return _fill("alone.html.jinja", assets, title=panel["title"], panel=panel, study=_study(study))


def _panel(study: Results, name: str) -> dict[str, Any]:
    """Return what the template needs of a panel; one without a chart shows its figure as a picture."""
    panel = FIGURES[name]
    with own_files.errors_in_one_line():
        chart = panel.chart(study)  # of a Matplotlib figure there is none
        found = {"name": name, "title": panel.title, "caption": panel.caption(study), "chart": chart}
        found |= dict.fromkeys(("html", "data", "picture"))
    if chart and chart.kind == "html":
        return found | {"html": Markup(chart.data["html"])}
    if chart:
        return found | {"data": Markup(script_json(chart.data))}
    png = base64.b64encode(figures.png_of(study, name)).decode("ascii")
    return found | {"picture": f"data:image/png;base64,{png}"}


def _assets(panels: list[dict[str, Any]]) -> list[Path]:
    """Return the files of a page: those of every page, and KIND.css and KIND.js of the kinds of its charts."""
    kinds = dict.fromkeys(panel["chart"].kind for panel in panels if panel["data"])
    own = [ASSETS / f"{kind}{end}" for end in (".css", ".js") for kind in kinds]
    usual = ("page.css", "plotly-cartesian.min.js", "core.js", "table.js")
    return [*(ASSETS / name for name in usual), *(path for path in own if path.is_file())]


def _study(study: Results) -> Markup:
    """Return what the scripts of all panels know of the study: its sweep points, each with its label and colour."""
    points = [
        {"id": name, "label": look.label, "full": look.full, "colour": look.colour}
        for name, look in zip(study.points, looks(study))
    ]
    return Markup(script_json({"points": points}))
