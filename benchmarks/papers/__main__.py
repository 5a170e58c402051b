"""Run the tables and figures of the papers, and print ours beside the papers' claims.

python -m benchmarks.papers --item=madfl:t2 [--scale=smoke|small|paper] [--seeds=N] [--workdir=DIR] [--write]
python -m benchmarks.papers --plan                    how many seeds decide what is undecided, best first
python -m benchmarks.papers --grow --hours=H          runs the plan from its beginning, for about so many hours
python -m benchmarks.papers --foretell                what theory says of the claims of MADFL and DADFL, with 100 seeds
python -m benchmarks.papers --page=papers             the claims and our verdicts; --page=papers_tables: all tables

--item takes PAPER:ITEM, PAPER for all of a paper, or all; several with commas. A finished study is read, and an
interrupted one goes on. --write keeps the outcome in benchmarks/results/papers/; from what is kept there, --page prints
a page of the site. --seeds adds seeds to those of the studies. The studies lie in --workdir, by default in the folder
that the variable MDFL_PAPERS_DIR names: whatever is there is not run again. --grow writes the outcomes after each step
of the plan.
"""

import json
import os
import sys
import time
from pathlib import Path

import jax
from absl import flags

from benchmarks import measure
from benchmarks.papers import catalogue, foretold, page, plan, records
from benchmarks.papers.cells import markdown
from benchmarks.papers.items import ITEMS, Item, chosen
from benchmarks.papers.studies import Studies
from mdfl_jax.cli import common
from mdfl_jax.core import program_cache
from mdfl_jax.core.errors import UserError

_ITEM = flags.DEFINE_string("item", "", "The items: PAPER:ITEM, PAPER or all; several with commas.")
_SCALE = common.scale_flag()
_WORKDIR = flags.DEFINE_string(
    "workdir", os.environ.get("MDFL_PAPERS_DIR", "runs/papers"), "The folder of the studies' workdirs."
)
_SEEDS = flags.DEFINE_integer(
    "seeds", 0, "The least number of seeds of each study; 0: the studies' own.", lower_bound=0
)
_PLAN = flags.DEFINE_bool("plan", False, "Print how many seeds decide the undecided claims, and run nothing.")
_GROW = flags.DEFINE_bool("grow", False, "Run the plan, and write the outcomes.")
_FORETELL = flags.DEFINE_bool("foretell", False, "Compute what theory says of claims, and write it.")
_HOURS = flags.DEFINE_float("hours", 0.0, "With --grow, the hours after which no step begins.", lower_bound=0.0)
_PAGE = flags.DEFINE_enum(
    "page", None, ["papers", "papers_tables"], "Print a page that is made from the results files, and run nothing."
)

SMALL = "small"  # the scale that two cores can run


def run(item: Item, studies: Studies, write: bool) -> None:
    """Run or read the studies of an item, print its tables and claims, and keep them if they are to be written."""
    outcome = item.make(studies)
    print(f"## {item.name}: {item.title}\n")
    for table in outcome.tables:
        print("\n".join(markdown(table)))
    for claim in outcome.claims:
        given = page.papers(claim.as_json())
        print(f"- {claim.text}: {given and given + '; '}ours {page.ours(claim.as_json())}: {claim.verdict}")
    print()
    if write:
        path = records.path_of(item.name, studies.scale)
        path.parent.mkdir(parents=True, exist_ok=True)
        content = records.content(item, studies.scale, outcome, studies.used)
        path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
        print(path)


def grow(hours: float) -> None:
    """Run the steps of the plan in their order, each with all items whose studies it grows, until the time is over.

    The hours of an item are those of the kind of device that ran it, so only such steps are run here.
    """
    until = time.monotonic() + 3600 * hours
    platform = jax.default_backend()
    for step in plan.steps(plan.needs(platform), platform):
        if time.monotonic() > until:
            break
        told = f"{len(step.claims)} claims, about {step.hours:.1f} hours"
        print(f"# {step.item} to {step.seeds} seeds: {told}\n", flush=True)
        seeds, before = plan.seeds_with(step, platform), plan.undecided()
        for name in plan.sharing(step, platform):
            run(ITEMS[name], Studies(records.scale_of(name), Path(_WORKDIR.value), seeds=seeds), write=True)
        plan.keep_outcome(step, before)


def main() -> int:
    """Run the items, or print the plan or a page. Return exit status 130 if the user stopped a study."""
    catalogue.load()
    for flag in (_PAGE, _PLAN, _GROW, _FORETELL):
        if flag.value and _ITEM.value:
            raise UserError(f"--{flag.name} is for all items, so --item={_ITEM.value} is for a command of its own")
    if _GROW.value != (_HOURS.value > 0):
        raise UserError(f"--hours={_HOURS.value:g}: --grow needs the hours that it may take, and nothing else does")
    if _PAGE.value or _PLAN.value:
        print("\n".join(plan.lines()) if _PLAN.value else page.pages()[f"{_PAGE.value}.md"].rstrip())
        return 0
    if not (_ITEM.value or _GROW.value or _FORETELL.value):
        raise UserError("--item=PAPER:ITEM is missing, for example --item=madfl:t2; all is everything")
    items = chosen(_ITEM.value) if _ITEM.value else []
    common.setup_jax(program_cache.default_folder())
    from mdfl_jax.study import Interrupted  # imports JAX

    try:
        if _FORETELL.value:
            foretold.write()
        if _GROW.value:
            grow(_HOURS.value)
        for item in items:
            studies = Studies(_SCALE.value or SMALL, Path(_WORKDIR.value), _SEEDS.value)
            run(item, studies, bool(measure.WRITE.value))
    except Interrupted:
        print(f"stopped; the same command goes on where {_WORKDIR.value} was left", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    common.run_command(main)
