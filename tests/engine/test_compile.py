"""The programs of a study: what they depend on, which are compiled once, and what they compute."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache

from mdfl_jax.core import devices
from mdfl_jax.core.metric import CLIENTS, HOLDS, ROUNDS
from mdfl_jax.engine.programs import Compiler, Placement
from mdfl_jax.metrics import metric
from mdfl_jax.study import make_study
from mdfl_jax.study.runner import Program, steps
from mdfl_jax.study.study import Run

COMPILE_FULLY = True  # with few optimisations, programs round in other ways if they are cut in another place
ALGORITHMS = {"sweep": "algorithm.name=dpsgd,gradient_tracking", "baseline": ""}


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
def test_of_many_programs_those_that_were_needed_last_are_held(program, monkeypatch):
    """Or a study of many groups would hold all of their programs until its end."""
    compiled = []
    monkeypatch.setattr("mdfl_jax.engine.programs.HELD", len(ALL))
    monkeypatch.setattr(jax.stages.Lowered, "compile", lambda one, _: compiled.append(one.as_text().split()[1]))
    compiler = Compiler()
    for number, names in ((0, ALL), (1, {"begin", "rounds"}), (1, set()), (0, {"begin", "rounds"})):
        made = program(number, compiler, **ALGORITHMS)
        made.take([Run(number, 0)])
        compiler.programs(made.placement, made.runs[0], made.first[0])
        assert sorted(compiled) == sorted(f"@jit_{name}" for name in names)
        compiled.clear()


@pytest.mark.long
@pytest.mark.parametrize("at_once", [1, 2])
def test_turns_of_steps_give_the_bits_of_a_loop_of_whole_programs(program, at_once):
    made = program(seeds=32, sweep="", **{"engine.runs_at_once": at_once})  # four on each device
    metrics, facts = started(made, 32)
    assert len(made.runs) == len(made.carry) == 4 // at_once
    simulation, data, hparams = made.group.simulation, made.group.simulation.data, made.hparams[0]
    keys = jax.vmap(jax.random.key)(np.arange(32, dtype=np.uint32))

    def over(f):
        """One run after another, or groups of runs. `lax.map`'s own groups fail on arrays without elements."""
        if at_once == 1:
            return partial(jax.lax.map, f)
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


@pytest.mark.long
def test_the_runs_of_a_device_are_mapped_together_on_accelerators(program):
    found = []
    for at_once in (1, 0):
        made = program(sweep="", seeds=16)
        if not at_once:
            with devices.aimed_at(devices.current()._replace(backend="gpu")):
                made.placement = Placement(made.group.simulation, 16)
        first, facts = started(made, 16)
        assert len(made.runs) == (2 if at_once else 1)
        found.append((first, made.advance(), facts, made.kept()))
    for one, other in zip(found[0][:2], found[1][:2], strict=True):
        compare(one, other, one.declared)
    jax.tree.map(np.testing.assert_array_equal, found[0][2:], found[1][2:])


def compare(found, expected, declared):
    """Checks that counts and accuracies are equal, and other metrics up to their last bits."""
    for one in declared:
        exact = found[one.name].dtype.kind != "f" or "accuracy" in one.name
        check = np.testing.assert_array_equal if exact else np.testing.assert_allclose
        check(found[one.name], expected[one.name], **({} if exact else {"rtol": 1e-5, "atol": 1e-6}))


@pytest.mark.long
@pytest.mark.usefixtures("unregistered")
def test_a_metric_may_compute_with_the_rows_of_the_rounds_or_count_them(program):
    def twice(at):
        """[rounds, N, 2] float32, twice the places."""
        return 2 * at.by_round("twice")

    def how_many(at):
        """[] float32, the rows of places: a number of the program, which then has no rows as an input."""
        return jnp.float32(at.by_round("position").shape[0])

    shape = (ROUNDS, CLIENTS, 2)
    metric("how_many", still=HOLDS, shape=(), summary=False)(how_many)
    metric("twice", still=HOLDS, shape=shape, each_round=lambda view: view.places.position, summary=False)(twice)
    made = program(**{"engine.record_positions": True})
    runs = [Run(0, 0)]
    done = list(steps(made, runs))
    assert [step.metrics.twice.shape[1] for step in done] == [1, 2, 2]
    assert [step.metrics.how_many.item() for step in done] == [1, 2, 2]
    for step in done:
        np.testing.assert_array_equal(step.metrics.twice, 2 * step.metrics.position)


@pytest.mark.long
@pytest.mark.parametrize("which", ["draw", "rounds"])
def test_an_error_of_the_compiler_reaches_the_study(program, monkeypatch, which):
    def compile_one(one, *args, **kwargs):
        if f"@jit_{which} " in one.as_text():
            raise MemoryError("RESOURCE_EXHAUSTED")

    monkeypatch.setattr(jax.stages.Lowered, "compile", compile_one)
    with pytest.raises(MemoryError, match="RESOURCE_EXHAUSTED"):
        started(program())


@pytest.mark.long
def test_the_cache_serves_a_study_that_differs_in_traced_numbers(program, tmp_path):
    events, settings = [], ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = {name: getattr(jax.config, name) for name in settings}
    jax.monitoring.register_event_listener(lambda name, **_: events.append(name.rsplit("/", 1)[-1]))
    try:
        for name, value in zip(settings, (str(tmp_path), 0.0)):
            jax.config.update(name, value)
        compilation_cache.reset_cache()
        for lr, misses in ((0.1, 5), (0.3, 0)):
            made = program(**{"algorithm.lr": lr})
            made.take([Run(0, 0)])
            events.clear()  # of the small programs that make the study
            made.compile()
            made.start()
            assert (events.count("cache_hits"), events.count("cache_misses")) == (5 - misses, misses)
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()
