"""What the studies of the papers' size need on accelerators, for the page of the claims.

`python -m benchmarks.accelerators --study=papers` writes the rows. They are estimates of the devices' compilers: memory
is what a compiler plans, and hours are the length of a TPU's schedule. The compiler of GPUs writes no schedule, so the
arithmetic stands beside.
"""

import json

from benchmarks.papers.cells import short
from benchmarks.papers.records import FOLDER

TARGETS = ("tpu-v5e", "h100")
STUDIES = {
    "madfl:t2": "f2, f3, f4, f5, f6",
    "madfl:f7a": "",
    "madfl:f7b": "",
    "madfl:f7d": "f7c, f8_35, f8_50",
    "dadfl:f2": "f3",
    "dadfl:f4": "",
    "dadfl:f5": "",
    "thesis:t1": "t2 to t8, f7, f8, algorithm_1",
    "pame:f9_10000": "f2 to f8, f9_1000, f9_5000",
    "pame:f11": "",
    "pame:f12": "",
    "fedmobile:f4": "f5b to f12, f14 to f16",
    "fedmobile:f4_cifar": "",
}
"""The presets that are compiled, and those of the same paper that need as much a run, or less."""
HEADER = ["study", "as much or less", "runs x rounds", "PFLOP", "TPU v5e: hours", "GiB", "H100: GiB"]
TITLE = "The paper's size on accelerators, estimated:"
WORDS = """**Accelerators.** What the paper's size needs is estimated by the compilers of the devices, and was not
measured (`benchmarks/results/accelerators-*.json`). One program stands for a study, and for others that need as
much a run, or less. Hours are one chip's for all runs. Memory is that of a program, which maps several runs together
where one alone does not fill the device. *At least*: loops whose length the compiler does not say count once. A dash:
not compiled yet.
"""


def rows(target: str) -> dict[str, dict]:
    """Return the rows of the compiled studies of a target by their names; none if it has no results file."""
    path = FOLDER.parent / f"accelerators-{target}.json"
    return {row["study"]: row for row in json.loads(path.read_text())["rows"]} if path.exists() else {}


def gib(row: dict) -> str:
    """Format the memory of a program."""
    return f"{sum(row['bytes'].values()) / 2**30:.2g}"


def section(paper: str) -> list[str]:
    """Return the lines of a paper's table; nothing before one of its studies was compiled."""
    found = {target: rows(target) for target in TARGETS}
    lines = []
    for study, others in STUDIES.items():
        of = [found[target].get(study) for target in TARGETS]
        known = next(filter(None, of), None)
        if study.partition(":")[0] != paper or known is None:
            continue
        tpu = of[0]
        runs, rounds = known["all_runs"], known["rounds"]
        work = known["flops_per_round"] * rounds * runs / 1e15
        hours = tpu and short(tpu["study_hours"] * runs / tpu["num_runs"], 2)
        least = "at least " * bool(tpu and tpu["loops_of_unknown_length"])
        cells = [
            f"`{study}`",
            others,
            f"{runs:,} x {rounds:,}",
            f"{work:,.0f}" if work >= 100 else f"{work:.2g}",
            f"{least}{hours}" if tpu else "-",
        ]
        cells += [gib(row) if row else "-" for row in of]
        lines.append(f"| {' | '.join(cells)} |".replace("|  |", "| |"))
    if not lines:
        return []
    return [TITLE, "", f"| {' | '.join(HEADER)} |", "| :-- | :-- | --: | --: | --: | --: | --: |", *lines, ""]
