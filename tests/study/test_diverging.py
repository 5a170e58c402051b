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
from studies import assert_same, batches_of, go, names_of
from tiny import run_study, tiny_config

from mdfl_jax import Schedule
from mdfl_jax.algorithms.dpsgd import dpsgd
from mdfl_jax.core.stopping import largest_norm, no_divergence, rounds_computed, update_divergence
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.networks.spatial import spatial
from mdfl_jax.report.panels.rivals import Matrix, measures
from mdfl_jax.report.read import read_workdir
from mdfl_jax.results.results import models_of
from mdfl_jax.study import Interrupted, make_study

SEEDS, ROUNDS, EVERY = 4, 8, 2
STUDY = {"seeds": SEEDS, "rounds": ROUNDS, "eval_every": EVERY, "data.partition": "dirichlet", "data.alpha": 0.3}
FREE = STUDY | {"diverged_norm": float("inf")}
POINTS = {"sweep": "network.mobility=static,random_movement,dcm", "baseline": "network.mobility=static"}


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
    go(folder, **STUDY | {"diverged_norm": bound, "save": "best"})
    return folder


def test_round_and_norm_are_those_of_a_plain_loop(bounded, norms, crossed):
    assert 0 < len(crossed) < SEEDS  # or the test would say nothing
    (point,) = json.loads((bounded / "summary.json").read_text())["points"]
    assert {int(seed): found["round"] for seed, found in point["divergence"].items()} == crossed
    for seed, found in point["divergence"].items():
        assert found["norm"] == pytest.approx(norms[int(seed), crossed[int(seed)] - 1], rel=1e-5)
    assert point["diverged"] == {str(seed): -(-r // EVERY) * EVERY for seed, r in crossed.items()}
    with np.load(bounded / "history.npz") as arrays:
        found = {key: arrays[f"0/{key}"] for key in ("divergence_round", "divergence_norm")}
    for seed in range(SEEDS):
        seen = np.arange(0, ROUNDS + 1, EVERY) >= crossed.get(seed, ROUNDS + 1)
        expected = np.where(seen, crossed.get(seed, 0), np.nan)
        np.testing.assert_array_equal(found["divergence_round"][seed], expected)
        np.testing.assert_array_equal(np.isnan(found["divergence_norm"][seed]), ~seen)
    for line in lines_of(bounded):
        is_seen = line["round"] >= crossed.get(line["seed"], ROUNDS + 1)
        assert line["divergence_round"] == (crossed[line["seed"]] if is_seen else None)


def test_a_diverged_evaluation_is_never_the_best_whose_models_are_kept(bounded):
    with np.load(bounded / "history.npz") as arrays:
        accuracy = arrays["0/accuracy"].mean(axis=2, dtype=np.float64)
    assert np.isnan(accuracy).any()
    kept = [[*models_of(bounded, name)] for name in names_of(bounded)]
    assert kept == [[EVERY * best] for best in np.nanargmax(accuracy, axis=1)]


def assert_others_are_bit_equal(one, other, kept):
    """The runs ``kept`` of the first folder have the bytes of the other's, and all others those until they diverged."""
    with np.load(one / "history.npz") as ours, np.load(other / "history.npz") as theirs:
        assert set(theirs.files) <= set(ours.files)
        for key in theirs.files:
            for seed in kept if key != "rounds" else ():
                assert ours[key][seed].tobytes() == theirs[key][seed].tobytes(), (key, seed)
    ours, theirs = lines_of(one), lines_of(other)
    assert [line for line in ours if line["seed"] in kept] == [line for line in theirs if line["seed"] in kept]


def test_a_seed_that_diverges_stops_alone_and_the_others_are_bit_equal(bounded, free, crossed):
    assert_others_are_bit_equal(bounded, free, [seed for seed in range(SEEDS) if seed not in crossed])
    with np.load(bounded / "history.npz") as ours, np.load(free / "history.npz") as theirs:
        assert "0/divergence_round" not in theirs.files
        for seed, at in crossed.items():
            until = -(-at // EVERY)  # the evaluation that sees it
            for key in ("accuracy", "loss", "messages", "bits_sent", "rounds_done"):
                assert ours[f"0/{key}"][seed, :until].tobytes() == theirs[f"0/{key}"][seed, :until].tobytes()
            for key in ("accuracy", "loss", "mean_model_accuracy", "mean_model_loss"):
                assert np.isnan(ours[f"0/{key}"][seed, until:]).all(), key
                assert np.isfinite(theirs[f"0/{key}"][seed, until:]).all()
            for key in ("messages", "rounds_done", "consensus_distance"):
                assert (ours[f"0/{key}"][seed, until:] == theirs[f"0/{key}"][seed, until]).all(), key
            moved = ours["0/position"][seed, until * EVERY :]
            assert (moved == moved[0]).all()


@pytest.mark.long
def test_a_point_that_diverges_beside_others_in_one_program_leaves_them_bit_equal(tmp_path):
    wild = STUDY | {"seeds": 2, "algorithm.weight_decay": 0.01, "engine.runs_per_batch": 8}
    study = make_study(tiny_config(**wild | {"sweep": "algorithm.lr=0.1,1e30,0.2"}))
    assert len(batches_of(study)) == 1
    run_study(study, tmp_path / "three")
    go(tmp_path / "calm", **wild | {"sweep": "algorithm.lr=0.1,0.2"})
    with np.load(tmp_path / "three" / "history.npz") as three, np.load(tmp_path / "calm" / "history.npz") as calm:
        for key in calm.files:
            p, _, name = key.partition("/")
            there = f"{2 * int(p)}/{name}" if name else key
            assert three[there].tobytes() == calm[key].tobytes(), key
    lost = json.loads((tmp_path / "three" / "summary.json").read_text())["points"][1]
    assert lost["diverged"] == {"0": 2, "1": 2}
    assert {found["round"] for found in lost["divergence"].values()} == {1}
    assert {lost[key]["mean"] for key in ("final_accuracy", "best_accuracy", "worst_client_accuracy")} == {None}
    assert lost["messages_per_client"] is None


@pytest.mark.long
def test_runs_that_are_mapped_together_stop_alone_too(tmp_path, bound, crossed):
    mapped = {"engine.runs_at_once": 2, "engine.runs_per_batch": 4}
    go(tmp_path / "free", **FREE | mapped)
    go(tmp_path / "bounded", **STUDY | mapped | {"diverged_norm": bound})
    kept = [seed for seed in range(SEEDS) if seed not in crossed]
    assert_others_are_bit_equal(tmp_path / "bounded", tmp_path / "free", kept)
    (point,) = json.loads((tmp_path / "bounded" / "summary.json").read_text())["points"]
    assert {int(seed): found["round"] for seed, found in point["divergence"].items()} == crossed


def test_a_run_that_has_diverged_computes_no_more_rounds():
    calls, algorithm = [], dpsgd()

    def counted(*args):
        jax.debug.callback(lambda: calls.append(1))
        return algorithm.round(*args)

    schedule = Schedule(6, 2, diverged_norm=1e-9)  # every model is beyond this bound
    simulation = Simulation(toy_task(), spatial(6, 5), algorithm._replace(round=counted), schedule)
    hparams = toy_hparams(mobility=0)
    carry, _ = jax.jit(simulation.init)(simulation.data, hparams, jax.random.key(0))
    advance = jax.jit(simulation.advance)
    for evaluation in range(3):
        carry, metrics = advance(simulation.data, hparams, jax.random.key(0), carry)
        jax.block_until_ready(carry)
        jax.effects_barrier()
        assert len(calls) == 2
        assert (int(metrics.round), int(metrics.rounds_done)) == (2 * evaluation + 2, 2)
        assert (int(carry.divergence.round), float(metrics.divergence_round)) == (1, 1.0)


def test_the_norm_is_that_of_numpy_and_every_number_that_is_not_finite_is_seen():
    rng = np.random.default_rng(0)
    w, b = rng.normal(size=(5, 3, 4)).astype(np.float32), rng.normal(size=(5, 4)).astype(np.float32)
    expected = np.sqrt(np.square(w.astype(float)).sum((1, 2)) + np.square(b.astype(float)).sum(1))
    assert float(largest_norm({"w": w, "b": b}, 5)) == pytest.approx(expected.max(), rel=1e-6)
    assert float(largest_norm({"w": w, "b": b}, 2)) == pytest.approx(expected[:2].max(), rel=1e-6)  # padding clients
    statistics = {"params": {"w": w}, "batch_stats": {"mean": np.full((5, 2), 1e9, np.float32)}}
    assert float(largest_norm(statistics, 5)) == pytest.approx(float(largest_norm({"w": w}, 5)))
    assert float(largest_norm({"w": 1e20 * w[:, 0]}, 5)) < np.inf  # the squares of such numbers would be infinite
    for broken in (np.nan, np.inf, -np.inf):
        w[3, 1, 1] = broken
        assert float(largest_norm({"w": jnp.asarray(w)}, 5)) == np.inf
        assert np.isfinite(float(largest_norm({"w": jnp.asarray(w)}, 3)))


def test_a_global_model_that_explodes_before_those_of_the_clients_is_seen():
    one, huge = {"w": jnp.ones((3, 4))}, {"w": jnp.full((1, 4), 1e6)}
    algorithm = SimpleNamespace(params=lambda state: one, global_model=lambda state: huge)
    bound, everybody = SimpleNamespace(diverged_norm=1e3), lambda network_state: None
    parts = SimpleNamespace(algorithm=algorithm, num_clients=3, schedule=bound, _honest=everybody)
    seen = Simulation._diverged(
        parts, SimpleNamespace(divergence=no_divergence(), round=jnp.int32(4), network=None), None
    )
    assert (int(seen.round), float(seen.norm)) == (5, 2e6)


@pytest.mark.parametrize(("norm", "bound", "found"), [(10.0, 10.0, 0), (10.1, 10.0, 7), (3e38, np.inf, 0)])
def test_only_what_is_above_the_bound_has_diverged(norm, bound, found):
    after = update_divergence(no_divergence(), jnp.float32(norm), bound, jnp.int32(7))
    assert int(after.round) == found
    later = update_divergence(after, jnp.float32(np.inf), bound, jnp.int32(8))
    assert int(later.round) == (found or 8)  # what was seen first stays
    assert int(update_divergence(later, jnp.float32(1.0), bound, jnp.int32(9)).round) == int(later.round)
    assert float(later.norm) == pytest.approx(norm) if found else float(later.norm) == np.inf


def test_the_rounds_until_the_evaluation_that_sees_it_are_counted():
    for r, expected in ((0, 40), (1, 20), (20, 20), (21, 40)):
        found = no_divergence()._replace(round=jnp.int32(r))
        assert int(rounds_computed(found, jnp.int32(40), 20)) == expected


def test_means_stand_on_the_seeds_that_did_not_diverge(bounded, free, crossed):
    (point,) = json.loads((bounded / "summary.json").read_text())["points"]
    (whole,) = json.loads((free / "summary.json").read_text())["points"]
    kept = [seed for seed in range(SEEDS) if seed not in crossed]
    for key in ("final_accuracy", "best_accuracy", "worst_client_accuracy", "mean_model_loss", "rounds_done"):
        values = [whole[key]["per_seed"][seed] for seed in kept]
        assert point[key]["mean"] == pytest.approx(np.mean(values)), key
        assert point[key]["ci95"] == pytest.approx(stats.t.ppf(0.975, len(kept) - 1) * stats.sem(values)), key
        assert point[key]["seeds"] == len(kept)
        assert point[key]["per_seed"] == [whole[key]["per_seed"][s] if s in kept else None for s in range(SEEDS)]
        assert "seeds" not in whole[key]
    with np.load(free / "history.npz") as arrays:
        assert point["messages_per_client"] == pytest.approx(arrays["0/messages"][kept, -1].mean())
        assert point["bits_sent_per_client"] == pytest.approx(arrays["0/bits_sent"][kept, -1].mean())
    assert [point["rounds_to_target_per_seed"][seed] for seed in crossed] == [None] * len(crossed)


@pytest.mark.long
def test_differences_and_comparisons_are_over_the_seeds_of_which_neither_run_diverged(tmp_path, bound):
    swept = tmp_path / "run"
    go(swept, **STUDY | POINTS | {"diverged_norm": bound})
    points = json.loads((swept / "summary.json").read_text())["points"]
    assert any(points[p]["diverged"] for p in range(3))
    base, *others = ([np.nan if v is None else v for v in of["final_accuracy"]["per_seed"]] for of in points)
    for point, values in zip(points[1:], others):
        gaps = np.subtract(values, base)
        known = gaps[~np.isnan(gaps)]
        assert 0 < len(known) < SEEDS
        assert point["difference_to_baseline"]["mean"] == pytest.approx(known.mean())
        assert point["difference_to_baseline"]["seeds"] == len(known)
    study = read_workdir(swept)
    lost = np.array([[str(s) in point["diverged"] for s in range(SEEDS)] for point in study.points])
    (axis,) = study.axes
    cells = Matrix(axis, list(axis.texts), ["all"], np.arange(3)[None])
    for name, values in measures(study, cells).items():
        assert np.isnan(values[0][lost]).all(), name
        if "moved" not in name:
            assert np.isfinite(values[0][~lost]).all(), name


@pytest.mark.long
def test_a_resumed_study_and_one_with_more_rounds_keep_what_diverged(tmp_path, bounded, bound):
    changes = STUDY | {"diverged_norm": bound, "save": "best"}
    for stop in (4, 6):
        with pytest.raises(Interrupted):
            go(tmp_path / str(stop), on_evaluation=lambda info, stop=stop: info.round == stop, **changes)
        go(tmp_path / str(stop), **changes)
        assert_same(tmp_path / str(stop), bounded)
    go(tmp_path / "short", **changes | {"rounds": 4})
    go(tmp_path / "short", **changes)
    assert_same(tmp_path / "short", bounded)


def test_an_unfinished_study_is_read_by_the_same_rule(tmp_path, bounded, crossed):
    folder = shutil.copytree(bounded, tmp_path / "run")
    manifest = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(manifest | {"status": "running"}))
    (point,) = read_workdir(folder).points
    (written,) = json.loads((bounded / "summary.json").read_text())["points"]
    for key in ("diverged", "divergence", "rounds_to_target"):
        assert point[key] == written[key], key
    for key in ("final_accuracy", "worst_client_accuracy", "mean_model_loss"):
        assert point[key]["seeds"] == SEEDS - len(crossed)
        assert point[key]["mean"] == pytest.approx(written[key]["mean"]), key
    assert point["messages_per_client"] == pytest.approx(written["messages_per_client"])
