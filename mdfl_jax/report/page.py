"""Makes report.html: one page, without external resources, with the setting, the results and their provenance."""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from mdfl_jax.core import own_files
from mdfl_jax.core.errors import UserError
from mdfl_jax.report import compare, figures, pack, tables
from mdfl_jax.report.compare import pairs_of
from mdfl_jax.report.described import describe_making, describe_setting
from mdfl_jax.report.read import ReportData, read_workdir
from mdfl_jax.report.registry import FIGURES, in_order
from mdfl_jax.report.style import looks
from mdfl_jax.report.verdict import verdict
from mdfl_jax.results.views import list_files
from mdfl_jax.storage import disk
from mdfl_jax.storage.study_files import CONFIG, locked

ASSETS = Path(__file__).parent / "assets"


def write_report(workdir: Path, x_axis: str = "") -> Path:
    """Make the tables, the figures and report.html of a finished study, and return the path of report.html.

    The x axis of the accuracy curves is "rounds" or a metric declared to be an axis, such as messages or bits; if it is
    empty, it is the axis that the study's config names.

    Raises:
      UserError: if a file is missing, unreadable or of another schema, if the folder cannot be written to, or if there
        is no such axis.
    """
    return write(read_workdir(Path(workdir), x_axis))


def write(study: ReportData) -> Path:
    """Write tables/, figures/ and report.html into the folder of a study, and return the path of report.html.

    Raises:
      UserError: if the folder cannot be written to.
    """
    folder, path = study.workdir, study.workdir / "report.html"
    for name in ("tables", "figures"):
        if (folder / name).is_symlink():
            raise UserError(f"{folder / name}: it is a link to another folder, and no report is written through a link")
    try:
        made = tables.write(study)
        pictures = figures.write_figures(study)
        save(path, render(study, pictures))
        made += [picture.with_suffix(end) for picture in pictures.values() for end in (".png", ".pdf")]
        if (folder / CONFIG).is_file():
            with locked(folder):
                list_files(folder, [*made, path])
    except OSError as error:
        raise UserError(f"{error.filename or study.workdir}: cannot be written: {error.strerror}") from None
    return path


def save(path: Path, text: str) -> None:
    """Write a page as `mdfl_jax.storage.disk.write` does, so that a browser never shows an incomplete one."""
    disk.write_text(path, text)


def render(study: ReportData, pictures: Mapping[str, Path] | None = None) -> str:
    """Return the page as HTML, with all that it needs inside. Every text of the study is escaped.

    A panel without a chart shows its figure: the PNG file that ``pictures`` has under its name, or it is drawn.
    """
    loader = FileSystemLoader(ASSETS)
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, undefined=StrictUndefined)
    panels = [
        _panel(study, name, (pictures or {}).get(name)) for name, panel in in_order().items() if panel.applies(study)
    ]
    return environment.get_template("page.html.jinja").render(
        title=str(study.manifest.get("title") or study.manifest.get("name") or study.workdir.name),
        styles=[Markup(path.read_text(encoding="utf-8")) for path in _styles(panels)],
        remarks=study.remarks,
        verdict=verdict(study.summary, study.config, pairs_of(study), study.manifest.get("points", ())),
        setting="" if study.studies else describe_setting(study),
        compared=compare.describe_comparison(study),
        columns=tables.page_columns(study),
        colours=[look.colour for look in looks(study)],
        note=tables.note(study.summary, study.config),
        panels=panels,
        making=describe_making(study),
        missing=tables.MISSING,
        study=Markup(pack.dumps(_study(study))),
        scripts=[Markup(path.read_text(encoding="utf-8")) for path in _scripts(panels)],
    )


def _panel(study: ReportData, name: str, picture: Path | None) -> dict[str, Any]:
    """Return what the template needs of a panel."""
    panel = FIGURES[name]
    with own_files.errors_in_one_line():
        chart = panel.chart(study) if panel.chart else None
        found = {"name": name, "title": panel.title, "caption": panel.caption(study), "chart": chart}
    if chart:
        return found | {"data": Markup(pack.dumps(chart.data))}
    png = picture.read_bytes() if picture else figures.png_of(study, name)
    return found | {"picture": f"data:image/png;base64,{base64.b64encode(png).decode('ascii')}"}


def _kinds(panels: list[dict[str, Any]]) -> list[str]:
    """Return the kinds of charts of a page that have a script of their own."""
    kinds = dict.fromkeys(panel["chart"].kind for panel in panels if panel["chart"])
    return [kind for kind in kinds if (ASSETS / f"{kind}.js").is_file()]


def _styles(panels: list[dict[str, Any]]) -> list[Path]:
    """Return the style sheets of a page: its own, and KIND.css of each kind of chart that has one."""
    return [ASSETS / "page.css", *(path for kind in _kinds(panels) for path in sorted(ASSETS.glob(f"{kind}.css")))]


def _scripts(panels: list[dict[str, Any]]) -> list[Path]:
    """Return the scripts of a page: the plotting library, its own, and KIND_*.js and KIND.js of each kind of chart."""
    own = [ASSETS / name for name in ("plotly-cartesian.min.js", "core.js", "table.js")]
    return own + [
        path for kind in _kinds(panels) for path in (*sorted(ASSETS.glob(f"{kind}_*.js")), ASSETS / f"{kind}.js")
    ]


def _study(study: ReportData) -> dict[str, Any]:
    """Return what the scripts of all panels know of the study: its sweep points, each with its label and colour."""
    return {
        "points": [
            {"id": point["id"], "label": look.label, "colour": look.colour}
            for point, look in zip(study.points, looks(study))
        ]
    }
