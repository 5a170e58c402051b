"""The parts of a study: every run is in exactly one of them, in few programs; and what a cluster says of a process."""

from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from studies import batches_of

from mdfl_jax.core.errors import UserError
from mdfl_jax.study.shards import Shard, of_cluster, parse, part_of
from mdfl_jax.study.study import Group, Run, Study

EXPERIMENT = SimpleNamespace(engine=SimpleNamespace(runs_at_once=0))
SIMULATION = SimpleNamespace(alone=False, mesh=None)


def study(points_by_group, num_seeds, runs_per_batch=8):
    """A study of which only the runs matter. The points of its groups are interleaved, as a sweep may have them."""
    names = sorted((i, g) for g, size in enumerate(points_by_group) for i in range(size))
    members = [[p for p, (_, g) in enumerate(names) if g == group] for group in range(len(points_by_group))]
    groups = [Group(points, SIMULATION, [], runs_per_batch, [], None) for points in members]
    return Study(EXPERIMENT, [None] * len(names), [None] * len(names), groups, list(range(7, 7 + num_seeds)), [])


def done(part):
    """The runs that a part does, batch after batch, and the points of the group of each batch."""
    batches = batches_of(part)
    return [run for batch in batches for run in batch.runs], [tuple(batch.group.points) for batch in batches]


@settings(deadline=None)  # the first example finds the devices
@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=5),
    st.integers(1, 6),
    st.integers(1, 40),
    st.integers(1, 9),
)
def test_shards_do_every_run_once_in_the_order_of_the_study(points_by_group, num_seeds, count, size):
    whole = study(points_by_group, num_seeds, size)
    parts = [done(part_of(whole, Shard(number, count))) for number in range(1, count + 1)]
    assert [run for runs, _ in parts for run in runs] == [
        Run(p, seed) for group in whole.groups for p in group.points for seed in whole.seeds
    ]
    lengths = {len(runs) for runs, _ in parts}
    assert max(lengths) - min(lengths) <= 1
    programs = sum(len(set(groups)) for _, groups in parts)
    assert programs <= len(whole.groups) + count - 1


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


@pytest.mark.parametrize("text", ["", "3", "x/y", "3/", "/16", "-1/3", "1.0/2", "3/16/2", " 1/2", "\u0661/\u0662"])
def test_what_is_no_shard_is_told(text):
    with pytest.raises(UserError, match=r"^--shard=.*: it must be K/N, such as 3/16"):
        parse(text)


@pytest.mark.parametrize("text", ["0/16", "17/16", "1/0", "0/0"])
def test_a_number_beyond_the_shards_is_told(text):
    with pytest.raises(UserError, match=f"^--shard={text}: K in K/N must be from 1 to N"):
        parse(text)


ARRAY = {"SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_TASK_MIN": "1", "SLURM_ARRAY_TASK_MAX": "16"}
ARRAY |= {"SLURM_ARRAY_TASK_COUNT": "16", "SLURM_PROCID": "0", "SLURM_NTASKS": "1"}
SRUN = {"SLURM_PROCID": "2", "SLURM_NTASKS": "4"}


@pytest.mark.parametrize(
    ("variables", "shard"),
    [
        (ARRAY, "3/16"),
        (ARRAY | {"SLURM_ARRAY_TASK_MIN": "0", "SLURM_ARRAY_TASK_MAX": "15"}, "4/16"),
        ({key: ARRAY[key] for key in ARRAY if not key.endswith("MAX")}, "3/16"),
        (SRUN, "3/4"),
        (ARRAY | SRUN | {"SLURM_STEP_NUM_TASKS": "4"}, "11/64"),  # two tasks of the array before, of four each
        ({"TPU_WORKER_ID": "3", "TPU_WORKER_HOSTNAMES": "a,b,c,d"}, "4/4"),
        ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}, "1/2"),
    ],
)
def test_a_cluster_says_which_shard_a_process_is(variables, shard):
    assert str(of_cluster(variables)) == shard


@pytest.mark.parametrize(
    ("variables", "line"),
    [
        ({}, "no SLURM array or srun, TPU pod or Open MPI has started this process"),
        ({"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4"}, "no SLURM array or srun"),
        ({"TPU_WORKER_HOSTNAMES": "a,b"}, "no SLURM array or srun"),
        (ARRAY | {"SLURM_ARRAY_TASK_COUNT": "x"}, "the variable SLURM_ARRAY_TASK_COUNT is 'x'; it must be a whole"),
        ({"OMPI_COMM_WORLD_RANK": "1"}, "the variable OMPI_COMM_WORLD_SIZE is ''; it must be a whole number"),
        ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "2"}, "the cluster gives process 2 of 2"),
        # sbatch --array=3,7 repeats two tasks of sixteen: they would take themselves for halves of the study
        (
            ARRAY | {"SLURM_ARRAY_TASK_MIN": "3", "SLURM_ARRAY_TASK_MAX": "7", "SLURM_ARRAY_TASK_COUNT": "2"},
            "the array has 2 tasks from 3 to 7, which are no whole numbering of shards from 0 or 1; give K/N",
        ),
        (ARRAY | {"SLURM_ARRAY_TASK_COUNT": "8", "SLURM_ARRAY_TASK_MAX": "15"}, "the array has 8 tasks from 1 to 15"),
    ],
)
def test_a_cluster_that_does_not_say_it_is_one_line(variables, line):
    with pytest.raises(UserError, match=r"^--shard=auto: ") as told:
        of_cluster(variables)
    assert line in str(told.value)
    assert "\n" not in str(told.value)
