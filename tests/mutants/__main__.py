"""Deliberate faults, each of which the tests must find: ``python -m tests.mutants [--of=SET] [--only=TEXT]``.

Each fault is one change of one line of the package, made in a copy of the checkout, in which the tests named beside it
run. A fault that they do not find has survived: status 1. Of the tests of a file the short ones run; a test that is
named with ``::`` runs though it is a long one.
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
from tests.mutants.mutant import ROOT, Mutant, wrong_in

SETS = {"rules": of_rules.MUTANTS, "files": of_files.MUTANTS}
COPIED = ("mdfl_jax", "launch", "configs", "benchmarks", "docs", "tests", *("pyproject.toml", "setup.py"),
          *("README.md", "mkdocs.yml", "Makefile", "LICENSE"))  # fmt: skip
SECONDS = 900  # after which tests hang


def _failing(tests: list[str], copy: Path, *options: str) -> str:
    """What the tests of a copy say of their failure, "they hang", or "" if they pass."""
    which = "not faults" if any("::" in name for name in tests) else "not long and not faults"
    command = [sys.executable, "-m", "pytest", "-q", "-m", which, "-p", "no:cacheprovider", *options, *tests]
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    try:
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return "they hang"
    if done.returncode not in (0, 1):  # what cannot be imported is no fault that a test found
        raise RuntimeError(done.stdout[-2000:] + done.stderr[-2000:])
    return done.stdout[-2000:] if done.returncode else ""


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


def found_in(mutant: Mutant, copy: Path) -> str:
    """Makes a fault in a copy, runs its tests and takes it back. Returns what they say of it; "" if it survives."""
    path = copy / "mdfl_jax" / mutant.file
    text = path.read_text()
    path.write_text(text.replace(mutant.right, mutant.wrong))
    try:
        return _failing(mutant.places, copy, "-x")
    finally:
        path.write_text(text)


def main() -> int:
    """Tries all faults, two at a time; the status is 1 where one survives."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--of", choices=SETS, help="only the faults in what is simulated, or in what keeps files whole")
    parser.add_argument("--only", default="", help="only the faults of files whose names hold this text")
    parser.add_argument("--sound", action="store_true", help="the tests are known to pass as they are")
    asked = parser.parse_args()
    faults = [mutant for name, of in SETS.items() if asked.of in (None, name) for mutant in of]
    wanted = [mutant for mutant in faults if asked.only in mutant.file]
    if not wanted:
        parser.error(f"no fault is of a file with {asked.only!r} in its name")
    if wrong := [line for mutant in wanted for line in wrong_in(mutant)]:
        parser.error("; ".join(wrong))
    survived = []
    with tempfile.TemporaryDirectory() as folder:
        copies = _copies(2, Path(folder))
        sound = copies.get()
        near = sorted({place for mutant in wanted for place in mutant.places})
        for of_long in () if asked.sound else (False, True):
            tests = [place for place in near if ("::" in place) == of_long]
            if tests and (said := _failing(tests, sound, "--numprocesses=2")):
                print(f"the tests do not pass as they are: {said}")
                return 2
        copies.put(sound)

        def one(mutant: Mutant) -> None:
            copy, begin = copies.get(), time.monotonic()
            try:
                found = found_in(mutant, copy)
            finally:
                copies.put(copy)
            seconds, told = time.monotonic() - begin, "found" if found else "SURVIVED"
            hang = " (they hang)" if found == "they hang" else ""
            print(f"{told:8} {seconds:4.0f} s  {mutant.file}: {mutant.right!r}{hang}", flush=True)
            if not found:
                survived.append(mutant)

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(one, wanted))
    print(f"{len(wanted) - len(survived)} of {len(wanted)} faults were found")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
