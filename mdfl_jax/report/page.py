"""Makes report.html: one page, without external resources, with the setting, the results and their provenance."""

import base64
import html
import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mdfl_jax.errors import UserError
from mdfl_jax.report import figures, tables
from mdfl_jax.report.read import Run, read_workdir
from mdfl_jax.report.registry import FIGURES
from mdfl_jax.report.settings import show
from mdfl_jax.report.style import spaced
from mdfl_jax.report.world import in_plane

_CSS = """
:root { --ink: #1d2126; --soft: #5d6670; --rule: #d9dde2; --paper: #ffffff; --shade: #f5f6f8; }
html { color-scheme: light dark; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e7eb; --soft: #a0a9b4; --rule: #3a424c; --paper: #16191d; --shade: #20252b; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 1.8rem; line-height: 1.2; margin: 0 0 .8rem; text-wrap: balance; }
h2 { font-size: 1.15rem; margin: 2.6rem 0 .8rem; padding-bottom: .3rem; border-bottom: 1px solid var(--rule); }
.setting { max-width: 46rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { padding: .38rem .9rem .38rem 0; text-align: right; white-space: nowrap; }
th { white-space: normal; vertical-align: bottom; line-height: 1.25; }
th.name, td.name { text-align: left; }
thead th { border-bottom: 2px solid var(--ink); font-weight: 600; }
tbody tr { border-bottom: 1px solid var(--rule); }
.note, figcaption { color: var(--soft); font-size: .9rem; max-width: 50rem; }
figure { margin: 0 0 2.2rem; }
figure img { display: block; max-width: 100%; height: auto; background: #fff; border-radius: 6px; }
@media (prefers-color-scheme: dark) { figure img { padding: .6rem; } }
figcaption { margin-top: .5rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1.2rem; margin: 0 0 1.2rem; font-size: .92rem; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
code, pre { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: .86rem; }
pre { background: var(--shade); padding: 1rem; border-radius: 6px; overflow-x: auto; }
summary { cursor: pointer; }
"""


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
    """Returns the page as HTML, with the PNG files embedded. Every text of the study is escaped.

    Args:
      run: the study.
      pictures: the paths of the PNG files by the name of the figure.
    """
    title = str(run.manifest.get("title") or run.manifest.get("name") or run.workdir.name)
    shown = "\n".join(_figure(name, path, FIGURES[name].caption(run)) for name, path in pictures.items())
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title>
<style>{_CSS}</style>
</head>
<body>
<main>
<h1>{html.escape(title)}</h1>
<p class="setting">{html.escape(setting(run))}</p>
<h2>Results</h2>
{table_html(run)}
<p class="note">{html.escape(tables.note(run.summary, run.config))}</p>
<h2>Figures</h2>
{shown}
<h2>How it was made</h2>
{_making(run)}
</main>
</body>
</html>
"""


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


def _figure(name: str, path: Path, caption: str) -> str:
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    text = html.escape(caption)
    image = f'<img src="data:image/png;base64,{data}" alt="{text}">'
    return f'<figure id="{name}">{image}<figcaption>{text}</figcaption></figure>'


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
