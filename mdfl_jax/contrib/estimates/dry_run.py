"""`mdfl sweep --dry_run --target=NAME`: compiles each program of a study for that device, in separate processes.

A compiler that aborts ends only its own process. The child process executes the same command again; the environment
variable `CHILD` tells it the number of its program and the file for its results.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mdfl_jax.cli.commands import DRY_RUNS
from mdfl_jax.core.devices import KINDS
from mdfl_jax.core.errors import UserError

if TYPE_CHECKING:
    from ml_collections import ConfigDict

    from mdfl_jax.core.devices import Wanted

CHILD = "MDFL_JAX_AHEAD"  # the environment variable; its value is NUMBER:FILE
ESTIMATES = "these are the compiler's estimates for a device that was not at hand, not measurements"


def _run(wanted: "Wanted | None", config: "ConfigDict", effort: str) -> int:
    """Compile the programs of a study for a device, each in a child process, or one of them if this is the child.

    Args:
      wanted: the device.
      config: the configuration of the study.
      effort: how hard the compiler of a TPU tries.

    Returns:
      The exit status.
    """
    assert wanted
    return child(wanted, config, effort) if CHILD in os.environ else main(wanted)


for _kind in KINDS:
    if _kind != "cpu":
        DRY_RUNS.register(_kind)(_run)


def main(wanted: "Wanted") -> int:
    """Compile every program and print the results. Return exit status 1 if one does not compile or does not fit."""
    from mdfl_jax.contrib.estimates import accounts

    accounts.check_installed(wanted)
    bad, number, count = 0, 0, 1
    hours: list[Any] = []
    while number < count:
        print(f"compiling program {number + 1} ...", file=sys.stderr, flush=True)
        found = in_a_child(number, sys.argv[1:])
        if number == 0 and "count" in found:
            print(found["plan"])
            print(f"  for {wanted.name}: {ESTIMATES}", flush=True)
        count = found.get("count", count)
        if "failure" in found:
            name = "; ".join(found.get("points", [])) or f"program {number + 1} of {count}"
            print(f"  {name}\n    does not compile: {found['failure']}", flush=True)
        else:
            print(accounts.describe_account(found), flush=True)
        bad += "failure" in found or not found["runs_that_fit"]
        hours.append(found.get("study_hours"))
        number += 1
    if count > 1 and all(hours):
        print(f"  the whole study: {accounts.in_hours(sum(hours))}, the time of compiling left out")
    return 1 if bad else 0


def in_a_child(number: int, arguments: list[str]) -> dict[str, Any]:
    """Compile one program in a child process.

    Args:
      number: the number of the program, from 0.
      arguments: the arguments of the command `sweep`, which include ``--dry_run`` and ``--target``.

    Returns:
      The child's results (`mdfl_jax.contrib.estimates.accounts.account`). If the program did not compile, they have the
      key "failure" with a message.

    Raises:
      UserError: if the child found a mistake of the user.
    """
    from mdfl_jax.cli.common import error_in
    from mdfl_jax.contrib.estimates.accounts import ENVIRONMENT

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.json"
        task = {CHILD: f"{number}:{path}"}
        # Without a cache: a program that was compiled for an absent device can be stored, but not loaded again.
        command = [sys.executable, "-m", "mdfl_jax.cli.entry", "sweep", *arguments, "--cache="]
        done = subprocess.run(command, env=os.environ | ENVIRONMENT | task, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return json.loads(path.read_text())
        if done.returncode == 2 and (error := error_in(done.stderr)):
            raise UserError(error)
        begun = json.loads(path.read_text()) if path.exists() else {}
        return begun | {"failure": _last_words(done.stderr, done.returncode)}


def _last_words(said: str, status: int) -> str:
    """Return one line that says why the compiler's process ended."""
    from mdfl_jax.cli.common import end_in_words

    lines = [line.strip() for line in said.splitlines() if line.strip()]
    reasons = [
        line for line in lines if "Check failed" in line or "RESOURCE_EXHAUSTED" in line or re.match(r"F\d{4} ", line)
    ]
    word = (reasons or lines or ["it said nothing"])[0 if reasons else -1]
    return f"the compiler's process {end_in_words(status)}: {word[:400]}"


def child(wanted: "Wanted", config: "ConfigDict", effort: str) -> int:
    """Compile one program and write the results to the file in `CHILD`. A compiler's error is written as a result."""
    from mdfl_jax.contrib.estimates import accounts
    from mdfl_jax.core import devices
    from mdfl_jax.study import make_study
    from mdfl_jax.study.plan import plan

    number, path = os.environ[CHILD].split(":", 1)
    with devices.aimed_at(accounts.target_devices(wanted)):
        study = make_study(config)
        group = study.groups[int(number)]
        begun = {
            "count": len(study.groups),
            "all_runs": len(study.runs),
            "plan": plan(study),
            "points": [study.points[i].id for i in group.points],
        }
        Path(path).write_text(json.dumps(begun))  # the parent needs these if the compiler aborts
        try:
            found = accounts.account(study, int(number), effort)
        except Exception as error:  # compilers raise many types
            if isinstance(error, UserError):
                raise
            found = {"failure": " ".join(str(error).split())[:600]}
        Path(path).write_text(json.dumps(begun | found))
    return 0
