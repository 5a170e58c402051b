"""Deliberate faults, each of which the tests must find: ``python -m tests.mutants [--only=TEXT]``, or `make mutants`.

Each fault is one change of one line of the package, made in a copy of the checkout. The tests named beside it run
first, then, where these pass, all that `make test` runs. A fault that no test finds has survived: status 1.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
FOLDERS = ("mdfl_jax", "launch", "configs", "benchmarks", "docs", "tests")
COPIED = (*FOLDERS, "pyproject.toml", "setup.py", "README.md", "mkdocs.yml")


class Mutant(NamedTuple):
    """A fault: a text of a file that stands there once, what is put in its place, and the tests nearest to it."""

    file: str
    right: str
    wrong: str
    tests: str


EXP = {name: f"experiments/test_{name}.py" for name in ("results", "groups", "checkpoint", "select")}
MUTANTS = [
    # Who moves where.
    Mutant("mobility/label_histograms.py", "histogram - reference", "histogram", "mobility"),
    Mutant("mobility/label_histograms.py", "counts_near + own_counts.", "counts_near + 0 * own_counts.", "mobility"),
    Mutant("mobility/distribution_aware.py", "(distance > SMALLEST_DISTANCE), d", "True, d", "mobility"),
    Mutant("mobility/rejection.py", "limit * LARGEST_DISTANCE <", "limit <", "mobility/test_many_clients.py"),
    Mutant("mobility/rejection.py", "_DISTANCE, of_bare, 0.0)", "_DISTANCE, 0.0, 0.0)", "mobility"),
    Mutant("mobility/many.py", "where_rows(due, clients, moved), due)", "moved, due)", "mobility/test_many_clients.py"),
    Mutant("mobility/discs.py", "jnp.minimum(place + width, size - 1) + 1", "place + width", "mobility/test_discs.py"),
    Mutant("mobility/clustering.py", "jnp.where(step > 0, covers_of_all, 0)", "0", "mobility/test_many_clients.py"),
    Mutant("mobility/met_draw.py", "jnp.all(last < corner + side)", "True", "mobility/test_met_draw.py"),
    Mutant("mobility/clustering.py", "tied = gain == jnp.max(gain)", "tied = gain > 0", "mobility/test_clustering.py"),
    Mutant("mobility/clustering.py", "jnp.where(tied, covers_of_all, -1)", "jnp.where(tied, 1, -1)", "mobility"),
    Mutant("mobility/met.py", "return met | (told > 0)", "return met", "mobility/test_met.py"),
    Mutant("mobility/met.py", "centres.stale | jnp.any", "centres.stale & jnp.any", "mobility/test_met.py"),
    Mutant("mobility/random_walk.py", "[[0.0, 1.0], [0.0, -1.0]", "[[0.0, -1.0], [0.0, 1.0]", "mobility"),
    Mutant("mobility/random_walk.py", "2 * fast, numbers.speed_max)", "fast, numbers.speed_max)", "mobility"),
    Mutant("mobility/random_waypoint.py", "(numbers.pause_max > 0)", "(numbers.pause_max > 9)", "mobility"),
    Mutant("mobility/sight.py", "jnp.where(told[:, None], memory.last, NEVER)", "memory.last", "mobility"),
    Mutant("mobility/strategies/waiting.py", "sight.age**sight", "sight.age*sight", "mobility/test_strategies.py"),
    Mutant("mobility/strategies/spectral.py", "vector - vector[sight.me]", "vector", "mobility/test_choices.py"),
    Mutant("mobility/strategies/dcm_weighted.py", "sight.distance * ", "", "mobility/test_choices.py"),
    Mutant("mobility/strategies/learnt.py", "seen @ linear + ", "", "mobility/test_learnt.py"),
    Mutant("networks/movers.py", "-outside, outside", "outside, -outside", "networks/test_movers.py"),
    Mutant("networks/relays.py", "& ~served & ~is_relay", "& ~is_relay", "networks/test_relays.py"),
    Mutant("networks/relays.py", "of_group > 0, axis", "of_group, axis", "networks/test_relays.py"),
    # Who hears whom, with what weight.
    Mutant("geometry.py", "<= squared_reach", "< squared_reach", "networks"),
    Mutant("geometry.py", "* (1 + 1e-6)", "* (1 - 1e-6)", "networks mobility"),
    Mutant("networks/contact.py", "jnp.minimum(radius[:, None]", "jnp.maximum(radius[:, None]", "networks"),
    Mutant("networks/radio.py", "failure + fading * jnp", "failure + 0 * jnp", "networks"),
    Mutant("networks/radio.py", "contact.shape[0]) >= prob", "contact.shape[0]) < prob", "networks"),
    Mutant("networks/mixing.py", "adjacency | own, senders", "adjacency, senders", "networks/test_mixing.py"),
    Mutant("networks/mixing.py", "astype(mix.dtype) + mix) / 2", "astype(mix.dtype) + mix) / 3", "networks"),
    Mutant("networks/participation.py", "(picked | senders.opposite(picked)) & adj", "picked & adj", "networks"),
    Mutant("networks/graphs.py", "jnp.minimum(apart, num_clients - apart)", "apart", "networks/test_graphs.py"),
    # Neighbour lists.
    Mutant("senders.py", "values[self.ids, self.back]", "values[self.ids, 0]", "test_senders.py"),
    Mutant("senders.py", "in_use(Senders(ids), num_clients), ids, num_clients)", "True, ids, 0)", "test_senders.py"),
    Mutant("senders.py", "size.bit_length() + 1", "size.bit_length() - 1", "test_senders.py"),
    Mutant("senders.py", "values[me, place], 0)", "values, 0)", "test_senders.py"),
    Mutant("senders.py", "(row < num_clients) & ~again", "row < num_clients", "test_senders.py"),
    Mutant("senders.py", "real & (receiver != sender)", "real", "test_senders.py"),
    Mutant("senders.py", "real & there, receiver", "real, receiver", "test_senders.py networks/test_lists.py"),
    Mutant("senders.py", "jnp.where(counts, place, 0)) + 1", "jnp.where(counts, place, 0))", "test_senders.py"),
    Mutant("rng.py", "(middle >> 16) + carried", "(middle >> 16)", "test_threefry.py"),
    Mutant("networks/neighbours.py", "jnp.min(row_west) - reach", "jnp.min(row_west)", "networks/test_swept.py"),
    Mutant("networks/roadside.py", "drawn, -1.0)\n", "0.5, -1.0)\n", "networks"),
    Mutant("networks/roadside.py", "pair = jnp.maximum(me[:, None]", "pair = jnp.minimum(me[:, None]", "networks"),
    Mutant("networks/fixed.py", "2 if graph.directed else 1", "1", "networks/test_lists.py"),
    Mutant("networks/spatial.py", "jnp.maximum(state.needed, senders.most)", "senders.most", "networks/test_lists.py"),
    Mutant("metrics/spectrum.py", "smallest = jnp.minimum(label, heard)", "smallest = heard", "metrics"),
    Mutant("metrics/spectrum.py", "adjacency | senders.opposite(adjacency)", "adjacency", "metrics/test_spectrum.py"),
    Mutant("exchange/gossip.py", "(used + PLACES - 2) // PLACES", "(used - 1) // PLACES", "exchange/test_gossip.py"),
    Mutant("costs/filters.py", "carried(state.ids, state.seconds, senders)", "state.seconds", "networks/test_lists.py"),
    Mutant("networks/order.py", "key, round_index + 1, state", "key, round_index, state", "networks/test_order.py"),
    Mutant("networks/participation.py", 'if picks == "one_way":', 'if picks == "":', "networks/test_participation.py"),
    Mutant("networks/participation.py", "({SYMMETRIC} if p", "(set() if p", "networks/test_participation.py"),
    # What theory says of a network.
    Mutant("theory/mixing.py", "psi[..., 1:even:2, :, :] @ psi", "psi", "theory/test_mixing.py"),
    Mutant("theory/mixing.py", "@ (distance + centre)", "@ distance + centre", "theory/test_mixing.py"),
    Mutant("theory/mixing.py", "np.square(window * (1 + 1 /", "np.square(window * (0 + 1 /", "theory/test_mixing.py"),
    Mutant("theory/unions.py", "np.maximum(heard, _reached(flat.swapaxes(1, 2)))", "heard", "theory/test_unions.py"),
    Mutant("theory/unions.py", "np.maximum(last, soonest[rows, chosen])", "soonest[rows, 0]", "theory/test_unions.py"),
    Mutant("theory/walks.py", "(1 - columns @ weights)", "(columns @ weights)", "theory/test_walks.py"),
    Mutant("theory/pame.py", "axis=-1)[..., -2], 1.0)", "axis=-1)[..., -1], 1.0)", "theory/test_pame_theory.py"),
    # What a round costs.
    Mutant("networks/contact_time.py", "jnp.maximum(nearest - half, 0)", "jnp.minimum(nearest - half, 0)", "networks"),
    Mutant("costs/filters.py", "jnp.where(contact, before + seconds, 0)", "before + seconds", "costs"),
    Mutant("costs/filters.py", "jnp.where(carries, 0, lasted)", "lasted", "costs"),
    Mutant("costs/account.py", "slowest + jnp.max(sending)", "jnp.maximum(slowest, jnp.max(sending))", "costs"),
    Mutant("costs/account.py", "more.astype(jnp.float32) - total.excess", "more.astype(jnp.float32)", "costs"),
    Mutant("costs/work.py", 'equation.params["length"] if', "1 if", "costs"),
    # What is done and sent.
    Mutant("algorithms/pame.py", "-state.round.astype(own.dtype)", "state.round.astype(own.dtype)", "algorithms"),
    Mutant("algorithms/pame.py", "low, high + 1, jnp.int32", "low, high, jnp.int32", "algorithms/test_pame.py"),
    Mutant("algorithms/pame.py", "links) & turn[:, None]", "links)", "algorithms"),
    Mutant("algorithms/beer.py", "links, state.round > 0", "links, state.round >= 0", "algorithms"),
    Mutant("algorithms/gradient_tracking.py", "h + g - before", "h + g", "algorithms/test_rivals.py"),
    Mutant("algorithms/squarm_sgd.py", "(momentum * velocity + found), velocity)", "velocity, velocity)", "algorithms"),
    Mutant("algorithms/dfedavgm.py", "found), y), loss", "found), before), loss", "algorithms/test_rivals.py"),
    Mutant("algorithms/fedmobile.py", "(gave < hparams.max_upload) & ~meetings.now", "~meetings.now", "algorithms"),
    Mutant("algorithms/fedmobile.py", "version=state.version[relays.source]", "version=state.version", "algorithms"),
    Mutant("algorithms/fedmobile.py", "last == hparams.download_after", "last >= hparams.download_after", "algorithms"),
    Mutant("algorithms/innovations.py", "key, x - estimate)", "key, x)", "algorithms/test_innovations.py"),
    Mutant("exchange/relay.py", "(relay_following <= end)", "(relay_following < end)", "algorithms"),
    Mutant("exchange/relay_compression.py", "relays.gives | gets)", "relays.gives)", "algorithms/test_fedmobile.py"),
    Mutant("exchange/partial.py", "jnp.where(number > 0, total /", "jnp.where(number >= 0, total /", "exchange"),
    Mutant("exchange/compressors.py", "(jax.random.uniform(key, x.shape, x.dtype) < place - below)", "0", "exchange"),
    Mutant("exchange/compressors.py", "2 * _bit_length(place) - 1", "2 * _bit_length(place)", "exchange"),
    Mutant("exchange/message_bits.py", "a.low + b.low", "a.low | b.low", "exchange/test_message_bits.py"),
    Mutant("exchange/coordinates.py", "words <= middle[:, None]", "words < middle[:, None]", "exchange"),
    # What is learnt, from which data.
    Mutant("data/partition/deal.py", "size[:, None]).astype(jnp.int32)\n", "size[:, None]).astype(int) // 2\n", "data"),
    Mutant("data/partition/dirichlet_per_client.py", "< left[:, None]", "<= left[:, None]", "data"),
    Mutant("data/partition/dirichlet_per_client.py", "samples_per_client * num_clients or ", "", "data"),
    Mutant("data/partition/dirichlet_per_client.py", "> known:", "> 2 * known:", "data"),
    Mutant("data/partition/dirichlet_balanced.py", "left > 0", "left >= 0", "data"),
    Mutant("data/partition/by_place.py", "-0.5 *", "-1.0 *", "data"),
    Mutant("data/heterogeneity.py", "2 * rank - count - 1", "2 * rank - count", "data"),
    Mutant("metrics/predictions.py", "jnp.where(there, at.label_counts, 0)", "at.label_counts", "metrics"),
    Mutant("metrics/predictions.py", "jnp.sum(jnp.abs(gap))", "jnp.abs(jnp.sum(gap))", "metrics"),
    Mutant("data/partition/shards.py", 'dtype=jnp.int32), side="right")', 'dtype=jnp.int32), side="left")', "data"),
    Mutant("data/augment.py", "rows = jnp.arange(height) + down", "rows = jnp.arange(height) - down", "data"),
    Mutant("losses/cross_entropy.py", "jnp.where(there, found, 0.0)", "found", "losses"),
    Mutant("losses/squared_error.py", "jnp.square(targets - mean)", "jnp.square(targets)", "losses"),
    Mutant("tasks/evaluation.py", 'side="right")  # of', 'side="left")  # of', "tasks"),
    Mutant("tasks/summed.py", "batch_size) if batch_size", "1) if batch_size", "tasks/test_summed.py"),
    Mutant("tasks/summed.py", "else clients.num_s", "else 1 + 0 * clients.num_s", "tasks/test_summed.py"),
    Mutant("tasks/samples.py", "(y - moments[0]) / moments[1]", "y - moments[0]", "tasks data/test_arrays.py"),
    Mutant("data/dataset.py", "known[place] == client_test", "place >= 0", "data/test_arrays.py"),
    Mutant("data/formats/csv_table.py", "client if client is not None else y if", "y if", "data/test_files.py"),
    Mutant("models/norm.py", "jnp.maximum(count - 1.0, 1.0)", "divisor", "models test_batch_statistics.py"),
    Mutant("tasks/regression.py", "jax.random.rademacher(key_sign, (dimension,), dtype)", "1", "test_regression.py"),
    Mutant("batch_statistics.py", 'model["params"] if has_statistics(model) else ', "", "test_batch_statistics.py"),
    # Rounds, seeds, stops.
    Mutant("rng.py", "jax.random.fold_in(stream(key, name), round_index)", "stream(key, name)", "test_simulation.py"),
    Mutant("rng.py", 'return "batch" if name in OF_BATCHES else name', "return name", "experiments/test_vary.py"),
    Mutant("rng.py", "key[STREAMS.index(name)] if", "key[0] if", "experiments/test_vary.py"),
    Mutant("experiments/config/vary.py", "(name in names) != but)", "name in names)", "experiments/test_vary.py"),
    Mutant("experiments/config/points.py", "if not varies_all(experiment):", "if False:", "experiments/test_vary.py"),
    Mutant("stopping.py", "stop_state.rounds + 1, moved &", "stop_state.rounds + 1, True &", "test_regression.py"),
    Mutant("rounds.py", "carry.messages + stats.messages", "stats.messages", "test_simulation.py"),
    Mutant("montecarlo.py", "x.shape[2:])[:num_runs]", "x.shape[2:])[-num_runs:]", "test_simulation.py"),
    # What is counted and written.
    Mutant("metrics/measure.py", "jnp.where(still, ", "jnp.where(False, ", "experiments/test_metrics.py"),
    Mutant("models/adapters.py", "self.training: says if mask", "self.training: says if 1 or mask", "models"),
    Mutant("metrics/values.py", "/ num_clients)\n", ")\n", "test_simulation.py experiments"),
    Mutant("metrics/values.py", "[-2]", "[-1]", "test_simulation.py experiments"),
    Mutant("outcomes.py", "accuracy >= target", "accuracy > target", EXP["results"]),
    Mutant("experiments/results/summary.py", "].min(axis=2)", "].max(axis=2)", EXP["results"]),
    Mutant("experiments/results/step_sizes.py", 'not m["diverged"] and ', "", EXP["select"]),
    Mutant("experiments/results/step_sizes.py", "LOSS else entry[by]", "LOSS else loss", EXP["select"]),
    Mutant("experiments/results/step_sizes.py", "(math.inf if judged is", "(0.0 if judged is", EXP["select"]),
    Mutant("experiments/results/step_sizes.py", "if k not in paths)", "if k != paths[0])", EXP["select"]),
    Mutant("experiments/results/summary.py", "q != p and q in told]", "q != p]", "experiments/test_summary_power.py"),
    Mutant("experiments/results/identity.py", ") is None:\n", ") is Ellipsis:\n", "experiments/test_identity.py"),
    Mutant("power.py", "noncentrality * std / math.sqrt(seeds)", "2.8 * std / math.sqrt(seeds)", "test_power.py"),
    Mutant("power.py", "std, middle) <= difference", "std, middle + 1) <= difference", "test_power.py"),
    Mutant("presets.py", "(now or 0) > most", "most > (now or 0)", "test_presets.py"),
    Mutant("presets.py", 'if scale != "paper":', 'if scale == "smoke":', "test_presets.py"),
    Mutant("experiments/results/mobile_static.py", "(is_mobile, ~is_mobile)", "(~is_mobile, is_mobile)", EXP["groups"]),
    Mutant("experiments/run/batch.py", "in range(evaluations, mc.", "in range(0, mc.", EXP["checkpoint"]),
    Mutant("numbers.py", "value >= bound", "value > bound", "test_numbers.py"),
    Mutant("traces/contacts.py", "(contacts.end - begin) / dt - 1e-9", "(contacts.end - begin) / dt + 1", "traces"),
    Mutant("traces/resample.py", "(end - start <= max_gap)", "True", "traces"),
    Mutant("report/tables.py", 'point["id"] == point.get("baseline"', 'point["id"] != point.get("baseline"', "report"),
]  # fmt: skip


def _run(tests: list[str], copy: Path, *options: str) -> bool:
    """Whether the tests of a copy pass; what takes more than a quarter of an hour hangs, and does not."""
    short = ["-m", "not long and not faults", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-q", *short, *options, *tests]
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    try:
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=900)
    except subprocess.TimeoutExpired:
        return False
    if done.returncode not in (0, 1):  # what cannot be imported is no fault that a test found
        raise RuntimeError(done.stdout[-2000:] + done.stderr[-2000:])
    return done.returncode == 0


def _copies(number: int, folder: Path) -> Queue:
    copies: Queue = Queue()
    for k in range(number):
        copy = folder / f"copy{k}"
        copy.mkdir()
        for name in COPIED:
            source = ROOT / name
            (shutil.copytree if source.is_dir() else shutil.copy)(source, copy / name)
        copies.put(copy)
    return copies


def caught_by(mutant: Mutant, copy: Path) -> str:
    """Which tests find a fault: those beside it, all, or '' where it survives."""
    path = copy / "mdfl_jax" / mutant.file
    text = path.read_text()
    if text.count(mutant.right) != 1:
        raise ValueError(f"{mutant.file}: {mutant.right!r} stands there {text.count(mutant.right)} times, not once")
    path.write_text(text.replace(mutant.right, mutant.wrong))
    try:
        near = [f"tests/{name}" for name in mutant.tests.split()]
        return "its own tests" if not _run(near, copy, "-x") else "all tests" if not _run([], copy, "-x") else ""
    finally:
        path.write_text(text)


def main() -> int:
    """Tries all faults, two at a time; the status is 1 where one survives."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="only the faults of files whose names hold this text")
    parser.add_argument("--sound", action="store_true", help="the tests are known to pass as they are")
    asked = parser.parse_args()
    wanted = [mutant for mutant in MUTANTS if asked.only in mutant.file]
    survived = []
    with tempfile.TemporaryDirectory() as folder:
        copies = _copies(2, Path(folder))
        sound = copies.get()
        near = sorted({f"tests/{name}" for mutant in wanted for name in mutant.tests.split()})
        if not asked.sound and not _run(near, sound, "--numprocesses=2"):
            print("the tests do not pass as they are")
            return 2
        copies.put(sound)

        def one(mutant: Mutant) -> None:
            copy, begin = copies.get(), time.monotonic()
            try:
                found = caught_by(mutant, copy)
            finally:
                copies.put(copy)
            seconds = time.monotonic() - begin
            print(f"{found or 'SURVIVED':13} {seconds:4.0f} s  {mutant.file}: {mutant.right!r}", flush=True)
            if not found:
                survived.append(mutant)

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(one, wanted))
    print(f"{len(wanted) - len(survived)} of {len(wanted)} faults were found")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
