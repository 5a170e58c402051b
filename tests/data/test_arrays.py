"""What a data set is made of the arrays of a source: kinds of targets, owners, strata, and the moments."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays as drawn

from mdfl_jax.core.errors import UserError
from mdfl_jax.data.dataset import Targets, as_dataset, default_strata, hold_out, sample_moments, subset, target_moments
from mdfl_jax.tasks import device_data


def made(x, y, **more):
    """A data set whose test samples are the first four training samples."""
    return as_dataset("mine", "mine", {"x_train": x, "y_train": y, "x_test": x[:4], "y_test": y[:4], **more})


RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 5))
TOKENS = RNG.integers(0, 9, (12, 6))


@pytest.mark.parametrize(
    ("x", "y", "kind", "dtype", "shape", "classes"),
    [
        (X, np.arange(12) % 3, Targets.LABELS, np.int32, (12,), 3),
        (X, np.arange(12)[:, None] % 3, Targets.LABELS, np.int32, (12,), 3),
        (X, RNG.normal(size=12), Targets.NUMBERS, np.float32, (12, 1), 1),
        (X, RNG.normal(size=(12, 2)), Targets.NUMBERS, np.float32, (12, 2), 2),
        (X, RNG.integers(0, 2, (12, 4)).astype(bool), Targets.FLAGS, bool, (12, 4), 4),
        (TOKENS, TOKENS, Targets.POSITIONS, np.int32, (12, 6), 9),
        (TOKENS, np.arange(12) % 3, Targets.LABELS, np.int32, (12,), 3),
        (RNG.normal(size=(12, 6, 2)), TOKENS - 1, Targets.POSITIONS, np.int32, (12, 6), 8),
    ],
)
def test_the_targets_tell_their_kind(x, y, kind, dtype, shape, classes):
    data = made(x, y)
    assert (data.targets, data.y_train.dtype, data.y_train.shape, data.num_classes) == (kind, dtype, shape, classes)
    np.testing.assert_array_equal(data.y_train.reshape(y.shape), y.astype(dtype))
    assert data.vocabulary == (9 if x is TOKENS else 0)
    assert data.x_train.dtype == (np.int32 if x is TOKENS else np.float32)


def test_a_one_hot_matrix_of_tabular_data_is_refused():
    """Also where it has as many columns as there are features: [n, F] is no sequence."""
    with pytest.raises(UserError, match=r"y_train is int64 \[12, 5\]; allowed: \[n\] or \[n, 1\].*bool for several"):
        made(X, np.eye(5, dtype=int)[np.arange(12) % 5])


def test_vocabulary_and_classes_count_all_splits():
    more = {"x_validation": np.full((2, 6), 20), "y_validation": np.full((2, 6), 30)}
    data = made(TOKENS, TOKENS, **more)
    assert (data.vocabulary, data.num_classes, len(data.x_validation)) == (21, 31, 2)
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


def test_given_strata_are_those_of_the_partitions_and_are_held_out_with_their_samples():
    data = made(X, RNG.normal(size=12), stratum=np.repeat([5, 1], 6))
    assert data.strata.tolist() == [1] * 6 + [0] * 6
    assert data.num_strata == 2
    held = hold_out(data, 6)
    assert held.strata.tolist() == [1] * 3 + [0] * 3
    of = {tuple(row): y for row, y in zip(data.x_train.tolist(), data.y_train.tolist())}
    for x, y in ((held.x_train, held.y_train), (held.x_validation, held.y_validation)):
        assert [of[tuple(row)] for row in x.tolist()] == y.tolist()


@settings(deadline=None)
@given(st.lists(st.integers(0, 5), min_size=2, max_size=60), st.data())
def test_validation_samples_are_the_share_of_each_class(labels, more):
    """Whatever the order of the labels in the file. No sample is lost, and the draw is always the same."""
    labels, n = np.array(labels), len(labels)
    count = more.draw(st.integers(1, n - 1))
    data = made(np.arange(n, dtype=float)[:, None], labels)
    held, again = hold_out(data, count), hold_out(data, count)
    np.testing.assert_array_equal(held.x_validation, again.x_validation)
    assert len(held.y_validation) == count
    assert sorted([*held.x_train[:, 0], *held.x_validation[:, 0]]) == list(range(n))
    np.testing.assert_array_equal(labels[held.x_validation[:, 0].astype(int)], held.y_validation)
    exact = np.bincount(labels) * count / n
    assert (abs(np.bincount(held.y_validation, minlength=len(exact)) - exact) < 1).all()


def test_validation_samples_of_labels_in_turn_are_drawn():
    """Every tenth sample was held out before: all of one class, and nothing of the others."""
    data = made(np.arange(600, dtype=float)[:, None], np.arange(600) % 10)
    held = hold_out(data, 60)
    assert np.bincount(held.y_validation).tolist() == [6] * 10
    assert np.bincount(held.y_train).tolist() == [54] * 10
    gaps = np.diff(held.x_validation[held.y_validation == 0, 0])
    assert len(np.unique(gaps)) > 2  # no pattern in the file can be the same as that of the drawn samples


def test_numbers_that_single_precision_would_merge_are_measured_from_their_mean():
    """Of samples and of a regression's targets, in all splits; other columns stay as they are."""
    times = 1_700_000_000 + np.arange(30.0)
    x, y = np.stack([times, RNG.normal(size=30)], axis=1), np.stack([np.arange(30.0), times * 1000], axis=1)
    arrays = {"x_train": x[:20], "y_train": y[:20], "x_test": x[20:], "y_test": y[20:]}
    data = as_dataset("mine", "mine", arrays)
    np.testing.assert_array_equal(np.concatenate([data.x_train, data.x_test])[:, 0], np.arange(30) - 9.5)
    np.testing.assert_array_equal(data.x_train[:, 1], x[:20, 1].astype(np.float32))
    np.testing.assert_array_equal(data.y_train[:, 0], np.arange(20))
    np.testing.assert_array_equal(np.diff(data.y_train[:, 1]), 1000)
    assert data.about.startswith("feature 0 minus its mean, since float32 is too coarse; target 1 minus its mean")
    sure = as_dataset("mine", "mine", {key: of % 1000 for key, of in arrays.items()})
    assert sure.about == ""


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(3, 8, 8), (1, 6, 6), (3, 5, 7)])
def test_channels_first_are_read_where_it_is_said(shape, dtype):
    first = RNG.integers(0, 256, (12, *shape)).astype(dtype)
    last = made(np.moveaxis(first, 1, -1), np.arange(12) % 3)
    arrays = {"x_train": first, "y_train": np.arange(12) % 3, "x_test": first[:4], "y_test": np.arange(4) % 3}
    for key, of in as_dataset("mine", "mine", arrays, layout="channels_first")._asdict().items():
        np.testing.assert_array_equal(of, getattr(last, key))
    with pytest.raises(UserError, match=r"x_train is .*, which looks like channels first; data\.layout=channels_first"):
        as_dataset("mine", "mine", arrays)
    as_it_is = as_dataset("mine", "mine", arrays, layout="channels_last")
    np.testing.assert_array_equal(as_it_is.x_train, first)
    with pytest.raises(UserError, match=r"data\.layout is channels_first, so it must be"):
        as_dataset("mine", "mine", {**arrays, "x_train": first[:, 0], "x_test": first[:4, 0]}, layout="channels_first")


@pytest.mark.parametrize("shape", [(8, 8, 1), (32, 32, 3), (5, 5, 4)])
def test_channels_that_stand_behind_are_not_moved(shape):
    """As those of the shipped digits: of 8 x 8 x 1 they would be eight, of images of 8 x 1."""
    x, y = np.zeros((10, *shape), np.uint8), np.arange(10)
    arrays = {"x_train": x, "y_train": y, "x_test": x, "y_test": y}
    last = (
        r"x_train is uint8 .*, which has its channels last; data\.layout is channels_first, and must be channels_last"
    )
    with pytest.raises(UserError, match=last):
        as_dataset("mine", "mine", arrays, layout="channels_first")
    assert as_dataset("mine", "mine", arrays, layout="channels_last").x_train.shape == x.shape


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


def test_what_is_not_normalised():
    assert sample_moments(made(TOKENS, TOKENS)) is None
    assert target_moments(made(X, np.zeros(12, int))) is None
    raw = made(X, RNG.normal(size=12))._replace(normalize="none")
    assert (sample_moments(raw), target_moments(raw)) == (None, None)
    np.testing.assert_array_equal(device_data(raw).y_train, raw.y_train)


def test_bytes_are_normalised_by_channel_or_feature():
    for shape in ((12, 4, 4, 3), (12, 5)):
        x = RNG.integers(0, 256, shape, np.uint8)
        mean, std = sample_moments(made(x, np.zeros(12, int)))
        rows = x.reshape(-1, shape[-1]).astype(float)
        np.testing.assert_allclose(mean, rows.mean(axis=0), rtol=1e-6)
        np.testing.assert_allclose(std, rows.std(axis=0), rtol=1e-6)
