"""The memory is not enough: a sweep halves its batches and goes on; with one run it ends in one line."""

import jax
import pytest
from studies import assert_same
from tiny import run_study, tiny_config

from mdfl_jax.core.errors import UserError, out_of_memory
from mdfl_jax.storage import disk
from mdfl_jax.study import make_study
from mdfl_jax.study.ahead import memory
from mdfl_jax.study.run import ignore
from mdfl_jax.study.runner import Program

CPU = "INTERNAL: Error dispatching computation: Out of memory allocating 3600000000 bytes."
GPU = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes."
STUDY = {"sweep": "network.mobility=static,random_movement", "seeds": 4, "engine.runs_per_batch": 4, "rounds": 6}


class Short:
    """Devices on which the batches of more than so many runs fail after some evaluations of the whole study."""

    def __init__(self, monkeypatch, most, after=0):
        self.most, self.after = most, after
        real = Program.advance

        def advance(program):
            self.after -= 1
            if self.after < 0 and program.num_runs > self.most:
                raise jax.errors.JaxRuntimeError(CPU)
            return real(program)

        monkeypatch.setattr(Program, "advance", advance)


def run(study, folder, lines=None, **options):
    return run_study(study, folder, log=ignore if lines is None else lines.append, **options)


@pytest.fixture(scope="module")
def study():
    return make_study(tiny_config(**STUDY))


@pytest.fixture(scope="module")
def whole(study, tmp_path_factory):
    """The same study with memory for all of it."""
    folder = tmp_path_factory.mktemp("whole")
    run(study, folder)
    return folder


@pytest.mark.few(1)
@pytest.mark.parametrize("after", [1, 3, 4])
def test_a_sweep_halves_its_batches_and_what_is_finished_or_under_way_stays(study, whole, tmp_path, monkeypatch, after):
    """The first batch has three evaluations. What is saved of it is not run again, whatever the new batches are."""
    short, ran, lines = Short(monkeypatch, most=2, after=after), [], []
    monkeypatch.setattr("mdfl_jax.study.runner.Runner._save_is_due", lambda self: True)
    real = Program.advance
    counted = lambda program: ran.append(program.num_runs) or real(program)  # noqa: E731
    monkeypatch.setattr(Program, "advance", counted)
    run(study, tmp_path, lines)
    said = "not enough memory for 4 runs at once (3,433.2 MiB asked for): split into batches of 2"
    assert [line for line in lines if "memory" in line] == [said]
    assert_same(tmp_path, whole)
    assert ran == [4] * (after + 1) + [2] * (12 - 2 * after)
    assert short.after < 0


@pytest.mark.long
def test_one_run_that_does_not_fit_is_one_line(study, tmp_path, monkeypatch):
    Short(monkeypatch, most=0)
    lines = []
    with pytest.raises(UserError) as raised:
        run(study, tmp_path, lines)
    said = str(raised.value)
    assert said.startswith(
        "not enough memory for one run at a time (3,433.2 MiB asked for): static; random_movement: 6"
    )
    assert "algorithm.batch_size" in said
    assert [line.rpartition(" ")[2] for line in lines if "split" in line] == ["2", "1"]


@pytest.mark.parametrize(
    ("error", "asked"),
    [
        (RuntimeError(CPU), "3,433.2 MiB"),
        (RuntimeError(GPU), "16,384.0 MiB"),
        (
            RuntimeError("RESOURCE_EXHAUSTED: Failed to allocate request for 2.00GiB (2147483648B)"),
            "2.00 GiB",
        ),
        (MemoryError("Unable to allocate 5.96 GiB for an array with shape (20000, 80000)"), "5.96 GiB"),
        (MemoryError(), ""),
        (RuntimeError("INVALID_ARGUMENT: out of range"), None),
        (ValueError("RESOURCE_EXHAUSTED"), None),
    ],
)
def test_what_an_error_says_of_the_memory(error, asked):
    assert out_of_memory(error) == asked


def test_an_error_of_the_users_callback_is_not_taken_for_a_batch_that_is_too_large(study, tmp_path):
    def fail(info):
        raise MemoryError("of the callback")

    with pytest.raises(MemoryError, match="of the callback"):
        run_study(study, tmp_path, log=pytest.fail, on_evaluation=fail)


def test_a_container_and_ulimit_bound_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "_PROC", tmp_path)
    monkeypatch.setattr(disk, "_CGROUPS", tmp_path / "groups")
    machine = disk.host_memory()
    (tmp_path / "groups" / "job").mkdir(parents=True)
    (tmp_path / "cgroup").write_text("0::/job\n")
    (tmp_path / "groups" / "job" / "memory.max").write_text("max\n")
    assert disk.host_memory() == machine
    (tmp_path / "groups" / "job" / "memory.max").write_text(f"{2**30}\n")
    assert disk.host_memory() == 2**30
    assert memory.device_limit() == int(memory.SHARE * (2**30 // len(jax.local_devices())))
    (tmp_path / "groups" / "memory.max").write_text(f"{2**29}\n")  # of the group in which it lies
    assert disk.host_memory() == 2**29
    older = tmp_path / "groups" / "memory" / "batch" / "job"  # version 1
    older.mkdir(parents=True)
    (tmp_path / "cgroup").write_text("12:cpu,cpuacct:/other\n9:hugetlb,memory:/batch/job\n1:name=systemd:/other\n")
    for tree, name in ((older.parents[1], "memory.limit_in_bytes"), (older.parents[2], "memory.max")):
        (tree / "other").mkdir()  # the groups of other controllers
        (tree / "other" / name).write_text("1000\n")
    (older / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    assert disk.host_memory() == 2**29
    (older.parent / "memory.limit_in_bytes").write_text(f"{2**28}\n")
    assert disk.host_memory() == 2**28
    (older.parents[2] / "a" / "b:c").mkdir(parents=True)
    (older.parents[2] / "a" / "b:c" / "memory.max").write_text(f"{2**27}\n")
    (tmp_path / "cgroup").write_text("0::/a/b:c\n")  # as containerd names them
    assert disk.host_memory() == 2**27
    for odd in (b"0::/\xff\n", b"0::/../..\n", b"none\n"):
        (tmp_path / "cgroup").write_bytes(odd)
        assert disk.host_memory() == 2**29
