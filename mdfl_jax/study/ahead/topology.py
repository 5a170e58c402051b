"""Devices that are not present: topologies of TPUs and GPUs, whose own compilers run on any machine.

The compiler for TPUs comes with the package libtpu, that for GPUs with JAX's CUDA plugin. Neither needs a device or a
driver, but before JAX starts the environment must say that there is no device (`ENVIRONMENT`). The compiler for GPUs
may abort the process, so it runs in a child process (`mdfl_jax.study.ahead.accounts`).
"""

import importlib.util
import os
from typing import Any

import numpy as np

from mdfl_jax.core.devices import KINDS, Target, Wanted
from mdfl_jax.core.errors import UserError

ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "TPU_SKIP_MDS_QUERY": "1",  # does not ask a cloud's metadata server
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # several processes may load it at once, since none holds a chip
    "CUDA_VISIBLE_DEVICES": "-1",
    "TF_CPP_MIN_LOG_LEVEL": "2",  # failed checks are still printed
}
PLUGINS = {"tpu": ("libtpu",), "gpu": ("jax_cuda12_plugin", "jax_cuda13_plugin"), "cpu": ()}


# From NVIDIA's data sheets: compute capability, multiprocessors, units of a multiprocessor, bytes of its shared memory
# and of the part that a block may use, bytes of the second-level cache, bytes per second, GHz.
_GPUS = {
    "a100": ((8, 0), 108, 64, 167_936, 166_912, 41_943_040, 2_039_000_000_000, 1.41),
    "h100": ((9, 0), 132, 128, 233_472, 232_448, 52_428_800, 3_352_320_000_000, 1.98),
    "h200": ((9, 0), 132, 128, 233_472, 232_448, 62_914_560, 4_917_000_000_000, 1.98),
}


def check_installed(wanted: Wanted) -> None:
    """Check that the compiler of a target is installed.

    Raises:
      UserError: If it is not. The message says how to install it.
    """
    backend = KINDS[wanted.kind].backend
    names = PLUGINS[backend]
    if names and not any(importlib.util.find_spec(name) for name in names):
        raise UserError(
            f"--target={wanted.name}: the compiler of that device is not installed; "
            f"pip install -e '.[aot-{backend}]' brings it"
        )


def load(wanted: Wanted) -> Target:
    """Return the devices of a target, which is a TPU or a GPU.

    Raises:
      UserError: If the topology does not exist, or has fewer devices than the target.
    """
    kind = KINDS[wanted.kind]
    from jax.experimental import topologies

    try:
        if kind.backend == "tpu":
            series = wanted.kind.removeprefix("tpu-")
            found = topologies.get_topology_desc(f"{series}:{wanted.topology}", platform="tpu")
        else:
            shape = f"1x1x{wanted.chips}"  # slices, hosts, cards of a host
            found = topologies.get_topology_desc(platform="cuda", target_config=_gpu(wanted.kind), topology=shape)
    except Exception as error:  # the plugins raise errors of any type
        reason = str(error).splitlines()[0]
        raise UserError(f"--target={wanted.name}: its compiler knows no such topology: {reason}") from None
    devices: list[Any] = list(np.array(found.devices).reshape(-1))[: wanted.chips]
    if len(devices) < wanted.chips:
        raise UserError(f"--target={wanted.name}: that topology has {len(devices)} devices")
    share = 1.0
    if kind.backend == "gpu":  # the share of the memory that JAX reserves when it starts
        share = float(os.environ.get("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.75"))
    return Target(wanted.name, kind.backend, devices, int(share * kind.memory), kind)


def _gpu(kind: str) -> str:
    """Describe a card in the format of XLA's target configuration."""
    (major, minor), cores, units, shared, optin, cache, bandwidth, clock = _GPUS[kind]
    return f"""
platform_name: "CUDA"
device_description_str: "{kind}"
dnn_version_info {{ major: 9 minor: 8 }}
runtime_version {{ major: 12 minor: 9 patch: 0 }}
gpu_device_info {{
  cuda_compute_capability {{ major: {major} minor: {minor} }}
  core_count: {cores}
  fpus_per_core: {units}
  clock_rate_ghz: {clock}
  memory_bandwidth: {bandwidth}
  l2_cache_size: {cache}
  device_memory_size: {KINDS[kind].memory}
  shared_memory_per_core: {shared}
  shared_memory_per_block: 49152
  shared_memory_per_block_optin: {optin}
  threads_per_block_limit: 1024
  threads_per_warp: 32
  threads_per_core_limit: 2048
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
}}
"""
