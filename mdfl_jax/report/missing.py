"""Says which runs of a study are not there: of a shard, after a merge with `--partial`, and while it is extended."""

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mdfl_jax.core.outcomes import seeds_of
from mdfl_jax.storage.study_files import EXTENSION, FURTHER_ROUNDS, FURTHER_RUNS

MOST = 6  # so many sweep points are named in a sentence


def missing_told(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a sentence for the top of the page about the runs that are missing; none for a whole study.

    Args:
      manifest: the content of config.json. Its entry ``whole`` has the sweep points and seeds of the whole study.
    """
    whole = manifest.get("whole")
    if not whole:
        return ()
    here = {point["id"]: seeds_of(manifest, p) for p, point in enumerate(manifest["points"])}
    seeds = {str(of["id"]): [s for s in whole["seeds"] if s not in here.get(of["id"], ())] for of in whole["points"]}
    missing = {name: found for name, found in seeds.items() if found}
    count, total = sum(map(len, missing.values())), len(whole["points"]) * len(whole["seeds"])
    told = [
        f"{name} (seed{'s' if len(found) > 1 else ''} {', '.join(map(str, found))})" if name in here else name
        for name, found in missing.items()
    ]
    more = f" and {len(told) - MOST} more" if len(told) > MOST else ""
    what = f"shard {manifest['shard']} of a study" if manifest.get("shard") else "a part of a study"
    said = f"This is {what}: {count} of its {total} runs are missing: {'; '.join(told[:MOST])}{more}."
    return (said,) if missing else ()


def extension_lines(workdir: Path) -> list[Path]:
    """Return the paths of the metrics.jsonl of the parts by which a study is extended; they need not exist."""
    return [workdir / EXTENSION / part / "metrics.jsonl" for part in (FURTHER_ROUNDS, FURTHER_RUNS)]


def extension_told(workdir: Path) -> tuple[str, ...]:
    """Return a sentence for the top of the page of a study that is being extended; none for any other study."""
    if not (workdir / EXTENSION).is_dir():
        return ()
    newest = ""
    for path in extension_lines(workdir):
        with contextlib.suppress(OSError, ValueError, KeyError, IndexError):  # absent, or half a line at the end
            line = json.loads(path.read_text(encoding="utf-8").splitlines()[-1])
            newest = (
                f" The newest evaluation is that of {line['point']}, seed {line['seed']}, at round {line['round']}."
            )
    said = "This study is being extended, or a command that extends it was stopped. Its further runs are shown when all"
    return (f"{said} have ended.{newest}",)
