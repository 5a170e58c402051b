"""One run over two hosts: a linear model of 100,000 clients on a ring: python -m benchmarks.hosts [--clients=N]

The hosts are two processes of this machine with a CPU device each, beside one process with two devices. Each row has
the seconds of a round and the peak memory of each process.
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
from mdfl_jax.results.results import Results

_CLIENTS = flags.DEFINE_integer("clients", 100_000, "The number of clients.")
ROUNDS, HOSTS = 8, 2
CONFIG = f"""
from mdfl_jax.config import default_config

def get_config():
    config = default_config()
    config.seeds, config.rounds, config.eval_every, config.judged = 1, {ROUNDS}, {ROUNDS}, "global"
    config.data.name, config.data.dimension, config.data.samples_per_client = "synthetic:linear", 64, 6
    config.network.graph, config.network.num_clients = "ring", CLIENTS
    config.algorithm.batch_size, config.algorithm.lr = 0, 0.001
    config.engine.client_devices, config.engine.states_mib = {HOSTS}, 0
    return config
"""


def _peaks(commands: list[list[str]]) -> list[float]:
    """Run commands at the same time. Return the peak memory of each, in MiB."""
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": str(HOSTS // len(commands))}
    children = [subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment) for command in commands]
    ended = [os.wait4(child.pid, 0) for child in children]
    if any(status for _, status, _ in ended):
        raise SystemExit(f"failed: {commands[0]}")
    return [usage.ru_maxrss / 2**10 for *_, usage in ended]


def row(folder: Path, hosts: int) -> dict[str, Any]:
    """Run the study by so many processes. Return the seconds of a round and the memory of each process."""
    workdir = folder / f"by{hosts}"
    command = [sys.executable, "-m", "launch.sweep", f"--config={folder / 'ring.py'}", f"--workdir={workdir}"]
    command += ["--noreport", "--cache="]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = [[f"--hosts={i}/{hosts}@127.0.0.1:{port}"] if hosts > 1 else [] for i in range(1, hosts + 1)]
    memory = _peaks([command + words for words in own])
    seconds = Results.open(workdir).summary["points"][0]["run_seconds"]
    return {"hosts": hosts, "seconds_per_round": seconds / ROUNDS, "peak_resident_mib": memory}


def main() -> int:
    """Measure both ways."""
    common.setup_jax("")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "ring.py").write_text(CONFIG.replace("CLIENTS", str(_CLIENTS.value)))
        measure.report("hosts", [{"num_clients": _CLIENTS.value, **row(folder, hosts)} for hosts in (1, HOSTS)])
    return 0


if __name__ == "__main__":
    common.run_command(main)
