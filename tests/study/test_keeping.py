"""The models that a study keeps: those that plain flax evaluates to the accuracies of the study, whatever happened."""

import flax.linen as nn
import jax
import numpy as np
import pytest
from safetensors.numpy import load_file
from tiny import run_study

import mdfl_jax
from mdfl_jax import Results
from mdfl_jax.config.checks import Save, parse_save
from mdfl_jax.core.errors import UserError
from mdfl_jax.data.sources import load
from mdfl_jax.models import MODELS, adapt
from mdfl_jax.results.lines import accuracy_of
from mdfl_jax.results.results import models_of
from mdfl_jax.storage.model_files import read_header
from mdfl_jax.study import make_study
from mdfl_jax.study.batch import Keeper, Kept

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


def test_the_field_is_parsed_and_needs_a_workdir(tiny):
    assert parse_save("", 6, 2) == Save()
    assert parse_save("every:4", 6, 2) == Save("every", 4)
    assert [save.files_of_a_run(6) for save in (Save(), Save("best"), Save("every", 4), Save("every", 2))] == [
        0,
        1,
        1,
        3,
    ]
    with pytest.raises(UserError, match="save is 'best'; kept models are files in a workdir, and none is given"):
        mdfl_jax.run(tiny(**STUDY, save="best"), progress=False)


@pytest.mark.long
def test_the_last_models_have_the_accuracies_of_the_study(studies):
    results = studies("final")
    for point in results.points:
        for s, seed in enumerate(results.seeds):
            models = results.models(point, seed)
            np.testing.assert_allclose(accuracies(models), results.array("accuracy", point)[s, -1], atol=1e-6)
            mean = jax.tree.map(lambda leaf: leaf.mean(axis=0)[None], models)
            judged = results.array("mean_model_accuracy", point)[s, -1]
            np.testing.assert_allclose(accuracies(mean)[0], judged, atol=1e-6)
            ours = jax.tree.map(lambda leaf: leaf[None], results.model(point, seed))
            np.testing.assert_allclose(accuracies(ours)[0], judged, atol=1e-6)


@pytest.mark.long
def test_the_best_models_are_those_of_the_best_evaluation(studies):
    results, not_last = studies("best"), 0
    for point in results.points:
        means = results.array("accuracy", point).mean(axis=2, dtype=np.float64)  # [S, E]
        for s, seed in enumerate(results.seeds):
            best = int(np.argmax(means[s]))
            not_last += best < means.shape[1] - 1
            header, _ = read_header(file_of(results, point, seed))
            assert (header.point, header.seed, header.round) == (point, seed, 2 * best)
            assert header.accuracy == means[s, best]
            found = accuracies(results.models(point, seed))
            np.testing.assert_allclose(found, results.array("accuracy", point)[s, best], atol=1e-6)
    assert not_last  # or the test would not tell the best from the last


@pytest.mark.long
def test_every_k_rounds_there_are_models(studies):
    results = studies("every:2")
    for s, seed in enumerate(results.seeds):
        for e in (1, 2, 3):
            found = accuracies(results.models(1, seed, round=2 * e))
            np.testing.assert_allclose(found, results.array("accuracy", 1)[s, e], atol=1e-6)
    assert len(list(results.workdir.glob("models/*"))) == 2 * 3 * 3
    final = studies("final")
    for name, leaf in load_file(file_of(final, 1, 2)).items():
        np.testing.assert_array_equal(leaf, results.models(1, 2)["params"]["Dense_0"][name.rpartition("/")[2]])


@pytest.mark.long
def test_over_a_mesh_there_are_no_models_of_padding_clients(tiny, studies, tmp_path):
    """Six clients on four devices are eight rows."""
    found = go(tiny(**STUDY, save="best", **{"engine.client_devices": 4}), tmp_path / "run")
    for point in found.points:
        for s, seed in enumerate(found.seeds):
            models = found.models(point, seed)
            assert {leaf.shape[0] for leaf in jax.tree.leaves(models)} == {6}
            header, _ = read_header(file_of(found, point, seed))
            kept = found.array("accuracy", point)[s, header.round // 2]
            np.testing.assert_allclose(accuracies(models), kept, atol=1e-6)


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


def test_a_diverged_evaluation_is_never_the_best():
    class History(dict):
        def __init__(self, values, at_round):
            super().__init__(accuracy=np.array(values, np.float32)[:, None, None])
            self.round = np.array([[at_round]] * len(values))

    keeper = Keeper(Save("best"), "clients", None, lambda: None)
    keeper._take = lambda metrics, rows: [
        Kept(i, int(metrics.round[0, -1]), float(accuracy_of(metrics, "clients")[i, -1]), {}) for i in rows
    ]
    nan = np.nan
    history = [[0.1, nan, 0.3, nan], [0.1, 0.2, nan, nan], [nan, 0.1, 0.3, nan], [0.5, nan, 0.2, nan]]
    keeper.start(History(history[0], 0), None, False)
    for e, values in enumerate(history[1:], 1):
        kept = keeper.see(History(values, 2 * e), e == 3)
    assert [(one.run, one.round) for one in sorted(kept)] == [(0, 6), (1, 2), (2, 0), (3, 0)]


@pytest.mark.long
def test_a_study_that_keeps_nothing_says_so_and_has_no_files(tiny, tmp_path):
    results = go(tiny(seeds=1, rounds=2), tmp_path / "run")
    assert not (tmp_path / "run" / "models").exists()
    with pytest.raises(UserError, match="the study has kept no models: its field save is ''; with save=final"):
        results.models()


@pytest.mark.long
def test_mistakes_in_asking_for_models_are_one_line(studies):
    results = studies("final")
    mistakes = {
        "unknown point 'statc' .did you mean 'static'": lambda: results.models("statc"),
        "the point is 2; the study has 2 sweep points, with the indices 0 to 1": lambda: results.model(2),
        "the seed is 3; the study has 0, 1, 2": lambda: results.models(0, 3),
        "the round is 4; with save=final those of round 6 are kept": lambda: results.models(0, 0, round=4),
        "the study has no workdir": lambda: results.without_workdir().models(),
    }
    for line, ask in mistakes.items():
        with pytest.raises(UserError, match=line):
            ask()
    path = file_of(results, "static", 1)
    held = path.read_bytes()
    path.unlink()
    with pytest.raises(UserError, match="the file of the models of 'static', seed 1, is gone"):
        results.models(0, 1)
    path.write_bytes(held)
