"""The tables and numbers that pages quote from results files; `benchmarks/quote.py` writes them into the pages."""

import json
import math
from collections.abc import Callable, Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from statistics import median
from typing import Any

from mdfl_jax.errors import UserError

RESULTS = Path(__file__).parent / "results"
ROUNDS = {  # by suite: what a round is, and the largest ratio that is asked for
    "mnist_round": ("N = 20, batch 64, CNN 5x5x16, 5x5x32, 64", 0.6),
    "mnist_round_100": ("N = 100, batch 32, the same", 0.6),
    "digits_round": ("N = 20, batch 64, CNN 3x3x16, 3x3x32, 64", 0.35),
    "gn_lenet_round": ("N = 48, batch 8, 3 steps, 32 x 32 x 3", 0.7),
    "cifar_round": ("N = 8, batch 32, ResNet-20, 32 x 32 x 3", 0.8),
}
FEDMOBILE, SCORE = "fedmobile-figure3-cpu", "R^2 (%)"


def digits(value: float | str, significant: int = 3, decimals: int = 99) -> str:
    """Format a number with so many significant digits, but at most so many decimals. Halves are rounded up."""
    number = Decimal(str(value))
    for _ in range(2):  # rounding up may have added a digit
        places = min(significant - 1 - number.adjusted(), decimals)
        number = number.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)
    return f"{number:f}"


def whole(value: float) -> str:
    """Format a number without decimals."""
    return digits(value, 99, 0)


def span(values: Iterable[float], significant: int = 3, decimals: int = 99) -> str:
    """Format the smallest and the largest of the values."""
    ordered = sorted(values)
    return " to ".join(digits(value, significant, decimals) for value in (ordered[0], ordered[-1]))


def markdown(header: Sequence[str], lines: Iterable[Sequence[str]], align: str = "") -> list[str]:
    """Return the lines of a table. `align` has l or r for each column; if it is empty, only the first is left."""
    rules = [":--" if side == "l" else "--:" for side in align or "l".ljust(len(header), "r")]
    return [f"| {' | '.join(cells)} |".replace("|  |", "| |") for cells in (header, rules, *lines)]


def results(name: str) -> dict[str, Any]:
    """Return the content of a results file."""
    path = RESULTS / f"{name}.json"
    if not path.is_file():
        raise UserError(f"{path}: there is no such results file")
    return json.loads(path.read_text())


def rows(name: str, key: str, value: str | int) -> list[dict[str, Any]]:
    """Return the rows of a results file in which a field has this value; there is at least one."""
    found = [row for row in results(name)["rows"] if row.get(key) == value]
    if not found:
        raise UserError(f"{RESULTS / name}.json has no row with {key} = {value}")
    return found


def ratio(name: str, variant: str = "ours", field: str = "ratio") -> float:
    """Return the ratio of a variant of a suite that was measured on a CPU."""
    return rows(f"{name}-cpu", "variant", variant)[0][field]


def table(name: str, title: str) -> dict[str, dict[str, str]]:
    """Return a table of a paper's figure: its cells by the first cell of the row and the header of the column."""
    for found in results(name)["tables"]:
        if found["title"] == title:
            return {first: dict(zip(found["header"][1:], rest)) for first, *rest in found["rows"]}
    raise UserError(f"{RESULTS / name}.json has no table {title!r}")


def mean(cell: str) -> float:
    """Return the mean of a cell such as '1.23 ± 0.04'."""
    return float(cell.split(" ± ")[0])


def interval(cell: str, significant: int) -> str:
    """Format a cell such as '1.23 ± 0.04' with at most two decimals."""
    return " ± ".join(digits(number, significant, 2) for number in cell.split(" ± "))


def rounds() -> list[str]:
    """Return the table of the round suites: milliseconds, and ratios to the PyTorch loop."""
    lines = []
    for suite, (label, asked) in ROUNDS.items():
        (ours,) = rows(f"{suite}-cpu", "variant", "ours")
        ratios = {row["variant"]: digits(row["ratio"], decimals=2) for row in results(f"{suite}-cpu")["rows"]}
        rivals = [ratios.get(rival, "-") for rival in ("torch.func vmap", "torch, 2 processes of one thread")]
        milliseconds = digits(ours["seconds_per_round"]["median"] * 1e3)
        lines.append([f"`{suite}`: {label}", milliseconds, f"**{ratios['ours']}**", f"{asked:g}", *rivals])
    header = ["round", "ms", "ratio to the PyTorch loop", "asked (at most)", "torch.func", "two PyTorch processes"]
    return markdown(header, lines)


def rounds_missed() -> str:
    """Return the names of the round suites that take longer than is asked."""
    return ", ".join(f"`{suite}`" for suite, (_, asked) in ROUNDS.items() if ratio(suite) > asked) or "none"


def rounds_of(field: str) -> str:
    """Return the value of a field of the round suites; where they differ, the first and the last one in order."""
    found = sorted(results(f"{suite}-cpu")[field] for suite in ROUNDS)
    return " to ".join(dict.fromkeys((found[0], found[-1])))


def demo(variant: str) -> str:
    """Return the seconds of the demo with a warm or a cold cache; the median where there are several runs."""
    return whole(median(row["seconds"] for row in rows("demo-cpu", "variant", variant)))


def demo_memory() -> str:
    """Return the peak memory of the demo in MiB, rounded up to hundreds."""
    return str(100 * math.ceil(max(row["peak_resident_mib"] for row in results("demo-cpu")["rows"]) / 100))


def variants() -> list[str]:
    """Return the table of FedMobile's variants. The best one that needs no ideal channel is in bold."""
    found, lines = table(FEDMOBILE, "variants"), []
    best = max(mean(cells[SCORE]) for name, cells in found.items() if not name.startswith("virtual"))
    for name, cells in found.items():
        over = cells["over ASYNC"]
        scores = [interval(cells[SCORE], 4), "+" * (mean(over) >= 0) + interval(over, 3)]
        scores = [f"**{score}**" if mean(cells[SCORE]) == best else score for score in scores]
        label = f"`{name}`" + " (ours, nothing tuned)" * (name == "fedmobile_auto")
        lines.append([label, scores[0], scores[1] * (name != "async_fl"), digits(cells["Mbit a client"], 2)])
    return markdown(["figure 3a, g, h", "R^2", "over ASYNC", "Mbit sent by a client"], lines)


def gain(name: str) -> float:
    """Return how many points a variant of FedMobile is better than ASYNC."""
    return mean(table(FEDMOBILE, "variants")[name]["over ASYNC"])


def fedmobile(title: str) -> dict[str, str]:
    """Return the R^2 of a table of FedMobile's figure 3, by the first cell of the row."""
    return {name: digits(mean(cells[SCORE]), 4) for name, cells in table(FEDMOBILE, title).items()}


def search() -> list[str]:
    """Return the table of FedMobile's search intervals. The best ones are in bold."""
    columns: list[list[str]] = []
    for found, theirs in ((fedmobile("upload"), "10, 40"), (fedmobile("download"), "5, 25")):
        best = max(found.values(), key=float)
        columns.append([f"{name} (the paper's)" if name == theirs else name for name in found])
        columns.append([f"**{score}**" if score == best else score for score in found.values()])
    header = ["search interval, upload (theta, Theta)", "R^2", "download (omega, Omega)", "R^2"]
    return markdown(header, zip(*columns), "lrlr")


def across(label: str, found: dict[str, dict[str, str]]) -> list[str]:
    """Return a table from its rows, which are given by their first cell and then by the header of the column."""
    lines = [[first, *cells.values()] for first, cells in found.items()]
    return markdown([label, *next(iter(found.values()))], lines)


def iterations(figure: int, by: str = "") -> dict[str, dict[str, float]]:
    """Return the iterations to the stop of one of PaME's figures, by row and column."""
    found = table(f"pame-figure{figure}-cpu", f"iterations to the stop{by and ', by '}{by}")
    return {row: {column: mean(cell) for column, cell in cells.items()} for row, cells in found.items()}


def pame(figure: int, by: str, label: str) -> list[str]:
    """Return the table of one of PaME's figures 3 to 6, with one row for each number of nodes."""
    found = {f"m = {m}": {k: whole(n) for k, n in cells.items()} for m, cells in iterations(figure, by).items()}
    return across(f"{label} (figure {figure})", found)


def pame_objectives() -> list[float]:
    """Return all final objectives of PaME's figure 2."""
    tables = results("pame-figure2-cpu")["tables"]
    return [mean(cell) for found in tables for _, *cells in found["rows"] for cell in cells]


def pame_densities(sparsest: bool) -> list[float]:
    """Return the iterations of PaME's figure 7 on the sparsest graph, or on all others."""
    return [n for density, cells in iterations(7).items() if (density == "0.1") == sparsest for n in cells.values()]


def pame_periods() -> list[float]:
    """Return how many times as long PaME runs with common periods as with drawn ones (figures 5 and 6).

    The pair that stops after the same number of iterations, between two communications, is left out.
    """
    common_ones, drawn = iterations(5, "period"), iterations(6, "period_drawn")
    pairs = [pair for m in drawn for pair in list(zip(common_ones[m].values(), drawn[m].values()))[1:]]
    return [one / other for one, other in pairs if one != other]


def resnet18(target: str) -> dict[str, Any]:
    """Return the row of ResNet-18 and 20 clients, compiled for a target."""
    return rows(f"accelerators-{target}", "study", "madfl")[0]


TABLES: dict[str, Callable[[], list[str]]] = {
    "rounds": rounds,
    "fedmobile.variants": variants,
    "fedmobile.search": search,
    "fedmobile.pairs": lambda: across("rho", {"R^2": fedmobile("rho")}),
    "fedmobile.relays": lambda: across("K", {title: fedmobile(title) for title in ("uploads", "downloads")}),
    "pame.transmission": lambda: pame(3, "transmission", "s / n"),
    "pame.participation": lambda: pame(4, "participation", "nu"),
    "pame.period": lambda: pame(5, "period", "period, one for all"),
    "pame.period_drawn": lambda: pame(6, "period_drawn", "periods drawn, up to"),
}

NUMBERS: dict[str, Callable[[], str]] = {
    "demo.seconds": lambda: demo("warm cache"),
    "demo.cold_seconds": lambda: demo("cold cache"),
    "demo.memory": demo_memory,
    "rounds.jax": lambda: rounds_of("jax"),
    "rounds.date": lambda: rounds_of("date"),
    "rounds.missed": rounds_missed,
    "rounds.memory": lambda: span((ratio(s, "ours, one device", "memory_ratio") for s in ROUNDS), decimals=2),
    "full_batch": lambda: digits(ratio("full_batch", "digits, dirichlet"), decimals=2),
    "mixing": lambda: digits(ratio("mixing", "N = 10000, listed"), decimals=2),
    "mobility": lambda: span((row["ratio"] for row in rows("mobility-cpu", "num_clients", 10000)), decimals=2),
    "fedmobile.seconds": lambda: whole(results(FEDMOBILE)["seconds"]),
    "fedmobile.downloads": lambda: whole(gain("fedmobile_d") / gain("fedmobile_u")),
    "pame.minutes": lambda: digits(sum(results(f"pame-figure{i}-cpu")["seconds"] for i in range(2, 8)) / 60, 9, 1),
    "pame.objectives": lambda: span(pame_objectives(), 4),
    "pame.periods": lambda: span(pame_periods(), 2),
    "pame.waiting": lambda: whole(iterations(5, "period")["32"]["16"]),
    "pame.denser": lambda: span(pame_densities(sparsest=False), 2),
    "pame.sparsest": lambda: span(pame_densities(sparsest=True), 2),
    "resnet18.parameters": lambda: f"{resnet18('h100')['num_params']:,}",
    "resnet18.data": lambda: digits(resnet18("h100")["bytes"]["data"] / 2**20),
    "resnet18.h100": lambda: digits(resnet18("h100")["bytes"]["temporary"] / 2**30, 2),
    "resnet18.tpu-v5e": lambda: digits(resnet18("tpu-v5e")["bytes"]["temporary"] / 2**30, 2),
    "resnet18.tflop": lambda: digits(resnet18("h100")["flops_per_round"] / 1e12),
}
