"""Counts of what the commands made of the faults, and their report, which `python -m tests.attack` writes."""

import json
import time
from collections import Counter
from pathlib import Path

import pytest
from forked import Started

from tests.attack.harness import STUDY, results, sweep

_KEY = "faults"  # of the properties of a test, which xdist brings to the process that writes the report
GOOD = {
    "equal": "went on to equal results",
    "ran": "two rounds were run",
    "read": "what was read is equal",
    "refused": "one line and status 2",
}
_counts: Counter[tuple[str, str]] = Counter()
_begun = time.time()


class Tally:
    """The verdicts of a test, by kind of fault."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.wrong: list[str] = []

    def add(self, kind: str, verdict: str, which: object = "") -> None:
        """Counts a fault. A verdict that is not one of `GOOD` is a failure, told with which it was."""
        good = verdict in GOOD
        self.counts[kind, verdict if good else "failed"] += 1
        self.wrong += [] if good else [f"{kind}, {which}: {verdict}"]

    def check(self, least: int = 1) -> None:
        """Fails if a verdict was a failure, or if fewer faults were tried than should have been."""
        assert not self.wrong, "\n\n".join(self.wrong)
        assert sum(self.counts.values()) >= least


@pytest.fixture
def tally(request):
    """The verdicts of this test, which enter the report."""
    made = Tally()
    yield made
    request.node.user_properties.append((_KEY, [[*kind, n] for kind, n in made.counts.items()]))


@pytest.fixture(scope="session")
def seed(pytestconfig):
    """The seed of all that is drawn here."""
    return int(pytestconfig.getoption("--faults-seed", 0))


@pytest.fixture(scope="session")
def study(tmp_path_factory):
    """The config file of the study that is disturbed."""
    path = tmp_path_factory.mktemp("study") / "study.py"
    path.write_text(STUDY)
    return path


@pytest.fixture(scope="session")
def undisturbed(study, tmp_path_factory):
    """A function that runs the study with flags, once for each set of them, and returns its workdir and `results`."""
    known, base = {}, tmp_path_factory.mktemp("undisturbed")

    def run(*flags: str):
        if flags not in known:
            folder = base / f"run-{len(known)}"
            ended = Started(base / "log", *sweep(study, *flags)(folder)).ended()
            assert ended.status == 0, ended.err
            known[flags] = folder, results(folder)
        return known[flags]

    return run


def pytest_addoption(parser):
    parser.addoption("--faults-report", help="File for the counts by kind of fault.")
    parser.addoption("--faults-seed", default=0, type=int, help="Seed of all that is drawn.")
    parser.addoption("--faults-until", default=0, type=float, help="Time after which no attack begins; 0: none.")


def pytest_runtest_setup(item):
    until = item.config.getoption("--faults-until", 0)
    if until and time.time() > until:
        pytest.skip("the time is over")


def pytest_runtest_logreport(report):
    if report.when == "teardown":
        for kind, verdict, number in dict(report.user_properties).get(_KEY, []):
            _counts[kind, verdict] += number


def pytest_sessionfinish(session, exitstatus):
    """Writes the report, in the process that has all counts."""
    path = session.config.getoption("--faults-report", None)
    if path and not hasattr(session.config, "workerinput"):
        from mdfl_jax.storage.provenance import commit, versions  # not before the environment is set

        rows = []
        for kind in sorted({kind for kind, _ in _counts}):
            numbers = {verdict: _counts[kind, verdict] for verdict in (*GOOD, "failed")}
            rows.append({"kind": kind, "tried": sum(numbers.values()), **numbers})
        about = {"suite": "faults", "seed": session.config.getoption("--faults-seed"), "exit_status": int(exitstatus)}
        about |= {"seconds": round(time.time() - _begun), "commit": commit(), "versions": versions()}
        about |= {"date": time.strftime("%Y-%m-%d"), "rows": rows}
        Path(path).write_text(json.dumps(about, indent=2) + "\n")
