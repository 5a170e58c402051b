"""The code that the papers' scripts share: it runs or reads studies, formats tables, and parses the command line."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from absl import flags
from ml_collections import ConfigDict

from mdfl_jax.commands import common
from mdfl_jax.errors import UserError

_FIGURE = flags.DEFINE_string("figure", "", "The number of the figure in the paper.")
_SCALE = flags.DEFINE_enum("scale", "small", ["small", "paper"], "Size.")
_WORKDIR = flags.DEFINE_string("workdir", "runs/papers", "The folder of the studies' workdirs.")
_JSON = flags.DEFINE_string("json", "", "Write the tables to this file too.")

Rows = list[list[str]]
Table = tuple[str, list[str], Rows]  # title, header, rows
Point = dict[str, Any]
Figures = dict[str, tuple[Callable[[], list[Table]], str]]  # by number: the function that computes it, the claim


def small() -> bool:
    """Return whether --scale=small is set."""
    return _SCALE.value == "small"


def summary_of(config: ConfigDict) -> dict[str, Any]:
    """Return the summary of a study; run the study first if it is not finished."""
    from mdfl_jax.experiments import make_study, run_study
    from mdfl_jax.experiments.ahead import memory
    from mdfl_jax.experiments.results import workdir as workdirs
    from mdfl_jax.experiments.run.manifest import wanted

    made = make_study(config)
    workdir = Path(_WORKDIR.value) / config.name
    if not workdirs.is_finished(workdir, wanted(made)):
        log = lambda line: print(line, file=sys.stderr, flush=True)  # noqa: E731
        run_study(memory.fit(made, log), workdir, log=log)
    return json.loads((workdir / "summary.json").read_text())


def study(config: ConfigDict) -> list[Point]:
    """Return the summaries of a study's sweep points."""
    return summary_of(config)["points"]


def best(config: ConfigDict) -> list[tuple[str, Point]]:
    """Return (algorithm name, its best sweep point) pairs of a study that chooses step sizes."""
    summary = summary_of(config)
    points = {p["id"]: p for p in summary["points"]}
    return [(s["of"]["algorithm.name"], points[s["id"]]) for s in summary["selected"] if s["id"]]


def cell(statistic: Any, scale: float = 1.0, digits: int = 3) -> str:
    """Format a statistic as '1.23 ± 0.04': without an interval if there is one seed, as '-' if there is no mean."""
    if statistic is None or statistic["mean"] is None:
        return "-"
    try:
        mean, half = float(statistic["mean"]) * scale, statistic["ci95"]
    except ValueError:  # 'inf', of a run that diverged
        return "diverged"
    return f"{mean:.{digits}g}" if half is None else f"{mean:.{digits}g} ± {float(half) * scale:.2g}"


def value_of(point: Point, path: str) -> str:
    """Return the value of a swept field at a sweep point, as text."""
    value = point["overrides"][path]
    return value if isinstance(value, str) else f"{value:g}"


def pivot(points: list[Point], down: str, across: str, take: Callable[[Point], str]) -> tuple[list[str], Rows]:
    """Arrange sweep points as a table: one field gives the rows, another the columns.

    Returns:
      The header and the rows. A point that diverged has the cell 'diverged'.
    """
    rows = list(dict.fromkeys(value_of(p, down) for p in points))
    columns = list(dict.fromkeys(value_of(p, across) for p in points))
    at = {(value_of(p, down), value_of(p, across)): "diverged" if p["diverged"] else take(p) for p in points}
    names = [path.split(".")[-1] for path in (down, across)]
    return [f"{names[0]} \\ {names[1]}", *columns], [[row, *(at[row, c] for c in columns)] for row in rows]


def run(figures: Figures) -> None:
    """Run the command line of a paper's script: print a figure's tables in Markdown, and the paper's claim."""

    def main() -> int:
        if _FIGURE.value not in figures:
            raise UserError(f"--figure={_FIGURE.value}: known: {', '.join(figures)}")
        common.setup_jax(common.default_cache())
        begin = time.perf_counter()
        make, claim = figures[_FIGURE.value]
        tables = make()
        for title, header, rows in tables:
            lines = [header, [":--", *["--:"] * (len(header) - 1)], *rows]
            print("\n".join([f"**{title}**", "", *("| " + " | ".join(line) + " |" for line in lines), ""]))
        print(f"The paper, figure {_FIGURE.value}: {claim}.")
        seconds = time.perf_counter() - begin
        print(f"Scale {_SCALE.value}, {seconds:.0f} s (runs that were there already cost nothing).")
        if _JSON.value:
            content = [{"title": t, "header": h, "rows": r} for t, h, r in tables]
            saved = {"figure": _FIGURE.value, "scale": _SCALE.value, "seconds": seconds, "claim": claim}
            Path(_JSON.value).write_text(json.dumps(saved | {"tables": content}, indent=2, ensure_ascii=False) + "\n")
        return 0

    common.run(main)
