"""One run over two hosts: a linear model of 100,000 clients on a ring: python -m benchmarks.hosts [--clients=N]

The hosts are two processes of this machine with a CPU device each, beside one process with two devices. Each row has
the seconds of a round and the peak memory of each process. The last row is the compiled round of two devices: what
each of them receives from the other one, and what it would receive if each client's models went to its neighbours only.
"""

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from absl import flags

from benchmarks import measure
from mdfl_jax.cli import common
from mdfl_jax.config.resolve import read_file
from mdfl_jax.engine.programs import Placement
from mdfl_jax.results.results import StudyResults
from mdfl_jax.study import make_study
from mdfl_jax.study.ahead import cycles
from mdfl_jax.study.ahead.memory import steps_of

_CLIENTS = flags.DEFINE_integer("clients", 100_000, "The number of clients.")
ROUNDS, HOSTS = 8, 2
CONFIG = f"""
from mdfl_jax.config import default_config

def get_config():
    config = default_config()
    config.seeds, config.rounds, config.eval_every, config.judged = 1, {ROUNDS}, {ROUNDS}, "global"
    config.data.name, config.data.dimension, config.data.samples_per_client = "synthetic:linear", 650, 6
    config.network.graph, config.network.num_clients = "ring", CLIENTS
    config.algorithm.batch_size, config.engine.client_devices, config.engine.states_mib = 0, {HOSTS}, 0
    return config
"""


def _processes(folder: Path, commands: list[list[str]]) -> list[float]:
    """Run commands at the same time. Return the peak memory of each, in MiB."""
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": str(HOSTS // len(commands))}
    children = [subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment) for command in commands]
    ended = [os.wait4(child.pid, 0) for child in children]
    if any(status for _, status, _ in ended):
        raise SystemExit(f"{commands[0]} failed in {folder}")
    return [usage.ru_maxrss / 2**10 for *_, usage in ended]


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def row(folder: Path, hosts: int) -> dict[str, Any]:
    """Run the study by so many processes. Return the seconds of a round and the memory of each process."""
    workdir, port = folder / f"by{hosts}", _free_port()
    command = [sys.executable, "-m", "launch.sweep", f"--config={folder / 'ring.py'}", f"--workdir={workdir}"]
    command += ["--noreport", "--cache="]
    own = [[f"--hosts={i}/{hosts}@127.0.0.1:{port}"] if hosts > 1 else [] for i in range(1, hosts + 1)]
    memory = _processes(folder, [command + words for words in own])
    seconds = StudyResults.open(workdir).summary["points"][0]["run_seconds"]
    return {"hosts": hosts, "seconds_per_round": seconds / ROUNDS, "peak_resident_mib": memory}


def sent(folder: Path) -> dict[str, Any]:
    """Compile the rounds for two devices. Return the bytes that a device receives in one, as all-gathers or others."""
    (group,) = make_study(read_file(str(folder / "ring.py"))).groups
    rounds = steps_of(group, Placement(group.simulation, 1))[0]
    found = cycles.read(rounds.lower().compile().as_text()).collectives
    of_a_client = 4 * group.simulation.num_params
    return {
        "collectives": {one.kind: {"number": one.number / ROUNDS, "bytes": one.size / ROUNDS} for one in found},
        "bytes_of_models_of_neighbours": 2 * of_a_client,
    }


def main() -> int:
    """Measure both ways, and count what the devices send each other."""
    common.setup_jax("")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "ring.py").write_text(CONFIG.replace("CLIENTS", str(_CLIENTS.value)))
        rows = [{"num_clients": _CLIENTS.value, **row(folder, hosts)} for hosts in (1, HOSTS)]
        rows.append({"num_clients": _CLIENTS.value, **sent(folder)})
    measure.report("hosts", rows)
    return 0


if __name__ == "__main__":
    common.run(main)
