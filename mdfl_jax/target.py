"""The device that programs are made for: the one at hand, or a target that is named and need not be there.

The only module that asks JAX which backend there is. What is done one way on a CPU and another way on an accelerator
(forms of convolutions, blocks, mappings, mixing) asks `backend` here, so that a program can be made for a target:
`launch.sweep --dry_run --target=tpu-v5e:2x2` compiles a study with that device's own compiler on any machine.
"""

import contextlib
import math
import os
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax

from mdfl_jax.errors import UserError, unknown_name

# How hard a TPU's compiler tries, of -1 to 1 (benchmarks/README.md): quick is the largest at which it saves time.
EFFORTS = {"full": 0.0, "quick": -0.5, "least": -1.0}
UNKNOWN_MEMORY = 16 * 2**30  # bytes, of a device that does not tell


class Kind(NamedTuple):
    """A kind of chip, in its maker's figures.

    Attributes:
      backend: cpu, gpu or tpu.
      memory: bytes of one device; 0: what the machine has.
      peak: FLOP/s of bfloat16 products, dense; 0: not known.
      clock: Hz of a TPU's core, by which cycles of the compiler's schedule are seconds.
      host: the smallest topology that the TPU's compiler knows of this kind; a part of its chips may be used.
      called: what JAX calls such a TPU.
      vmem: KiB of its vector memory that one operation may take, where more than the compiler's default of 16 MiB does
        good (benchmarks/README.md); 0: the default.
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


class Target(NamedTuple):
    """Devices to make programs for.

    Attributes:
      name: as given, or the backend's where it is the one at hand.
      backend: cpu, gpu or tpu.
      devices: JAX's devices, or those of a topology.
      memory: bytes of one device.
      kind: figures of the chip; None of the backend at hand.
    """

    name: str
    backend: str
    devices: list[Any]
    memory: int
    kind: Kind | None = None

    @property
    def is_here(self) -> bool:
        """Whether arrays can be put on the devices."""
        return self.kind is None


_aimed: Target | None = None


def current() -> Target:
    """The target that was aimed at, or what is at hand."""
    return _aimed or _at_hand()


def backend() -> str:
    """cpu, gpu or tpu."""
    return current().backend


def devices() -> list[Any]:
    """The devices that programs are made for."""
    return current().devices


def compiler_options(large: bool = False, effort: str = "full") -> dict[str, str | bool | float] | None:
    """What the target's compiler is told beside its defaults.

    A TPU's convolutions take windows of their inputs; with more vector memory these are larger, and overlap less. The
    compiler takes longer to choose them.

    Args:
      large: of a program whose single blocks fill the device (`mdfl_jax.gradients.Cut.alone`).
      effort: of a TPU's compiler, one of `EFFORTS`. quick: it tries fewer windows for a large program, takes a third of
        the time, and what it makes up to a fifth more. least: a fraction of the time for any program, good only to see
        that it compiles.
    """
    aim = current()
    if aim.backend == "gpu":  # its fusion of products by Triton aborts on some of ours (jax 0.10.2); cuBLAS does them
        return {"xla_gpu_enable_triton_gemm": False}
    called = str(getattr(aim.devices[0], "device_kind", ""))
    kind = aim.kind or next((kind for kind in KINDS.values() if kind.called and kind.called == called), None)
    options: dict[str, str | bool | float] = {}
    if large and kind and kind.vmem:
        options["xla_tpu_scoped_vmem_limit_kib"] = str(kind.vmem)
    if aim.backend == "tpu" and (effort == "least" or (effort == "quick" and large)):
        options["exec_time_optimization_effort"] = EFFORTS[effort]
    return options or None


def num_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def use_all_cores() -> None:
    """Makes one host device a core, unless the environment says otherwise or JAX has begun already."""
    said = "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", "")
    if not said and not os.environ.get("JAX_NUM_CPU_DEVICES"):
        with contextlib.suppress(RuntimeError):  # once its backends are there, JAX takes no other number
            jax.config.update("jax_num_cpu_devices", num_cores())


def _at_hand() -> Target:
    found = jax.local_devices()
    name = jax.default_backend()
    if name == "cpu":  # its devices share the machine's memory
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // len(found)
    else:
        memory = (found[0].memory_stats() or {}).get("bytes_limit", UNKNOWN_MEMORY)
    return Target(name, "gpu" if name in ("cuda", "rocm") else name, found, memory)


@contextlib.contextmanager
def aimed_at(target: Target) -> Iterator[None]:
    """Makes programs for ``target`` inside a ``with``.

    JAX keeps what it traced by function: one that was traced before for another target must be built anew.
    """
    global _aimed
    before, _aimed = _aimed, target
    try:
        yield
    finally:
        _aimed = before


class Wanted(NamedTuple):
    """A target's name taken apart: its kind, its chips, and the topology of which they are the first ones.

    Attributes:
      name: as given.
      kind: a key of `KINDS`.
      chips: how many.
      topology: bounds as the TPU's compiler writes them; '' of other kinds.
    """

    name: str
    kind: str
    chips: int
    topology: str


def parse(name: str) -> Wanted:
    """A target's name taken apart, KIND or KIND:CHIPS; the chips of a TPU are a number or bounds such as 2x2.

    Raises:
      UserError: for an unknown kind (those known are listed), or chips that are no number or bounds.

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
