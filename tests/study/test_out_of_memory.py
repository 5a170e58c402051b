"""The memory is not enough: a sweep halves its batches and goes on; with one run it ends in one line."""

import jax
import pytest
from small import told
from studies import assert_same, study_of
from tiny import run_study

from mdfl_jax.core.errors import out_of_memory
from mdfl_jax.storage import disk
from mdfl_jax.study import memory
from mdfl_jax.study.runner import Program

CPU = "INTERNAL: Error dispatching computation: Out of memory allocating 3600000000 bytes."
STUDY = {"sweep": "network.radius=2,3", "seeds": 4, "engine.runs_per_batch": 4, "rounds": 6}


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


@pytest.fixture(scope="module", autouse=True)
def _one_device():
    """The number of runs that are on the devices together is no part of the program of one device."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jax, "local_devices", lambda *_, of=jax.local_devices()[:1], **__: of)
        yield


@pytest.fixture(scope="module")
def study():
    return study_of(**STUDY)


@pytest.fixture(scope="module")
def whole(study, tmp_path_factory):
    """The same study with memory for all of it."""
    folder = tmp_path_factory.mktemp("whole")
    run_study(study, folder)
    return folder


@pytest.mark.few(1)
@pytest.mark.parametrize("after", [1, 4])
def test_a_sweep_halves_its_batches_and_what_is_finished_or_under_way_stays(study, whole, tmp_path, monkeypatch, after):
    """The first batch has three evaluations. What is saved of it is not run again, whatever the new batches are."""
    Short(monkeypatch, most=2, after=after)
    monkeypatch.setattr("mdfl_jax.study.runner.Runner._save_is_due", lambda self: True)
    ran, lines, real = [], [], Program.advance
    monkeypatch.setattr(Program, "advance", lambda program: ran.append(program.num_runs) or real(program))
    run_study(study, tmp_path, log=lines.append)
    said = "not enough memory for 4 runs at once (3,433.2 MiB asked for): split into batches of 2"
    assert [line for line in lines if "memory" in line] == [said]
    assert_same(tmp_path, whole)
    assert ran == [4] * (after + 1) + [2] * (12 - 2 * after)


def test_one_run_that_does_not_fit_is_one_line(study, tmp_path, monkeypatch):
    def compile(program):
        raise jax.errors.JaxRuntimeError(CPU)

    monkeypatch.setattr(Program, "compile", compile)
    lines: list[str] = []
    said = told(run_study, study, tmp_path, log=lines.append)
    assert said.startswith("not enough memory for one run at a time (3,433.2 MiB asked for): radius=2; radius=3: 6")
    assert [line.rpartition(" ")[2] for line in lines if "split" in line] == ["2", "1"]


def test_what_an_error_says_of_the_memory(study, tmp_path):
    gpu = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes."
    for error, asked in (
        (RuntimeError(CPU), "3,433.2 MiB"),
        (RuntimeError(gpu), "16,384.0 MiB"),
        (RuntimeError("RESOURCE_EXHAUSTED: Failed to allocate request for 2.00GiB (2147483648B)"), "2.00 GiB"),
        (MemoryError("Unable to allocate 5.96 GiB for an array with shape (20000, 80000)"), "5.96 GiB"),
        (MemoryError(), ""),
        (RuntimeError("INVALID_ARGUMENT: out of range"), None),
        (ValueError("RESOURCE_EXHAUSTED"), None),
    ):
        assert out_of_memory(error) == asked, error

    def fail(info):
        raise MemoryError("of the callback")

    with pytest.raises(MemoryError, match="of the callback"):  # it is not taken for a batch that is too large
        run_study(study, tmp_path, log=pytest.fail, on_evaluation=fail)


def test_a_container_and_ulimit_bound_the_memory(tmp_path, monkeypatch):
    groups, machine = tmp_path / "groups", disk.host_memory()
    monkeypatch.setattr(disk, "_PROC", tmp_path)
    monkeypatch.setattr(disk, "_CGROUPS", groups)
    files = {"job/memory.max": "max\n", "memory/batch/job/memory.limit_in_bytes": "9223372036854771712\n"}
    files |= {"memory/other/memory.limit_in_bytes": "1000\n", "other/memory.max": "1000\n"}  # of other controllers
    older = "12:cpu,cpuacct:/other\n9:hugetlb,memory:/batch/job\n1:name=systemd:/other\n"  # version 1
    for group, changed, bound in (
        ("0::/job\n", {}, machine),
        ("0::/job\n", {"job/memory.max": 2**30}, 2**30),
        ("0::/job\n", {"memory.max": 2**29}, 2**29),  # of the group in which it lies
        (older, {}, 2**29),
        (older, {"memory/batch/memory.limit_in_bytes": 2**28}, 2**28),
        ("0::/a/b:c\n", {"a/b:c/memory.max": 2**27}, 2**27),  # as containerd names them
        *((odd, {}, 2**29) for odd in ("0::/\udcff\n", "0::/../..\n", "none\n")),
    ):
        files |= changed
        for name, text in files.items():
            (groups / name).parent.mkdir(parents=True, exist_ok=True)
            (groups / name).write_text(f"{text}\n")
        (tmp_path / "cgroup").write_bytes(group.encode(errors="surrogateescape"))
        assert disk.host_memory() == bound, group
    assert memory.device_limit() == int(memory.SHARE * (2**29 // len(jax.devices())))
