"""Measure the seconds of a round, by suite: python -m benchmarks.throughput --suite=NAME [--vs=torch]

Round suites time a whole round: movement, links, local steps on minibatches, mixing. --vs=torch adds the rivals.
  mnist_round      N = 20, batch 64, CNN 5x5x16, 5x5x32, 64 on 28 x 28
  mnist_round_100  N = 100, batch 32, the model of mnist_round
  digits_round     N = 20, batch 64, CNN 3x3x16, 3x3x32, 64 on 8 x 8
  gn_lenet_round   N = 48, batch 8, 3 local steps, GN-LeNet 5x5 32-32-64 on 32 x 32 x 3
  cifar_round      N = 8, batch 32, ResNet-20 with batch normalisation on 32 x 32 x 3
  resnet18_round   N = 20, batch 512, ResNet-18 of the same kind, for accelerators: half an hour on two CPU cores
Other suites (benchmarks/suites.py): full_batch, mixing, mobility, monte_carlo, convolution, startup, swept, pame,
fedmobile, many_clients, strategies, aggregation, clocks
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from absl import flags

from benchmarks import measure, suites, torch_rivals
from benchmarks.clocks import clocks_suite
from benchmarks.many_clients import many_clients_suite
from benchmarks.partial_exchange import pame_suite
from benchmarks.relaying import fedmobile_suite
from benchmarks.robust import aggregation_suite
from benchmarks.rounds import ROUNDS, memory_ratio, peak_bytes, prepare, simulation, useful_flops
from benchmarks.strategies import strategies_suite
from benchmarks.swept import swept_suite
from benchmarks.torch_rivals import Setting
from mdfl_jax.cli import common
from mdfl_jax.core import devices, sharding
from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.networks.contact import disc
from mdfl_jax.networks.mixing import metropolis_hastings
from mdfl_jax.tasks import PRECISIONS
from mdfl_jax.tasks.gradients import MAPPINGS, Tiling

_SUITE = flags.DEFINE_string("suite", "", "Which suite to run.")
_VS = flags.DEFINE_string("vs", "", "'torch' also times the PyTorch rivals, in turn with ours.")
_REPEATS = flags.DEFINE_integer("repeats", measure.REPEATS, "Timed rounds of each variant.", lower_bound=7)
_PRECISION = flags.DEFINE_string("precision", "float32", "The precision of the models' arithmetic.")
_MAPPINGS = flags.DEFINE_bool("mappings", False, "Also time every client mapping, on one device.")


def round_suite(setting: Setting, vs_torch: bool) -> list[dict[str, Any]]:
    """Time our round over all devices and on one device, and with ``vs_torch`` also the rivals' rounds."""
    mesh, precision = sharding.client_mesh(), _PRECISION.value
    programs = {"ours": prepare(simulation(setting, mesh, precision=precision))}
    one = prepare(simulation(setting, precision=precision))
    if mesh:
        programs["ours, one device"] = one
    for mapping in MAPPINGS if _MAPPINGS.value else ():
        programs[f"ours, one device, {mapping}"] = prepare(
            simulation(setting, None, Tiling(mapping=mapping), precision)
        )
    calls: dict[str, Callable[[], Any]] = {name: program.call for name, program in programs.items()}
    close: Callable[[], None] = lambda: None  # noqa: E731
    if vs_torch:
        position = jax.random.uniform(jax.random.key(1), (setting.num_clients, 2), maxval=18.0)
        mix = np.array(metropolis_hastings(disc(position, 3.0)))
        theirs, close = torch_rivals.rivals(setting, mix, devices.num_cores(), precision)
        calls |= theirs
    product = suites.matrix_product()
    calls["2048^3 product"] = product
    seconds_of = measure.interleaved(calls, _REPEATS.value)
    close()
    product_rate = 2 * 2048**3 / float(np.median(seconds_of.pop("2048^3 product")))
    samples, flops = setting.num_clients * setting.batch * setting.steps, useful_flops(setting)
    rows = []
    for name, seconds in seconds_of.items():
        median = float(np.median(seconds))
        row: dict[str, Any] = {"variant": name, "seconds_per_round": measure.spread(seconds)}
        if "torch loop" in seconds_of:
            row["ratio"] = float(np.median(np.divide(seconds, seconds_of["torch loop"])))
        row |= {"samples_per_second": samples / median, "num_clients": setting.num_clients, "batch": setting.batch}
        row |= {"local_steps": setting.steps, "model": f"{setting.model} {setting.widths}", "dtype": precision}
        row["gflop_per_second"] = flops / median / 1e9
        row["share_of_product"] = flops / median / product_rate
        if name in programs:
            memory = programs[name].memory
            row["compile_seconds"] = programs[name].compile_seconds
            row["temporary_mib"] = memory.temp_size_in_bytes / 2**20
            row["peak_mib_a_device"] = peak_bytes(memory) / 2**20
        if name == ("ours, one device" if mesh else "ours"):
            row["memory_ratio"] = memory_ratio(setting, programs[name])
        rows.append(row)
    return rows


SUITES: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "full_batch": suites.full_batch,
    "mixing": suites.mixing,
    "mobility": suites.mobility,
    "monte_carlo": suites.monte_carlo_suite,
    "convolution": suites.convolution_forms,
    "startup": suites.startup,
    "swept": swept_suite,
    "fedmobile": fedmobile_suite,
    "pame": pame_suite,
    "many_clients": many_clients_suite,
    "strategies": strategies_suite,
    "aggregation": aggregation_suite,
    "clocks": clocks_suite,
}


def main() -> int:
    """Run the suite that --suite names."""
    known = [*ROUNDS, *SUITES]
    if _SUITE.value not in known:
        raise UserError(f"--suite: {unknown_name('suite', _SUITE.value, known)}")
    if _VS.value not in ("", "torch"):
        raise UserError(f"--vs: {unknown_name('rival', _VS.value, ('torch',))}")
    if _PRECISION.value not in PRECISIONS:
        raise UserError(f"--precision: {unknown_name('precision', _PRECISION.value, PRECISIONS)}")
    common.setup_jax("")
    vs_torch = _VS.value == "torch"
    if vs_torch and not suites.has_torch():
        print("torch is not installed: the rivals are left out (pip install 'mdfl_jax[bench]')")
        vs_torch = False
    rows = round_suite(ROUNDS[_SUITE.value], vs_torch) if _SUITE.value in ROUNDS else SUITES[_SUITE.value]()
    measure.report(_SUITE.value, rows, "" if _PRECISION.value == "float32" else _PRECISION.value)
    ours = [row for row in rows if row["variant"] == "ours" and "ratio" in row]
    if ours:
        print(f"ratio to the PyTorch loop: {ours[0]['ratio']:.2f}")
    return 0


if __name__ == "__main__":
    common.run_command(main)
