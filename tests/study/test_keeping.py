"""The models that a study keeps: those that plain flax evaluates to the accuracies of the study, whatever happened."""

import flax.linen as nn
import jax
import numpy as np
import pytest
from small import told
from tiny import run_study

import mdfl_jax
from mdfl_jax import Results
from mdfl_jax.data.sources import load
from mdfl_jax.models import MODELS, adapt
from mdfl_jax.results.results import models_of
from mdfl_jax.storage.model_files import read_header
from mdfl_jax.study import make_study

# Two batches of three runs and three evaluations each. The step is so long that the accuracy goes up and down, so that
# the best evaluation of a run is not always the last.
STUDY = {
    "sweep": "network.mobility=static,random_movement",
    "seeds": 3,
    "engine.runs_per_batch": 3,
    "rounds": 6,
    "algorithm.batch_size": 2,
    "algorithm.momentum": 0.9,
    "algorithm.lr": 1.0,
}


def go(config, folder):
    """What launch.sweep does, and the results."""
    run_study(make_study(config), folder)
    return Results.load(folder)


def file_of(results, point, seed):
    """The only file of models of a run."""
    run = results.manifest["points"][results.index_of(point)]["runs"][results.seeds_of(point).index(seed)]
    (path,) = models_of(results.workdir, run).values()
    return path


def accuracies(models):
    """The test accuracies of linear models, [N], by plain flax: an oracle that shares nothing with the study."""
    digits = load("digits", limit_train=120, limit_test=60)
    pixels = digits.x_train.astype(np.float64)
    images = (digits.x_test - pixels.mean(axis=(0, 1, 2))) / pixels.std(axis=(0, 1, 2))

    class Linear(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.Dense(10)(x.reshape(len(x), -1))

    logits = jax.vmap(lambda variables: Linear().apply(variables, images.astype(np.float32)))(models)
    return np.mean(np.argmax(logits, axis=-1) == digits.y_test, axis=1)


@pytest.fixture(scope="module")
def studies(tiny, tmp_path_factory):
    """The study with each way of keeping models."""
    made = {}

    def of(save):
        if save not in made:
            made[save] = go(tiny(**STUDY, save=save), tmp_path_factory.mktemp("kept") / "run")
        return made[save]

    return of


@pytest.mark.long
def test_kept_models_have_the_accuracies_of_the_study(studies):
    final, best, every = (studies(save) for save in ("final", "best", "every:2"))
    assert len(list(every.workdir.glob("models/*"))) == 2 * 3 * 3
    not_last = 0
    for point in final.points:
        accuracy = final.array("accuracy", point)
        means = accuracy.mean(axis=2, dtype=np.float64)  # [S, E]
        for s, seed in enumerate(final.seeds):
            models = final.models(point, seed)
            np.testing.assert_allclose(accuracies(models), accuracy[s, -1], atol=1e-6)
            judged = final.array("mean_model_accuracy", point)[s, -1]
            for one in (jax.tree.map(lambda leaf: leaf.mean(axis=0), models), final.model(point, seed)):
                np.testing.assert_allclose(accuracies(jax.tree.map(lambda x: x[None], one))[0], judged, atol=1e-6)
            at = int(np.argmax(means[s]))
            not_last += at < means.shape[1] - 1
            header, _ = read_header(file_of(best, point, seed))
            assert (header.point, header.seed, header.round, header.accuracy) == (point, seed, 2 * at, means[s, at])
            np.testing.assert_allclose(accuracies(best.models(point, seed)), accuracy[s, at], atol=1e-6)
            for e in (1, 2, 3):
                found = accuracies(every.models(point, seed, round=2 * e))
                np.testing.assert_allclose(found, accuracy[s, e], atol=1e-6)
    assert not_last  # or the test would not tell the best from the last


@pytest.mark.long
@pytest.mark.usefixtures("unregistered")
def test_a_server_and_batch_statistics_are_kept(tiny, tmp_path):
    class Normed(nn.Module):
        @nn.compact
        def __call__(self, x, train):
            x = nn.BatchNorm(use_running_average=not train, name="a/b~")(x.reshape(len(x), -1))
            return nn.Dense(10)(x)

    MODELS.register("normed")(lambda settings: adapt(Normed()))
    server = {"algorithm.name": "server_fedavg", "server.pattern": "fixed", "algorithm.batch_size": 8}
    results = go(tiny(save="final", seeds=1, rounds=2, **server, **{"model.name": "normed"}), tmp_path / "run")
    models, one = results.models(), results.model()
    assert set(models) == set(one) == {"params", "batch_stats"}
    jax.tree.map(lambda a, b: np.testing.assert_equal(a.shape, (6, *b.shape)), models, one)
    digits = load("digits", limit_train=120, limit_test=60)
    pixels = digits.x_train.astype(np.float64)
    images = ((digits.x_test - pixels.mean()) / pixels.std()).astype(np.float32)
    inner = {collection: tree["inner"] for collection, tree in one.items()}  # of the module that `adapt` wraps
    logits = Normed().apply(inner, images, train=False)
    accuracy = np.mean(np.argmax(logits, axis=1) == digits.y_test)
    np.testing.assert_allclose(accuracy, results.array("mean_model_accuracy")[0, -1], atol=1e-6)


@pytest.mark.long
def test_mistakes_in_asking_for_models_are_one_line(tiny, studies, tmp_path):
    results, nothing = studies("final"), go(tiny(seeds=1, rounds=2), tmp_path / "run")
    assert not (tmp_path / "run" / "models").exists()
    path = file_of(results, "static", 1)
    path.rename(tmp_path / "held")
    for line, ask in {
        "the study has kept no models: its field save is ''; with save=final": nothing.models,
        "the seed is 3; the study has 0, 1, 2": lambda: results.models(0, 3),
        "the round is 4; with save=final those of round 6 are kept": lambda: results.models(0, 0, round=4),
        "the study has no workdir": lambda: results.without_workdir().models(),
        "the file of the models of 'static', seed 1, is gone": lambda: results.models(0, 1),
        "save is 'best'; kept models are files in a workdir": lambda: mdfl_jax.run(tiny(save="best"), progress=False),
    }.items():
        assert line in told(ask)
    (tmp_path / "held").rename(path)
