"""The tables and numbers that pages quote from results files; `benchmarks/quote.py` writes them into the pages."""

import json
import math
from collections.abc import Callable, Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from statistics import median
from typing import Any

from mdfl_jax.config.renamed import MOVED
from mdfl_jax.core.errors import UserError, unknown_name

RESULTS = Path(__file__).parent / "results"
ROUNDS = {  # by suite: what a round is, and the largest ratio that is asked for
    "mnist_round": ("N = 20, batch 64, CNN 5x5x16, 5x5x32, 64", 0.6),
    "mnist_round_100": ("N = 100, batch 32, the same", 0.6),
    "digits_round": ("N = 20, batch 64, CNN 3x3x16, 3x3x32, 64", 0.35),
    "gn_lenet_round": ("N = 48, batch 8, 3 steps, 32 x 32 x 3", 0.7),
    "cifar_round": ("N = 8, batch 32, ResNet-20, 32 x 32 x 3", 0.8),
}
FULL = "full gradients"


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


def rule_named(text: str) -> str:
    """Return today's name of a mobility rule that a results file names with its knowledge or world; else the text.

    >>> [rule_named(name) for name in ("dcm_met", "waiting_plane", "exploring", "static_trace", "dcm", "arena_plane")]
    ['dcm, met', 'waiting', 'waiting, explored', 'static', 'dcm', 'arena_plane']
    """
    if text not in MOVED:
        return text
    settings = dict(word.split("=") for word in MOVED[text].split() if "=" in word)
    return ", ".join(settings[path] for path in ("network.mobility", "motion.knowledge") if path in settings)


def of_item(name: str) -> list[str]:
    """Return a table of an item of the papers, which is named as in 'pame:f3, iterations to the stop'."""
    item, _, title = name.partition(", ")
    found = {each["title"]: each for each in paper(item)["tables"]}
    if title not in found:
        raise UserError(unknown_name(f"table of {item}", title, found))
    return markdown(found[title]["header"], [[rule_named(cell) for cell in row] for row in found[title]["rows"]])


def paper(item: str) -> dict[str, Any]:
    """Return the results file of an item of the papers, at the largest scale at which it was run."""
    at_paper, at_small = (f"papers/{item.replace(':', '-')}-{scale}" for scale in ("paper", "small"))
    return results(at_paper if (RESULTS / f"{at_paper}.json").is_file() else at_small)


def cells(item: str, title: str) -> dict[str, dict[str, float]]:
    """Return the means of a table of an item, by the first cell of the row and the header of the column."""
    found = next(each for each in paper(item)["tables"] if each["title"] == title)
    return {first: dict(zip(found["header"][1:], map(mean, rest))) for first, *rest in found["rows"]}


def mean(cell: str) -> float:
    """Return the mean of a cell such as '1.23 ± 0.04'; NaN where there is no number."""
    try:
        return float(cell.split(" ± ")[0])
    except ValueError:
        return math.nan


def downloads() -> float:
    """Return how many times as much FedMobile gains by downloads alone as by uploads alone."""
    gains = {name: row["over ASYNC"] for name, row in cells("fedmobile:f3", "variants").items()}
    return gains["FedMobile-D"] / gains["FedMobile-U"]


def minutes(*items: str) -> str:
    """Return the minutes that the studies of some items took; one that several share counts once."""
    studies = {name: study for item in items for name, study in paper(item)["studies"].items()}
    return digits(sum(study["run_seconds"] for study in studies.values()) / 60, 9, 1)


def objectives() -> list[float]:
    """Return all final objectives of PaME's figure 2 with full gradients."""
    titles = [each["title"] for each in paper("pame:f2")["tables"] if each["title"].endswith(FULL)]
    return [value for title in titles for row in cells("pame:f2", title).values() for value in row.values()]


def densities(sparsest: bool) -> list[float]:
    """Return the iterations of PaME's figure 7 with full gradients on the sparsest graph, or on all others."""
    found = cells("pame:f7", f"iterations to the stop (at most 600), {FULL}")
    return [n for density, row in found.items() if (density == "0.1") == sparsest for n in row.values()]


def resnet18(target: str) -> dict[str, Any]:
    """Return the row of ResNet-18 and 20 clients, compiled for a target."""
    return rows(f"accelerators-{target}", "study", "madfl")[0]


TABLES: dict[str, Callable[[], list[str]]] = {
    "rounds": rounds,
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
    "fedmobile.minutes": lambda: minutes("fedmobile:f3"),
    "fedmobile.downloads": lambda: whole(downloads()),
    "pame.minutes": lambda: minutes("pame:f2", "pame:f7"),
    "pame.objectives": lambda: span(objectives(), 4),
    "pame.denser": lambda: span(densities(sparsest=False), 2),
    "pame.sparsest": lambda: span(densities(sparsest=True), 2),
    "resnet18.parameters": lambda: f"{resnet18('h100')['num_params']:,}",
    "resnet18.data": lambda: digits(resnet18("h100")["bytes"]["data"] / 2**20),
    "resnet18.h100": lambda: digits(resnet18("h100")["bytes"]["temporary"] / 2**30, 2),
    "resnet18.tpu-v5e": lambda: digits(resnet18("tpu-v5e")["bytes"]["temporary"] / 2**30, 2),
    "resnet18.tflop": lambda: digits(resnet18("h100")["flops_per_round"] / 1e12),
}
