"""Says which runs of a whole study are not there: a shard has some of them, and so has one merged with `--partial`."""

from collections.abc import Mapping
from typing import Any

MOST = 6  # so many sweep points are named in a sentence


def missing_told(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns a sentence for the top of the page about the runs that are missing; none for a whole study.

    Args:
      manifest: the content of config.json. Its entry ``whole`` has the sweep points and seeds of the whole study.
    """
    whole = manifest.get("whole")
    if not whole:
        return ()
    here = {point["id"]: point.get("seeds") or manifest["seeds"] for point in manifest["points"]}
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
