"""Attacks against loops from the papers, who attacks, and what a study then counts."""

import itertools
import json
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from collectives import unordered
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import attacks as loops
from oracles import byzfl_outputs
from small import assert_trees_differ, assert_trees_equal, told, toy_dataset, toy_task
from tables import cases, with_fields
from tiny import run_study, tiny_config

from mdfl_jax import Hparams, Schedule
from mdfl_jax.algorithms import ALGORITHMS, numbers_of
from mdfl_jax.algorithms.local import Settings
from mdfl_jax.attacks.lying import lie_to_all, lie_to_each
from mdfl_jax.attacks.members.data import stamp
from mdfl_jax.attacks.registry import ATTACKS, Target, attackers_of, names
from mdfl_jax.core.sharding import client_mesh
from mdfl_jax.core.types import Links, Network, Places
from mdfl_jax.data.partition import PartitionNumbers
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.exchange.aggregation import AGGREGATIONS, Heard, aggregate
from mdfl_jax.exchange.neighbourhood import with_rule
from mdfl_jax.exchange.sending import sent
from mdfl_jax.metrics.values import consensus_distance, mean_model
from mdfl_jax.models import make_model
from mdfl_jax.networks.fixed import fixed_graph
from mdfl_jax.networks.graphs import GraphParams
from mdfl_jax.networks.wrappers.attacked import WHO, AttackedParams, attacked, choose
from mdfl_jax.study import make_study
from mdfl_jax.tasks import classification

N, D = 7, 5
ARE = np.array([False, True, False, False, True, False, False])
RNG = np.random.default_rng(0)
MODELS = RNG.normal(size=(N, D)).astype(np.float32)
HEARS = ~np.eye(N, dtype=bool) & (RNG.random((N, N)) < 0.8)
HEARS[3] = [False, True, False, False, True, False, False]  # hears attackers alone
WEIGHTS = np.where(HEARS, RNG.random((N, N)), 0).astype(np.float32) / N
WEIGHTS[np.arange(N), np.arange(N)] = 1 - WEIGHTS.sum(axis=1)


def numbers_of_all(**changed):
    """The numbers of all attacks, some of them changed by name."""
    found = []
    for name in names():
        kind = ATTACKS.numbers(name)
        found.append(kind(**{k: v for k, v in changed.items() if k in kind.__dataclass_fields__}).typed())
    return tuple(found)


def links_of(name, are=ARE, **changed):
    attackers = attackers_of(jnp.asarray(are), jnp.int32(names().index(name)), numbers_of_all(**changed))
    return Links(jnp.asarray(HEARS), jnp.asarray(WEIGHTS), attackers=attackers)


@partial(jax.jit, static_argnums=())
def told_by_all(links, key):
    return sent((lie_to_all,), None, key, links, {"w": jnp.asarray(MODELS)})["w"]


def test_what_attackers_send_to_all():
    """One compiled program for all attacks; honest clients send what they have, bit for bit."""
    key, changed = jax.random.key(3), {"flip_scale": 2.0, "scale": 3.0, "value": 0.5, "deviation": 4.0}
    wanted = {
        "sign_flip": -2 * MODELS,
        "scaled": 3 * MODELS,
        "constant": np.full_like(MODELS, 0.5),
        "zero": np.zeros_like(MODELS),
        "mimic": np.tile(MODELS[0], (N, 1)),
    }
    before = told_by_all._cache_size()
    for name in names():
        found = np.asarray(told_by_all(links_of(name, **changed), key))
        np.testing.assert_array_equal(found[~ARE], MODELS[~ARE], err_msg=name)
        if name in wanted:
            np.testing.assert_allclose(found[ARE], wanted[name][ARE], rtol=1e-6, err_msg=name)
        elif name == "gaussian":
            assert 1 < found[ARE].std() < 8
            assert not np.array_equal(found, told_by_all(links_of(name, **changed), jax.random.key(4)))
        else:
            np.testing.assert_array_equal(found, MODELS, err_msg=name)
    assert told_by_all._cache_size() == before + 1
    others = ~np.eye(N, dtype=bool)[0]  # the first honest client is now client 1
    np.testing.assert_array_equal(told_by_all(links_of("mimic", are=~others), key)[0], MODELS[1])


def lie_of(name, i, changed):
    """What all attackers send to client i, by loops; None if it hears none."""
    honest = [j for j in range(N) if HEARS[i, j] and not ARE[j]]
    bad = [j for j in range(N) if HEARS[i, j] and ARE[j]]
    if not bad:
        return None
    own = MODELS[i].astype(float)
    seen = [*([own] if not ARE[i] else []), *(MODELS[j].astype(float) for j in honest)]
    if name == "a_little_is_enough":
        return loops.a_little_is_enough(own, seen, len(bad), changed.get("deviations", 0.0))
    if name == "inner_product":
        return loops.inner_product(seen, changed["strength"])
    others, weights = [MODELS[j].astype(float) for j in honest], [WEIGHTS[i, j] for j in honest]
    return loops.dissensus(own, others, weights, sum(WEIGHTS[i, j] for j in bad), changed["apart"])


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("a_little_is_enough", {}),
        ("a_little_is_enough", {"deviations": 1.5}),
        ("inner_product", {"strength": 0.4}),
        ("dissensus", {"apart": 0.7}),
    ],
)
def test_what_attackers_who_know_everything_send_to_each(name, changed):
    tree = {"w": jnp.asarray(MODELS)}
    heard = lie_to_each(Heard(links_of(name, **changed), tree, tree))
    found = np.asarray(aggregate("mean", heard)["w"])
    for i in range(N):
        lie = lie_of(name, i, changed)
        if lie is not None and not (ARE[i] and not [j for j in range(N) if HEARS[i, j] and not ARE[j]]):
            np.testing.assert_allclose(heard.lies["w"][i], lie, rtol=2e-4, atol=2e-5, err_msg=i)
        told_to = [lie if ARE[j] else MODELS[j] for j in range(N)]
        expected = WEIGHTS[i, i] * MODELS[i] + sum(WEIGHTS[i, j] * told_to[j] for j in range(N) if HEARS[i, j])
        np.testing.assert_allclose(found[i], expected, rtol=2e-4, atol=2e-5, err_msg=i)


def test_attacks_are_those_of_byzfl():
    judge = np.load(byzfl_outputs.FILE)
    models = jnp.asarray(judge["models"], jnp.float32)
    bad = jnp.arange(len(models)) == 4
    changed = {"a_little_is_enough": {"deviations": 1.5}, "inner_product": {"strength": 0.4}}
    for name, numbers in changed.items():
        target = Target(models[0], models, ~bad, bad, jnp.ones(len(models)), ATTACKS.numbers(name)(**numbers).typed())
        np.testing.assert_allclose(ATTACKS[name].to_each(target), judge[name], rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("name", [name for name in names() if ATTACKS[name].to_each])
def test_what_is_sent_to_each_is_finite_whoever_it_hears(name):
    """An attacker that hears nobody, or no honest client, once sent NaN to itself, which the mean spread to all."""
    kinds = jnp.array(list(itertools.product(range(3), repeat=4)))  # of each place: nobody, an honest one, an attacker
    of_name = numbers_of_all()[names().index(name)]

    def lie(of):
        models = jnp.asarray(MODELS[:4])
        return ATTACKS[name].to_each(Target(models[0], models, of == 1, of == 2, jnp.full(4, 0.25), of_name))

    assert np.isfinite(jax.vmap(lie)(kinds)).all()


def test_with_dissensus_gossip_stands_still_and_clipping_bounds_what_it_does():
    tree = {"w": jnp.asarray(MODELS)}
    heard = lie_to_each(Heard(links_of("dissensus", apart=1.0), tree, tree))
    hears_one = (HEARS & ARE).any(axis=1)
    np.testing.assert_allclose(aggregate("mean", heard)["w"][hears_one], MODELS[hears_one], atol=1e-5)
    far = lie_to_each(Heard(links_of("dissensus", apart=1e6), tree, tree))
    numbers = AGGREGATIONS.numbers("clipped_gossip")(clip_radius=0.1).typed()
    moved = np.asarray(aggregate("clipped_gossip", far._replace(numbers=numbers))["w"]) - MODELS
    assert np.linalg.norm(moved, axis=1).max() <= 0.1


PLACES = Places(
    jnp.asarray(RNG.normal(size=(20, 2)), jnp.float32), jnp.zeros(20), jnp.arange(20) < 8
)  # 8 mobile clients of 20
CHOOSE = jax.jit(lambda key, number, who, listed: choose(key, _params(number, who, listed), PLACES))


def _params(number, who, listed=np.zeros(20, bool)):
    return AttackedParams(None, number, who, listed, 0, 5, 0, ())


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 7), st.sampled_from(WHO), st.integers(0, 100))
def test_who_attacks(number, who, seed):
    listed = np.arange(20) % 2 == 0
    found = np.asarray(CHOOSE(jax.random.key(seed), number, WHO.index(who), listed))
    outside = np.linalg.norm(np.asarray(PLACES.position) - np.mean(PLACES.position, axis=0), axis=1)
    assert found.sum() == number
    mobile = np.asarray(PLACES.is_mobile)
    if who in ("mobile", "static"):
        assert not (found & (mobile != (who == "mobile"))).any()
    if who == "listed":
        assert not (found & ~listed).any()
    if who in ("most_central", "outermost") and number:
        order = np.argsort(outside if who == "most_central" else -outside)
        np.testing.assert_array_equal(np.flatnonzero(found), np.sort(order[:number]))


def test_random_attackers_are_drawn_evenly():
    counts = sum(np.asarray(CHOOSE(jax.random.key(seed), 5, 0, np.zeros(20, bool))) for seed in range(200))
    assert counts.sum() == 1000
    assert (np.abs(counts - 50) < 30).all()


@pytest.mark.parametrize("batch_size", [0, 6])
def test_attackers_learn_from_flipped_labels_and_the_others_as_before(batch_size):
    dataset = toy_dataset()
    task, key = toy_task(N, dataset=dataset, batch_size=batch_size, partition="iid"), jax.random.key(0)
    clients = task.partition(task.data, PartitionNumbers(), key)
    models = jax.tree.map(lambda p: p + 0.1 * jnp.arange(N).reshape(N, *[1] * p.ndim), task.init(task.data, key))
    gradient = jax.jit(lambda data: task.gradient(data, clients, models, jax.random.key(1)))
    pick = lambda a, b: jnp.where(ARE.reshape(N, *[1] * (a.ndim - 1)), b, a)  # noqa: E731
    right = dataset.y_train
    for name, changed, wrong in (
        ("label_flip", {}, 2 - right),
        ("label_flip_pair", {"source_label": 1, "wrong_label": 2}, np.where(right == 1, 2, right)),
    ):
        expected = jax.tree.map(pick, *(gradient(task.data._replace(y_train=jnp.asarray(y))) for y in (right, wrong)))
        found = gradient(task.poison(task.data, clients, links_of(name, **changed).attackers))
        assert_trees_equal(found, expected, 1e-6)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_the_trigger(dtype):
    images = RNG.integers(0, 200, (3, 6, 5, 2)).astype(dtype)
    np.testing.assert_array_equal(stamp(jnp.asarray(images), 2, images.max()), loops.backdoor(images, 2))


def test_the_backdoor_succeeds_at_those_who_learn_it_and_only_with_the_trigger(tmp_path):
    """Everybody hears three attackers of six. The square alone looks like some label to a linear model, too."""
    config = tiny_config(**{
        "attack.name": "backdoor", "attack.number": 3, "attack.target_label": 7, "attack.trigger_size": 2,
        "network.graph": "complete", "rounds": 60, "eval_every": 60, "seeds": 1, "algorithm.lr": 0.5,
        "data.limit_train": 600, "data.limit_test": 200, "sweep": "attack.poisoned_share=0.001,0.6",
    })  # fmt: skip
    points = run_study(make_study(config), tmp_path)["points"]
    success = [point["backdoor_success"]["mean"] for point in points]
    assert success[0] + 0.2 < success[1], success
    assert points[1]["final_accuracy"]["mean"] > 0.5


def attacked_config(**changes):
    return tiny_config(**{"attack.name": "sign_flip", "attack.number": 2, "network.radius": 2.0, **changes})


def test_attackers_their_reach_and_the_statistics_of_the_honest(tmp_path):
    config = attacked_config(**{"attack.memory": 2, "attack.from_round": 1, "rounds": 6, "seeds": 3})
    summary = run_study(make_study(config), tmp_path)
    history = np.load(tmp_path / "history.npz")
    are, links = history["0/attacker"][:, -1].astype(bool), history["0/links"]
    assert (are.sum(axis=1) == 2).all()
    accuracy = history["0/accuracy"]
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    for seed in range(3):
        pairs = np.unpackbits(links[seed], axis=-1, count=6).astype(bool)
        reached = loops.within_reach(pairs, are[seed], 2, from_round=1)
        expected = reached.sum(axis=1) / 4
        found = history["0/contamination"][seed]
        np.testing.assert_allclose(found[1:], expected.reshape(3, 2).mean(axis=1), rtol=1e-6)
        of_seed = [line for line in lines if line["seed"] == seed]
        for e, line in enumerate(of_seed):
            honest = accuracy[seed, e][~are[seed]]
            assert line["accuracy"] == pytest.approx(honest.mean())
            assert line["accuracy_min"] == pytest.approx(honest.min())
            assert line["evaluated"] == 4
            trained = history["0/train_loss"][seed, e]
            assert np.isnan(trained[are[seed]]).all()
            assert e == 0 or line["train_loss"] == pytest.approx(trained[~are[seed]].mean(), rel=1e-6)
    assert summary["points"][0]["final_accuracy"]["mean"] == pytest.approx(
        np.mean([accuracy[s, -1][~are[s]].mean() for s in range(3)])
    )


@pytest.mark.parametrize("reaches_all", [False, True])
def test_the_word_of_an_attacker_goes_through_a_server_too(reaches_all):
    """Links and meetings of any kind, against sets of clients that were told."""
    rounds, rng = 12, np.random.default_rng(3)
    pairs = rng.random((rounds, N, N)) < 0.04
    pairs[:, np.arange(N), np.arange(N)] = False
    meets = np.ones((rounds, N), bool) if reaches_all else rng.random((rounds, N)) < 0.2
    links = lambda t: Links(jnp.asarray(pairs)[t], jnp.eye(N), None if reaches_all else jnp.asarray(meets)[t])  # noqa: E731
    inner = Network(
        N,
        frozenset(),
        lambda params, key, clients: None,
        lambda params, key, t, state, clients: (None, links(t)),
        lambda state: PLACES._replace(position=jnp.zeros((N, 2)), is_mobile=jnp.zeros(N, bool)),
    )
    network = attacked(inner, reaches_all=reaches_all)
    params = AttackedParams(None, 1, 0, np.zeros(N, bool), 2, 3, 0, numbers_of_all())
    step = jax.jit(lambda t, state: network.step(params, jax.random.key(0), t, state, None)[0])
    for seed in range(6):  # another client attacks
        state, found = network.init(params, jax.random.key(seed), None), []
        for t in range(rounds):
            state = step(t, state)
            found.append(np.asarray((state.age <= 3) & ~state.attackers.are))
        expected = loops.within_reach(pairs, np.asarray(state.attackers.are), 3, 2, meets)
        np.testing.assert_array_equal(found[2:], expected[2:])
        assert expected.any()
        assert reaches_all or not expected.all()


def test_the_consensus_and_the_mean_model_are_those_of_the_honest():
    honest = {"w": MODELS[~ARE]}
    for of in (mean_model, consensus_distance):
        found = of({"w": MODELS}, jnp.asarray(~ARE))
        assert_trees_equal(found, of(honest), 1e-5)


@cache
def run_of(rule, lists, devices, name="dpsgd"):
    """A compiled run with a rule, for all attacks: (attack) -> (models before and after, losses)."""
    mesh = client_mesh(jax.devices()[:devices])
    task = classification(toy_dataset(), make_model("linear", 3), 12, "iid", batch_size=6, mesh=mesh)
    algorithm = with_rule(ALGORITHMS[name](Settings(aggregation=rule)), rule)
    network = attacked(fixed_graph(12, "torus" if lists is not None else "complete", lists=bool(lists)))
    simulation = Simulation(task, network, algorithm, Schedule(3, 3))

    def run(which, from_round):
        params = AttackedParams(GraphParams(), 2, 0, np.zeros(12, bool), from_round, 5, which, numbers_of_all())
        algorithm_numbers = numbers_of(name, aggregation=rule).replace(lr=np.float32(0.1))
        hparams, key = Hparams(PartitionNumbers(), params, algorithm_numbers.typed()), jax.random.key(2)
        carry, _ = simulation.init(simulation.data, hparams, key)
        after, metrics = simulation.advance(simulation.data, hparams, key, carry)
        before, models = (simulation.models(one)[0] for one in (carry, after))
        screened = {metric.name: metrics[metric.name] for metric in algorithm.metrics if metric.name in metrics}
        return before, models, metrics.loss, carry.network.attackers.are, screened

    compiled = jax.jit(run).lower(0, 0).compile()
    assert unordered(compiled.as_text())[1] == []  # no collective in a loop or a condition
    return lambda attack, from_round=0: jax.device_get(compiled(names().index(attack), from_round))


def check_devices_and_forms(rule, attack):
    one, over = run_of(rule, False, 1)(attack), run_of(rule, False, 4)(attack)
    listed = run_of(rule, True, 1)(attack)
    assert_trees_equal(one[1], over[1], 2e-3)
    assert_trees_equal(one[1], listed[1], 2e-3)
    for name, values in one[4].items():  # what the rule rejected, or where it fell back
        assert np.isfinite(values).any(), name
        np.testing.assert_allclose(values, over[4][name], atol=1e-6, err_msg=name)
    honest = ~one[3]
    assert np.isfinite(one[2][honest]).all()
    assert not np.array_equal(jax.tree.leaves(one[0])[0][honest], jax.tree.leaves(one[1])[0][honest])


@pytest.mark.long
@pytest.mark.parametrize("rule", [rule for rule in AGGREGATIONS if rule == "nnm_krum" or not rule.startswith("nnm_")])
def test_each_rule_with_each_attack_over_a_device_a_mesh_and_lists(rule):
    for attack in names():
        check_devices_and_forms(rule, attack)


def test_replay_keeps_the_model_and_an_attack_begins_in_its_round():
    before, after, _, are, _ = run_of("mean", None, 1)("replay")
    leaf = lambda tree: jax.tree.leaves(tree)[0]  # noqa: E731
    np.testing.assert_array_equal(leaf(before)[are], leaf(after)[are])
    late = [run_of("mean", None, 1)(attack, 3) for attack in ("sign_flip", "zero")]
    assert_trees_equal(late[0][1], late[1][1])


@pytest.mark.long
@pytest.mark.parametrize("name", ["choco", "pame", "allreduce", "fedmobile"])
def test_algorithms_of_each_kind_run_under_attacks_on_what_is_sent_to_all(name):
    changes = {"algorithm.name": name, "attack.number": 2, "seeds": 1, "sweep": "attack.name=sign_flip,zero"}
    at_server = "at_server" in ALGORITHMS[name](Settings()).needs
    changes |= {"server.pattern": "fixed"} if at_server else {"network.graph": "complete"}
    (group,) = make_study(tiny_config(**changes)).groups
    simulation, key = group.simulation, jax.random.key(0)

    @jax.jit
    def models(hparams):
        carry = simulation.first(simulation.data, hparams, key)
        clients, carry = carry.clients, carry._replace(clients=None)
        return simulation.models(simulation.rounds(simulation.data, hparams, key, clients, carry)[0])[0]

    flipped, zero = map(models, group.hparams)
    assert_trees_differ(flipped, zero)


def test_a_sweep_over_attacks_is_one_program():
    study = make_study(attacked_config(sweep="attack.name=sign_flip,zero,dissensus,label_flip; attack.number=1,2"))
    assert [len(group.points) for group in study.groups] == [8]
    assert len(make_study(attacked_config(sweep="attack.name=zero,backdoor")).groups) == 2


WRONG = """
attack.name=sign_flp => attack.name: unknown name 'sign_flp' (did you mean 'sign_flip'?)
attack.number=6 => attack.number is 6; it must be fewer than network.num_clients, which is 6
attack.number=3 | attack.who=mobile => attack.number is 3; it must be at most 2 clients: attack.who is mobile
attack.who=mobile | network.graph=ring => attack.number is 2; it must be at most 0 clients: attack.who is mobile
attack.who=mobile | network.mobility=static => attack.number is 2; it must be at most 0 clients: attack.who is mobile
attack.who=outermost | network.graph=ring => a graph (network.graph is ring) knows no places
attack.who=outermost | server.pattern=fixed | algorithm.name=async_fl => (server.pattern is fixed) know no places
attack.who=listed | attack.clients=0,9 => attack.clients is '0,9'; it must be different clients of 0 to 5, as in 0,3
attack.clients=0,3 => attack.clients is '0,3'; it must be empty unless attack.who is listed
attack.share=0.01 => attack.share is 0.01; it must be enough for one attacker of 6 clients
attack.name=dissensus | algorithm.name=allreduce => attack.name is dissensus; it must be another one: allreduce sends no
algorithm.name=local_only => attack.name is sign_flip; it must be empty: local_only sends nothing by which clients could
attack.from_round=9 | rounds=3 => attack.from_round is 9; it must be below rounds, which is 3
eval_clients=4 => eval_clients is 4; it must be 0 with attack.name: a sample would not know who is honest
& algorithm.name=gradient_tracking
algorithm.aggregation=ubar => algorithm.aggregation is ubar; it must be clipped_gossip or mean
& attack.name=backdoor
attack.target_label=10 => attack.target_label is 10; it must be at most 9 with data.name digits
attack.trigger_size=9 => attack.trigger_size is 9; it must be at most 8 with data.name digits
& attack.name=label_flip
data.name=synthetic:linear => which changes labels; the samples of data.name synthetic:linear have none
"""


@pytest.mark.parametrize(("fields", "expected"), list(cases(WRONG)))
def test_mistakes_are_one_line(fields, expected):
    assert expected in told(lambda: make_study(with_fields(attacked_config(), fields)))


def test_listed_clients_all_attack_and_their_models_do_not_end_a_run(tmp_path):
    """Two attackers grow without bound; nobody hears them, and the four others go on as without them."""
    (tmp_path / "edges.csv").write_text("i,j\n0,5\n2,3\n3,4\n4,1\n1,2\n")
    changes = {
        "network.graph": "file",
        "graph.file": str(tmp_path / "edges.csv"),
        "graph.allow_disconnected": True,
        "diverged_norm": 50.0,
    }
    changes |= {"attack.name": "scaled", "attack.who": "listed", "attack.clients": "0,5", "attack.scale": 30.0}
    point = run_study(make_study(tiny_config(rounds=6, seeds=1, **changes)), tmp_path / "run")["points"][0]
    assert point["diverged"] == {}
    assert point["final_accuracy"]["mean"] > 0.1
    are = np.load(tmp_path / "run" / "history.npz")["0/attacker"][0, -1]
    assert are.astype(bool).tolist() == [True, False, False, False, False, True]
