"""Compiles the programs of a study for a device that is not present, and reports what its compiler says of them.

Those of each group are compiled in a child process of its own, since a failed check inside the compiler may abort the
process. The child process runs `account`, and `describe_account` puts the result in words.
`mdfl_jax.contrib.estimates.dry_run` starts the child processes.

The devices are topologies of TPUs and GPUs, whose own compilers run on any machine. The compiler for TPUs comes with
the package libtpu, that for GPUs with JAX's CUDA plugin. Neither needs a device or a driver, but before JAX starts the
environment must say that there is no device (`ENVIRONMENT`). The compiler for GPUs may abort the process, so it runs in
a child process (`mdfl_jax.contrib.estimates.accounts`).
"""

import importlib.util
import os
import time
from typing import Any

import numpy as np

from mdfl_jax.contrib.estimates import meters
from mdfl_jax.contrib.estimates.here import epoch_steps, round_flops
from mdfl_jax.core import devices
from mdfl_jax.core.devices import KINDS, TargetDevices, Wanted
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.sharding import CLIENT, SEED
from mdfl_jax.engine.programs import Placement, in_turns
from mdfl_jax.study.memory import MIB, Need, device_limit, following, main_steps, need_of
from mdfl_jax.study.study import Study

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


def target_devices(wanted: Wanted) -> TargetDevices:
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
    return TargetDevices(wanted.name, kind.backend, devices, int(share * kind.memory), kind)


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


DEAREST = 10  # number of operations that are reported


def account(study: Study, number: int, effort: str = "quick") -> dict[str, Any]:
    """Compile a group's rounds and evaluation and return what they need, as a JSON tree.

    If the runs of a batch are mapped together, the programs are those of a batch. If they follow one another, they are
    those of one run on each device (or row of the mesh).

    Args:
      study: The study, made for the current target.
      number: The number of the group.
      effort: The effort of the compiler, as in `mdfl_jax.core.devices.compiler_options`.

    Returns:
      The group's points, its parameters and FLOPs, the seconds of compiling, and the bytes by part. If the compiler
      writes its schedule, also the seconds of a round and of an evaluation, the operations that take the most cycles,
      and the collectives of a round.
    """
    aim, group = devices.current(), study.groups[number]
    mesh = group.simulation.mesh
    places = min(mesh.shape[SEED] if mesh else len(aim.devices), group.runs_per_batch)
    at_once = study.experiment.engine.runs_at_once
    together = min(places * max(at_once, 1), group.runs_per_batch)
    follow = in_turns(group.simulation, at_once)
    placement = Placement(group.simulation, together if follow else group.runs_per_batch, at_once)
    on_a_device = placement.at_once
    options = devices.compiler_options(group.simulation.alone, effort)
    begin, begin_cpu = time.perf_counter(), time.process_time()
    steps = main_steps(group, placement)
    compiled = [step.lower().compile(options) for step in steps]
    seconds, of_cores = time.perf_counter() - begin, time.process_time() - begin_cpu
    need, limit = need_of(steps, compiled), device_limit(study.experiment.engine.memory_mib)
    found = {
        "points": [study.points[i].id for i in group.points],
        "num_params": group.simulation.num_params,
        "flops_per_round": round_flops(study, group),
        "compile_seconds": seconds,
        "compile_cpu_seconds": of_cores,
        "effort": effort if "exec_time_optimization_effort" in (options or {}) else "full",
        "chips_per_run": mesh.shape[CLIENT] if mesh else 1,
        "runs": places * on_a_device,
        "runs_on_a_device": on_a_device,
        "bytes": need._asdict(),
        "limit": limit,
        "runs_that_fit": places * (following(need, limit) if follow else _mapped(need, limit, on_a_device)),
        "runs_per_batch": group.runs_per_batch,
        "num_runs": len(group.points) * len(study.seeds),
        "rounds": study.experiment.rounds,
        "eval_every": study.experiment.eval_every,
    }
    # With the least effort, the compiler's schedule is not like that of the study's own program.
    if not aim.kind or not aim.kind.clock or found["effort"] == "least":
        return found
    texts = [program.as_text() for program in compiled]
    cost = meters.read_cost(*texts, epoch_steps=epoch_steps(study, group))
    return found | _of_meters(cost, found, aim.kind)


def _mapped(need: Need, limit: int, on_a_device: int) -> int:
    """Return the runs that fit on a device mapped together, if each needs as much as one of the compiled program."""
    return max(limit - need.data, 0) // max((need.state + need.temporary) // on_a_device, 1)


def _of_meters(cost: meters.Cost, found: dict[str, Any], kind: devices.Kind) -> dict[str, Any]:
    """Convert cycles to seconds of a round and of an evaluation, and to shares."""
    eval_every = found["eval_every"]
    together, side_by_side = found["runs_on_a_device"], found["runs"] // found["runs_on_a_device"]
    a_round = cost.rounds / kind.clock / eval_every / together
    evaluation = cost.rest / kind.clock / together
    batches = -(-found["num_runs"] // found["runs_per_batch"])
    turns = batches * -(-found["runs_per_batch"] // side_by_side)  # runs that follow one another on each device
    evaluations = found["rounds"] // eval_every
    total = sum(cycles for _, cycles in cost.operations)
    arithmetic = found["flops_per_round"] / found["chips_per_run"] / kind.peak
    return {
        "round_seconds": a_round,
        "share_of_peak": arithmetic / max(a_round, 1e-12),
        "evaluation_seconds": evaluation,
        "study_hours": turns * evaluations * (eval_every * a_round + evaluation) / 3600,
        "loops_of_unknown_length": cost.unknown,
        "dearest": [
            {"share": cycles / max(total, 1), **operation._asdict()} for operation, cycles in cost.operations[:DEAREST]
        ],
        "collectives": [
            {
                "kind": sent.kind,
                "count": sent.number / eval_every,
                "bytes": sent.size / eval_every,
                "alone": sent.waits / eval_every,
            }
            for sent in cost.collectives
        ],
    }


def describe_account(found: dict[str, Any]) -> str:
    """Describe the result of `account` in words."""
    need, limit = Need(**found["bytes"]), found["limit"]
    total, mib = need.total, {part: f"{size / MIB:,.1f}" for part, size in found["bytes"].items()}
    chips = found["chips_per_run"]
    shared = f", {chips} chips a run" if chips > 1 else ""
    lines = [
        f"  {'; '.join(found['points'])}",
        f"    compiles in {found['compile_seconds']:.0f} s ({found['compile_cpu_seconds']:.0f} s of all cores together)"
        f"{shared}; {found['num_params']:,} parameters a client, "
        f"{found['flops_per_round'] / 1e9:,.3f} GFLOP a round",
        f"    MiB of a device for {_runs(found['runs_on_a_device'])}: data {mib['data']}, state {mib['state']}, "
        f"activations and gradients {mib['temporary']}; in all {total / MIB:,.1f} of {limit / MIB:,.0f}",
    ]
    if not found["runs_that_fit"]:
        lines.append(f"    does not fit: {need.advice()}")
    elif total > limit:
        lines.append(
            f"    so many do not fit; about {found['runs_that_fit']:,} do, and a study is split into such batches"
        )
    else:
        lines.append(
            f"    runs that fit together: about {found['runs_that_fit']:,}; the study has {found['num_runs']:,}"
        )
    if "round_seconds" in found:
        if found["effort"] == "quick":
            lines.append(
                "    compiled with little effort: the study's own program takes a tenth to a fifth fewer seconds, "
                "and its memory differs a little (--effort=full)"
            )
        lines += [
            f"    by the compiler's schedule: {_seconds(found['round_seconds'])} a round of a run, "
            f"{found['share_of_peak']:.1%} of the peak; {_seconds(found['evaluation_seconds'])} an evaluation; "
            f"{in_hours(found['study_hours'])} for all its runs",
            "    the dearest operations by the schedule:",
            *(f"      {row['share']:6.1%}  {_short(row)}" for row in found["dearest"][:5]),
        ]
        if found["loops_of_unknown_length"]:
            lines.append(f"    {found['loops_of_unknown_length']:,} loops of unknown length were counted once")
        if found["collectives"]:
            lines.append("    what chips send one another is not in these seconds:")
        for sent in found["collectives"]:
            waits = f", {sent['alone']:g} of them with nothing beside" if sent["alone"] else ", beside other work"
            lines.append(
                f"      {sent['count']:g} {sent['kind']} a round, {sent['bytes'] / MIB:,.1f} MiB on a chip{waits}"
            )
    return "\n".join(lines)


def _runs(number: int) -> str:
    return "one run" if number == 1 else f"{number} runs mapped together"


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.3g} ms"


def in_hours(value: float) -> str:
    """Write a time in hours as hours, minutes or seconds."""
    return (
        f"{value:.1f} hours"
        if value >= 1
        else f"{value * 60:.1f} minutes"
        if value >= 1 / 60
        else f"{value * 3600:.0f} s"
    )


def _short(row: dict[str, Any]) -> str:
    """Describe an operation in one line: its kind, its shape, and the end of its source."""
    source = row["source"].split("/")[-4:]
    return f"{row['kind']} {row['shape']} {'/'.join(source) or '(made by the compiler)'}"
