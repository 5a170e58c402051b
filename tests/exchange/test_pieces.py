"""Rules as functions on arrays: every entry of three registries, beside the slow rules of tests/reference."""

import functools

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest
from dealing import deal
from small import told

import mdfl_jax
from mdfl_jax.data.partition import PARTITIONS
from mdfl_jax.exchange.aggregation import AGGREGATIONS
from mdfl_jax.networks.mixing import MIXINGS
from tests.reference import mixing
from tests.reference.aggregation import Near, combine

N, D, PROGRESS = 9, 5, 0.5
NUMBERS = {
    **{"max_attackers": 1, "trim": 0.3, "weiszfeld_steps": 8, "least_distance": 1e-6, "max_norm": 0.9},
    **{"clip_radius": 1.5, "own_weight": 0.25, "benign_share": 0.6, "closeness": 1.2, "tightening": 0.7},
    **{"first_trust": 0.5, "trust_rate": 0.4, "forgetting": 0.1, "least_trust": 0.45},
    **{"attention": 3.0, "most_models": 3},
}
RNG = np.random.default_rng(7)
MODELS = RNG.normal(size=(N, D)) * np.where(np.arange(N) == 4, 20, 1)[:, None]
TARGETS = RNG.normal(size=(N, D))
GRAPH = nx.erdos_renyi_graph(N, 0.6, seed=1)
HEARS = nx.to_numpy_array(GRAPH).astype(bool)
LABELS = np.arange(120) % 6
REFERENCE = {f"algorithm.{name}": value for name, value in NUMBERS.items()}


def tree(models):
    return {"b": models[:, 0], "w": models[:, 1:].reshape(len(models), 2, 2)}


def flat(found):
    return np.concatenate([np.ravel(found["b"])[:, None], np.reshape(found["w"], (-1, D - 1))], axis=1)


def loss(models):
    """The loss of each model for the client of its row."""
    rows = jnp.concatenate([models["b"][:, None], models["w"].reshape(-1, D - 1)], axis=1)
    return jnp.linalg.norm(rows - TARGETS, axis=1)


def judged(rule, me, hears, weights):
    """The next model of one client by the slow rules."""
    if rule == "mean":
        return weights[me] @ MODELS
    heard = {j: MODELS[j] for j in range(N) if hears[me, j]}
    own_loss = lambda model: np.linalg.norm(model - TARGETS[me])  # noqa: E731
    trust = dict.fromkeys(range(N), NUMBERS["first_trust"])
    return combine(rule, Near(me, MODELS[me], heard, weights[me], REFERENCE, PROGRESS, own_loss, trust))[0]


@pytest.mark.parametrize("rule", list(AGGREGATIONS))
def test_aggregate_is_the_rule_for_one_receiver_and_for_all(rule):
    fields = AGGREGATIONS.numbers(rule).__dataclass_fields__
    numbers = {name: value for name, value in NUMBERS.items() if name in fields}
    combined = jax.jit(functools.partial(mdfl_jax.aggregate, rule, loss=loss, progress=PROGRESS, **numbers))
    weights = mdfl_jax.mixing_weights("metropolis_hastings", GRAPH)
    close = functools.partial(np.testing.assert_allclose, rtol=2e-5, atol=2e-5)
    of_all = np.array([judged(rule, i, HEARS, np.asarray(weights, float)) for i in range(N)])
    close(flat(combined(tree(MODELS), weights)), of_all)
    whole, even = ~np.eye(N, dtype=bool), np.full((N, N), 1 / N)
    close(flat(combined(tree(MODELS)))[0], judged(rule, 0, whole, even))
    close(flat(combined(tree(MODELS), whole))[3], judged(rule, 3, whole, even))
    if not AGGREGATIONS.traits(rule).judges:
        array = mdfl_jax.aggregate(rule, MODELS, HEARS, progress=PROGRESS, **numbers)
        even = mixing.uniform(HEARS)
        close(array, [judged(rule, i, HEARS, even) for i in range(N)])


SPEED, SAMPLES, RATIO, RADIUS = RNG.random(N), RNG.integers(1, 9, N), 0.25, 2.0
SLOW = {
    "metropolis_hastings": lambda: mixing.metropolis_hastings(HEARS),
    "max_degree": lambda: mixing.max_degree(HEARS),
    "lazy": lambda: mixing.lazy(HEARS),
    "fedavg": lambda: mixing.fedavg(HEARS, SAMPLES),
    "uniform": lambda: mixing.uniform(HEARS),
    "speed_aware": lambda: mixing.speed_aware(HEARS, SPEED, [RATIO] * N),
    "speed_aware_auto": lambda: mixing.speed_aware(HEARS, SPEED, mixing.automatic_ratio(HEARS, SPEED, RADIUS)),
}


def test_mixing_weights_are_those_of_the_slow_rules():
    assert {*SLOW} == {*MIXINGS}
    for rule, slow in SLOW.items():
        of_clients = {"num_samples": SAMPLES, "speed": SPEED, "radius": RADIUS}
        numbers = {"ratio": RATIO} if rule == "speed_aware" else {}
        weights = functools.partial(mdfl_jax.mixing_weights, rule, **of_clients, **numbers)
        for found in (weights(GRAPH), jax.jit(weights)(jnp.asarray(HEARS + 1.0 * np.eye(N)))):
            np.testing.assert_allclose(found, slow(), rtol=1e-5, atol=1e-6, err_msg=rule)


@pytest.mark.long
def test_partition_deals_as_the_rules_do(tmp_path):
    owners, places = LABELS.size - np.arange(LABELS.size) // 10, RNG.random((4, 2)).astype(np.float32)
    (tmp_path / "owner.csv").write_text("".join(f"{k % 4}\n" for k in range(LABELS.size)))
    natural = np.unique(owners, return_inverse=True)[1]
    for rule in PARTITIONS:
        numbers = {"table": str(tmp_path / "owner.csv")} if rule == "table" else {}
        found = mdfl_jax.partition(rule, LABELS, 4, seed=3, owner=owners, places=places, **numbers)
        if rule == "table":
            np.testing.assert_array_equal(found, np.arange(LABELS.size) % 4)
            continue
        wanted = deal(rule, jax.random.key(3), LABELS, 4, owners=jnp.asarray(natural), places=places)
        np.testing.assert_array_equal(found, wanted, err_msg=rule)
    even, uneven = (mdfl_jax.partition("dirichlet", LABELS, np.int64(4), alpha=alpha) for alpha in (1e3, 1e-2))
    assert np.ptp(np.bincount(even, minlength=4)) < 12 < np.ptp(np.bincount(uneven, minlength=4))


MISTAKES = [
    ("aggregate", ("krom", MODELS), {}, "unknown aggregation 'krom' (did you mean 'krum'?)"),
    ("aggregate", ("krum", MODELS), {"f": 1}, "unknown number of krum 'f'; known: max_attackers"),
    ("aggregate", ("median", MODELS), {"f": 1}, "median has no number 'f'"),
    ("aggregate", ("krum", MODELS), {"max_attackers": 4}, "max_attackers is 4; krum then needs 11 models, and"),
    ("aggregate", ("krum", MODELS), {"max_attackers": -1}, "max_attackers is -1; it must be at least 0"),
    ("aggregate", ("krum", MODELS), {"max_attackers": 0.5}, "max_attackers is 0.5; it must be a whole number"),
    ("aggregate", ("ubar", MODELS), {}, "loss is not given; ubar judges models by their losses"),
    ("aggregate", ("median", MODELS, np.ones((3, 3), bool)), {}, "hears is [3, 3]; it must be [9, 9]"),
    ("aggregate", ("mean", MODELS, np.ones((N, N))), {}, "the weights of client 0 in hears sum to 9; rows must sum"),
    ("aggregate", ("median", {"a": MODELS, "b": MODELS[1:]}), {}, "models has leaves of [[8], [9]] rows"),
    ("aggregate", ("median", np.arange(4)), {}, "models has a leaf of int32 [4]; allowed: floats"),
    ("mixing_weights", ("mh", GRAPH), {}, "unknown mixing 'mh'; known: fedavg"),
    ("mixing_weights", ("uniform", "ring"), {}, "graph is str; allowed: a graph of networkx, a matrix"),
    ("mixing_weights", ("uniform", np.ones((3, 4))), {}, "graph is [3, 4]; it must be [N, N]"),
    ("mixing_weights", ("uniform", [(0, 1), (1, 1.5)]), {}, "graph has the edge (1, 1.5); allowed: two different"),
    ("mixing_weights", ("uniform", [(0, 1), (1, 2), (2, 2)]), {}, "graph has the edge (2, 2); allowed: two different"),
    ("mixing_weights", ("fedavg", GRAPH), {"num_samples": [1]}, "num_samples is [1]; it must be [9]"),
    ("partition", ("dirichlet", LABELS, 4), {"alpha": 0}, "data.alpha is 0; it must be greater than 0"),
    ("partition", ("dirichlet", LABELS / 2, 4), {}, "labels is float64 [120]; it must be [n] whole numbers"),
    ("partition", ("iid", LABELS, 0), {}, "clients is 0; it must be a whole number, at least 1"),
    ("partition", ("iid", LABELS, True), {}, "clients is True; it must be a whole number, at least 1"),
    ("partition", ("iid", LABELS, 4), {"owner": [1]}, "owner is [1]; it must be [120]"),
    ("partition", ("by_place", LABELS, 4), {}, "places is not given; it must be [4, 2]"),
    ("partition", ("classes_per_client", LABELS, 4), {"classes_per_client": 7}, "classes_per_client is 7; labels has"),
]


def test_a_mistake_is_one_line():
    for function, given, numbers, says in MISTAKES:
        assert says in told(getattr(mdfl_jax, function), *given, **numbers)
