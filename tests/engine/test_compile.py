"""The programs of a study: what they depend on, which are compiled once, and what they compute."""

import jax
import numpy as np
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


@pytest.mark.long
def test_turns_of_steps_give_the_bits_of_a_loop_of_whole_programs(program):
    at_once, made = 2, program(seeds=32, sweep="", **{"engine.runs_at_once": 2})  # four on each device
    metrics, facts = started(made, 32)
    assert len(made.runs) == len(made.carry) == 4 // at_once
    simulation, data, hparams = made.group.simulation, made.group.simulation.data, made.hparams[0]
    keys = jax.vmap(jax.random.key)(np.arange(32, dtype=np.uint32))

    def over(f):
        """Groups of runs, one after another; `lax.map`'s own fail on arrays without elements."""
        group = lambda x: x.reshape(32 // at_once, at_once, *x.shape[1:])  # noqa: E731
        single = lambda x: x.reshape(32, *x.shape[2:])  # noqa: E731
        return lambda runs: jax.tree.map(single, jax.lax.map(jax.vmap(f), jax.tree.map(group, runs)))

    whole, before = jax.jit(over(lambda key: simulation.init(data, hparams, key)))(keys)
    jax.tree.map(np.testing.assert_array_equal, facts, jax.vmap(simulation.facts)(whole))
    compare(metrics, before, simulation.metrics)
    advance = jax.jit(lambda *runs: over(lambda one: simulation.advance(data, hparams, *one))(runs))
    for _ in range(2):
        metrics = made.advance()
        whole, after = advance(keys, whole)
        compare(metrics, after, simulation.metrics)
    kept = simulation.kept(whole._replace(clients=None), before=1)
    pairs = zip(jax.tree.leaves(made.kept()), jax.tree.leaves(kept), strict=True)
    assert all(x.tobytes() == np.asarray(y).tobytes() for x, y in pairs)


def compare(found, expected, declared):
    """Checks that counts and accuracies are equal, and other metrics up to their last bits."""
    for one in declared:
        exact = found[one.name].dtype.kind != "f" or "accuracy" in one.name
        check = np.testing.assert_array_equal if exact else np.testing.assert_allclose
        check(found[one.name], expected[one.name], **({} if exact else {"rtol": 1e-5, "atol": 1e-6}))
