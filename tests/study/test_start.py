"""A study that starts from the kept models of another one: the same models, by seed and client, or one line."""

import jax
import numpy as np
import pytest
from small import told
from tiny import run_study

from mdfl_jax import Results
from mdfl_jax.core.errors import UserError
from mdfl_jax.results.results import models_of
from mdfl_jax.study import make_study

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


@pytest.mark.long
def test_all_clients_start_from_the_mean_or_each_from_its_own_on_several_devices(tiny, half, tmp_path):
    """From the mean, the number of clients may be another; a file is the start of every seed."""
    file = models_of(half.workdir, half.manifest["points"][0]["runs"][1])[2]
    given = {"model.pretrained": str(file), "model.pretrained_clients": "mean", "network.num_clients": 8}
    found = go(tiny(**STILL | given, rounds=2), tmp_path / "mean")
    assert found.array("accuracy").shape == (2, 2, 8)
    np.testing.assert_allclose(found.array("accuracy")[:, 0], half.array("mean_model_accuracy")[1, 1], atol=1e-6)
    np.testing.assert_allclose(found.array("consensus_distance")[:, 0], 0, atol=1e-6)
    given = {"model.pretrained": str(half.workdir), "engine.client_devices": 4}
    found = go(tiny(**STILL, rounds=2, **given), tmp_path / "own")
    for key in ("loss", "consensus_distance"):
        np.testing.assert_allclose(found.array(key)[:, 0], half.array(key)[:, -1], rtol=1e-5)


@pytest.mark.long
def test_a_server_starts_from_its_own_model(tiny, tmp_path):
    server = {"algorithm.name": "server_fedavg", "server.pattern": "fixed", "seeds": 1, "rounds": 2}
    first = go(tiny(**server, save="final"), tmp_path / "first")
    given = {"model.pretrained": str(tmp_path / "first")}
    with pytest.raises(UserError, match=r"pretrained_clients is own; it must be mean: with algorithm.name server_fed"):
        make_study(tiny(**server, **given))
    second = go(tiny(**server, **given, **{"model.pretrained_clients": "mean"}), tmp_path / "second")
    for key in ("mean_model_loss", "loss"):
        start = second.array(key)[:, 0]
        wanted = first.array("mean_model_loss")[:, -1].reshape(-1, *[1] * (start.ndim - 1))
        np.testing.assert_allclose(start, np.broadcast_to(wanted, start.shape), rtol=1e-6)


@pytest.mark.long
def test_a_point_starts_from_the_point_whose_settings_it_shares(tiny, tmp_path):
    sweep = {"sweep": "network.mobility=static,dcm; algorithm.lr=0.1,0.2", "seeds": 1, "rounds": 2}
    first = go(tiny(**sweep, save="final"), tmp_path / "first")
    kept = [models_of(first.workdir, point["runs"][0])[2] for point in first.manifest["points"]]
    given = {"model.pretrained": str(tmp_path / "first")}
    again = make_study(tiny(**sweep, **given))
    files = {group.points[i]: start.files[0] for group in again.groups for i, start in enumerate(group.starts)}
    assert files == dict(enumerate(kept))
    other = {"sweep": "algorithm.lr=0.2", "network.mobility": "dcm", "seeds": 1, "rounds": 2}
    (group,) = make_study(tiny(**other, **given)).groups
    assert group.starts[0].files[0] == kept[3]
    names = r"name the models of one: \S*first/models/\S+ \(static, lr=0.1\); .*models/\S+ \(dcm, lr=0.2\)$"
    with pytest.raises(UserError, match=f"none of its points has the settings of this point; {names}"):
        make_study(tiny(**other | {"sweep": "algorithm.lr=0.3"}, **given))


def test_models_that_do_not_fit_are_refused_in_one_line(tiny, half):
    for changes, line in (
        ({"model.pretrained": "runs/absent"}, "model.pretrained: 'runs/absent': it is no file, and 'runs/absent' is"),
        ({"seeds": 3}, "run': point 'static' has no models of seed 2, from which the same seed would start"),
        ({"network.num_clients": 8}, "holds the models of 6 clients, and network.num_clients is 8; model.pretrained_"),
        ({"model.name": "cnn"}, "it has no tensor clients/params/"),
        ({"data.name": "synthetic:linear"}, "it has no tensor clients/params/w, which the model"),
        ({"model.pretrained": "", "model.pretrained_clients": "mean"}, "it must be own unless model.pretrained names"),
    ):
        given = {"model.pretrained": str(half.workdir), "rounds": 2}
        assert line in told(make_study, tiny(**STILL | given | changes))
