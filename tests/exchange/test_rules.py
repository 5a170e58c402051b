"""Robust rules of aggregation: what their breakdown points promise, and what they declare."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import told
from tiny import tiny_config

from mdfl_jax.algorithms.local import Settings
from mdfl_jax.core.types import Links, RoundContext
from mdfl_jax.exchange.aggregation import AGGREGATIONS, Heard, aggregate
from mdfl_jax.exchange.neighbourhood import comparators, losses_of, sum_of_ranked
from mdfl_jax.networks.mixing import metropolis_hastings
from mdfl_jax.study import make_study
from mdfl_jax.study.plan import plan
from tests.exchange.test_pieces import NUMBERS, PROGRESS

RULES = [name for name in AGGREGATIONS if name != "mean"]
N, D = 11, 6
TARGETS = np.random.default_rng(5).normal(size=(N, D))


def loss_of(models):
    """The loss of each model for the client of its row: the distance from the client's own target."""
    return jnp.linalg.norm(models["w"] - jnp.asarray(TARGETS, models["w"].dtype), axis=1)


def drawn(seed, density=0.5):
    """Links of any density, in which client 0 hears nobody, and models of which some are far away."""
    rng = np.random.default_rng(seed)
    linked = np.triu(rng.random((N, N)) < density, 1)
    linked[0] = False
    own, sent = rng.normal(size=(2, N, D))
    sent[rng.random(N) < 0.3] *= 20
    return linked | linked.T, own, sent


def heard_of(adjacency, own, sent, numbers):
    """What is combined."""
    links = Links(jnp.asarray(adjacency), metropolis_hastings(jnp.asarray(adjacency)))
    as_tree = lambda x: {"b": jnp.asarray(x[:, :1], jnp.float32), "w": jnp.asarray(x, jnp.float32)}  # noqa: E731
    return Heard(links, as_tree(own), as_tree(sent), numbers)


@cache
def program(rule):
    """One compiled program of a rule for all cases."""

    def combined(heard):
        context = RoundContext(jax.random.key(0), None, PROGRESS, lambda models: loss_of(models))
        return aggregate(rule, Heard(*heard, context=context)).models

    return jax.jit(combined)


def numbers_of_rule(rule):
    kind = AGGREGATIONS.numbers(rule)
    return kind(**{name: value for name, value in NUMBERS.items() if name in kind.__dataclass_fields__}).typed()


def combined(rule, both, own, sent):
    found = program(rule)(heard_of(both, own, sent, numbers_of_rule(rule))[:4])
    return np.concatenate([found["b"], found["w"]], axis=1)


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule not in ("norm_clipping", "fedamp")])
def test_one_attacker_moves_nobody_far(rule):
    """Ten honest models at a distance of one from each other and an attacker that sends anything."""
    rng, both = np.random.default_rng(1), ~np.eye(N, dtype=bool)
    own = 0.3 * rng.normal(size=(N, D))
    sent = own.copy()
    for lie in (1e4, -1e30, np.inf, np.nan):
        if rule == "self_centred_clipping" and np.isnan(lie):
            continue  # a model that is not heard is not among the f farthest
        sent[7] = lie
        found = combined(rule, both, own, sent)
        assert np.abs(np.delete(found, 7, axis=0)).max() < 2, lie


def test_models_are_judged_with_the_batch_statistics_of_the_judge():
    both, own, sent = drawn(3)
    heard, settings = heard_of(both, own, sent, None), Settings(local_statistics=True)

    def loss(models):
        return loss_of(models["params"]) + 100 * jnp.abs(models["batch_stats"]["b"][:, 0])

    whole = {of: named(getattr(heard, of)) for of in ("sent", "own")}
    context = settings.judging(RoundContext(jax.random.key(0), None, loss=loss), whole["own"])
    parts = {of: settings.part(models) for of, models in whole.items()}
    found = losses_of(heard._replace(**parts, context=context))
    models = np.where(np.eye(N, dtype=bool)[:, :, None], own, sent)
    expected = np.linalg.norm(models - TARGETS[:, None], axis=2) + 100 * np.abs(own[:, :1])
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def named(x):
    return {"params": {"w": x["w"]}, "batch_stats": {"b": x["b"]}}


@pytest.mark.parametrize("size", [1, 7, 40])
def test_columns_are_sorted_by_the_network_and_beyond_it(size):
    """By the zero-one principle for small sizes: a network that sorts all zeros and ones sorts everything."""
    if size <= 16:
        bits = (np.arange(2**size)[None] >> np.arange(size)[:, None]) & 1
        rows = list(bits)
        for low, high in comparators(size):
            rows[low], rows[high] = np.minimum(rows[low], rows[high]), np.maximum(rows[low], rows[high])
        np.testing.assert_array_equal(rows, np.sort(bits, axis=0))
    values = np.random.default_rng(size).normal(size=(size, 9)).astype(np.float32)
    counts = np.random.default_rng(size).random(size) < 0.7
    of_place = jax.vmap(lambda weights: sum_of_ranked(jnp.asarray(values), jnp.asarray(counts), weights))
    found = of_place(jnp.eye(size)[: counts.sum()])
    np.testing.assert_array_equal(found, np.sort(values[counts], axis=0))
    halves = sum_of_ranked(jnp.asarray(values), jnp.asarray(counts), jnp.where(jnp.arange(size) < counts.sum(), 0.5, 0))
    np.testing.assert_allclose(halves, values[counts].sum(axis=0) / 2, rtol=1e-5, atol=1e-6)


def describe_of(**changes):
    return plan(make_study(tiny_config(**changes)))


@pytest.mark.parametrize(("graph", "most"), [("ring", 3), ("star", 6), ("one_peer_exponential", 2), ("file", 4)])
def test_a_graph_on_which_a_rule_can_hold_nowhere_is_refused_and_a_movement_is_noted(graph, most, tmp_path):
    (tmp_path / "edges.csv").write_text("i,j\n0,1\n0,2\n0,3\n3,4\n4,5\n")
    changes = {"algorithm.aggregation": "krum", "algorithm.max_attackers": 1, "network.graph": graph, "seeds": 2}
    changes |= {"graph.file": str(tmp_path / "edges.csv")} if graph == "file" else {}
    if most < 5:
        needed = "algorithm.max_attackers is 1; krum then needs 5 models, and with network.graph"
        assert told(make_study, tiny_config(**changes)) == f"{needed} {graph} no client has more than {most}"
    else:  # the middle of the star hears five
        assert "krum; a client that has fewer than 5 models in a round falls back" in describe_of(**changes)
        assert "falls back" not in describe_of(**changes | {"network.graph": "complete"})
        assert "falls back" in describe_of(**changes | {"network.graph": "complete", "network.link_failure": 0.5})
    assert "falls back" in describe_of(**{"sweep": "algorithm.aggregation=mean,krum", "seeds": 1})


def test_more_attackers_than_the_rule_bears_are_noted():
    given = {"algorithm.aggregation": "krum", "attack.name": "sign_flip", "attack.number": 2, "sweep": ""}
    said = "algorithm.max_attackers is 1; 2 clients attack, so a client may hear more attackers than krum bears"
    assert f"note: {said}" in describe_of(**given, baseline="")
    assert "clients attack, so" not in describe_of(**given | {"attack.number": 1}, baseline="")


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_says_whether_it_reads_the_mixing_weights_and_keeps_the_mean_and_keeps_double_precision(rule):
    traits, everybody = AGGREGATIONS.traits(rule), ~np.eye(N, dtype=bool)
    both, own, sent = drawn(3)
    heard = heard_of(everybody, own, sent, numbers_of_rule(rule))
    others = heard._replace(links=heard.links._replace(mix=heard.links.mix**2))
    found = [program(rule)(each[:4])["w"] for each in (heard, others)]
    assert traits.weighs == (not np.array_equal(*found))
    kept = np.abs(combined(rule, both, own, own)[:, 1:].mean(axis=0) - own.mean(axis=0)).max() < 1e-6
    assert traits.keeps_mean == kept
    with jax.enable_x64(True):
        double = heard._replace(**{of: {"w": jnp.zeros((N, D))} for of in ("own", "sent")})
        context = RoundContext(jax.random.key(0), None, PROGRESS, loss_of)
        found = jax.eval_shape(lambda: aggregate(rule, double._replace(context=context)).models)
        assert found["w"].dtype == jnp.float64
