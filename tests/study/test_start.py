"""A study that starts from the kept models of another one: the same models, by seed and client, or one line."""

import jax
import numpy as np
import pytest
from tiny import run_study

from mdfl_jax import Results
from mdfl_jax.core.errors import UserError
from mdfl_jax.results.results import models_of
from mdfl_jax.study import make_study
from mdfl_jax.study.plan import plan

# Nothing of the state is left out between two halves: plain steps on all samples, links that never change, and no
# draws in a round.
STILL = {"sweep": "network.mobility=static", "seeds": 2, "eval_every": 2, "engine.runs_per_batch": 2}


def go(config, folder):
    run_study(make_study(config), folder)
    return Results.load(folder)


@pytest.fixture(scope="module")
def half(tiny, tmp_path_factory):
    """Four rounds, of which the models after two and after four are kept."""
    return go(tiny(**STILL, rounds=4, save="every:2"), tmp_path_factory.mktemp("half") / "run")


def test_two_halves_are_the_whole(tiny, half, tmp_path):
    """Bit by bit, where an algorithm has no memory beside its models and rounds draw nothing."""
    whole = go(tiny(**STILL, rounds=8, save="final"), tmp_path / "whole")
    rest = go(tiny(**STILL, rounds=4, save="final", **{"model.pretrained": str(half.workdir)}), tmp_path / "rest")
    for key in ("accuracy", "loss", "consensus_distance"):
        np.testing.assert_array_equal(half.array(key), whole.array(key)[:, :3])
        np.testing.assert_array_equal(rest.array(key), whole.array(key)[:, 2:])
    for seed in whole.seeds:
        jax.tree.map(np.testing.assert_array_equal, rest.models(0, seed), whole.models(0, seed))
    assert rest.manifest["pretrained"] == [
        f"model.pretrained {str(half.workdir)!r}: models of the study 'tiny', point 'static', after round 4; each seed "
        "starts from those of its own, each client from its own"
    ]


def kept_by(results, point, seed, at_round=None):
    """A file of models that a run has kept: the last one, or that of a round."""
    place = results.seeds_of(point).index(seed)
    files = models_of(results.workdir, results.manifest["points"][results.index_of(point)]["runs"][place])
    return files[at_round or max(files)]


def test_newcomers_begin_with_the_given_models(tiny, half, tmp_path):
    """A client that was never there still has its given model, so the two sorts of newcomers are the same."""
    (tmp_path / "stays.csv").write_text("".join(f"{i},{i % 3},99\n" for i in range(6)))
    given = {"model.pretrained": str(kept_by(half, 0, 1)), "presence.file": str(tmp_path / "stays.csv")}
    sweep = {"sweep": "presence.newcomers=kept,initial", "presence.name": "table"}
    found = go(tiny(**STILL | sweep | given, rounds=4), tmp_path / "run")
    np.testing.assert_array_equal(*(found.array("loss", point) for point in (0, 1)))


@pytest.mark.long
def test_all_clients_may_start_from_the_mean(tiny, half, tmp_path):
    """And then the number of clients may be another; a file is the start of every seed."""
    file = kept_by(half, 0, 1, at_round=2)
    given = {"model.pretrained": str(file), "model.pretrained_clients": "mean", "network.num_clients": 8}
    config = tiny(**STILL | given, rounds=2)
    found = go(config, tmp_path / "run")
    before = found.array("accuracy")[:, 0]
    assert before.shape == (2, 8)
    np.testing.assert_allclose(before, half.array("mean_model_accuracy")[1, 1], atol=1e-6)
    np.testing.assert_allclose(found.array("consensus_distance")[:, 0], 0, atol=1e-6)
    assert "all seeds start from those of seed 1, all clients from the mean or global one" in plan(make_study(config))


@pytest.mark.long
def test_each_client_has_its_own_model_on_several_devices(tiny, half, tmp_path):
    of_point = kept_by(half, 0, 0).name.partition("-s0-")[0]
    given = {"model.pretrained": str(half.workdir / "models" / of_point), "engine.client_devices": 4}
    found = go(tiny(**STILL, rounds=2, **given), tmp_path / "run")
    np.testing.assert_allclose(found.array("accuracy")[:, 0], half.array("accuracy")[:, -1], atol=1e-6)
    np.testing.assert_allclose(found.array("loss")[:, 0], half.array("loss")[:, -1], rtol=1e-5)
    consensus = half.array("consensus_distance")[:, -1]
    np.testing.assert_allclose(found.array("consensus_distance")[:, 0], consensus, rtol=1e-5)


@pytest.mark.long
def test_a_server_starts_from_its_own_model(tiny, tmp_path):
    server = {"algorithm.name": "server_fedavg", "server.pattern": "fixed", "seeds": 1, "rounds": 2}
    first = go(tiny(**server, save="final"), tmp_path / "first")
    given = {"model.pretrained": str(tmp_path / "first")}
    with pytest.raises(
        UserError, match=r"pretrained_clients is own; it must be mean: with algorithm.name server_fedavg"
    ):
        make_study(tiny(**server, **given))
    second = go(tiny(**server, **given, **{"model.pretrained_clients": "mean"}), tmp_path / "second")
    key = "mean_model_loss"
    np.testing.assert_allclose(second.array(key)[:, 0], first.array(key)[:, -1], rtol=1e-6)
    clients = second.array("loss")[:, 0]
    np.testing.assert_allclose(clients, np.broadcast_to(first.array(key)[:, -1:], clients.shape), rtol=1e-6)


@pytest.mark.long
def test_a_point_starts_from_the_point_whose_settings_it_shares(tiny, tmp_path):
    sweep = {"sweep": "network.mobility=static,dcm; algorithm.lr=0.1,0.2", "seeds": 1, "rounds": 2}
    first = go(tiny(**sweep, save="final"), tmp_path / "first")
    given = {"model.pretrained": str(tmp_path / "first")}
    again = make_study(tiny(**sweep, **given))
    files = {group.points[i]: start.files[0] for group in again.groups for i, start in enumerate(group.starts)}
    assert files == {p: kept_by(first, p, 0) for p in range(4)}
    other = {"sweep": "algorithm.lr=0.2", "network.mobility": "dcm", "seeds": 1, "rounds": 2}
    (group,) = make_study(tiny(**other, **given)).groups
    assert group.starts[0].files[0] == kept_by(first, "dcm, lr=0.2", 0)
    names = r"name the models of one: \S*first/models/\S+ \(static, lr=0.1\); .*models/\S+ \(dcm, lr=0.2\)$"
    with pytest.raises(UserError, match=f"none of its points has the settings of this point; {names}"):
        make_study(tiny(**other | {"sweep": "algorithm.lr=0.3"}, **given))


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"model.pretrained": "runs/absent"},
            "model.pretrained: 'runs/absent': it is no file, and 'runs/absent' is no folder of a",
        ),
        ({"seeds": 3}, "run': point 'static' has no models of seed 2, from which the same seed would start"),
        (
            {"network.num_clients": 8},
            "holds the models of 6 clients, and network.num_clients is 8; model.pretrained_cl",
        ),
        ({"model.name": "cnn"}, "it has no tensor clients/params/"),
        (
            {"data.name": "mine", "data.limit_train": 0, "data.limit_test": 0},
            "clients/params/Dense_0/bias is [10] for each client; in the model linear it is [3]",
        ),
        ({"model.pretrained": "", "model.pretrained_clients": "mean"}, "it must be own unless model.pretrained names"),
        ({"model.pretrained_clients": "median"}, "unknown pretrained_clients 'median'"),
        ({"data.name": "synthetic:linear"}, "it has no tensor clients/params/w, which the model"),
    ],
)
def test_models_that_do_not_fit_are_refused_in_one_line(tiny, half, tmp_path, changes, line):
    images, labels = np.zeros((60, 8, 8), np.uint8), np.arange(60) % 3
    np.savez(tmp_path / "mine.npz", x_train=images, y_train=labels, x_test=images, y_test=labels)
    changes = {"data.dir": str(tmp_path)} | changes
    config = tiny(**STILL | {"model.pretrained": str(half.workdir), "rounds": 2} | changes)
    with pytest.raises(UserError) as caught:
        make_study(config)
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)
