"""The programs of a study: what they depend on, which are compiled once, and what they compute."""

import jax
import pytest

from mdfl_jax.engine.programs import Compiler
from mdfl_jax.study import make_study
from mdfl_jax.study.runner import Program
from mdfl_jax.study.study import Run

COMPILE_FULLY = True  # with few optimisations, programs round in other ways if they are cut in another place


@pytest.fixture
def program(tiny):
    """Makes the program of a group of a tiny study in which each device has runs of its own."""

    def make(number=0, compiler=None, **changes):
        study = make_study(tiny(**{"engine.client_devices": 1, "seeds": 1, **changes}))
        group = study.groups[number]
        return Program(study, group, compiler or Compiler(), group.runs_per_batch)

    return make


def started(program, num_runs=1):
    """Compiles and starts a program, and returns the metrics and the facts before the first round."""
    first = program.group.points[0]
    program.take([Run(first, seed) for seed in range(num_runs)])
    program.compile()
    return program.start()


@pytest.fixture
def lowered(monkeypatch):
    """The names and the texts of the programs in the order in which they are traced; none of them is compiled."""
    found = {}

    def note(one, *args, **kwargs):
        found[one.as_text().split()[1].removeprefix("@jit_")] = one.as_text()
        raise InterruptedError

    def of(program, num_runs=1):
        found.clear()
        with monkeypatch.context() as here:
            here.setattr(jax.stages.Lowered, "compile", note)
            with pytest.raises(InterruptedError):
                started(program, num_runs)
        return dict(found)

    return of


def same(one, other):
    """The names of the programs with equal texts."""
    return {name for name in one if one[name] == other[name]}


ALL = {"draw", "world", "begin", "rounds", "evaluate"}


@pytest.mark.long
def test_programs_depend_neither_on_traced_numbers_nor_on_the_number_of_runs(program, lowered):
    other = {"algorithm.lr": 0.3, "network.radius": 1.5, "network.num_mobile": 1, "first_seed": 5}
    whole = lowered(program(seeds=16, sweep=""), 16)  # two on each of the eight devices
    for seeds in (24, 8):  # so a study of as many runs as devices grows to the bit
        assert same(whole, lowered(program(seeds=seeds, sweep="", **other), seeds)) == ALL == set(whole)
