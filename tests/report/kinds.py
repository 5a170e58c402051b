"""Kinds of studies whose pages are opened: of one run and of two hundred points, whole or not, with hostile texts."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mdfl_jax.contrib.comparison.compare import read_studies
from mdfl_jax.report.page import render
from mdfl_jax.results.results import Results
from tests.report.conftest import write_workdir
from tests.report.made_report import add_records, change, declare, edit, unfinish

HOSTILE = "</script><img src=x onerror=alert(1)>"
RULES = ("static", HOSTILE, '%{x}<b>$x_1$</b>"')
ROADSIDE = {"server.pattern": "roadside", "server.units": "2,2; 8,8", "server.unit_range": 2.5}
EVERY_PANEL = [
    {"network.mobility": rule, "network.radius": radius, "algorithm.lr": rate, **ROADSIDE}
    for rule, radius, rate in itertools.product(RULES, (2.0, 3.0, 4.0, "inf"), (0.01, 0.1, 1.0))
]


def every_panel(folder: Path) -> Path:
    """A study to which every panel applies, with hostile texts wherever a study has a text."""
    groups = {"accuracy_mobile": 0.6, "accuracy_other": 0.5, "num_neighbours_mobile": 2.0, "num_neighbours_other": 1.0}
    sent = {HOSTILE: 4.0, "downs": 7.0, "messages": 11.0, "own": 3.0}

    def more(row: dict[str, Any]) -> dict[str, Any]:
        grown = {key: value * row["round"] for key, value in sent.items()}
        return row | groups | grown | {"consensus_distance": 1 / (1 + row["round"])}

    add_records(change(write_workdir(folder, EVERY_PANEL, seeds=3, rounds=20), more), server=True, one_way=True)
    for name, unit, where in (
        (HOSTILE, "messages", ()),
        ("downs", "messages", ()),
        ("own", HOSTILE, ("curve", "table")),
    ):
        declare(folder, name, unit, where=where)
    told = dict.fromkeys(("name", "title", "command", "commit"), HOSTILE)
    return edit(folder, "config", **told, devices=[HOSTILE], versions={HOSTILE: HOSTILE})


def compared(folder: Path) -> Results:
    """A finished study and an unfinished one, as one."""
    edit(write_workdir(folder / "one"), "config", name=HOSTILE)
    unfinish(write_workdir(folder / "two"), lambda row: row["round"] <= 20)
    return read_studies([folder / "one", folder / "two"])


KINDS: dict[str, Callable[[Path], Path | Results]] = {
    "plain": write_workdir,
    "every panel": every_panel,
    "one run": lambda folder: write_workdir(folder, [{}], seeds=1, rounds=10, positions=False),
    "circle": lambda folder: add_records(write_workdir(folder, [{"server.pattern": "fixed"}], seeds=1, rounds=6)),
    "records": lambda folder: add_records(write_workdir(folder, clients=12, seeds=2), server=True, one_way=True),
    "two hundred points": lambda folder: write_workdir(
        folder, [{"algorithm.lr": (i + 1) / 1000} for i in range(200)], seeds=2, positions=False
    ),
    "unfinished": lambda folder: unfinish(write_workdir(folder), lambda row: row["round"] <= 20),
    "compared": compared,
}


def write_page(made: Path | Results) -> Path:
    """Writes report.html alone into the folder of a study, and returns the folder."""
    run = made if isinstance(made, Results) else Results.read(made).shown()
    (run.workdir / "report.html").write_text(render(run), encoding="utf-8")
    return run.workdir
