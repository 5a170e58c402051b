"""Run the tables and figures of the papers, print ours beside the papers' claims, and write docs/papers.md.

python -m benchmarks.papers --item=madfl:t2 [--scale=smoke|small|paper] [--workdir=runs/papers] [--write]
python -m benchmarks.papers --pages

--item takes PAPER:ITEM, PAPER for all of a paper, or all; several with commas. A finished study is read, and an
interrupted one goes on. --write keeps the outcome in benchmarks/results/papers/, and --pages makes docs/papers.md
and docs/papers_tables.md from what is kept there.
"""

import json
import sys
from pathlib import Path

from absl import flags

from benchmarks import measure
from benchmarks.papers import catalogue, page, records
from benchmarks.papers.cells import markdown
from benchmarks.papers.items import Item, chosen
from benchmarks.papers.studies import Studies
from mdfl_jax.cli import common
from mdfl_jax.core.errors import UserError

_ITEM = flags.DEFINE_string("item", "", "The items: PAPER:ITEM, PAPER or all; several with commas.")
_SCALE = common.scale_flag()
_WORKDIR = flags.DEFINE_string("workdir", "runs/papers", "The folder of the studies' workdirs.")
_PAGES = flags.DEFINE_bool("pages", False, "Write the pages of docs/ from the results files, and run nothing.")

SMALL = "small"  # the scale that two cores can run


def run(item: Item) -> None:
    """Run or read the studies of an item, and print its tables and claims."""
    scale = _SCALE.value or SMALL
    studies = Studies(scale, Path(_WORKDIR.value))
    outcome = item.make(studies)
    print(f"## {item.name}: {item.title}\n")
    for table in outcome.tables:
        print("\n".join(markdown(table)))
    for claim in outcome.claims:
        given = page.papers(claim.as_json())
        print(f"- {claim.text}: {given and given + '; '}ours {page.ours(claim.as_json())}: {claim.verdict}")
    print()
    if measure.WRITE.value:
        path = records.path_of(item.name, scale)
        path.parent.mkdir(parents=True, exist_ok=True)
        content = records.content(item, scale, outcome, studies.used)
        path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
        print(path)


def main() -> int:
    """Run the items, or write the pages. Return exit status 130 if the user stopped a study."""
    catalogue.load()
    if _PAGES.value:
        if _ITEM.value:
            raise UserError(f"--pages runs nothing, so --item={_ITEM.value} is for a command of its own")
        for path, text in page.pages().items():
            path.write_text(text)
            print(path)
        return 0
    if not _ITEM.value:
        raise UserError("--item=PAPER:ITEM is missing, for example --item=madfl:t2; all is everything")
    items = chosen(_ITEM.value)
    common.setup_jax(common.default_cache())
    from mdfl_jax.study import Interrupted  # imports JAX

    try:
        for item in items:
            run(item)
    except Interrupted:
        print(f"stopped; the same command goes on where {_WORKDIR.value} was left", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    common.run(main)
