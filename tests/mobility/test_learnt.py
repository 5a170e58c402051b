"""The learnt strategy: its policy against loops in NumPy, where it begins, where its weights come from, bad weights."""

import itertools
import json
from pathlib import Path

import jax
import numpy as np
import pytest
from oracles import strategies as oracle
from strategy_world import GRID, MOBILE, RADIUS, SIZE, STEP, played

from mdfl_jax import UserError
from mdfl_jax.config import default_config
from mdfl_jax.mobility import MOBILITIES
from mdfl_jax.mobility.strategies.learnt import COUNT, START, WEIGHTS
from mdfl_jax.study import make_study

ROUNDS = 30
RESULT = Path(__file__).parents[2] / "benchmarks" / "results" / "policy.json"


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(3))
def test_clients_go_where_the_policy_scores_most(seed):
    weights = np.random.default_rng(seed).normal(size=COUNT).round(3)
    world, _, destination, states = played("learnt", seed, weights=" ".join(map(str, weights)))
    static, counts = GRID[np.asarray(world.start)][MOBILE:], np.asarray(world.label_counts)
    location = states.clients.location
    visited = set()
    for now, i in itertools.product(range(0, ROUNDS, 2), range(MOBILE)):
        age = oracle.ages(GRID[location[:, :MOBILE]], static, RADIUS, now)
        heading = [*destination[now + 1, :i], *destination[now, i + 1 : MOBILE]]  # those before it have chosen already
        rivals = np.array([heading.count(k) for k in range(SIZE * SIZE)])
        at, others = GRID[location[now, i]], (counts[MOBILE:], counts[i], RADIUS)
        score = oracle.learnt(weights, at, GRID, static, *others, age[i], age.min(axis=0), rivals, STEP)
        score[location[now, i]] = -np.inf
        assert score[destination[now + 1, i]] >= score.max() - 1e-4
        visited.add(int(destination[now + 1, i]))
    assert len(visited) > 3


def test_training_begins_as_waiting():
    """From the same state; log(1 + worth) for log(worth) is another order only where little waits."""
    world, _, _, found = played("waiting", 4)
    states = [jax.tree.map(lambda leaf, t=t: leaf[t], found) for t in range(ROUNDS + 1)]
    rule = MOBILITIES["learnt"]()
    begun = world._replace(numbers=MOBILITIES.numbers("learnt")(weights=" ".join(map(str, START))).typed())
    step, alike = jax.jit(rule.step), []
    for t, (before, after) in enumerate(itertools.pairwise(states)):
        found = step(jax.random.fold_in(jax.random.key(4), t), begun, before)
        alike.append(np.asarray(found.clients.destination == after.clients.destination)[:MOBILE])
    assert np.mean(alike) > 0.9


def test_the_weights_are_the_best_of_those_that_were_compared():
    compared = [row for row in json.loads(RESULT.read_text())["rows"] if "weights" in row]
    best = max(compared, key=lambda row: row["accuracy"])
    assert best["weights"] == WEIGHTS
    assert best["over_the_start"] > 0


@pytest.mark.parametrize("text", ["1 2 3", "a " * COUNT, "nan " * COUNT, ""])
def test_bad_weights_are_one_line(text):
    config = default_config()
    config.network.mobility, config.motion.weights = "learnt", text
    with pytest.raises(UserError, match=f"motion.weights is .*; it must hold {COUNT} numbers, separated by spaces"):
        make_study(config)
