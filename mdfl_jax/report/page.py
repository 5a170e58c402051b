"""Makes report.html: one page, without external resources, with the setting, the results and their provenance."""

import base64
import html
import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from mdfl_jax import own_files
from mdfl_jax.errors import UserError
from mdfl_jax.report import figures, pack, tables
from mdfl_jax.report.panels.map import in_plane
from mdfl_jax.report.read import Run, read_workdir
from mdfl_jax.report.registry import FIGURES, in_order
from mdfl_jax.report.settings import show
from mdfl_jax.report.style import looks, spaced

ASSETS = Path(__file__).parent / "assets"


def write_report(workdir: Path, x_axis: str = "") -> Path:
    """Makes the tables, the figures and report.html of a finished study.

    Args:
      workdir: the folder with config.json, summary.json, metrics.jsonl and history.npz.
      x_axis: the x axis of the accuracy curves: "rounds" or a metric declared to be an axis, such as messages or bits;
        empty: the axis that the study's config names.

    Returns:
      The path of report.html.

    Raises:
      UserError: if a file is missing, unreadable or of another schema, if the folder cannot be written to, or if there
        is no such axis.
    """
    return write(read_workdir(Path(workdir), x_axis))


def write(run: Run) -> Path:
    """Writes tables/, figures/ and report.html into the folder of a study, and returns the path of report.html.

    Raises:
      UserError: if the folder cannot be written to.
    """
    path = run.workdir / "report.html"
    try:
        tables.write(run)
        path.write_text(render(run, figures.write(run)), encoding="utf-8")
    except OSError as error:
        raise UserError(f"{error.filename or run.workdir}: cannot be written: {error.strerror}") from None
    return path


def render(run: Run, pictures: Mapping[str, Path]) -> str:
    """Returns the page as HTML, with all that it needs inside. Every text of the study is escaped.

    Args:
      run: the study.
      pictures: the paths of the PNG files by the name of the figure, for panels without a chart.
    """
    loader = FileSystemLoader(ASSETS)
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, undefined=StrictUndefined)
    panels = [_panel(run, name, pictures.get(name)) for name, panel in in_order().items() if panel.applies(run)]
    return environment.get_template("page.html.jinja").render(
        title=str(run.manifest.get("title") or run.manifest.get("name") or run.workdir.name),
        css=Markup((ASSETS / "page.css").read_text(encoding="utf-8")),
        setting=setting(run),
        table=Markup(table_html(run)),
        note=tables.note(run.summary, run.config),
        panels=panels,
        making=Markup(_making(run)),
        study=Markup(pack.dumps(_study(run))),
        scripts=[Markup((ASSETS / name).read_text(encoding="utf-8")) for name in _scripts(panels)],
    )


def _panel(run: Run, name: str, picture: Path | None) -> dict[str, Any]:
    """Returns what the template needs of a panel."""
    panel = FIGURES[name]
    with own_files.told():
        chart = panel.chart(run) if panel.chart else None
        found = {"name": name, "title": panel.title, "caption": panel.caption(run), "chart": chart}
    if chart:
        return found | {"data": Markup(pack.dumps(chart.data))}
    assert picture is not None
    return found | {"picture": f"data:image/png;base64,{base64.b64encode(picture.read_bytes()).decode('ascii')}"}


def _scripts(panels: list[dict[str, Any]]) -> list[str]:
    """Returns the scripts of a page: the plotting library, the page's own, and one for each other kind of chart."""
    kinds = dict.fromkeys(panel["chart"].kind for panel in panels if panel["chart"])
    return ["plotly-cartesian.min.js", "core.js", *(f"{kind}.js" for kind in kinds if kind != "plotly")]


def _study(run: Run) -> dict[str, Any]:
    """Returns what the scripts of all panels know of the study: its sweep points with their colours, and its seeds."""
    points = [
        {"id": point["id"], "label": look.label, "colour": look.colour} for point, look in zip(run.points, looks(run))
    ]
    return {"name": run.manifest.get("name"), "points": points, "seeds": run.manifest["seeds"]}


def setting(run: Run) -> str:
    """Describes the experiment in words, from its configuration. A setting that varies is given with all its values."""
    axes = {axis.path: axis for axis in run.axes}
    told: set[str] = set()

    def value(path: str) -> str | None:
        told.add(path)
        if path not in axes:
            plain = run.value(0, path)
            return None if plain is None else "infinity" if plain in ("inf", float("inf")) else spaced(show(plain))
        *first, last = map(spaced, dict.fromkeys(axes[path].texts))
        return f"{', '.join(first)} or {last}"

    def clause(template: str, path: str) -> str:
        text = value(path)
        return "" if text is None else template.format(text)

    def everywhere(path: str, test: Callable[[Any], bool] = bool) -> bool:
        return all(test(run.value(p, path)) for p in range(len(run.points)))

    who = clause("{} clients", "network.num_clients") or "The clients"
    on_graph, met = everywhere("network.graph"), everywhere("server.pattern")
    paired = met and everywhere("server.pattern", lambda pattern: pattern != "roadside")
    drawn = everywhere("data.dimension", lambda dimension: dimension is not None)
    who += "" if on_graph or met else clause(", {} of them mobile,", "network.num_mobile")
    task = "" if drawn else clause(" train {}", "model.name")
    task += clause(" learn {}" if drawn else " on {}", "data.name") + clause(" with {}", "algorithm.name")
    if drawn:
        split = clause("Each draws {} samples", "data.samples_per_client") + clause(" of {} features", "data.dimension")
    else:
        split = clause("The data are split by {}", "data.partition") + clause(" (alpha {})", "data.alpha")
    plane = in_plane(run.array(0, "position"))
    if paired:
        place = clause("Clients meet a server by the pattern {}", "server.pattern")
        place += clause(", and each other in random pairs, {} of them a slot", "server.pairs")
    elif on_graph:
        place = clause("The clients are tied by a graph: {}", "network.graph")
    else:
        place = clause("Mobility is {}", "network.mobility")
        place += "" if plane else clause(" on a grid of {0} x {0}", "network.grid_size")
        place += clause(", with a contact radius of {}", "network.radius")
        place += "" if plane else clause(" and steps of at most {} a round", "network.max_step")
    mixing = "" if met else clause("Models are mixed by {}", "network.mixing")
    place += (
        clause("; they meet a server at road-side units of range {}", "server.unit_range") if met and not paired else ""
    )
    seeds = len(run.manifest["seeds"])
    length = clause("A run lasts {} rounds", "rounds") + clause(", with a test every {}", "eval_every")
    length += f"{'; ' if length else ''}{seeds} seeds" if seeds > 1 else "; one seed" if length else ""
    others = [f"{spaced(axis.name)}: {value(path)}" for path, axis in axes.items() if path not in told]
    varied = f"Varied are {'; '.join(others)}" if others else ""
    return " ".join(f"{text.strip()}." for text in (who + task, split, place, mixing, length, varied) if text)


def table_html(run: Run) -> str:
    """Returns the summary table as HTML."""
    header, rows = tables.table(run.summary, run.config)
    names = max(1, len(run.axes))

    def cells(tag: str, row: list[str]) -> str:
        kinds = [' class="name"' if i < names else "" for i in range(len(row))]
        return "<tr>" + "".join(f"<{tag}{kind}>{html.escape(cell)}</{tag}>" for kind, cell in zip(kinds, row)) + "</tr>"

    body = "\n".join(cells("td", row) for row in rows)
    return f'<div class="wide"><table>\n<thead>{cells("th", header)}</thead>\n<tbody>\n{body}\n</tbody>\n</table></div>'


def _making(run: Run) -> str:
    """Returns the provenance as HTML: a list of command, commit, versions, devices and times, and the configuration."""
    made = run.manifest
    devices = [f"{count} x {name}" if count > 1 else name for name, count in _kinds(made.get("devices") or [])]
    seconds = [f"{tables.number(made.get(f'{part}_seconds'))} s to {part}" for part in ("compile", "run")]
    items: dict[str, str] = {
        "Command": f"<code>{html.escape(str(made.get('command') or tables.MISSING))}</code>",
        "Commit": f"<code>{html.escape(str(made.get('commit') or tables.MISSING))}</code>",
        "Versions": html.escape(
            ", ".join(f"{name} {version}" for name, version in (made.get("versions") or {}).items())
        ),
        "Devices": html.escape(", ".join(devices) or tables.MISSING),
        "Time": ", ".join(seconds),
        "Seeds": html.escape(", ".join(map(str, made["seeds"]))),
        "Status": html.escape(str(made.get("status") or tables.MISSING)),
        "Files": "<code>tables/summary.md, tables/summary.csv, figures/*.pdf, summary.json, metrics.jsonl</code>",
    }
    listed = "\n".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in items.items())
    config = html.escape(json.dumps({"config": run.config, "points": made.get("points")}, indent=2))
    return f"<dl>\n{listed}\n</dl>\n<details><summary>Resolved configuration</summary>\n<pre>{config}</pre></details>"


def _kinds(devices: list[Any]) -> list[tuple[str, int]]:
    """Returns the kinds of devices with the number of each kind, so that eight cores need only one line."""
    return list(Counter(str(device).rstrip("0123456789").rstrip("_:") or str(device) for device in devices).items())
