"""Attacks studies: kills, damaged and hostile files, odd surroundings, values and drawn configurations, with a report.

Command:   python -m tests.attack --minutes=120 --write     again and again with other seeds, for two hours
           python -m tests.attack                            each once: some forty minutes on two cores

Each attack is a test that is marked `faults`. A fault counts as held if the command ends in one line and status 2, or
goes on to the results of a study that was left alone.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from benchmarks.quoted import of_attacks

ROOT = Path(__file__).parents[2]
REPORT = ROOT / "benchmarks" / "results" / "faults.json"


def once(seed, until, file):
    """Try each attack that begins before some time, and return the exit status of pytest."""
    flags = [f"--faults-seed={seed}", f"--faults-until={until}", f"--faults-report={file}"]
    workers = ("--numprocesses=auto", "--dist=worksteal")
    command = [sys.executable, "-m", "pytest", "-q", *workers, "-m", "faults", "tests/attack", "tests/study", *flags]
    return subprocess.run(command, cwd=ROOT).returncode


def summed(reports):
    """Sum the rows of several reports by kind; what else the first says, holds for all."""
    rows = {}
    for report in reports:
        for row in report["rows"]:
            rows.setdefault(row["kind"], Counter()).update({k: v for k, v in row.items() if k != "kind"})
    about = {key: value for key, value in reports[0].items() if key not in ("rows", "seed")}
    about |= {"seeds": [report["seed"] for report in reports], "exit_status": max(r["exit_status"] for r in reports)}
    about["seconds"] = sum(report["seconds"] for report in reports)
    return about | {"rows": [{"kind": kind, **counts} for kind, counts in sorted(rows.items())]}


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=0.0, help="0: each attack once")
    parser.add_argument("--seed", type=int, default=0, help="of the first round of attacks")
    parser.add_argument("--write", action="store_true", help=f"keep the counts in {REPORT.relative_to(ROOT)}")
    asked = parser.parse_args()
    until, seed, reports = time.time() + 60 * asked.minutes if asked.minutes else 0.0, asked.seed, []
    with tempfile.TemporaryDirectory() as made:
        while not reports or (time.time() < until and not reports[-1]["exit_status"]):
            file = Path(made) / f"{seed}.json"
            once(seed, until, file)
            reports.append(json.loads(file.read_text()))
            seed += 1
    report = summed(reports)
    print("\n".join(of_attacks(report)))
    if asked.write:
        REPORT.write_text(json.dumps(report, indent=2) + "\n")
    return int(report["exit_status"] != 0)


if __name__ == "__main__":
    sys.exit(main())
