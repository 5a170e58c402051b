"""What the hosts beside the first one do: they call the functions of devices that the first one calls.

The first host runs the study as if it were alone (`mdfl_jax.study.runner`). Its `Program` tells the others each call,
so that all devices get the same programs in the same order. The others look at no file of the study, write none, and
print nothing but errors.
"""

from typing import Any

import jax

from mdfl_jax.config.sections import flat
from mdfl_jax.core import hosts
from mdfl_jax.engine.programs import Compiler, Runs
from mdfl_jax.storage.disk import plain
from mdfl_jax.storage.provenance import commit, versions
from mdfl_jax.study.ahead import memory
from mdfl_jax.study.batch import Program
from mdfl_jax.study.identity import run_config
from mdfl_jax.study.run import ignore
from mdfl_jax.study.signals import apart, handled
from mdfl_jax.study.study import Run, Study


def about(study: Study) -> dict[str, Any]:
    """Return all that must be the same on the hosts that compute a study together, as values of JSON by name.

    Numbers of members have the values in effect, since a number that is not given is None in the configuration.
    """
    local = jax.local_devices()
    here = {"the kind of the devices": local[0].device_kind, "the number of devices": len(local)}
    here |= {"commit": commit(), "versions": versions()}
    return plain(flat(here | study.config)) | run_config(study.experiment)


def follow(study: Study) -> None:
    """Do what the first host tells, until it says that all is done. A signal to this process ends the whole study."""
    groups, compiler = {group.points[0]: group for group in study.groups}, Compiler()
    program: Any = None
    carry: Any = None
    runs, given, first = list[Run](), list[Runs](), list[Runs]()
    with handled(hosts.ask_to_end, ignore, is_worker=True):
        while True:
            match hosts.hear():
                case ["fit"]:
                    apart(lambda: memory.fit(study, ignore))
                case ["program", point, size]:
                    program = Program(study, groups[point], compiler, size)
                case ["inputs", told]:
                    carry, runs = None, [Run(*run) for run in told]
                    given, first = program.inputs(runs)
                case ["compile"]:
                    program.compile(given, first)
                case ["start"]:
                    carry = program.start(first, len(runs))[0]
                case ["restore"]:
                    carry = program.restore(carry, None, len(runs))
                case ["advance"]:
                    carry = program.advance(given, carry, len(runs))[0]
                case ["kept"]:
                    program.kept(carry, len(runs))
                case ["models"]:
                    program.models(carry, len(runs))
                case ["end"]:
                    return
