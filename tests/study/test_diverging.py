"""Runs that diverge: seen in their round, held still, in no mean, and without any trace in the runs beside them."""

import json
import shutil
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from small import toy_hparams, toy_task
from studies import assert_same, go
from tiny import tiny_config

from mdfl_jax import Schedule
from mdfl_jax.algorithms.dpsgd import dpsgd
from mdfl_jax.core.stopping import largest_norm, no_divergence, update_divergence
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.networks.fixed import fixed_graph
from mdfl_jax.networks.graphs import GraphParams
from mdfl_jax.results.results import Results
from mdfl_jax.study import Interrupted, make_study

SEEDS, ROUNDS, EVERY = 4, 8, 2
STUDY = {"seeds": SEEDS, "rounds": ROUNDS, "eval_every": EVERY, "data.partition": "dirichlet", "data.alpha": 0.3}
FREE = STUDY | {"diverged_norm": float("inf")}


def lines_of(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def looped(**changes):
    """A plain Python loop over the rounds of each seed: the largest norm of a client after each round, [S, R]."""
    (group,) = make_study(tiny_config(**changes)).groups
    simulation, norms = group.simulation, np.zeros((SEEDS, ROUNDS))
    first, one_round = jax.jit(simulation.first), jax.jit(simulation.round)
    for seed in range(SEEDS):
        key = jax.random.key(seed)
        carry = first(simulation.data, group.hparams[0], key)
        for r in range(ROUNDS):
            carry = one_round(simulation.data, group.hparams[0], key, carry)
            models = [np.asarray(x, np.float64) for x in jax.tree.leaves(simulation.models(carry)[0])]
            norms[seed, r] = np.sqrt(sum(np.square(x).reshape(len(x), -1).sum(1) for x in models)).max()
    return norms


@pytest.fixture(scope="module")
def norms():
    return looped(**FREE)


@pytest.fixture(scope="module")
def bound(norms):
    """A bound that some of the seeds cross in the course of the study, and others not."""
    highest = np.sort(norms.max(axis=1))
    return float(np.mean(highest[1:3]))


@pytest.fixture(scope="module")
def crossed(norms, bound):
    """The round in which each seed is above the bound for the first time, by seed, counted from 1."""
    return {seed: int(np.argmax(row > bound)) + 1 for seed, row in enumerate(norms) if (row > bound).any()}


@pytest.fixture(scope="module")
def free(tmp_path_factory):
    folder = tmp_path_factory.mktemp("free") / "run"
    go(folder, **FREE)
    return folder


@pytest.fixture(scope="module")
def bounded(tmp_path_factory, bound):
    folder = tmp_path_factory.mktemp("bounded") / "run"
    go(folder, **STUDY | {"diverged_norm": bound, "save": "final"})
    return folder


def test_a_global_model_that_explodes_before_those_of_the_clients_is_seen():
    one, huge = {"w": jnp.ones((3, 4))}, {"w": jnp.full((1, 4), 1e6)}
    algorithm = SimpleNamespace(params=lambda state: one, global_model=lambda state: huge)
    bound, everybody = SimpleNamespace(diverged_norm=1e3), lambda network_state: None
    parts = SimpleNamespace(algorithm=algorithm, num_clients=3, schedule=bound, _counted=everybody)
    seen = Simulation._diverged(
        parts, SimpleNamespace(divergence=no_divergence(), round=jnp.int32(4), network=None), None
    )
    assert (int(seen.round), float(seen.norm)) == (5, 2e6)


@pytest.mark.long
def test_a_resumed_study_and_one_with_more_rounds_keep_what_diverged(tmp_path, bounded, bound):
    changes = STUDY | {"diverged_norm": bound, "save": "final"}
    for stop in (4, 6):
        with pytest.raises(Interrupted):
            go(tmp_path / str(stop), on_evaluation=lambda info, stop=stop: info.round == stop, **changes)
        go(tmp_path / str(stop), **changes)
        assert_same(tmp_path / str(stop), bounded)
    go(tmp_path / "short", **changes | {"rounds": 4})
    go(tmp_path / "short", **changes)
    assert_same(tmp_path / "short", bounded)


def test_round_and_norm_are_those_of_a_plain_loop(bounded, norms, crossed):
    assert 0 < len(crossed) < SEEDS  # or the test would say nothing
    (point,) = json.loads((bounded / "summary.json").read_text())["points"]
    assert {int(seed): found["round"] for seed, found in point["divergence"].items()} == crossed
    for seed, found in point["divergence"].items():
        assert found["norm"] == pytest.approx(norms[int(seed), crossed[int(seed)] - 1], rel=1e-5)
    assert point["diverged"] == {str(seed): -(-r // EVERY) * EVERY for seed, r in crossed.items()}
    for line in lines_of(bounded):
        is_seen = line["round"] >= crossed.get(line["seed"], ROUNDS + 1)
        assert line["divergence_round"] == (crossed[line["seed"]] if is_seen else None)


def test_a_seed_that_diverges_stops_alone_and_the_others_are_bit_equal(bounded, free, crossed):
    kept = [seed for seed in range(SEEDS) if seed not in crossed]
    ours, theirs = ([line for line in lines_of(of) if line["seed"] in kept] for of in (bounded, free))
    assert ours == theirs
    with np.load(bounded / "history.npz") as ours, np.load(free / "history.npz") as theirs:
        assert set(theirs.files) <= set(ours.files)
        for key in set(theirs.files) - {"rounds"}:
            assert ours[key][kept].tobytes() == theirs[key][kept].tobytes(), key
        for seed, at in crossed.items():
            until = -(-at // EVERY)  # the evaluation that sees it
            for key in ("accuracy", "messages", "bits_sent", "rounds_done"):
                assert ours[f"0/{key}"][seed, :until].tobytes() == theirs[f"0/{key}"][seed, :until].tobytes()
            for key in ("accuracy", "mean_model_loss"):
                assert np.isnan(ours[f"0/{key}"][seed, until:]).all(), key
            for key in ("messages", "rounds_done", "consensus_distance"):
                assert (ours[f"0/{key}"][seed, until:] == theirs[f"0/{key}"][seed, until]).all(), key
            moved = ours["0/position"][seed, until * EVERY :]
            assert (moved == moved[0]).all()


def test_the_norm_is_that_of_numpy_and_every_number_that_is_not_finite_is_seen():
    rng = np.random.default_rng(0)
    w, b = rng.normal(size=(5, 3, 4)).astype(np.float32), rng.normal(size=(5, 4)).astype(np.float32)
    expected = np.sqrt(np.square(w.astype(float)).sum((1, 2)) + np.square(b.astype(float)).sum(1))
    for counts in (None, np.arange(5) < 2):
        assert float(largest_norm({"w": w, "b": b}, counts)) == pytest.approx(expected[counts].max(), rel=1e-6)
    statistics = {"params": {"w": w}, "batch_stats": {"mean": np.full((5, 2), 1e9, np.float32)}}
    assert float(largest_norm(statistics)) == pytest.approx(float(largest_norm({"w": w})))
    assert float(largest_norm({"w": 1e20 * w[:, 0]})) < np.inf  # the squares of such numbers would be infinite
    for broken in (np.nan, np.inf, -np.inf):
        w[3, 1, 1] = broken
        norm = largest_norm({"w": jnp.asarray(w)})
        found = update_divergence(no_divergence(), norm, np.inf, jnp.int32(8))
        assert (float(found.norm), int(found.round)) == (np.inf, 8)
        assert np.isfinite(float(largest_norm({"w": jnp.asarray(w)}, np.arange(5) < 3)))


def test_means_stand_on_the_seeds_that_did_not_diverge(bounded, free, crossed, tmp_path):
    """Also where an unfinished study is read."""
    (point,) = json.loads((bounded / "summary.json").read_text())["points"]
    (whole,) = json.loads((free / "summary.json").read_text())["points"]
    kept = [seed for seed in range(SEEDS) if seed not in crossed]
    for key in ("final_accuracy", "best_accuracy", "worst_client_accuracy", "mean_model_loss", "rounds_done"):
        values = [whole[key]["per_seed"][seed] for seed in kept]
        assert point[key]["mean"] == pytest.approx(np.mean(values)), key
        half = stats.t.ppf(0.975, len(kept) - 1) * stats.sem(values) if len(kept) > 2 else None
        assert point[key]["ci95"] == (half and pytest.approx(half)), key
        assert (point[key]["seeds"], "seeds" in whole[key]) == (len(kept), False)
        assert point[key]["per_seed"] == [whole[key]["per_seed"][s] if s in kept else None for s in range(SEEDS)]
    with np.load(free / "history.npz") as arrays:
        for key in ("messages", "bits_sent"):
            assert point[f"{key}_per_client"] == pytest.approx(arrays[f"0/{key}"][kept, -1].mean())
    assert [point["rounds_to_target_per_seed"][seed] for seed in crossed] == [None] * len(crossed)
    folder = shutil.copytree(bounded, tmp_path / "run")
    manifest = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(manifest | {"status": "running"}))
    (read,) = Results.read(folder).shown().outcomes
    for key in ("diverged", "divergence", "rounds_to_target"):
        assert read[key] == point[key], key
    assert read["final_accuracy"]["mean"] == pytest.approx(point["final_accuracy"]["mean"])


def test_a_run_that_has_diverged_computes_no_more_rounds():
    calls, algorithm = [], dpsgd()

    def counted(*args):
        jax.debug.callback(lambda: calls.append(1))
        return algorithm.round(*args)

    schedule = Schedule(6, 2, diverged_norm=1e-9)  # every model is beyond this bound
    simulation = Simulation(toy_task(), fixed_graph(6, "ring"), algorithm._replace(round=counted), schedule)
    inputs = simulation.data, toy_hparams()._replace(network=GraphParams()), jax.random.key(0)
    carry, _ = jax.jit(simulation.init)(*inputs)
    advance = jax.jit(simulation.advance)
    for _ in range(3):
        carry, metrics = jax.block_until_ready(advance(*inputs, carry))
        jax.effects_barrier()
        assert (len(calls), int(metrics.rounds_done), int(carry.divergence.round)) == (2, 2, 1)


@pytest.mark.long
def test_what_is_unknown_after_a_divergence_is_kept_when_rounds_are_added(tmp_path):
    """The objective of the first round is known, and that of none of the further rounds."""
    changes = {"data.name": "synthetic:linear", "data.shift": 10.0, "diverged_norm": 0.01, "eval_every": 1, "seeds": 1}
    go(tmp_path / "whole", **changes, rounds=2)
    for rounds in (1, 2):
        go(tmp_path / "grown", **changes, rounds=rounds)
    assert Results.read(tmp_path / "whole").summary["points"][0]["diverged"] == {"0": 1}
    assert_same(tmp_path / "grown", tmp_path / "whole")
    assert np.isfinite(Results.read(tmp_path / "grown").array("objective", 0)[0, 0])
