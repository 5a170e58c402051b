"""The models that a study keeps: plain flax evaluates them to its accuracies, and other studies start from them."""

import flax.linen as nn
import jax
import numpy as np
import pytest
from made_study import made
from small import told
from studies import go

import mdfl_jax
from mdfl_jax import Results
from mdfl_jax.core.errors import UserError
from mdfl_jax.data.sources import load
from mdfl_jax.models import MODELS, adapt
from mdfl_jax.results.results import models_of
from mdfl_jax.storage.model_files import read_header
from mdfl_jax.study import make_study

# Nothing of the state is left out between two halves: plain steps on all samples, links that never change, and no
# draws in a round.
STILL = {"sweep": "network.mobility=static", "seeds": 2, "eval_every": 2, "engine.runs_per_batch": 2}
LONG = {"sweep": "network.mobility=static,random_movement", "seeds": 3, "engine.runs_per_batch": 3, "rounds": 6}
LONG |= {"algorithm.batch_size": 2, "algorithm.momentum": 0.9, "algorithm.lr": 1.0}
SERVER = {"algorithm.name": "server_fedavg", "server.pattern": "fixed", "seeds": 1, "rounds": 2}


def results(folder, **changes):
    """What `mdfl sweep` does, and the results."""
    go(folder, **changes)
    return Results.load(folder)


def images_of():
    """The test images of the studies as they are given to models, and their labels."""
    digits = load("digits", limit_train=120, limit_test=60)
    pixels = digits.x_train.astype(np.float64)
    return ((digits.x_test - pixels.mean()) / pixels.std()).astype(np.float32), digits.y_test


def accuracies(models):
    """The test accuracies of linear models, [N], by plain flax: an oracle that shares nothing with the study."""
    images, labels = images_of()

    class Linear(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.Dense(10)(x.reshape(len(x), -1))

    logits = jax.vmap(lambda variables: Linear().apply(variables, images))(models)
    return np.mean(np.argmax(logits, axis=-1) == labels, axis=1)


@pytest.fixture(scope="module")
def half(tiny, tmp_path_factory):
    """Four rounds, of which the models after two and after four are kept."""
    return results(tmp_path_factory.mktemp("half") / "run", **STILL, rounds=4, save="every:2")


@pytest.mark.long
def test_kept_models_have_the_accuracies_of_the_study(tiny, tmp_path):
    final, every = (results(tmp_path / save, **LONG, save=save) for save in ("final", "every:2"))
    assert len(list(every.workdir.glob("models/*"))) == 2 * 3 * 3
    for p, seed in np.ndindex(2, 3):
        accuracy, models = final.array("accuracy", p)[seed], final.models(p, seed)
        np.testing.assert_allclose(accuracies(models), accuracy[-1], atol=1e-6)
        judged = final.array("mean_model_accuracy", p)[seed, -1]
        for one in (jax.tree.map(lambda leaf: leaf.mean(axis=0), models), final.model(p, seed)):
            np.testing.assert_allclose(accuracies(jax.tree.map(lambda x: x[None], one))[0], judged, atol=1e-6)
        jax.tree.map(np.testing.assert_array_equal, final.run_of(p, seed).models(), models)
        means = accuracy.mean(axis=1, dtype=np.float64)
        (path,) = models_of(final.workdir, final.manifest["points"][p]["runs"][seed]).values()
        header, _ = read_header(path)
        assert (header.point, header.seed) == (final.points[p], seed)
        assert (header.round, header.accuracy) == (6, means[-1])
        for e in (1, 2, 3):
            np.testing.assert_allclose(accuracies(every.models(p, seed, round=2 * e)), accuracy[e], atol=1e-6)


@pytest.mark.long
@pytest.mark.usefixtures("unregistered")
def test_a_server_and_batch_statistics_are_kept(tiny, tmp_path):
    class Normed(nn.Module):
        @nn.compact
        def __call__(self, x, train):
            x = nn.BatchNorm(use_running_average=not train, name="a/b~")(x.reshape(len(x), -1))
            return nn.Dense(10)(x)

    MODELS.register("normed")(lambda settings: adapt(Normed()))
    changes = SERVER | {"algorithm.batch_size": 8, "model.name": "normed"}
    first = results(tmp_path / "first", **changes, save="final")
    models, one = first.models(), first.model()
    assert set(models) == set(one) == {"params", "batch_stats"}
    jax.tree.map(lambda a, b: np.testing.assert_equal(a.shape, (6, *b.shape)), models, one)
    images, labels = images_of()
    inner = {collection: tree["inner"] for collection, tree in one.items()}  # of the module that `adapt` wraps
    accuracy = np.mean(np.argmax(Normed().apply(inner, images, train=False), axis=1) == labels)
    np.testing.assert_allclose(accuracy, first.array("mean_model_accuracy")[0, -1], atol=1e-6)


@pytest.mark.long
def test_a_server_starts_from_its_own_model(tiny, tmp_path):
    first = results(tmp_path / "first", **SERVER, save="final")
    given = {"model.pretrained": str(tmp_path / "first")}
    with pytest.raises(UserError, match=r"pretrained_clients is own; it must be mean: with algorithm.name server_fed"):
        make_study(tiny(**SERVER, **given))
    second = results(tmp_path / "second", **SERVER, **given, **{"model.pretrained_clients": "mean"})
    for key in ("mean_model_loss", "loss"):
        start = second.array(key)[:, 0]
        wanted = first.array("mean_model_loss")[:, -1].reshape(-1, *[1] * (start.ndim - 1))
        np.testing.assert_allclose(start, np.broadcast_to(wanted, start.shape), rtol=1e-6)


def test_two_halves_are_the_whole(tiny, half, tmp_path):
    """Bit by bit, where an algorithm has no memory beside its models and rounds draw nothing."""
    whole = results(tmp_path / "whole", **STILL, rounds=8, save="final")
    rest = results(tmp_path / "rest", **STILL, rounds=4, save="final", **{"model.pretrained": str(half.workdir)})
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
    found = results(tmp_path / "mean", **STILL | given, rounds=2)
    assert found.array("accuracy").shape == (2, 2, 8)
    np.testing.assert_allclose(found.array("accuracy")[:, 0], half.array("mean_model_accuracy")[1, 1], atol=1e-6)
    np.testing.assert_allclose(found.array("consensus_distance")[:, 0], 0, atol=1e-6)
    given = {"model.pretrained": str(half.workdir), "engine.client_devices": 2}
    found = results(tmp_path / "own", **STILL, rounds=2, **given)
    for key in ("loss", "consensus_distance"):
        np.testing.assert_allclose(found.array(key)[:, 0], half.array(key)[:, -1], rtol=1e-5)


@pytest.mark.long
def test_a_point_starts_from_the_point_whose_settings_it_shares(tiny, tmp_path):
    sweep = {"sweep": "network.mobility=static,dcm; algorithm.lr=0.1,0.2", "seeds": 1, "rounds": 2}
    first = results(tmp_path / "first", **sweep, save="final")
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


def test_mistakes_in_asking_for_models_are_one_line(tiny, half, tmp_path):
    held = [path.rename(tmp_path / path.name) for path in half.workdir.glob("models/*-s1-*")]
    nothing = Results.load(made(tmp_path / "run").workdir)
    for line, ask in {
        "the study has kept no models: its field save is ''; with save=final": nothing.models,
        "the seed is 3; the study has 0, 1": lambda: half.models(0, 3),
        "the round is 3; with save=every:2 those of": lambda: half.models(0, 0, round=3),
        "the study has no workdir": lambda: half.without_workdir().models(),
        "the file of the models of 'static', seed 1, is gone": lambda: half.models(0, 1),
        "save is 'final'; checkpoints are files in a workdir": lambda: mdfl_jax.run(tiny(save="final"), progress=False),
    }.items():
        assert line in told(ask)
    for path in held:
        path.rename(half.workdir / "models" / path.name)
