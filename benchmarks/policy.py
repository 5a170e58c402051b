"""Train the weights of the strategy ``learnt`` by evolution strategies: python -m benchmarks.policy [--write]

The strategy is OpenAI's (Salimans et al., 2017) as evosax has it, with ranks for fitness and Adam; it needs the extra
``bench``. One generation: pairs of policies at equal distances on both sides of the present one, each for one run of
every setting in `SETTINGS` on the digits, with the same seeds for all policies. A policy's fitness is the accuracy
after `ROUNDS` rounds, the mean over the clients and the settings. Seeds are 0 to 19, those that strategies are chosen
with; 100 to 139 are never used. The weights of ``learnt`` were trained by the same method in an own form, so the same
command finds similar weights and not the same ones.

Every `CHECK_EVERY` generations the present policy is compared with ``waiting``, as which it began, over all 20 seeds
and settings. The weights of the best of these comparisons go to `mdfl_jax/contrib/strategies/learnt.py`. The state is
kept in --workdir after each generation; the same command goes on from it.
"""

import datetime
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags

from benchmarks import measure
from benchmarks.evolution import PAIRS, RATE, SIGMA, evolved, search_of
from configs import arena
from mdfl_jax.cli import common
from mdfl_jax.contrib.strategies.learnt import START
from mdfl_jax.storage.provenance import commit
from mdfl_jax.study import make_study

_GENERATIONS = flags.DEFINE_integer("generations", 40, "Generations to train, at least 1.", lower_bound=1)
_FOLDER = flags.DEFINE_string("workdir", "runs/policy", "Folder of the state, which is continued.")

SETTINGS = ("3+2+5", "1+1+inf", "5+2+2", "3+1+5")  # M, Rc, Rm
ROUNDS, SEEDS, CHECK_EVERY = 150, 20, 10
Fitness = Callable[[np.ndarray, np.ndarray], np.ndarray]


def fitness_of(devices: list[jax.Device]) -> Fitness:
    """Compile the runs of many policies.

    Returns:
      (weights [P, `COUNT`], seeds [R, S], one for each setting) -> accuracies [P, R, S].
    """
    config = arena.get_config("centre,rules=learnt")
    config.rounds = config.eval_every = ROUNDS
    config.sweep = "network.num_mobile+network.radius+network.max_step=" + ",".join(SETTINGS)
    config.network.mobility = "learnt"
    (group,) = make_study(config).groups
    simulation = group.simulation
    settings = jax.tree.map(lambda *leaves: jnp.stack(leaves), *group.hparams)

    def run(job: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        weights, seed, setting = job
        hparams = jax.tree.map(lambda leaf: leaf[setting], settings)
        rule = hparams.network.rules[0].replace(weights=weights)
        hparams, key = hparams._replace(network=hparams.network._replace(rules=(rule,))), jax.random.key(seed)
        carry, _ = simulation.init(simulation.data, hparams, key)
        return jnp.mean(simulation.advance(simulation.data, hparams, key, carry)[1].accuracy)

    program = jax.pmap(lambda jobs: jax.lax.map(run, jobs), devices=devices)

    def fitness(weights: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        policy, one, setting = np.indices((len(weights), *seeds.shape)).reshape(3, -1)
        jobs = (weights[policy].astype(np.float32), seeds[one, setting], setting.astype(np.int32))
        count = len(policy)
        short = -count % len(devices)
        split = [np.concatenate([x, x[:short]]).reshape(len(devices), -1, *x.shape[1:]) for x in jobs]
        found = np.asarray(program(tuple(split))).reshape(-1)[:count]
        return found.reshape(len(weights), *seeds.shape)

    return fitness


def seeds_of(generation: int) -> np.ndarray:
    """Return the seeds of a generation, one for each setting, in turn: [1, S] int32."""
    count = len(SETTINGS)
    return ((generation * count + np.arange(count)) % SEEDS)[None].astype(np.int32)


def check(fitness: Fitness, weights: np.ndarray) -> dict[str, Any]:
    """Compare a policy with ``waiting`` over all seeds and settings, in points, paired by seed and setting."""
    seeds = np.repeat(np.arange(SEEDS, dtype=np.int32)[:, None], len(SETTINGS), axis=1)
    start, now = 100 * fitness(np.stack([START, weights]), seeds)
    by_seed = np.mean(now - start, axis=1)
    return {"accuracy": float(now.mean()), "over_the_start": float(by_seed.mean()), "std": float(by_seed.std(ddof=1))}


def main() -> int:
    """Train, print each comparison and keep the curve."""
    folder = Path(_FOLDER.value)
    folder.mkdir(parents=True, exist_ok=True)
    kept, rows, done = folder / "state.json", [], 0
    search, state = search_of(np.array(START, np.float32))
    if kept.exists():
        told = json.loads(kept.read_text())
        rows, done = told["rows"], told["generation"]
        leaves = [np.asarray(leaf, like.dtype) for leaf, like in zip(told["state"], jax.tree.leaves(state))]
        state = jax.tree.unflatten(jax.tree.structure(state), leaves)
    fitness = fitness_of(jax.local_devices())

    def accuracy(generation: int, weights: np.ndarray) -> np.ndarray:
        return fitness(weights, seeds_of(generation)).mean(axis=(1, 2))

    for generation in range(done, _GENERATIONS.value):
        state, found = evolved(search, state, generation, partial(accuracy, generation))
        weights = np.asarray(state.mean)
        row: dict[str, Any] = {"generation": generation + 1, "mean": float(found.mean()), "best": float(found.max())}
        if (generation + 1) % CHECK_EVERY == 0:
            row |= check(fitness, weights) | {"weights": " ".join(f"{w:.3f}" for w in weights)}
        rows.append(row)
        print(json.dumps(row), flush=True)
        leaves = [np.asarray(leaf).tolist() for leaf in jax.tree.leaves(state)]
        told = {"state": leaves, "rows": rows, "generation": generation + 1}
        kept.write_text(json.dumps(told))
    if measure.WRITE.value:
        meta: dict[str, Any] = {"settings": SETTINGS, "rounds": ROUNDS, "pairs": PAIRS, "sigma": SIGMA, "rate": RATE}
        meta |= {"commit": commit(), "date": datetime.date.today().isoformat()}
        path = measure.RESULTS / "policy.json"
        path.write_text(json.dumps(meta | {"rows": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    common.run_command(main)
