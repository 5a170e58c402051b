"""The network alone is the network of a run; the quantities of a study, its table, its JSON; mistakes."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import PATTERNS, toy_hparams, toy_task
from tiny import run_study, tiny_config

from mdfl_jax import Schedule
from mdfl_jax.algorithms.dpsgd import dpsgd
from mdfl_jax.config import default_config
from mdfl_jax.config.points import points
from mdfl_jax.config.resolve import resolve
from mdfl_jax.contrib.theory import mixing, network, pictures
from mdfl_jax.contrib.theory.quantities import QUANTITIES, Rounds
from mdfl_jax.core.errors import UserError
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.networks.spatial import spatial
from mdfl_jax.study import make_study


def tiny(**changes):
    sweep = {"sweep": "network.mobility=static,dcm", "baseline": "network.mobility=static"}
    return tiny_config(**sweep | changes)


def observed(rounds=12, seeds=3, **changes):
    config = network.alone(tiny(**changes), seeds, rounds)
    all_points = points(resolve(config))
    return config, all_points, network.of_config(config, all_points)


@pytest.mark.long
def test_the_network_alone_is_that_of_a_run():
    """Every link of every round, and lambda_2 at every evaluation, with DAM and DCM that read the clients' labels."""
    schedule = Schedule(6, 2, record_positions=True, record_mib=1.0)
    simulation = Simulation(toy_task(6), spatial(6, 5, PATTERNS), dpsgd(), schedule)
    init, advance, key = jax.jit(simulation.init), jax.jit(simulation.advance), jax.random.key(5)
    for mobility in (3, 1, 2):
        hparams = toy_hparams(mobility)
        carry, _ = init(simulation.data, hparams, key)
        links, lambda_2 = [], []
        for _ in range(3):
            carry, metrics = advance(simulation.data, hparams, key, carry)
            links.append(np.unpackbits(np.asarray(metrics.links), axis=-1, count=6))
            lambda_2.append(float(metrics.lambda_2))
        adjacency, mix, counts, *_ = network.simulated(simulation, 6)(simulation.data, hparams, jnp.stack([key]))
        np.testing.assert_array_equal(adjacency[0], np.concatenate(links).astype(bool))
        np.testing.assert_array_equal(counts[0], simulation.facts(carry).label_counts)
        factors = mixing.contraction(mixing.exact(np.asarray(mix[0])))
        np.testing.assert_allclose(factors[[1, 3, 5]], lambda_2, atol=1e-5)


def test_closed_forms_of_a_ring():
    """lambda_2 and PaME's zeta, by the whole way from the configuration."""
    n = 7
    changes = {"network.graph": "ring", "network.num_clients": n, "sweep": "algorithm.name=dpsgd,pame"}
    _, _, (plain, of_pame) = observed(rounds=8, seeds=2, baseline="", **changes)
    cosine = np.cos(2 * np.pi * np.arange(1, n) / n)
    values, expected = plain.values, np.square((1 + 2 * cosine) / 3).max()
    assert values["lambda_2"] == pytest.approx(expected, abs=1e-6)
    assert values["p"] == pytest.approx(1 - expected, abs=1e-6)
    assert values["strong_b"].tolist() == values["effective_b"].tolist() == [1, 1]
    assert values["connected"].tolist() == [1, 1]
    assert np.isnan(values["meeting"]).all()
    assert "zeta" not in values
    assert of_pame.values["zeta"] == pytest.approx(np.abs(cosine).max(), abs=1e-6)
    assert not of_pame.values["pame_holds"].any()


def test_a_link_that_carries_a_part_of_a_model_mixes_as_much_as_it_carries():
    """All are in contact for a second and send s of the n coordinates: (1 - s / n) I + s / n J is their mean."""
    changes = {"network.radius": 100.0, "cost.short_contact": "largest", "sweep": "cost.bandwidth=inf,10000,1000"}
    _, _, found = observed(rounds=4, seeds=2, baseline="", **changes)
    counts = np.arange(1, 651)  # of the linear model of the digits, with 32 bits each, and indices or a bitmap
    bits = 32 * counts + np.where(counts < 650, np.minimum(10 * counts, 650), 0)
    for point, budget in zip(found, (np.inf, 1e4, 1e3), strict=True):
        share = counts[bits <= budget].max() / 650
        assert point.values["degree"].tolist() == [5, 5]
        assert point.values["lambda_2"] == pytest.approx((1 - share) ** 2, abs=1e-6)
        assert np.isnan([point.values[name] for name in ("bound", "window", "window_p", "window_bound")]).all()


@pytest.mark.long
def test_the_table_the_json_and_the_pictures_of_a_study(tmp_path):
    config, all_points, found = observed(rounds=16, seeds=3)
    text = network.table(all_points, found)
    assert text.splitlines()[0].split() == ["static", "dcm"]
    shown = {QUANTITIES[name].label for name in QUANTITIES.as_registered()}
    assert all(any(line.startswith(label) for label in shown) for line in text.splitlines()[1:])
    content = json.loads(json.dumps(network.as_json(all_points, found, config), allow_nan=False))
    assert content["seeds"] == [0, 1, 2]
    assert content["rounds"] == 16
    assert [point["point"] for point in content["points"]] == ["static", "dcm"]
    static = content["points"][0]
    assert len(static["per_seed"]["lambda_2"]) == 3
    assert static["curves"]["window"] == [1, 2, 4, 8]
    saved = pictures.save_theory(content["points"], tmp_path / "new")
    assert [path.name for path in saved] == ["theory.png", "theory.pdf", "theory.svg"]
    assert all(path.stat().st_size > 1000 for path in saved)


def test_p_of_the_mean_is_that_of_its_definition():
    """1 - lambda_2 of the mean of W^T W: no round of two mixes all clients, but their mean does."""
    first, second = np.eye(4), np.eye(4)
    first[:2, :2] = first[2:, 2:] = 0.5
    second[1:3, 1:3] = 0.5
    mix = np.stack([first, second])[None]
    nobody = np.zeros((1, 4), bool)
    rounds = Rounds(mix > 0, mix, np.ones((1, 4, 2)), nobody, np.zeros((1, 4, 2)), nobody)
    lambda_2 = np.sort(np.linalg.eigvalsh((first.T @ first + second.T @ second) / 2))[-2]
    found = QUANTITIES["p_mean"].of(rounds, None)
    assert found == pytest.approx([1 - lambda_2])
    assert 0 < found[0] < 1
    assert QUANTITIES["p"].of(rounds, None) == 0


@pytest.mark.long
def test_how_often_a_rule_has_too_few_or_too_many_attackers_is_counted_before_the_run(tmp_path):
    """The first is the share that a run then measures; the second is a count over its recorded links."""
    changes = {"rounds": 8, "eval_every": 8, "seeds": 3, "network.radius": 2.5, "baseline": ""}
    changes |= {"attack.name": "zero", "attack.number": 2, "algorithm.aggregation": "trimmed_mean"}
    alone = network.alone(tiny_config(**changes, sweep="algorithm.aggregation=trimmed_mean,median"), 3, 0)
    bounded, median = network.of_config(alone, points(resolve(alone)))
    run_study(make_study(tiny_config(**changes)), tmp_path)
    history = np.load(tmp_path / "history.npz")
    hears = np.unpackbits(history["0/links"], axis=-1, count=6).astype(bool)  # whatever the rule
    bad = history["0/attacker"][:, -1].astype(bool)
    measured = history["0/fell_back"][:, -1].mean(axis=1)
    assert 0 < measured.mean() < 1
    np.testing.assert_allclose(bounded.values["too_few"], measured, atol=1e-6)
    for found, bears in ((bounded, lambda size: 1), (median, lambda size: (size - 1) // 2)):
        lost = [
            hears[s, t, i, bad[s]].sum() > bears(1 + hears[s, t, i].sum())
            for s in range(3)
            for t in range(8)
            for i in np.flatnonzero(~bad[s])
        ]
        assert found.values["outvoted"].mean() == pytest.approx(np.mean(lost))
    assert 0 < median.values["outvoted"].mean() < bounded.values["outvoted"].mean()  # many are heard here


def test_too_much_is_one_line():
    config = default_config()
    for changes, told in (
        (
            {"rounds": 4_000_000, "eval_every": 4_000_000},
            "rounds is 4000000; theory of 20 clients takes at most 250000",
        ),
        ({"network.num_clients": 300}, "network.num_clients is 300"),
    ):
        config.update_from_flattened_dict(changes)
        with pytest.raises(UserError, match=told):
            network.of_config(network.alone(config, 2, 0), points(resolve(config)))


def test_networks_that_do_not_mix_are_left_out():
    config = tiny(**{"server.pattern": "fixed", "network.num_mobile": 0, "sweep": "", "baseline": ""})
    assert network.of_config(config, points(resolve(config))) == [None]
