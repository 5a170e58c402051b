"""The programs of a group: what they depend on, and what happens while both are compiled."""

import jax
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache

from mdfl_jax.experiments import make_study
from mdfl_jax.experiments.run.batch import Program
from mdfl_jax.experiments.run.study import Run

COMPILE_FULLY = True  # so that the cached programs are those of a study


@pytest.fixture
def program(tiny):
    """Makes the program of a tiny study in which each device has runs of its own."""

    def make(**changes):
        study = make_study(tiny(**{"engine.client_devices": 1, "seeds": 1, **changes}))
        return Program(study, study.groups[0])

    return make


def lowered(program):
    """Both programs before they are compiled, the second one for the state of which the first tells the shapes."""
    mc, (runs, first) = program.monte_carlo, program.inputs([Run(0, 0)])
    start = mc.init.lower(mc.data, *first)
    return start, mc.advance.lower(mc.data, *runs, start.out_info[0])


@pytest.mark.long
def test_studies_that_differ_in_traced_numbers_have_the_same_programs(program):
    other = {"algorithm.lr": 0.3, "network.radius": 1.5, "network.num_mobile": 1, "first_seed": 5}
    texts = [[one.as_text() for one in lowered(program(**changes))] for changes in ({}, other)]
    assert texts[0] == texts[1]


@pytest.mark.long
def test_rounds_are_compiled_for_the_state_that_the_start_returns(program):
    made = program()
    mc, (runs, first) = made.monte_carlo, made.inputs([Run(0, 0)])
    carry, *_, seconds = made.start(runs, first, 1)
    assert lowered(made)[1].as_text() == mc.advance.lower(mc.data, *runs, carry).as_text()
    again, *_, none = made.start(runs, first, 1)
    assert seconds > none == 0  # it is compiled already
    carry, metrics = made.advance(mc.data, *runs, carry)
    assert int(np.asarray(metrics.round)[0, 0]) == 2
    assert all(np.shape(x) == np.shape(y) for x, y in zip(jax.tree.leaves(carry), jax.tree.leaves(again), strict=True))


@pytest.mark.parametrize("which", [0, pytest.param(1, marks=pytest.mark.long)])
def test_an_error_of_the_compiler_reaches_the_study(program, monkeypatch, which):
    made = program()
    runs, first = made.inputs([Run(0, 0)])
    bad = lowered(made)[which].as_text()

    def compile_one(one, *args, **kwargs):
        if one.as_text() == bad:
            raise MemoryError("RESOURCE_EXHAUSTED")

    monkeypatch.setattr(jax.stages.Lowered, "compile", compile_one)
    with pytest.raises(MemoryError, match="RESOURCE_EXHAUSTED"):
        made.start(runs, first, 1)


@pytest.mark.long
def test_the_cache_serves_a_study_that_differs_in_traced_numbers(program, tmp_path):
    events, settings = [], ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = {name: getattr(jax.config, name) for name in settings}
    jax.monitoring.register_event_listener(lambda name, **_: events.append(name.rsplit("/", 1)[-1]))
    try:
        for name, value in zip(settings, (str(tmp_path), 0.0)):
            jax.config.update(name, value)
        compilation_cache.reset_cache()
        for lr, misses in ((0.1, 2), (0.3, 0)):
            both = lowered(program(**{"algorithm.lr": lr}))
            events.clear()  # of the small programs that make the study
            for one in both:
                one.compile()
            assert (events.count("cache_hits"), events.count("cache_misses")) == (2 - misses, misses)
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()
