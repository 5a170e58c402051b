"""The tables of the same experiments in other tools (`benchmarks/peers.py`)."""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.quoted import digits, markdown, results

EXPERIMENTS = {"ring": "ring", "push": "pushes", "fedavg": "FedAvg"}
RULES = "rules"
OURS = "mdfl_jax"


def named(row: dict[str, Any]) -> str:
    """Return the name of a row's tool with its version."""
    found = [version for name, version in row["versions"].items() if name.replace("-", "_").startswith(row["tool"])]
    return f"{row['tool'].replace('_', '-')} {found[0]}" if found else f"**{row['tool']}**"


def table() -> list[str]:
    """Return lines of code, CPU seconds of whole processes, rounds a CPU second after warm-up, and results."""
    lines = []
    for row in results("peers")["rows"]:
        if row["experiment"] not in EXPERIMENTS:
            continue
        of = [EXPERIMENTS[row["experiment"]], named(row)] if "versions" in row else [row["experiment"], row["tool"]]
        if "failed" in row:
            lines.append([*of, row["failed"], *[""] * 4])
            continue
        whole = [digits(row["whole"][seeds]["cpu"]) if seeds in row["whole"] else "-" for seeds in ("1", "8")]
        if "cold" in row:
            whole[0] += f" (cold {digits(row['cold']['cpu'])})"
        rate = "; ".join(f"{float(digits(rate, 2)):,g}" for rate in row["rounds_a_cpu_second"].values())
        result = ", ".join(f"{name} {digits(np.mean(of), 4)}" for name, of in row["result"].items())
        lines.append([*of, str(row["lines"]), *whole, rate, result])
    header = ["study", "tool", "lines", "one seed", "eight seeds", "rounds a second", "at the end"]
    return markdown(header, lines, "llrrrrl")


def rules() -> list[str]:
    """Return the CPU milliseconds of rules for arrays in byzfl and here, and their ratio."""
    of = {row["tool"]: row for row in results("peers")["rows"] if row["experiment"] == RULES}
    if failed := of["byzfl"].get("failed"):
        return [failed]
    theirs, ours = (of[tool]["milliseconds"] for tool in ("byzfl", OURS))
    lines = [
        [
            rule,
            digits(theirs[rule]["cpu"], 2),
            digits(ours[rule]["cpu"], 2),
            digits(ours[rule]["cpu"] / theirs[rule]["cpu"], 2),
        ]
        for rule in theirs
    ]
    return markdown(["rule", named(of["byzfl"]), OURS, "ratio"], lines)


def proof() -> str:
    """Return the sentence of README.md: rounds of FedAvg a CPU second after warm-up, of one seed."""
    rows = [row for row in results("peers")["rows"] if row["experiment"] == "fedavg"]
    of = {row["tool"]: row["rounds_a_cpu_second"] for row in rows}
    ours, fluke, flwr = (float(digits(rates["1"], 2)) for rates in (of[OURS], of["fluke"], of["flwr"]))
    return f"FedAvg rounds a CPU second after warm-up: {ours:g}; [fluke](docs/compare.md) {fluke:g}, flwr {flwr:g}."


TABLES: dict[str, Callable[[], list[str]]] = {"peers": table, "peers_rules": rules}
