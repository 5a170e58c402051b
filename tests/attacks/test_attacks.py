"""Attacks: what a study counts under them, and mistakes. tests/reference judges who attacks and what is sent."""

import itertools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import told
from tables import cases, with_fields
from tiny import run_study, tiny_config

from mdfl_jax.attacks.registry import ATTACKS, Target, names
from mdfl_jax.study import make_study


@pytest.mark.parametrize("name", [name for name in names() if ATTACKS[name].to_each])
def test_what_is_sent_to_each_is_finite_whoever_it_hears(name):
    """An attacker that hears nobody, or no honest client, once sent NaN to itself, which the mean spread to all."""
    kinds = jnp.array(list(itertools.product(range(3), repeat=4)))  # of each place: nobody, an honest one, an attacker
    models = jax.random.normal(jax.random.key(0), (4, 5))

    def lie(of):
        numbers = ATTACKS.numbers(name)().typed()
        return ATTACKS[name].to_each(Target(models[0], models, of == 1, of == 2, jnp.full(4, 0.25), numbers))

    assert np.isfinite(jax.vmap(lie)(kinds)).all()


def attacked_config(**changes):
    return tiny_config(**{"attack.name": "sign_flip", "attack.number": 2, "network.radius": 2.0, **changes})


@pytest.mark.long
def test_the_backdoor_succeeds_only_with_the_trigger_and_statistics_are_those_of_the_honest(tmp_path):
    """Everybody hears three attackers of six. The square alone looks like some label to a linear model, too."""
    config = attacked_config(**{
        "attack.name": "backdoor", "attack.number": 3, "attack.target_label": 7, "attack.trigger_size": 2,
        "network.graph": "complete", "rounds": 60, "eval_every": 30, "seeds": 2, "algorithm.lr": 0.5,
        "data.limit_train": 600, "data.limit_test": 200, "sweep": "attack.poisoned_share=0.001,0.6",
        "metrics": "personal_accuracy",
    })  # fmt: skip
    points = run_study(make_study(config), tmp_path)["points"]
    success = [point["backdoor_success"]["mean"] for point in points]
    assert success[0] + 0.2 < success[1], success
    assert points[1]["final_accuracy"]["mean"] > 0.5
    history = np.load(tmp_path / "history.npz")
    np.testing.assert_array_equal(np.isnan(history["1/personal_accuracy"][:, -1]), history["1/attacker"][:, -1])
    are, accuracy = history["1/attacker"][:, -1].astype(bool), history["1/accuracy"]
    assert (are.sum(axis=1) == 3).all()
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    for seed in range(2):
        for e, line in enumerate(line for line in lines if (line["seed"], line["point"]) == (seed, 1)):
            honest = accuracy[seed, e][~are[seed]]
            assert line["accuracy"] == pytest.approx(honest.mean())
            assert line["accuracy_min"] == pytest.approx(honest.min())
            assert line["evaluated"] == 3
            trained = history["1/train_loss"][seed, e]
            assert np.isnan(trained[are[seed]]).all()
            assert e == 0 or line["train_loss"] == pytest.approx(trained[~are[seed]].mean(), rel=1e-6)
    expected = np.mean([accuracy[s, -1][~are[s]].mean() for s in range(2)])
    assert points[1]["final_accuracy"]["mean"] == pytest.approx(expected)


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
& attack.name=label_flip_pair
attack.wrong_label=0 => with attack.source_label 0 and attack.wrong_label 0 it changes no training sample of data.name
& attack.name=label_flip
data.name=synthetic:linear => which changes labels; the samples of data.name synthetic:linear have none
"""


@pytest.mark.parametrize(("fields", "expected"), list(cases(WRONG)))
def test_mistakes_are_one_line(fields, expected):
    assert expected in told(lambda: make_study(with_fields(attacked_config(), fields)))


@pytest.mark.long
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
