"""What the account counts, what it refuses, and what it must not miss."""

import dataclasses
import math
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import told
from tiny import TINY

import mdfl_jax
from mdfl_jax.config import default_config
from mdfl_jax.config.points import points
from mdfl_jax.config.resolve import resolve
from mdfl_jax.contrib.privacy.covered import COVERED, SENT_ONCE, UNSEEING
from mdfl_jax.contrib.privacy.messages import NoisedMessages
from mdfl_jax.contrib.theory import network
from mdfl_jax.core.types import Held, Links
from mdfl_jax.study import make_study
from mdfl_jax.study.plan import noted

SMALL = TINY | {"rounds": 6, "eval_every": 1, "seeds": 1, "network.num_clients": 4, "engine.client_devices": 1}
SMALL |= {"privacy.clip": 1.0, "privacy.noise": 2.0, "privacy.public": "moments"}


def study(**changes):
    config = default_config()
    config.update_from_flattened_dict(SMALL | {path.replace("__", "."): value for path, value in changes.items()})
    return make_study(config)


# Contacts of three clients, and the rounds whose steps others know after each of them, by hand.
SEQUENCES = {
    "one contact": ([(2, 0, 1)], [[0, 0, 0], [0, 0, 0], [3, 3, 0]]),
    "a chain": ([(0, 0, 1), (4, 1, 2)], [[1, 1, 0]] * 4 + [[1, 5, 5]]),
    "a hub": ([(1, 0, 1), (3, 0, 2), (5, 0, 1)], [[0] * 3, [2, 2, 0], [2, 2, 0], [4, 2, 4], [4, 2, 4], [6, 6, 4]]),
}


@pytest.fixture
def contacts(tmp_path):
    def write(rows):
        path = tmp_path / "contacts.csv"
        path.write_text("round,i,j\n" + "".join(f"{t},{a},{b}\n{t},{b},{a}\n" for t, a, b in rows))
        return str(path)

    return write


def spent(steps, noise=2.0, delta=1e-5):
    """The epsilon of so many steps on all samples, by Renyi's divergence steps alpha / (2 noise^2) alone."""
    if not steps:
        return 0.0
    orders = np.array([1 + x / 10 for x in range(1, 100)] + [*range(11, 64), 128, 256, 512, 1024])
    renyi = steps * orders / (2 * noise**2)
    return (renyi + np.log1p(-1 / orders) - np.log(delta * orders) / (orders - 1)).min()


@pytest.mark.few(1)
@pytest.mark.parametrize("name", SEQUENCES)
def test_a_client_spends_its_steps_up_to_its_last_contact(contacts, name):
    rows, rounds = SEQUENCES[name]
    changes = {"network.mobility": "contacts", "trace.file": contacts(rows), "network.num_clients": 3,
               "algorithm.local_steps": 2, "rounds": len(rounds)}  # fmt: skip
    found = mdfl_jax.run(SMALL | changes, progress=False)["epsilon"].isel(point=0, seed=0).values
    wanted = [[0.0] * 3, *[[spent(2 * count) for count in row] for row in rounds]]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    page = (Path(__file__).parents[3] / "docs" / "privacy.md").read_text()
    assert f"| {', '.join(f'{x:.2f}' if x else '0' for x in wanted[-1])} |" in page


# The rounds [i][j] of client i that j knows at the end, by hand; the first and the last are symmetric.
PAIRS = {
    "one contact": [[0, 3, 0], [3, 0, 0], [0, 0, 0]],
    "a chain": [[0, 1, 1], [1, 0, 5], [0, 5, 0]],
    "a hub": [[0, 6, 4], [6, 0, 2], [4, 4, 0]],
}


@pytest.mark.few(1)
@pytest.mark.parametrize("name", PAIRS)
def test_who_has_heard_of_a_client_from_others_knows_what_these_had_heard(contacts, name):
    rows, rounds = SEQUENCES[name]
    changes = {"network.mobility": "contacts", "trace.file": contacts(rows), "network.num_clients": 3,
               "algorithm.local_steps": 2, "rounds": len(rounds), "privacy.pairs": True}  # fmt: skip
    found = mdfl_jax.run(SMALL | changes, progress=False)["epsilon_pairs"].isel(point=0, seed=0, round=-1).values
    wanted = [[spent(2 * count) for count in row] for row in PAIRS[name]]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    page = (Path(__file__).parents[3] / "docs" / "privacy.md").read_text()
    assert f"| {'; '.join(', '.join(map(str, row)) for row in PAIRS[name])} |" in page


def test_each_message_with_noise_is_one_release(contacts):
    """Whatever a client has computed; a message that nobody hears is none."""
    rows, _ = SEQUENCES["a hub"]
    changes = {"network.mobility": "contacts", "trace.file": contacts(rows), "network.num_clients": 3,
               "privacy.on": "messages", "privacy.noise": 4.0, "privacy.pairs": True,
               "algorithm.local_steps": 3}  # fmt: skip
    found = mdfl_jax.run(SMALL | changes, progress=False)
    epsilon, pairs = (found[name].isel(point=0, seed=0, round=-1).values for name in ("epsilon", "epsilon_pairs"))
    np.testing.assert_allclose(epsilon, [spent(3), spent(2), spent(1)], rtol=1e-6)
    wanted = [[0, spent(3), spent(2)], [spent(2), 0, spent(1)], [spent(1), spent(1), 0]]
    np.testing.assert_allclose(pairs, wanted, rtol=1e-6)


def test_a_message_of_pame_carries_no_step_of_its_round(contacts):
    rows, rounds = SEQUENCES["a hub"]
    changes = {"network.mobility": "contacts", "trace.file": contacts(rows), "network.num_clients": 3,
               "algorithm.name": "pame", "algorithm.period_min": 1, "algorithm.period_max": 1,
               "algorithm.participation": 1.0}  # fmt: skip
    found = mdfl_jax.run(SMALL | changes, progress=False)["epsilon"].isel(point=0, seed=0).values
    wanted = [[0.0] * 3, *[[spent(max(count - 1, 0)) for count in row] for row in rounds]]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_who_is_away_computes_nothing_and_who_is_silent_spends_nothing():
    changes = {"algorithm.name": "dpsgd,local_only", "presence.name": "markov", "presence.leave": 0.5,
               "network.graph": "complete", "network.mobility": "random_movement"}  # fmt: skip
    changes["sweep"] = f"algorithm.name={changes.pop('algorithm.name')}"
    found = mdfl_jax.run(SMALL | changes, progress=False)
    steps = found["released_steps"].isel(seed=0).values
    assert (steps[1] == 0).all()
    assert (np.diff(steps[0], axis=0) >= 0).all()
    assert 0 < steps[0, -1].min() < 6
    epsilon = found["epsilon"].isel(seed=0).values
    np.testing.assert_allclose(epsilon, np.vectorize(spent)(steps), rtol=1e-6)


@pytest.mark.long
def test_minibatches_count_each_clients_own_rate_and_the_target_holds_for_all():
    changes = {"algorithm.batch_size": 8, "data.partition": "dirichlet", "data.alpha": 0.3, "seeds": 2,
               "network.graph": "complete", "privacy.noise": 0.0, "privacy.target_epsilon": 4.0,
               "privacy.least_samples": 16}  # fmt: skip
    found = mdfl_jax.run(SMALL | changes, progress=False)
    epsilon = found["epsilon"].isel(point=0, round=-1).values
    assert 0 < epsilon.max() <= 4.0
    assert len(np.unique(epsilon.round(4))) > 3  # larger clients spend less
    assert found["privacy_noise"].values.min() > 0.5


def test_a_bound_of_infinity_is_the_plain_program_and_a_bound_that_is_not_reached_the_same_models():
    plain = {path: value for path, value in SMALL.items() if not path.startswith("privacy")}
    changes = {"sweep": "privacy.clip=inf,1e6", "privacy.noise": 0.0, "network.graph": "ring"}
    found = mdfl_jax.run(SMALL | changes, progress=False)
    wanted = mdfl_jax.run(plain | {"network.graph": "ring"}, progress=False)
    for name in ("loss", "consensus_distance"):
        np.testing.assert_array_equal(found[name].values[0], wanted[name].values[0])
        np.testing.assert_allclose(found[name].values[1], wanted[name].values[0], rtol=1e-4, atol=1e-6)
    epsilon = found["epsilon"].values
    assert np.isnan(epsilon[0]).all()
    assert (epsilon[1, 0, -1] == math.inf).all()


@pytest.mark.few(1)
@pytest.mark.parametrize("name", SENT_ONCE)
def test_all_that_a_client_sends_passes_the_map_of_noise_once_a_round(name, monkeypatch):
    """With zeros in place of all messages, a client's model does not depend on the models of others."""
    calls = []

    def silent(self, hparams, key, links, vectors):
        calls.append(None)
        return jax.tree.map(jnp.zeros_like, vectors)

    monkeypatch.setattr(NoisedMessages, "sends", silent)
    apart = []
    for shift in (0.0, 5.0):
        found = study(**FIXED | {"algorithm.name": name, "privacy.on": "messages"})
        (group,) = found.groups
        simulation = group.simulation
        carry = simulation.first(simulation.data, group.hparams[0], jax.random.key(3))
        others = jax.tree.map(lambda x: x.at[1:].add(shift), carry.algorithm.params)  # noqa: B023
        carry = carry._replace(algorithm=carry.algorithm._replace(params=others))
        carry = jax.jit(simulation.round)(simulation.data, group.hparams[0], jax.random.key(3), carry)
        apart.append([leaf[0] for leaf in jax.tree.leaves(simulation.algorithm.params(carry.algorithm))])
    assert len(calls) == (0 if name == "local_only" else 2)
    jax.tree.map(np.testing.assert_array_equal, *apart)


def test_messages_are_the_first_models_and_shortened_changes_with_noise_of_its_deviation():
    rng, num_clients, size = np.random.default_rng(4), 3, 4000
    first, moved = ({"w": jnp.asarray(rng.normal(size=(num_clients, size)), jnp.float32)} for _ in range(2))
    links = Links(jnp.zeros((num_clients,) * 2, bool), jnp.eye(num_clients))
    sent = lambda clip, noise, known: NoisedMessages(jnp.float32(clip), jnp.float32(noise), known).sends(  # noqa: E731
        None, jax.random.key(1), links, moved
    )["w"]
    np.testing.assert_allclose(sent(1e6, 0, first), moved["w"], atol=1e-6)
    change = moved["w"] - first["w"]
    wanted = first["w"] + change * (2 / np.linalg.norm(change, axis=1))[:, None]
    np.testing.assert_allclose(sent(2, 0, first), wanted, atol=1e-5)
    drawn = sent(2, 3, None) - sent(2, 0, None)
    assert np.abs(np.std(drawn, axis=1) / 6 - 1).max() < 5 / np.sqrt(2 * size)
    assert np.abs(np.corrcoef(drawn) - np.eye(num_clients)).max() < 0.1


FIXED = {"network.graph": "complete", "algorithm.name": "dpsgd"}


@pytest.mark.few(1)
@pytest.mark.parametrize("name", COVERED)
def test_what_is_covered_asks_for_one_gradient_a_key_and_counts_all_of_them(name):
    steps = 1 if name in ("pame", "nids", "d2", "extra", "gradient_tracking", "choco", "beer", "dcd_psgd", "anq_nids",
                          "qg_dsgdm", "qg_dsgdm_n", "aug_dgm", "proxskip", "dlm") else 3  # fmt: skip
    changes = {"algorithm.name": name, "algorithm.local_steps": steps, "privacy.pairs": name != "allreduce"}
    found = study(**FIXED | changes)
    (group,), keys = found.groups, []
    simulation = group.simulation

    def gradient(data, clients, models, key, only=None):
        jax.debug.callback(lambda words: keys.append(tuple(np.asarray(words).tolist())), jax.random.key_data(key))
        return simulation.task.gradient(data, clients, models, key, only=only)

    seen = dataclasses.replace(simulation, task=simulation.task._replace(gradient=gradient))
    carry = seen.first(seen.data, group.hparams[0], jax.random.key(3))
    step = jax.jit(seen.round)
    for _ in range(3):
        carry = step(seen.data, group.hparams[0], jax.random.key(3), carry)
    jax.effects_barrier()
    assert len(keys) == len(set(keys)) == 3 * steps
    state = carry.network
    assert (np.asarray(state.steps) == 3 * steps).all()
    assert (np.asarray(state.released) <= 3 * steps).all()
    if name != "allreduce":
        known = np.where(np.eye(4, dtype=bool), 0, state.reached)
        np.testing.assert_array_equal(known.max(axis=0), state.released)  # who has heard a client last knows all of it


@pytest.mark.few(1)
@pytest.mark.parametrize("rule", [name for name in UNSEEING if name not in ("trace", "contacts")])
def test_these_rules_move_clients_alike_whatever_labels_they_hold(rule):
    found = study(network__mobility=rule)
    network, hparams = found.groups[0].simulation.network, found.groups[0].hparams[0]
    sizes, places = jnp.array([9, 4, 6, 7]), []
    for labels in (jnp.eye(4, 10, dtype=jnp.int32), jnp.eye(4, 10, 3, dtype=jnp.int32)[::-1]):
        held = Held(sizes, jnp.where(labels > 0, sizes[:, None], 0))
        key = jax.random.key(5)
        state, step = network.init(hparams.network, key, held), jax.jit(network.step)
        for t in range(6):
            state, _ = step(hparams.network, key, jnp.int32(t), state, held)
        places.append(network.places(state).position)
    np.testing.assert_array_equal(*places)


REFUSED = [
    ({"privacy.clip": math.inf}, "privacy.noise is 2.0; it must be 0 with privacy.clip inf"),
    ({"privacy.delta": 1.0}, "privacy.delta is 1.0; it must be greater than 0 and less than 1"),
    ({"privacy.delta": 0.0}, "privacy.delta is 0.0"),
    ({"privacy.target_epsilon": 1.0}, "privacy.noise is 2.0; it must be 0 with privacy.target_epsilon"),
    ({"privacy.noise": 0.0, "privacy.target_epsilon": 1e-5, "privacy.delta": 1e-12}, "no noise reaches it"),
    ({"privacy.public": "moments,names"}, "privacy.public: unknown part of the samples 'names'"),
    ({"privacy.public": ""}, "data.normalize is auto; it must be none"),
    ({"privacy.largest_batch": 9}, "0 with algorithm.batch_size 0"),
    ({"privacy.largest_batch": 9, "algorithm.batch_size": 10}, "at least algorithm.batch_size, which is 10"),
    (
        {"privacy.largest_batch": 9, "algorithm.batch_size": 8, "privacy.noise": 0.0, "privacy.target_epsilon": 8.0},
        "it must be 0 with privacy.target_epsilon: the noise is found as if",
    ),
    ({"algorithm.name": "dfedsam"}, "dfedsam releases two gradients of one minibatch"),
    ({"algorithm.name": "dmgt_svrg"}, "dmgt_svrg releases gradients over all samples"),
    ({"algorithm.name": "squarm_sgd"}, "squarm_sgd releases by its silence"),
    ({"algorithm.name": "server_fedavg"}, "server_fedavg releases messages of which the account does not know"),
    ({"algorithm.local_epochs": 1, "algorithm.batch_size": 8}, "algorithm.local_epochs is 1; it must be 0"),
    ({"algorithm.aggregation": "ubar"}, "ubar may release the losses on its own samples"),
    ({"data.name": "synthetic:logistic"}, "it must be a data set: the samples of synthetic:logistic"),
    ({"data.collect": 2}, "data.collect is 2; it must be 0 with privacy.clip"),
    ({"network.mobility": "dcm"}, "network.mobility is dcm; it must be one of static"),
    ({"model.pretrained": "runs/old"}, "the models of a study tell of its samples"),
    ({"attack.name": "mimic"}, "with mimic attackers pass on what clients have not sent"),
    ({"privacy.on": "messages", "attack.name": "inner_product"}, "with inner_product attackers know the model of whom"),
    ({"privacy.pairs": True, "attack.name": "dissensus"}, "another one with privacy.pairs: with dissensus attackers"),
    ({"privacy.on": "messages", "presence.name": "markov", "presence.newcomers": "neighbour"}, "hands over its own"),
    ({"privacy.pairs": True, "presence.name": "markov", "presence.newcomers": "neighbour"}, "hands over its own"),
    ({"privacy.clip": 1e-20}, "privacy.clip is 1e-20; it must be at least 9.313"),
    ({"model.name": "resnet9"}, "it must be inf with a model of batch normalisation: the mean over a batch"),
    (
        {"privacy.on": "messages", "model.name": "resnet9"},
        "batch normalisation: noise would make its variances negative",
    ),
    ({"privacy.on": "messages", "algorithm.name": "kgt"}, "kgt releases two vectors a round"),
    ({"privacy.on": "messages", "algorithm.name": "squarm_sgd"}, "squarm_sgd releases by its silence"),
    ({"privacy.on": "messages", "algorithm.name": "d2"}, "d2 releases messages of which the account does not know"),
    ({"privacy.on": "messages", "network.mobility": "dam"}, "network.mobility is dam; it must be one of static"),
    ({"privacy.on": "messages", "model.shared": "*"}, "model.shared is '*'; it must be empty with privacy.on messages"),
    ({"privacy.on": "messages", "privacy.largest_batch": 9, "algorithm.batch_size": 8}, "0 with privacy.on messages"),
    ({"algorithm.name": "allreduce", "privacy.pairs": True}, "privacy.pairs is True; it must be false with allreduce"),
]


@pytest.mark.parametrize(("changes", "why"), REFUSED)
def test_what_the_account_does_not_cover_is_refused_in_one_line(changes, why):
    assert why in told(study, **changes)


@pytest.mark.parametrize(("on", "delta", "many"), [("gradients", 1 / 30, 30), ("messages", 0.25, 4)])
def test_a_delta_from_one_over_the_number_of_samples_or_clients_on_is_noted(on, delta, many):
    changes = {"privacy.on": on, "privacy.delta": delta}  # 120 samples of 4 clients
    assert f"below 1 / {many}:" in "".join(noted(study(**changes)))
    assert "privacy.delta" not in "".join(noted(study(**changes | {"privacy.delta": 0.9 * delta})))


def test_labels_that_are_public_allow_movement_by_labels():
    assert study(privacy__public="moments, labels", network__mobility="dcm")


@pytest.mark.long
def test_theory_foretells_what_a_study_spends():
    """From its network alone, also of clients that take part by chance."""
    changes = SMALL | {"seeds": 4, "network.num_clients": 4, "network.radius": 1.0}
    changes |= {"algorithm.participation": 0.5, "network.grid_size": 8, "network.num_mobile": 2}
    config = default_config()
    config.update_from_flattened_dict(changes)
    foretold = network.of_config(network.alone(config, 4, 0), points(resolve(config)), only=["epsilon"])
    values = mdfl_jax.run(changes, progress=False)["epsilon"].isel(round=-1).max("client").to_numpy()
    np.testing.assert_allclose(foretold[0].values["epsilon"], values.reshape(-1), rtol=1e-6)
    assert len(set(values.reshape(-1))) > 1
