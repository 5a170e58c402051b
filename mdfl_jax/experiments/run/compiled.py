"""Compiles the two programs of a group at the same time: the start of its runs, and the rounds to the next evaluation.

XLA compiles a program with several threads, but many of its steps use only one of them. Therefore the first program is
compiled while the second one is still traced, and then both are.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from mdfl_jax import target
from mdfl_jax.montecarlo import MonteCarlo, Runs
from mdfl_jax.simulation import Simulation


class Programs(NamedTuple):
    """The compiled ``init`` and ``advance`` of a `mdfl_jax.montecarlo.MonteCarlo`."""

    init: Any
    advance: Any


def compiled(simulation: Simulation, mc: MonteCarlo, runs: Runs, first: Runs) -> Programs:
    """Compiles the programs of a group.

    Args:
      simulation: The simulation of the group.
      mc: The same, for batches of runs.
      runs: The inputs of a batch of runs.
      first: The inputs of the start of these runs, which may have models from files.
    """
    options = target.compiler_options(simulation.alone)
    start = mc.init.lower(mc.data, *first)
    if simulation.mesh:  # the compiler decides where the state lies, so it must be there before the rounds are compiled
        init = start.compile(options)
        return Programs(init, mc.advance.lower(mc.data, *runs, init(mc.data, *first)[0]).compile(options))
    with ThreadPoolExecutor(1) as other:
        init = other.submit(start.compile, options)
        advance = mc.advance.lower(mc.data, *runs, start.out_info[0]).compile(options)
        return Programs(init.result(), advance)
