"""The parts of a study: every run is in exactly one of them, in few programs and batches."""

from types import SimpleNamespace

from hypothesis import given, settings
from hypothesis import strategies as st
from studies import batches_of

from mdfl_jax.study.study import Group, Study

EXPERIMENT = SimpleNamespace(engine=SimpleNamespace(runs_at_once=0))
SIMULATION = SimpleNamespace(alone=False, mesh=None)


def study(points_by_group, num_seeds, runs_per_batch=8):
    """A study of which only the runs matter. The points of its groups are interleaved, as a sweep may have them."""
    names = sorted((i, g) for g, size in enumerate(points_by_group) for i in range(size))
    members = [[p for p, (_, g) in enumerate(names) if g == group] for group in range(len(points_by_group))]
    groups = [Group(points, SIMULATION, [], runs_per_batch, [], None) for points in members]
    return Study(EXPERIMENT, [None] * len(names), [None] * len(names), groups, list(range(7, 7 + num_seeds)), [])


@settings(deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(1, 6), st.integers(1, 9), st.data())
def test_a_part_does_its_runs_in_as_few_batches_as_the_whole_study_would(points_by_group, num_seeds, size, data):
    whole = study(points_by_group, num_seeds, size)
    chosen = data.draw(st.lists(st.sampled_from(whole.all_runs), min_size=1, unique=True))
    part = whole.part(chosen)
    assert [run for batch in batches_of(part) for run in batch.runs] == [r for r in whole.all_runs if r in chosen]
    for group in part.groups:
        lengths = [len(batch.runs) for batch in batches_of(part) if batch.group is group]
        wanted = [run for run in chosen if run.point in group.points]
        assert len(lengths) == -(-len(wanted) // size)
        assert all(length <= group.runs_per_batch <= size for length in lengths)
        assert group.runs_per_batch >= min(size, 2)  # one of several devices alone would round in another way
