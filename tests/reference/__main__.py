"""Draws configurations for some time, and reports which pairs of capabilities were seen.

Command:   python -m tests.reference --minutes=30 --grow       two processes; adds to benchmarks/results/reference.json
           python -m tests.reference --minutes=0.5 --seed=7    as a failure names it

Each draw has a pair that the fewest have seen, and many choices beside it that are not refused together. A difference
ends the command with status 1, with the smallest configuration that still differs and the seed; so does a refusal that
is not in the table, or a row of the table that is not refused.
"""

import argparse
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "benchmarks" / "results" / "reference.json"


def prepare():
    """Sets what must be set before JAX starts: two devices, and the quick compiler of the tests."""
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    from shell import QUICK

    os.environ["XLA_FLAGS"] = (  # on a busy machine devices may wait long for one another, as in tests/conftest.py
        f"{os.environ.get('XLA_FLAGS', '')} {QUICK} --xla_force_host_platform_device_count=2"
        " --xla_cpu_collective_call_terminate_timeout_seconds=200"
    )
    os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    os.environ["JAX_PLATFORMS"] = "cpu"


def tried(one):
    """[(choices, "equal", "edge" or "refused")] of the runs of a drawn configuration.

    Raises:
      AssertionError: for a difference, and for a refusal or the lack of one that the table does not say.
    """
    from mdfl_jax.core.errors import UserError
    from tests.reference.configurations import configured
    from tests.reference.judge import judge
    from tests.reference.refusals import reasons

    why = {}
    for point in one.points():
        for row in reasons(configured(point, *one[1:4])):
            why.setdefault(row, point)
    points = list(one.points())
    try:
        verdicts = judge(one.changes())
    except UserError as error:
        if "\n" in str(error):
            raise AssertionError(f"a refusal of several lines: {error}") from None
        if not why:
            raise AssertionError(f"refused, and no row of the table says why: {error}") from None
        return [(point, "refused") for point in points if point in why.values()]
    row = next(iter(why), None)
    assert row is None, f"not refused, though the table says: {row.one} with {row.other}, {row.why}"
    return [(points[k], verdict) for k, verdict in verdicts]


def kept():
    """The matrix so far: {(capability, capability): Counter of verdicts}."""
    return {(a, b): Counter(counts) for a, b, counts in json.loads(KEPT.read_text())["pairs"]} if KEPT.exists() else {}


def draw(minutes, seed, before, tally_file=None):
    """Draws for some minutes in this process, and returns {(capability, capability): Counter of verdicts}.

    Pairs that are often in the matrix ``before`` are drawn less often, those that are refused once. Without it two
    of three draws have one of `TOGETHER`, in turn, and some refused pairs are tried beside each draw.
    """
    import jax

    from tests.reference.configurations import (
        ENOUGH,
        PAIRS,
        REFUSED,
        SLOTS,
        TOGETHER,
        capabilities,
        drawn,
        is_refused,
        of_refused,
        pair,
    )
    from tests.reference.refusals import reasons

    rng, found, until = random.Random(seed), {}, time.monotonic() + 60 * minutes
    pairs = [(a, b) for a, b in itertools.combinations(PAIRS, 2) if a[0] != b[0]]
    rng.shuffle(pairs)
    turns = itertools.cycle(rng.sample(TOGETHER, len(TOGETHER)))
    refused = iter(() if before else of_refused(rng, pairs, reasons))
    seen = Counter()
    for (a, b), counts in before.items():
        a, b = choice_of(a), choice_of(b)
        never = set(counts) == {"refused"} and is_refused(a, b, reasons)
        seen[pair(a, b)] = ENOUGH if never else counts["equal"]
    for count in itertools.count():
        if time.monotonic() > until:
            return found
        if count % 20 == 19:
            jax.clear_caches()  # a compiled program holds some 20 MiB
        wanted = min(pairs, key=seen.__getitem__)
        one = drawn(rng, wanted, seen, reasons, bool(before), next(turns) if count % 3 and not before else None)
        for each in (*itertools.islice(refused, REFUSED), one):  # what is refused takes milliseconds
            if tally_file:
                now_drawn(tally_file).write_text(f"{each.changes()}")
            try:
                verdicts = tried(each)
            except Exception as error:
                told = f"{each.changes()}\n  {error}\n  leaving out what can be left out ..."
                print(told, file=sys.stderr, flush=True)
                raise SystemExit(smallest(each, error)) from None
            for choices, verdict in verdicts:
                if verdict == "refused":
                    seen[wanted] += ENOUGH // 3 * (each is one)
                else:
                    had = {"algorithm": "dpsgd", **choices}
                    seen.update(itertools.combinations([(slot, had[slot]) for slot in SLOTS if slot in had], 2))
                for names in itertools.combinations(capabilities(choices), 2):
                    found.setdefault(names, Counter())[verdict] += 1
        if tally_file:
            Path(tally_file).write_text(json.dumps([[*pair, dict(counts)] for pair, counts in found.items()]))


def now_drawn(tally_file):
    """The file with what a process draws now, for processes that JAX ends."""
    return Path(f"{tally_file}.now")


def smallest(one, error):
    """Leaves choices out as long as it still fails, and returns the failure of what is left, in words."""
    from tests.reference.configurations import smaller

    again = True
    while again:
        again = False
        for less in smaller(one):
            try:
                tried(less)
            except Exception as other:
                one, error, again = less, other, True
                break
    told = error if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
    return f"{one.choices}, {one.clients} clients, {one.rounds} rounds: {told}\n  {one.changes()}"


def choice_of(name):
    """The (slot, choice) of a name in the matrix."""
    return tuple(name.split(": "))


def report(found):
    """A text of how many pairs were equal, refused or not reached often enough."""
    from tests.reference.configurations import ENOUGH, PAIRS, is_refused
    from tests.reference.refusals import reasons

    names = [f"{slot}: {choice}" for slot, choice in PAIRS]
    possible = [(a, b) for a, b in itertools.combinations(sorted(names), 2) if a.split(":")[0] != b.split(":")[0]]
    judged = {pair: counts.get("equal", 0) for pair, counts in found.items()}
    few = {pair for pair, counts in found.items() if counts.get("refused") and judged[pair] < ENOUGH}
    refused = {(a, b) for a, b in few if is_refused(choice_of(a), choice_of(b), reasons)}  # some since an earlier run
    full = sum(judged.get(pair, 0) >= ENOUGH for pair in possible)
    some = sum(0 < judged.get(pair, 0) < ENOUGH for pair in {*possible} - refused)
    edges = sum(counts.get("edge", 0) for counts in found.values())
    lines = [
        f"{len(possible):,} pairs of {len(names)} capabilities: "
        f"{full:,} equal in {ENOUGH} draws or more, {some:,} in fewer,",
        f"{len(refused):,} refused, {len(possible) - full - some - len(refused):,} not reached; "
        f"{edges:,} times a choice between equals decided",
    ]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.reference", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=None, help="of the draws; by default the time")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--grow", action="store_true", help=f"add what is drawn to {KEPT.relative_to(ROOT)}")
    parser.add_argument("--tally", default="", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    seed = int(time.time()) % 10**6 if asked.seed is None else asked.seed
    if asked.tally:
        prepare()
        draw(asked.minutes, seed, kept() if asked.grow else {}, asked.tally)
        return 0
    with tempfile.TemporaryDirectory() as made:
        files = [Path(made) / str(k) for k in range(asked.workers)]
        command = [sys.executable, "-m", "tests.reference", f"--minutes={asked.minutes}", *["--grow"] * asked.grow]
        started = [
            subprocess.Popen([*command, f"--seed={seed + k}", f"--tally={file}"], cwd=ROOT)
            for k, file in enumerate(files)
        ]
        failed = [seed + k for k, each in enumerate(started) if each.wait()]
        for file, each in zip(files, started):
            if each.returncode < 0:
                print(f"ended by signal {-each.returncode} at\n  {now_drawn(file).read_text()}", file=sys.stderr)
        found = {}
        for file in files:
            for a, b, counts in json.loads(file.read_text()) if file.exists() else []:
                found.setdefault((a, b), Counter()).update(counts)
    prepare()
    draws = sum(counts.total() for counts in found.values())
    print(f"seeds {seed} to {seed + asked.workers - 1}, {asked.minutes:g} minutes, {draws:,} times a pair was drawn")
    print(report(found))
    if asked.grow:
        runs = json.loads(KEPT.read_text())["runs"] if KEPT.exists() else []
        about = {"date": f"{date.today()}", "minutes": asked.minutes, "seed": seed, "workers": asked.workers}
        runs.append(about | ({"ended_early": failed} if failed else {}))  # the seeds that found a difference
        for each, counts in kept().items():
            found.setdefault(each, Counter()).update(counts)
        print(f"with all {len(runs)} runs: {report(found)}")
        rows = [[*pair, dict(counts)] for pair, counts in sorted(found.items())]
        whole = {"runs": runs, "summary": report(found), "pairs": rows}
        KEPT.write_text(json.dumps(whole, separators=(",", ":")).replace('],["', '],\n["') + "\n")
    for each in failed:
        again = f": python -m tests.reference --minutes={asked.minutes:g} --seed={each} --workers=1"
        print("a difference" + again * (not asked.grow), file=sys.stderr)  # what has grown is not drawn again
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
