"""`--dry_run` of shipped studies: what it prints is made of the programs, which are compiled and not run.

In this process, one program of a study, without optimisations and with a linear model on data sets: what is asked is
whether such programs can be described, not how large they are. All studies are made in test_configs.py.
"""

import importlib
import sys

import pytest

from mdfl_jax.study import make_study, memory
from mdfl_jax.study.plan import plan

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("unregistered")]
CASES = [
    ("city", "small"),  # a trace
    ("fedmobile", "f3_rho,scale=smoke"),  # meetings
    ("pame", "f8,scale=smoke"),  # drawn data
    ("text_transformer", ""),  # sequences
]


@pytest.mark.parametrize(("name", "argument"), CASES)
def test_a_dry_run_describes_the_study(name, argument, stand_ins):
    sys.modules.pop(f"configs.{name}", None)  # what it registers, another test has unregistered
    module = importlib.import_module(f"configs.{name}")
    config = module.get_config(argument) if argument else module.get_config()
    if (stand_ins / f"{config.data.name}.npz").is_file():
        config.data.dir = str(stand_ins)
        if config.data.samples_per_client:
            config.data.samples_per_client = 8
    if not config.data.name.startswith("synthetic:") and config.data.name != "python_topics":
        config.model.name = "linear"
        config.model.norm = None
    config.engine.memory_mib = 1  # whether a second run would fit is then not asked, which compiles each program twice
    study = make_study(config)
    assert plan(study).startswith(f"{config.name}: {len(study.points)} point")
    told, fits = memory.describe(study._replace(groups=study.groups[:1], seeds=study.seeds[:1]))
    assert " of 1\n" in told
    assert fits == ("does not fit: " not in told)
    assert told.count("parameters a client") == told.count("GFLOP a round") == 1
    assert int(told.split("parameters a client")[1].split()[0].replace(",", "")) > 0
