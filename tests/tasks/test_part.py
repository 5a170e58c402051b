"""A part of the test samples, and models in groups: against plain NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from array_sizes import shapes_in
from hypothesis import given, settings
from hypothesis import strategies as st
from small import toy_dataset, toy_task

from mdfl_jax.data.dataset import Dataset, Targets
from mdfl_jax.models import make_model
from mdfl_jax.tasks import classification
from mdfl_jax.tasks.scoring import MANY_MODELS, SAMPLE_GROUPS, draw_part

DRAW = jax.jit(lambda seed, labels, count: draw_part(jax.random.key(seed), labels, count), static_argnums=2)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 8), st.sampled_from((7, 40)), st.integers(0, 999))
def test_every_label_has_its_share(num_labels, count, seed):
    labels = np.random.default_rng(seed).integers(0, num_labels, 40)  # one compiled program for each count
    drawn = np.asarray(DRAW(seed, jnp.asarray(labels), count))
    assert len(set(drawn.tolist())) == count
    for label, size in enumerate(np.bincount(labels)):
        exact = count * size / len(labels)
        assert np.floor(exact) <= (labels[drawn] == label).sum() <= np.ceil(exact)
    assert (np.diff(labels[drawn]) >= 0).all()


def test_test_samples_are_drawn_alike_and_a_large_part_does_not_overflow():
    labels = jnp.asarray([0] * 3 + [1] * 11 + [2] * 9)
    draw = jax.jit(jax.vmap(lambda key: draw_part(key, labels, 7)))
    often = np.bincount(np.asarray(draw(jax.random.split(jax.random.key(0), 6000))).ravel(), minlength=23) / 6000
    np.testing.assert_allclose(often, 7 / 23, atol=0.03)
    drawn = np.asarray(DRAW(1, jnp.zeros(70_000, jnp.int32), 65_000))
    assert drawn.min() >= 0
    assert len(np.unique(drawn)) == 65_000


def models_of(task, count):
    return jax.vmap(lambda key: task.init(task.data, key))(jax.random.split(jax.random.key(0), count))


def logits_of(task, models):
    """[M, T, C], gathered by a tally of all test samples."""
    total = len(task.data.y_test)
    gathered = task.scoring.over_test(
        task.data, None, models, lambda outputs, targets, mask: outputs * mask[None, :, None]
    )
    assert gathered.shape[1] >= total, "one chunk holds all test samples of the toy data set"
    return np.asarray(gathered, np.float64)[:, :total]


def test_the_scores_of_a_part_against_loops():
    task = toy_task(5, dataset=toy_dataset(num_test=45))
    models, key = models_of(task, 5), jax.random.key(7)
    logits, labels = logits_of(task, models), np.asarray(task.data.y_test)
    score, without = jax.jit(lambda m: task.scoring.part.evaluate(task.data, None, m, key, 33))(models)
    sample = np.asarray(draw_part(key, jnp.asarray(labels), 33))
    for i in range(5):
        right = [logits[i, k].argmax() == labels[k] for k in sample]
        losses = [np.log(np.exp(logits[i, k]).sum()) - logits[i, k, labels[k]] for k in sample]
        assert score.accuracy[i] == pytest.approx(np.mean(right), rel=1e-6)
        assert score.loss[i] == pytest.approx(np.mean(losses), rel=1e-4)
        for g in range(SAMPLE_GROUPS):
            rest = [r for place, r in enumerate(right) if place % SAMPLE_GROUPS != g]
            assert without[g, i] == pytest.approx(np.mean(rest), rel=1e-6)
    assert np.ptp(np.asarray(without)) > 0


def test_the_scores_of_a_part_of_a_regression():
    """R^2 is no mean over samples: without a group it is that of the others, with their own total variance."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(90, 3)).astype(np.float32)
    y = (x @ rng.normal(size=(3, 2)) + 0.3 * rng.normal(size=(90, 2))).astype(np.float32)
    data = Dataset("made", x[:40], y[:40], x[40:], y[40:], 2, targets=Targets.NUMBERS)
    task = classification(data, make_model("linear", 2), 4)
    truth, *_ = np.linalg.lstsq(np.asarray(x[:40]), np.asarray(task.data.y_train), rcond=None)
    models = models_of(task, 4)
    fitted = jax.tree.map(lambda p: jnp.zeros_like(p) if p.ndim == 2 else jnp.broadcast_to(truth, p.shape), models)
    models = jax.tree.map(lambda a, b: a + 0.1 * b, fitted, models)
    key, outputs = jax.random.key(2), logits_of(task, models)
    score, without = jax.jit(lambda m: task.scoring.part.evaluate(task.data, None, m, key, 30))(models)
    sample = np.asarray(draw_part(key, jnp.zeros(50, jnp.int32), 30))
    targets = np.asarray(task.data.y_test, np.float64)

    def r2(i, kept):
        error = np.square(outputs[i, kept] - targets[kept]).sum(axis=0)
        return max(np.mean(1 - error / np.square(targets[kept] - targets[kept].mean(axis=0)).sum(axis=0)), 0)

    for i in range(4):
        assert score.accuracy[i] == pytest.approx(r2(i, sample), rel=1e-4)
        for g in (0, 3, SAMPLE_GROUPS - 1):
            assert without[g, i] == pytest.approx(r2(i, sample[np.arange(30) % SAMPLE_GROUPS != g]), rel=1e-4)
    assert np.asarray(score.accuracy).min() > 0.1


def test_many_models_have_the_same_scores_and_no_array_of_all_models_and_samples():
    task, total = toy_task(5, dataset=toy_dataset(num_test=310)), 310
    count = MANY_MODELS + 88
    models = models_of(task, count)
    evaluate = jax.jit(lambda m: task.evaluate(task.data, None, m))
    found = evaluate(models)
    parts = [evaluate(jax.tree.map(lambda x, i=i: x[i : i + 60], models)) for i in range(0, count, 60)]
    for name in ("accuracy", "loss"):
        expected = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_allclose(getattr(found, name), expected, rtol=1e-5)
    shapes = shapes_in(jax.make_jaxpr(lambda m: task.evaluate(task.data, None, m))(models).jaxpr)
    of_models = max(x.size for x in jax.tree.leaves(models))
    assert max(map(np.prod, shapes)) <= max(of_models, 640 * 310 * 3), "a group's outputs at most"
    assert not [shape for shape in shapes if count in shape and total in shape]
