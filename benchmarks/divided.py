"""What divides a run along its clients: our own hand, or the compiler alone: python -m benchmarks.divided [--write]

Rounds of D-PSGD, PaME and FedMobile over 2 and 8 CPU devices. "by hand": as shipped, where `everywhere`, `by_rows`,
`choose` and `take_steps` (`mdfl_jax.core.sharding`) say what each device computes. "by the compiler": these are plain
functions, conditions and loops, and the compiler (GSPMD) alone divides them along the sharding of the state. A row says
how many collectives a program has, how many pairs of them may run in any order, which deadlocks on CPUs, the bytes that
they bring to a device in a round, and the temporary memory of a device. Only programs that cannot deadlock are timed.
"""

import json
import math
import os
import re
import subprocess
import sys
import time
from typing import Any

import numpy as np
from absl import flags

from benchmarks import measure
from mdfl_jax.cli import common

_ONLY = flags.DEFINE_string("only", "", "Measure algorithm,devices,form in this process (for the parent).")
FORMS = ("by hand", "by the compiler")
SETTINGS = {
    "dpsgd": {"network.mobility": "dcm"},
    "pame": {"network.mobility": "dcm"},
    "fedmobile": {"network.mobility": "random_movement", "server.pattern": "fixed", "judged": "global"},
}
ROUNDS = 10
BASE: dict[str, Any] = {
    "data.name": "digits", "model.name": "mlp", "network.num_clients": 16, "network.num_mobile": 8, "seeds": 1,
    "rounds": ROUNDS, "eval_every": ROUNDS, "algorithm.batch_size": 16,
}  # fmt: skip
_COLLECTIVE = re.compile(r"= (\S+) (?:all-gather|all-reduce|reduce-scatter|collective-permute|all-to-all)(?:-start)?\(")
_SHAPE = re.compile(r"(pred|[a-z]+)(\d*)\[([\d,]*)\]")


def moved(text: str) -> int:
    """Return the bytes of the results of all collectives of a program. One within a loop is counted once."""
    total = 0
    for shapes in _COLLECTIVE.findall(text):
        for _, bits, sides in _SHAPE.findall(shapes):
            total += int(bits or 8) // 8 * math.prod(int(side) for side in sides.split(",") if side)
    return total


def measured(algorithm: str, number: int, form: str) -> dict[str, Any]:
    """Compile the rounds of an algorithm over so many devices, and time them if they cannot deadlock."""
    import jax

    from mdfl_jax.config import default_config
    from mdfl_jax.core import sharding
    from mdfl_jax.core.devices import compiler_options
    from mdfl_jax.engine.programs import Compiler, Placement, traced_steps
    from mdfl_jax.study import make_study
    from tests.collectives import unordered

    if form == FORMS[1]:
        sharding._divided_by = lambda: None
    config = default_config()
    changes = BASE | SETTINGS[algorithm] | {"algorithm.name": algorithm, "engine.client_devices": number}
    config.update_from_flattened_dict(changes)
    (group,) = make_study(config).groups
    placement = Placement(group.simulation, 1)
    inputs = placement.inputs([group.hparams[0]], np.zeros(1, np.uint32))
    steps = {step.name: step for step in traced_steps(placement, inputs[0], inputs[0])}
    lowered, start = steps["rounds"].lower(), time.perf_counter()
    program = lowered.compile(compiler_options(group.simulation.alone))
    seconds, text = time.perf_counter() - start, program.as_text()
    collectives, beside = unordered(text)
    row: dict[str, Any] = {
        "collectives": collectives,
        "beside_another": len(beside),
        "mib_received": moved(text) / 2**20,
    }
    row |= {"compile_seconds": seconds, "temporary_mib_a_device": program.memory_analysis().temp_size_in_bytes / 2**20}
    if beside:
        return row
    programs = Compiler().programs(placement, inputs[0], inputs[0])
    carries, times = programs.init(placement.data, inputs)[0], []
    for _ in range(measure.REPEATS):
        start = time.perf_counter()
        carries, metrics = programs.advance(placement.data, inputs, carries)
        jax.block_until_ready(metrics)
        times.append((time.perf_counter() - start) / ROUNDS)
    return row | {"seconds_per_round": measure.spread(times[1:])}


def main() -> int:
    """Measure all rows, each in a process of its own, and write results/divided-<platform>.json."""
    if _ONLY.value:
        name, columns, form = _ONLY.value.split(",")
        print(json.dumps(measured(name, int(columns), form)))
        return 0
    rows = []
    for algorithm in SETTINGS:
        for number in (2, 8):
            for form in FORMS:
                environment = os.environ | {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": str(number)}
                command = [sys.executable, "-m", "benchmarks.divided", f"--only={algorithm},{number},{form}"]
                said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
                name = f"{algorithm}, {number} devices, {form}"
                rows.append({"variant": name} | json.loads(said.splitlines()[-1]))
                print(rows[-1], flush=True)
    measure.report("divided", rows)
    return 0


if __name__ == "__main__":
    common.run_command(main)
