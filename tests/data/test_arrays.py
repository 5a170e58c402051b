"""What a data set is made of the arrays of a source: kinds of targets, owners, strata, and the moments."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays as drawn

from mdfl_jax.core.errors import UserError
from mdfl_jax.data.dataset import Targets, as_dataset, default_strata, hold_out, sample_moments, subset, target_moments
from mdfl_jax.tasks import device_data


def made(x, y, layout="auto", **more):
    """A data set whose test samples are the first four training samples."""
    arrays = {"x_train": x, "y_train": y, "x_test": x[:4], "y_test": y[:4], **more}
    return as_dataset("mine", "mine", arrays, layout=layout)


RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 5))
TOKENS = RNG.integers(0, 9, (12, 6))


KINDS = [
    (X, np.arange(12) % 3, Targets.LABELS, np.int32, (12,), 3),
    (X, np.arange(12)[:, None] % 3, Targets.LABELS, np.int32, (12,), 3),
    (X, RNG.normal(size=12), Targets.NUMBERS, np.float32, (12, 1), 1),
    (X, RNG.normal(size=(12, 2)), Targets.NUMBERS, np.float32, (12, 2), 2),
    (X, RNG.integers(0, 2, (12, 4)).astype(bool), Targets.FLAGS, bool, (12, 4), 4),
    (TOKENS, TOKENS, Targets.POSITIONS, np.int32, (12, 6), 9),
    (TOKENS, np.arange(12) % 3, Targets.LABELS, np.int32, (12,), 3),
]


def test_the_targets_tell_their_kind():
    for x, y, kind, dtype, shape, classes in KINDS:
        data = made(x, y)
        assert (data.targets, data.y_train.dtype, data.y_train.shape, data.num_classes) == (kind, dtype, shape, classes)
        np.testing.assert_array_equal(data.y_train.reshape(y.shape), y.astype(dtype))
        assert data.vocabulary == (9 if x is TOKENS else 0)
        assert data.x_train.dtype == (np.int32 if x is TOKENS else np.float32)
    more = {"x_validation": np.full((2, 6), 20), "y_validation": np.full((2, 6), 30)}
    data = made(TOKENS, TOKENS, **more)
    assert (data.vocabulary, data.num_classes, len(data.x_validation)) == (21, 31, 2)  # all splits count
    with pytest.raises(UserError, match="y_train has no labels, only -1"):
        made(TOKENS, np.full((12, 6), -1))


def test_owners_of_test_samples_have_the_numbers_of_those_of_training_samples():
    data = made(X, np.zeros(12, int), client=np.repeat([7, 30, 2], 4), client_test=np.array([2, 5, 30, 99]))
    assert data.client.tolist() == [1] * 4 + [2] * 4 + [0] * 4
    assert data.client_test.tolist() == [0, -1, 2, -1]
    few = subset(data, np.arange(12) >= 4)  # the owner 7 is left out, and on the device there are no gaps
    on_device = device_data(few)
    assert on_device.natural_owner.tolist() == [1] * 4 + [0] * 4
    assert on_device.natural_owner_test.tolist() == [0, -1, 1, -1]


def test_default_strata():
    y = np.array([[3.0, 0], [1, 9], [2, 5], [0.5, 7]], np.float32)
    assert default_strata(y, Targets.NUMBERS).tolist() == [3, 1, 2, 0]  # four samples: four groups of one
    many = RNG.normal(size=(101, 1))
    decile = default_strata(many, Targets.NUMBERS)
    assert sorted(np.bincount(decile)) == [10] * 9 + [11]
    assert all(many[decile == k].max() < many[decile == k + 1].min() for k in range(9))
    flags = np.array([[0, 1, 1], [1, 0, 1], [0, 0, 0]], bool)
    assert default_strata(flags, Targets.FLAGS).tolist() == [1, 0, 3]
    assert default_strata(TOKENS, Targets.POSITIONS).tolist() == [0] * 12
    assert default_strata(np.arange(3), Targets.LABELS) is None
    data = made(X, RNG.normal(size=12), stratum=np.repeat([5, 1], 6))
    assert data.strata.tolist() == [1] * 6 + [0] * 6
    assert hold_out(data, 6).strata.tolist() == [1] * 3 + [0] * 3


@settings(deadline=None)
@given(st.lists(st.integers(0, 5), min_size=2, max_size=60), st.data())
def test_validation_samples_are_the_share_of_each_class(labels, more):
    """Whatever the order of the labels in the file. No sample is lost, and the draw is always the same."""
    labels, n = np.unique(labels, return_inverse=True)[1], len(labels)
    count = more.draw(st.integers(1, n - 1))
    data = made(np.arange(n, dtype=float)[:, None], labels)
    held, again = hold_out(data, count), hold_out(data, count)
    np.testing.assert_array_equal(held.x_validation, again.x_validation)
    assert len(held.y_validation) == count
    assert sorted([*held.x_train[:, 0], *held.x_validation[:, 0]]) == list(range(n))
    np.testing.assert_array_equal(labels[held.x_validation[:, 0].astype(int)], held.y_validation)
    exact = np.bincount(labels) * count / n
    assert (abs(np.bincount(held.y_validation, minlength=len(exact)) - exact) < 1).all()


def test_channels_first_are_read_where_it_is_said():
    first, labels = RNG.integers(0, 256, (12, 3, 8, 8)).astype(np.uint8), np.arange(12) % 3
    last, read = made(np.moveaxis(first, 1, -1), labels), made(first, labels, layout="channels_first")
    for found, wanted in zip(read, last, strict=True):
        np.testing.assert_array_equal(found, wanted)
    with pytest.raises(UserError, match=r"x_train is .*, which looks like channels first; data\.layout=channels_first"):
        made(first, labels)
    np.testing.assert_array_equal(made(first, labels, layout="channels_last").x_train, first)
    with pytest.raises(UserError, match=r", which has its channels last; data\.layout is channels_first, and must be"):
        made(np.moveaxis(first, 1, -1), labels, layout="channels_first")


@settings(deadline=None)
@given(drawn(np.float32, (7, 3), elements=st.floats(-100, 100, width=16)))
def test_float_features_and_targets_have_mean_zero_and_deviation_one(x):
    x[:, 2] = 0.1  # a constant feature stays as it is, but for its mean
    data = made(x, x)
    mean, std = sample_moments(data)
    np.testing.assert_allclose(mean, x.astype(np.float64).mean(axis=0), rtol=1e-5, atol=1e-5)
    expected = np.where(np.ptp(x, axis=0) == 0, 1, x.astype(np.float64).std(axis=0))
    np.testing.assert_allclose(std, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(target_moments(data), (mean, std))
    on_device = device_data(data)
    np.testing.assert_allclose(on_device.y_train, (x - mean) / std, rtol=1e-6)
    np.testing.assert_array_equal(on_device.x_train, x)  # samples are normalised in each step


def test_bytes_are_normalised_by_channel_or_feature_and_labels_and_tokens_are_not():
    for shape in ((12, 4, 4, 3), (12, 5)):
        x = RNG.integers(0, 256, shape, np.uint8)
        mean, std = sample_moments(made(x, np.zeros(12, int)))
        rows = x.reshape(-1, shape[-1]).astype(float)
        np.testing.assert_allclose(mean, rows.mean(axis=0), rtol=1e-6)
        np.testing.assert_allclose(std, rows.std(axis=0), rtol=1e-6)
    assert sample_moments(made(TOKENS, TOKENS)) is None
    assert target_moments(made(X, np.zeros(12, int))) is None
    raw = made(X, RNG.normal(size=12))._replace(normalize="none")
    assert (sample_moments(raw), target_moments(raw)) == (None, None)
    np.testing.assert_array_equal(device_data(raw).y_train, raw.y_train)
