"""Robust rules of aggregation against loops from the papers, SciPy, and what their breakdown points promise."""

from functools import cache, partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import byzfl_outputs
from scipy import stats
from scipy.optimize import minimize
from small import told, toy_hparams, toy_task
from tiny import tiny_config

from mdfl_jax import Hparams, Schedule, simulate
from mdfl_jax.algorithms import ALGORITHMS, numbers_of
from mdfl_jax.algorithms.local import Settings
from mdfl_jax.algorithms.registry import ignored_by
from mdfl_jax.config.checks import notes
from mdfl_jax.config.resolve import resolve
from mdfl_jax.core.links import from_pairs
from mdfl_jax.core.types import Links
from mdfl_jax.exchange.aggregation import AGGREGATIONS, Heard, aggregate
from mdfl_jax.exchange.neighbourhood import comparators, losses_of, sum_of_ranked, with_rule
from mdfl_jax.exchange.screening import DETECTIONS
from mdfl_jax.exchange.under_way import UnderWay, traced
from mdfl_jax.networks.fixed import fixed_graph
from mdfl_jax.networks.graphs import GraphParams
from mdfl_jax.networks.mixing import metropolis_hastings
from mdfl_jax.study import make_study
from mdfl_jax.study.plan import plan
from tests.reference import aggregation as reference

RULES = [name for name in AGGREGATIONS if name != "mean"]
N, D, F = 11, 6, 1
NUMBERS = {
    "max_attackers": F,
    "trim": 0.3,
    "weiszfeld_steps": 8,
    "least_distance": 1e-6,
    "max_norm": 0.9,
    "clip_radius": 1.5,
    "own_weight": 0.25,
    "benign_share": 0.6,
    "closeness": 1.2,
    "tightening": 0.7,
    "first_trust": 0.5,
    "trust_rate": 0.4,
    "forgetting": 0.1,
    "least_trust": 0.45,
}
PROGRESS = 0.5
TARGETS = np.random.default_rng(5).normal(size=(N, D))


def loss_of(models):
    """The loss of each model for the client of its row: the distance from the client's own target."""
    return jnp.linalg.norm(models["w"] - jnp.asarray(TARGETS, models["w"].dtype), axis=1)


def drawn(seed, density=0.5):
    """Links of any density, in which client 0 hears nobody, and models of which some are far away."""
    rng = np.random.default_rng(seed)
    linked = np.triu(rng.random((N, N)) < density, 1)
    linked[0] = False
    both = linked | linked.T
    heard = both & (rng.random((N, N)) < 0.9)  # some links fail in one direction
    own, sent = rng.normal(size=(2, N, D))
    sent[rng.random(N) < 0.3] *= 20
    return both, heard, own, sent


def heard_of(both, adjacency, own, sent, lists, numbers):
    """What is combined, over matrices or over neighbour lists."""
    ids = from_pairs(*map(jnp.asarray, np.nonzero(both)), jnp.ones(both.sum(), bool), N, N) if lists else None
    links = Links(jnp.asarray(adjacency), jnp.zeros((N, N)))
    if lists:
        places = jnp.take_along_axis(jnp.asarray(adjacency), ids.ids, axis=1) & (ids.ids != jnp.arange(N)[:, None])
        links = Links(places, jnp.zeros((N, N)), senders=ids)
    links = links._replace(mix=metropolis_hastings(links.adjacency, links.senders))
    as_tree = lambda x: {"b": jnp.asarray(x[:, :1], jnp.float32), "w": jnp.asarray(x, jnp.float32)}  # noqa: E731
    return Heard(links, as_tree(own), as_tree(sent), numbers)


@cache
def program(rule, lists):
    """One compiled program of a rule for all cases."""

    def combined(heard):
        heard = Heard(*heard)
        with traced(UnderWay(lambda models: loss_of(models), progress=jnp.float32(PROGRESS))) as under_way:
            return aggregate(rule, heard), under_way.screened

    return jax.jit(combined)


def combined(rule, both, adjacency, own, sent, lists=False):
    numbers = AGGREGATIONS.numbers(rule)
    fields = {name: value for name, value in NUMBERS.items() if name in numbers.__dataclass_fields__}
    found, screened = program(rule, lists)(heard_of(both, adjacency, own, sent, lists, numbers(**fields).typed())[:4])
    return np.concatenate([found["b"], found["w"]], axis=1), screened


def near(i, adjacency, own, sent, trust=0.5, loss=None, **numbers):
    """What client i hears, for the loops of tests/reference/aggregation.py; ``trust`` is a number or [N]."""
    heard = {j: sent[j] for j in np.flatnonzero(adjacency[i])}
    degree = adjacency.sum(axis=1)
    fields = {f"algorithm.{name}": value for name, value in (NUMBERS | numbers).items()}
    loss = loss or (lambda model: np.linalg.norm(model[-D:] - TARGETS[i]))
    return reference.Near(
        i, own[i], heard, 1 / (1 + np.maximum(degree[i], degree)), fields, PROGRESS, loss, np.full(N, trust)
    )


def as_seen(models):
    """Models as rows of what `heard_of` makes of them: the leaf b, then the leaf w."""
    return np.concatenate([models[:, :1], models], axis=1).astype(np.float32).astype(float)


def by_loops(rule, adjacency, own, sent):
    """The same by loops: (models [N, ...], the senders that each client uses, whether it fell back)."""
    models, told = as_seen(own), as_seen(sent)
    return zip(*(reference.combine(rule, near(i, adjacency, models, told)) for i in range(N)))


@pytest.mark.few(len(RULES))
@pytest.mark.parametrize("lists", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_a_rule_is_that_of_its_paper_over_matrices_and_lists(rule, lists):
    for seed, density, one_way in ((0, 0.2, False), (1, 0.5, False), (2, 0.9, False), (3, 0.6, True), (4, 0.9, True)):
        both, some, own, sent = drawn(seed, density)
        adjacency = some if one_way else both
        assert one_way == (adjacency != adjacency.T).any()
        found, screened = combined(rule, both, adjacency, own, sent, lists)
        wanted, _, _ = by_loops(rule, adjacency, own, sent)
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-4, err_msg=f"{rule} {density} {one_way}")
        assert not screened.alone[0]  # who hears nobody has not too few
        np.testing.assert_array_equal(found[0, 1:], np.float32(own[0]))


def test_too_few_heard_is_told_and_a_client_then_keeps_its_model_or_mixes_plainly():
    both = np.zeros((N, N), bool)
    for i, j in ((1, 2), (3, 4), (3, 5), (6, 7), (6, 8), (6, 9), (6, 10)):  # degrees 1, 1, 2, 1, 1, 4, 1, 1, 1, 1
        both[i, j] = both[j, i] = True
    degree, (_, _, own, sent) = both.sum(axis=1), drawn(0)
    least = {"trimmed_mean": 3, "krum": 4, "multi_krum": 4, "clipped_gossip_adaptive": 2, "self_centred_clipping": 2}
    least |= {f"nnm_{name}": max(least.get(name, 2), 2) for name in ("median", "geometric_median")}
    least |= {"nnm_trimmed_mean": 3, "nnm_krum": 4}
    for rule in RULES:
        found, screened = combined(rule, both, both, own, sent)
        alone = (degree > 0) & (degree < least.get(rule, 0))
        np.testing.assert_array_equal(screened.alone, alone, err_msg=rule)
        if rule != "self_centred_clipping":  # the code of its authors clips nothing then
            np.testing.assert_array_equal(found[alone, 1:], np.float32(own)[alone], err_msg=rule)


REJECTING = [rule for rule in RULES if DETECTIONS[0] in AGGREGATIONS.traits(rule).metrics]


@pytest.mark.few(len(REJECTING))
@pytest.mark.parametrize("lists", [False, True])
@pytest.mark.parametrize("rule", REJECTING)
def test_the_shares_of_attackers_and_of_honest_clients_that_a_rule_rejects(rule, lists):
    """Clients of any degree, of which three attack and one sends no number, against a count over pairs."""
    assert len(REJECTING) == 5
    both, _, own, sent = drawn(7, 0.7)
    attacks = np.isin(np.arange(N), [2, 5, 9])
    sent[5], sent[9] = np.nan, own[1] + 0.01
    screened = combined(rule, both, both, own, sent, lists)[1]
    count = np.zeros((2, 2))
    _, used, alone = by_loops(rule, both, own, sent)
    for i in np.flatnonzero(~attacks & ~np.array(alone)):
        for j in np.flatnonzero(both[i]):
            count[int(attacks[j])] += [j not in used[i], 1]
    links = heard_of(both, both, own, sent, lists, None).links
    links = links._replace(attackers=SimpleNamespace(are=jnp.asarray(attacks)))
    view = SimpleNamespace(stats=SimpleNamespace(screened=screened), links=links)
    for metric, expected in zip(DETECTIONS, count[::-1]):
        found = metric.each_round(view)
        np.testing.assert_array_equal(found, expected, err_msg=metric.name)
        share = metric.measure(SimpleNamespace(total=lambda name, found=found: found))
        np.testing.assert_allclose(share, [expected[0] / expected[1], expected[1]], rtol=1e-6)
    assert count[1, 0] > 0
    bits = np.unpackbits(np.asarray(DETECTIONS[2].each_round(view)), axis=1, count=N).astype(bool)
    assert bits[np.ix_(~attacks, attacks)].sum() == count[1, 0]
    assert bits[np.ix_(~attacks, ~attacks)].sum() == count[0, 0]


HUGE = st.sampled_from([0.0, 1.0, -30.0, 1e4, -1e9, 1e30, np.inf, np.nan])


@settings(max_examples=25, deadline=None)
@given(lies=st.lists(st.tuples(HUGE, HUGE), min_size=1, max_size=5), seed=st.integers(0, 10))
def test_the_median_stays_within_the_honest_values_with_f_of_2f_plus_1(lies, seed):
    """N = 11 models, at most 5 attackers': each coordinate lies between the honest ones."""
    rng = np.random.default_rng(seed)
    own = rng.normal(size=(N, D))
    sent, liars = own.copy(), rng.permutation(N)[: len(lies)]
    for j, (even, odd) in zip(liars, lies):
        sent[j, ::2], sent[j, 1::2] = even, odd
    found, _ = combined("median", ~np.eye(N, dtype=bool), ~np.eye(N, dtype=bool), own, sent)
    honest = np.setdiff1d(np.arange(N), liars)
    low, high = own[honest].min(axis=0), own[honest].max(axis=0)
    assert (found[honest, 1:] >= low - 1e-6).all()
    assert (found[honest, 1:] <= high + 1e-6).all()


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "norm_clipping"])
def test_one_attacker_moves_nobody_far(rule):
    """Ten honest models at a distance of one from each other and an attacker that sends anything."""
    rng, both = np.random.default_rng(1), ~np.eye(N, dtype=bool)
    own = 0.3 * rng.normal(size=(N, D))
    sent = own.copy()
    for lie in (1e4, -1e30, np.inf, np.nan):
        if rule == "self_centred_clipping" and np.isnan(lie):
            continue  # a model that is not heard is not among the f farthest
        sent[7] = lie
        found, _ = combined(rule, both, both, own, sent)
        assert np.abs(np.delete(found, 7, axis=0)).max() < 2, lie


@pytest.mark.few(1)
@pytest.mark.parametrize("lists", [True, False])
def test_trust_is_remembered_while_clients_are_apart_and_slowly_forgotten(lists):
    """Links that change from round to round, against a loop over rounds and pairs."""
    numbers = AGGREGATIONS.numbers("reputation")(0.5, 0.4, 0.1, 0.45).typed()
    trust, kept = np.full((N, N), 0.5), jnp.full((N, N), 0.5, jnp.float32)

    @jax.jit
    def one_round(heard, memory):
        with traced(UnderWay(loss_of, memory=memory)) as under_way:
            return aggregate("reputation", Heard(*heard)), under_way.memory

    for seed in range(4):
        both, _, own, sent = drawn(seed, 0.3)
        found, kept = one_round(heard_of(both, both, own, sent, lists, numbers)[:4], kept)
        trust = 0.5 + 0.9 * (trust - 0.5)
        for i in range(N):
            one = near(i, both, own, sent, trust[i])
            expected, trust[i] = reference.reputation(one)[0], one.trust
            np.testing.assert_allclose(found["w"][i], expected, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(np.where(np.eye(N), 0, kept), np.where(np.eye(N), 0, trust), atol=1e-5)


def test_a_client_without_samples_takes_all_near_models_and_its_trust_stays():
    both, _, own, sent = drawn(2, 0.9)
    loss = lambda models: jnp.where(jnp.arange(N) == 1, jnp.nan, loss_of(models))  # noqa: E731
    fields = {"ubar": (0.25, 0.6), "reputation": (0.5, 0.4, 0.1, 0.45)}
    with traced(UnderWay(loss, memory=jnp.full((N, N), 0.6, jnp.float32))) as under_way:
        heard = [heard_of(both, both, own, sent, False, AGGREGATIONS.numbers(rule)(*of)) for rule, of in fields.items()]
        found = [aggregate(rule, each)["w"][1] for rule, each in zip(fields, heard)]
    unknown = near(1, both, own, sent, 0.59, lambda model: np.nan)  # forgotten a little, and nothing learnt
    np.testing.assert_allclose(found[0], reference.ubar(unknown)[0], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(found[1], reference.reputation(unknown)[0], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(under_way.memory[1], unknown.trust, rtol=1e-6)


@pytest.mark.parametrize("local_statistics", [False, True])
def test_models_are_judged_with_what_stays_with_the_judge(local_statistics):
    both, _, own, sent = drawn(3)
    heard = heard_of(both, both, own, sent, False, None)
    named = (lambda x: {"params": {"w": x["w"]}, "batch_stats": {"b": x["b"]}}) if local_statistics else lambda x: x
    settings = Settings(local_statistics=True) if local_statistics else Settings(shared="w")

    def loss(models):
        w, b = (models["params"]["w"], models["batch_stats"]["b"]) if local_statistics else (models["w"], models["b"])
        return loss_of({"w": w}) + 100 * jnp.abs(b[:, 0])

    with traced(UnderWay(loss)):
        parts = {of: settings.part(named(getattr(heard, of))) for of in ("sent", "own")}
        found = losses_of(heard._replace(**parts))
    models = np.where(np.eye(N, dtype=bool)[:, :, None], own, sent)
    expected = np.linalg.norm(models - TARGETS[:, None], axis=2) + 100 * np.abs(own[:, :1])
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def traced_run(name, rule):
    """The types of a run's metrics; nothing is compiled."""
    algorithm = with_rule(ALGORITHMS[name](Settings(aggregation=rule)), rule)
    hparams = Hparams(toy_hparams().task, GraphParams(), numbers_of(name, aggregation=rule).typed())
    run = simulate(toy_task(num_clients=12, batch_size=5), fixed_graph(12, "torus"), algorithm, Schedule(4, 2))
    return jax.eval_shape(run, hparams, jax.random.key(0))


def test_an_algorithm_that_exchanges_in_a_loop_refuses_a_memory():
    line = told(traced_run, "dmgt_svrg", "reputation")
    assert line == "an algorithm that exchanges in a loop cannot use a rule of aggregation with a memory"


def test_the_trimmed_mean_is_scipys():
    both, _, own, sent = drawn(3, 1.0)
    trimmed = combined("trimmed_share", both, both, own, sent)[0][:, 1:]
    for i in range(1, N):
        others = sent[both[i]]
        cut = int(np.floor(0.3 * len(others)))
        kept = len(others) - 2 * cut
        expected = (own[i] + kept * stats.trim_mean(others, 0.3, axis=0)) / (kept + 1)
        np.testing.assert_allclose(trimmed[i], expected, rtol=1e-4, atol=1e-5)


def test_the_geometric_median_is_scipys_minimiser():
    both, _, own, _ = drawn(4, 1.0)
    numbers = AGGREGATIONS.numbers("geometric_median")(weiszfeld_steps=200).typed()
    found = aggregate("geometric_median", heard_of(both, both, own, own, False, numbers))["w"]
    models = np.concatenate([own[:, :1], own], axis=1)[1:]
    best = minimize(lambda z: np.linalg.norm(models - z, axis=1).sum(), models.mean(axis=0), tol=1e-10).x
    np.testing.assert_allclose(found[1:], np.tile(best[1:], (N - 1, 1)), atol=1e-3)


def test_rules_are_those_of_byzfl():
    """Everybody hears everybody, and all weights are the same (tests/oracles/byzfl_outputs.py)."""
    judge = np.load(byzfl_outputs.FILE)
    num_clients = len(judge["models"])
    links = Links(~jnp.eye(num_clients, dtype=bool), jnp.full((num_clients, num_clients), 1 / num_clients))
    own = {"w": jnp.asarray(judge["models"], jnp.float32)}
    changed = {"geometric_median": {"weiszfeld_steps": 300}, "clipped_gossip": {"clip_radius": byzfl_outputs.TAU}}
    for rule in ("median", "nnm_median", "geometric_median", "clipped_gossip"):
        numbers = AGGREGATIONS.numbers(rule)(**changed.get(rule, {})).typed()
        found = aggregate(rule, Heard(links, own, own, numbers))["w"]
        np.testing.assert_allclose(found, np.broadcast_to(judge[rule], found.shape), rtol=1e-5, atol=1e-5, err_msg=rule)


@pytest.mark.parametrize("size", [1, 3, 7, 16, 40])
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


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in ALGORITHMS if "aggregation" not in ignored_by(name)])
def test_every_algorithm_that_mixes_takes_a_rule_that_asks_for_losses(name):
    assert traced_run(name, "ubar").loss.shape == (3, 12)


def describe_of(**changes):
    return plan(make_study(tiny_config(**changes)))


def test_wrong_numbers_are_told_in_one_line():
    line = partial(told, lambda **changes: resolve(tiny_config(**{"algorithm.aggregation": "krum", **changes})))
    assert line(**{"algorithm.max_attackers": 2}) == (
        "algorithm.max_attackers is 2; krum then needs 7 models, and network.num_clients is 6"
    )
    assert line(**{"algorithm.max_attackers": -1}).startswith("algorithm.max_attackers is -1; it must be at least 0")
    assert line(**{"algorithm.name": "pame"}).startswith("algorithm.aggregation is krum; it must be 'mean': pame mixes")


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


@pytest.mark.few(4)
@pytest.mark.parametrize("rule", RULES)
def test_models_of_double_precision_keep_their_type(rule):
    with jax.enable_x64(True):
        both, _, own, sent = drawn(2)
        heard = heard_of(both, both, own, sent, False, AGGREGATIONS.numbers(rule)().typed())
        double = heard._replace(**{of: {"w": jnp.zeros((N, D))} for of in ("own", "sent")})
        with traced(UnderWay(loss_of, progress=jnp.float32(PROGRESS))):
            assert jax.eval_shape(lambda: aggregate(rule, double))["w"].dtype == jnp.float64


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_says_whether_it_reads_the_mixing_weights(rule):
    both, _, own, sent = drawn(3, density=1.0)
    fields = {name: value for name, value in NUMBERS.items() if name in AGGREGATIONS.numbers(rule).__dataclass_fields__}
    heard = heard_of(both, both, own, sent, False, AGGREGATIONS.numbers(rule)(**fields).typed())
    others = heard._replace(links=heard.links._replace(mix=heard.links.mix**2))
    found = [program(rule, False)(each[:4])[0]["w"] for each in (heard, others)]
    assert AGGREGATIONS.traits(rule).weighs == (not np.array_equal(*found))


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_says_whether_it_keeps_the_mean(rule):
    both, _, own, _ = drawn(3)
    kept = np.abs(combined(rule, both, both, own, own)[0][:, 1:].mean(axis=0) - own.mean(axis=0)).max() < 1e-6
    assert AGGREGATIONS.traits(rule).keeps_mean == kept


def test_a_study_notes_mixing_weights_without_effect():
    changes = {"network.mixing": "max_degree", "algorithm.aggregation": "median"}
    said = "algorithm.aggregation median does not use the network's weights"
    assert any(said in line for line in notes(make_study(tiny_config(**changes)).points[0].experiment))
