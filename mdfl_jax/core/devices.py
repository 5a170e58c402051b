"""The target: the devices that programs are compiled for. They are the local devices or named ones that may be absent.

Only this module asks JAX for the backend. All code that differs between CPUs and accelerators (forms of convolutions,
blocks, mappings, mixing) calls `backend` here. Therefore a program can be compiled for another target:
`mdfl sweep --dry_run --target=tpu-v5e:2x2` compiles a study with that device's own compiler on any machine.
"""

import contextlib
import glob
import importlib.util
import math
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jax

from mdfl_jax.core import hosts
from mdfl_jax.core.errors import UserError, unknown_name

# The effort of a TPU's compiler, from -1 to 1 (benchmarks/tried.md); "quick" is the largest effort that saves time.
EFFORTS = {"full": 0.0, "quick": -0.5, "least": -1.0}
UNKNOWN_MEMORY = 16 * 2**30  # bytes; assumed for a device that does not report its memory


class Kind(NamedTuple):
    """A kind of chip, with the numbers that its manufacturer publishes.

    Attributes:
      backend: cpu, gpu or tpu.
      memory: the memory of one device in bytes; 0: the memory of the machine.
      peak: the peak rate of dense bfloat16 matrix products, in FLOP/s; 0: unknown.
      clock: the clock rate of a TPU core in Hz, which converts cycles of the compiler's schedule to seconds.
      host: the smallest topology of this kind that the TPU's compiler accepts; a target may use only some of its chips.
      called: the name of this TPU in JAX.
      vmem: the vector memory in KiB that one operation may use, if more than the compiler's default of 16 MiB makes
        programs faster (benchmarks/tried.md); 0: the default.
    """

    backend: str
    memory: int
    peak: float = 0.0
    clock: float = 0.0
    host: str = ""
    called: str = ""
    vmem: int = 0


KINDS = {
    "cpu": Kind("cpu", 0),
    "a100": Kind("gpu", 84_974_239_744, 312e12),
    "h100": Kind("gpu", 84_929_347_584, 989e12),
    "h200": Kind("gpu", 150_110_011_392, 989e12),
    "tpu-v4": Kind("tpu", 32 * 2**30, 275e12, 1.05e9, "2x2x1", "TPU v4"),
    "tpu-v5e": Kind("tpu", 16 * 2**30, 197e12, 1.5e9, "2x2", "TPU v5 lite", 65_536),
    "tpu-v5p": Kind("tpu", 95 * 2**30, 459e12, 1.75e9, "2x2x1", "TPU v5"),
    "tpu-v6e": Kind("tpu", 32 * 2**30, 918e12, 1.75e9, "2x2", "TPU v6 lite", 65_536),
}


class TargetDevices(NamedTuple):
    """The devices that programs are compiled for.

    Attributes:
      name: the name given by the user; for the local devices, the name of JAX's backend.
      backend: cpu, gpu or tpu.
      devices: JAX's local devices, those of all hosts of this study, or those of a topology.
      memory: the memory of one device in bytes.
      kind: the kind of chip; None for the local devices.
    """

    name: str
    backend: str
    devices: list[Any]
    memory: int
    kind: Kind | None = None

    @property
    def is_here(self) -> bool:
        """Whether the devices are present, so that arrays can be put on them."""
        return self.kind is None


_aimed: TargetDevices | None = None


def current() -> TargetDevices:
    """Return the target set by `aimed_at`, or the local devices."""
    return _aimed or _at_hand()


def backend() -> str:
    """Return the kind of the target's devices: cpu, gpu or tpu."""
    return current().backend


def devices() -> list[Any]:
    """Return the devices that programs are compiled for."""
    return current().devices


def compiler_options(large: bool = False, effort: str = "full") -> dict[str, str | bool | float] | None:
    """Return the options of the target's compiler that differ from its defaults, or None.

    On a TPU, convolutions read windows of their inputs. With more vector memory the windows are larger and overlap
    less, but the compiler takes longer to choose them.

    Args:
      large: whether single blocks of the program fill the device (`mdfl_jax.tasks.gradients.Cut.alone`).
      effort: the effort of a TPU's compiler, one of `EFFORTS`. With "quick", it tries fewer windows for a large program
        and takes a third of the time; the compiled program takes up to a fifth longer. With "least", it takes a
        fraction of the time for any program, which is useful only to see whether the program compiles.
    """
    aim = current()
    if aim.backend == "gpu":  # XLA's Triton GEMM aborts on some of our products (jax 0.10.2): cuBLAS computes them
        return {"xla_gpu_enable_triton_gemm": False}
    called = str(getattr(aim.devices[0], "device_kind", ""))
    kind = aim.kind or next((kind for kind in KINDS.values() if kind.called and kind.called == called), None)
    options: dict[str, str | bool | float] = {}
    if large and kind and kind.vmem:
        options["xla_tpu_scoped_vmem_limit_kib"] = str(kind.vmem)
    if aim.backend == "tpu" and (effort == "least" or (effort == "quick" and large)):
        options["exec_time_optimization_effort"] = EFFORTS[effort]
    return options or None


_HALVES = {"vendor_id": "AuthenticAMD", "cpu family": "25"}  # processors that compute 512 bits in two halves (Zen 4)
_NODES = ("/dev/accel*", "/dev/vfio/[0-9]*", "/dev/nvidia[0-9]*", "/dev/kfd")  # TPUs, NVIDIA's and AMD's GPUs


def num_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def computes_512_bits() -> bool:
    """Tell whether the processor has AVX-512 and does not compute it in two halves."""
    try:
        lines = Path("/proc/cpuinfo").read_text("ascii", "replace").splitlines()
    except OSError:
        return False
    about = dict([part.strip() for part in line.split(":", 1)] for line in lines if ":" in line)
    return "avx512f" in about.get("flags", "").split() and not _HALVES.items() <= about.items()


def cards() -> list[str]:
    """Return the numbers of NVIDIA's cards that JAX would use in a process of this machine, without starting JAX.

    Raises:
      UserError: If JAX would use a TPU, whose chips belong to one process.
    """
    wanted = os.environ.get("JAX_PLATFORMS") or "cuda,tpu"
    if "tpu" in wanted and importlib.util.find_spec("libtpu") and any(map(glob.glob, _NODES[:2])):
        raise UserError("--workers: one process uses all chips of a TPU's host; start one on each host")
    plugins = ("jax_cuda12_plugin", "jax_cuda13_plugin")
    if not any(name in wanted for name in ("cuda", "gpu")) or not any(map(importlib.util.find_spec, plugins)):
        return []
    shown = os.environ.get("CUDA_VISIBLE_DEVICES")
    if shown is not None:
        return [name for name in shown.split(",") if name.strip()]
    return [path.removeprefix("/dev/nvidia") for path in sorted(glob.glob("/dev/nvidia[0-9]*"))]


def use_all_cores() -> None:
    """Make one JAX host device for each core, unless the environment sets a number or JAX is already initialised.

    If a TPU's compiler is installed on a machine without a TPU, JAX is set to look for no TPU.
    """
    if not os.environ.get("JAX_PLATFORMS") and _is_without_device():
        jax.config.update("jax_platforms", "cpu")
    said = "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", "")
    if not said and not os.environ.get("JAX_NUM_CPU_DEVICES"):
        with contextlib.suppress(RuntimeError):  # JAX refuses a new number once its backends exist
            jax.config.update("jax_num_cpu_devices", num_cores())


def _is_without_device() -> bool:
    """Tell whether the TPU's compiler is installed on a machine without an accelerator.

    If JAX looked for a TPU there, the compiler would print five lines of warnings.
    """
    return importlib.util.find_spec("libtpu") is not None and not any(map(glob.glob, _NODES))


def _at_hand() -> TargetDevices:
    try:
        found = jax.devices() if hosts.many() > 1 else jax.local_devices()
    except (RuntimeError, AssertionError) as error:  # JAX asserts that one of the platforms is present
        asked = os.environ.get("JAX_PLATFORMS")
        if not asked:
            raise
        said = f": {' '.join(str(error).split())[:200]}" if str(error) else ""
        raise UserError(f"the variable JAX_PLATFORMS is {asked!r}, and JAX finds no such device here{said}") from error
    name = jax.default_backend()
    if name == "cpu":  # the host devices share the machine's memory
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // jax.local_device_count()
    else:
        memory = (jax.local_devices()[0].memory_stats() or {}).get("bytes_limit", UNKNOWN_MEMORY)
    return TargetDevices(name, "gpu" if name in ("cuda", "rocm") else name, found, memory)


@contextlib.contextmanager
def aimed_at(target: TargetDevices) -> Iterator[None]:
    """Compile programs for ``target`` inside this context manager.

    JAX caches traces for each function object, so a function that was traced for another target must be built anew.
    """
    global _aimed
    before, _aimed = _aimed, target
    try:
        yield
    finally:
        _aimed = before


class Wanted(NamedTuple):
    """The parts of a target's name: the kind of chip, the number of chips and the topology that contains them.

    Attributes:
      name: the name given by the user.
      kind: a key of `KINDS`.
      chips: the number of chips, the first ones of the topology.
      topology: bounds in the notation of the TPU's compiler; '' for other kinds.
    """

    name: str
    kind: str
    chips: int
    topology: str


def parse(name: str) -> Wanted:
    """Parse a target's name, KIND or KIND:CHIPS. CHIPS is a number or, for a TPU, bounds such as 2x2.

    Raises:
      UserError: for an unknown kind (the message lists the known ones), or if CHIPS has another form or is too large.

    >>> parse("tpu-v5e:2x4")
    Wanted(name='tpu-v5e:2x4', kind='tpu-v5e', chips=8, topology='2x4')
    """
    kind, colon, bounds = name.partition(":")
    if kind not in KINDS:
        raise UserError(f"--target={name}: {unknown_name('target', kind, KINDS)}")
    if colon and not re.fullmatch(r"[1-9]\d{0,3}(x[1-9]\d{0,3}){0,2}", bounds):
        raise UserError(f"--target={name}: after the colon stands a number of chips, or a TPU's bounds such as 2x2")
    sides = [int(side) for side in bounds.split("x")] if colon else [1]
    chips, host = math.prod(sides), KINDS[kind].host
    if KINDS[kind].backend != "tpu":
        if len(sides) > 1 or chips > 8 or (kind == "cpu" and chips > 1):
            allowed = "stands alone" if kind == "cpu" else "takes a number from 1 to 8"
            raise UserError(f"--target={name}: {kind} {allowed}")
        return Wanted(name, kind, chips, "")
    of_host = math.prod(int(side) for side in host.split("x"))
    if len(sides) == 1 and chips > of_host:
        raise UserError(
            f"--target={name}: one host has {of_host} chips; give the bounds of more, such as {kind}:{host}"
        )
    return Wanted(name, kind, chips, host if len(sides) == 1 else bounds)
