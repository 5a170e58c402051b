"""Deliberate faults, each of which the tests must find: ``python -m tests.mutants [--only=TEXT]``, or `make mutants`.

Each fault is one change of one line of the package, made in a copy of the checkout. The tests named beside it run
first, then, where these pass, all that `make test` runs. A fault that no test finds has survived: status 1.

A test that is named with ``::`` runs though it is a long one.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

from tests.mutants import of_files, of_rules
from tests.mutants.mutant import Mutant

ROOT = Path(__file__).parents[2]
SETS = {"rules": of_rules.MUTANTS, "files": of_files.MUTANTS}
FOLDERS = ("mdfl_jax", "launch", "configs", "benchmarks", "docs", "tests")
COPIED = (*FOLDERS, "pyproject.toml", "setup.py", "README.md", "mkdocs.yml")


def _run(tests: list[str], copy: Path, *options: str) -> bool:
    """Whether the tests of a copy pass; what takes more than a quarter of an hour hangs, and does not."""
    which = "not faults" if any("::" in name for name in tests) else "not long and not faults"
    command = [sys.executable, "-m", "pytest", "-q", "-m", which, "-p", "no:cacheprovider", *options, *tests]
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    try:
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=900)
    except subprocess.TimeoutExpired:
        return False
    if done.returncode not in (0, 1):  # what cannot be imported is no fault that a test found
        raise RuntimeError(done.stdout[-2000:] + done.stderr[-2000:])
    return done.returncode == 0


def _copies(number: int, folder: Path) -> Queue:
    copies: Queue = Queue()
    for k in range(number):
        copy = folder / f"copy{k}"
        copy.mkdir()
        for name in COPIED:
            source = ROOT / name
            (shutil.copytree if source.is_dir() else shutil.copy)(source, copy / name)
        copies.put(copy)
    return copies


def caught_by(mutant: Mutant, copy: Path) -> str:
    """Which tests find a fault: those beside it, all, or '' where it survives."""
    path = copy / "mdfl_jax" / mutant.file
    text = path.read_text()
    if text.count(mutant.right) != 1:
        raise ValueError(f"{mutant.file}: {mutant.right!r} stands there {text.count(mutant.right)} times, not once")
    path.write_text(text.replace(mutant.right, mutant.wrong))
    try:
        near = [f"tests/{name}" for name in mutant.tests.split()]
        return "its own tests" if not _run(near, copy, "-x") else "all tests" if not _run([], copy, "-x") else ""
    finally:
        path.write_text(text)


def main() -> int:
    """Tries all faults, two at a time; the status is 1 where one survives."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--of", choices=SETS, help="only the faults in what is simulated, or in what keeps files whole")
    parser.add_argument("--only", default="", help="only the faults of files whose names hold this text")
    parser.add_argument("--sound", action="store_true", help="the tests are known to pass as they are")
    asked = parser.parse_args()
    faults = [mutant for name, of in SETS.items() if asked.of in (None, name) for mutant in of]
    wanted = [mutant for mutant in faults if asked.only in mutant.file]
    survived = []
    with tempfile.TemporaryDirectory() as folder:
        copies = _copies(2, Path(folder))
        sound = copies.get()
        near = sorted({f"tests/{name}" for mutant in wanted for name in mutant.tests.split()})
        kinds = [[name for name in near if ("::" in name) == of_long] for of_long in (False, True)]
        if not asked.sound and not all(_run(kind, sound, "--numprocesses=2") for kind in kinds if kind):
            print("the tests do not pass as they are")
            return 2
        copies.put(sound)

        def one(mutant: Mutant) -> None:
            copy, begin = copies.get(), time.monotonic()
            try:
                found = caught_by(mutant, copy)
            finally:
                copies.put(copy)
            seconds = time.monotonic() - begin
            print(f"{found or 'SURVIVED':13} {seconds:4.0f} s  {mutant.file}: {mutant.right!r}", flush=True)
            if not found:
                survived.append(mutant)

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(one, wanted))
    print(f"{len(wanted) - len(survived)} of {len(wanted)} faults were found")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
