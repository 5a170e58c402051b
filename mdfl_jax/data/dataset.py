"""The type of a data set: samples with their targets, the checks of its arrays, and how they are normalised."""

import zlib
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import NamedTuple

import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.numbering import numbered, numbering

EVERY = 5  # of five samples of a group, the last one is a test sample
DECILES = 10  # groups of a regression's samples, by which partitions of label skew divide
KEYS = ("x_train", "y_train", "x_test", "y_test")
OPTIONAL_KEYS = ("x_validation", "y_validation", "client", "client_test", "stratum")
SPLITS = ("train", "test", "validation")
# Every model has one output per class. So a wrong label such as 10**9 would cause an allocation failure much later.
MAX_CLASSES = 65_536
LABEL = 2**53  # above the largest label of a file
MAX_VOCABULARY = 2**20
SAMPLES = "uint8 grey levels, floats, or tokens [n, T] of whole numbers from 0 with another integer dtype"
ROWS = 65_536  # rows of an array that are converted to numbers of 64 bits at once
SMALLEST, LARGEST = 1e-30, 1e30  # sizes between which sums, products and quotients stay within single precision
_EXACT = 2**24  # single precision has all whole numbers up to this size
COARSE = 2.0**-12  # of a column's deviation; numbers are measured from their mean if single precision is coarser
_FEW = 4  # the most channels that samples may seem to have in front, or behind against data.layout
LAYOUTS = ("auto", "channels_last", "channels_first")
"""The values of the field data.layout: where images have their channels.

auto: behind height and width. Samples that look as if the channels came first are refused.
"""
MODES = ("auto", "none")
"""The values of the field data.normalize.

auto: grey levels and floats are normalised along the last axis, each channel or feature by its mean and standard
deviation over the training samples; so are the targets of a regression. Tokens and labels stay as they are.
none: nothing is normalised.
"""

Moments = tuple[np.ndarray, np.ndarray]


class Targets(Enum):
    """The kinds of targets. The value describes the kind for messages.

    Attributes:
      LABELS: int32 [n], one label a sample.
      POSITIONS: int32 [n, T], one label at each position of a sequence; -1 means none there.
      NUMBERS: float32 [n, K], the targets of a regression.
      FLAGS: bool [n, K], whether each of K labels applies to a sample (multi-label).
    """

    LABELS = "one label a sample (whole numbers [n])"
    POSITIONS = "a label at each position (whole numbers [n, T])"
    NUMBERS = "regression targets (floats [n] or [n, K])"
    FLAGS = "multi-label targets (bool [n, K])"


class Dataset(NamedTuple):
    """Samples and targets in host memory.

    Attributes:
      name: the name of the data source, for messages and reports.
      x_train: [n, ...] uint8 (images [n, H, W, channels], grey levels), float32, or int32 tokens [n, T].
      y_train: the targets in one of the forms of `Targets`.
      x_test: [m, ...], as ``x_train``.
      y_test: [m, ...], as ``y_train``.
      num_classes: C, the number of labels; of a regression, the number K of its targets.
      x_validation: [v, ...], given by the source or taken from the training samples by `hold_out`; None if there are
        none.
      y_validation: [v, ...]; None if there are none.
      client: [n] int32 from 0, the natural owner of each training sample, for example the writer of a digit. It decides
        nothing but the partition ``by_owner`` and ``local_accuracy``. None if the source does not say it.
      client_test: [m] int32, the natural owner of each test sample with the numbers of ``client``; -1 for an owner
        without training samples. None if the source does not say it.
      stratum: [n] int32 from 0, the groups by which partitions divide samples without a label; None for labels.
      targets: the kind of the targets.
      vocabulary: V, if samples are tokens 0 .. V - 1; 0 for other samples.
      normalize: how samples are normalised, one of `MODES`.
      about: what has been made of a file where it does not say it itself, as what each column of a table is; or "".
    """

    name: str
    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    num_classes: int
    x_validation: np.ndarray | None = None
    y_validation: np.ndarray | None = None
    client: np.ndarray | None = None
    client_test: np.ndarray | None = None
    stratum: np.ndarray | None = None
    targets: Targets = Targets.LABELS
    vocabulary: int = 0
    normalize: str = "auto"
    about: str = ""

    @property
    def strata(self) -> np.ndarray:
        """The group of each training sample by which partitions divide, [n] int32 from 0: its label, if it has one."""
        return self.y_train if self.stratum is None else self.stratum

    @property
    def num_strata(self) -> int:
        """The number of groups in `strata`."""
        return self.num_classes if self.stratum is None else int(self.stratum.max()) + 1

    @property
    def are_images(self) -> bool:
        """Whether samples are images of grey levels, uint8 [H, W, channels]."""
        return self.x_train.dtype == np.uint8 and self.x_train.ndim == 4


def facts(dataset: Dataset) -> list[tuple[str, str]]:
    """Return what a data set is, as pairs of words and values."""
    splits = [(split, getattr(dataset, f"x_{split}")) for split in SPLITS]
    lines = [(f"{split} samples", f"{len(x):,}") for split, x in splits if x is not None]
    kind = "tokens" if dataset.vocabulary else "an image" if dataset.are_images else "floats"
    lines.append(("a sample", f"{list(dataset.x_train.shape[1:])}, {kind}"))
    what = ("number" if dataset.targets is Targets.NUMBERS else "label") + "s" * (dataset.num_classes != 1)
    lines.append(("targets", f"{dataset.targets.value}: {dataset.num_classes:,} {what}"))
    if dataset.client is not None:
        lines.append(("owners", f"{len(np.unique(dataset.client)):,}"))
    return lines + [("read as", dataset.about)] * bool(dataset.about)


def numbered_owners(client: np.ndarray, client_test: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
    """Renumber the natural owners of the training samples from 0 without gaps, in the order of their values.

    Args:
      client: [n] int, the owner of each training sample.
      client_test: [m] int, the owner of each test sample; None: not known.

    Returns:
      ([n] int32, [m] int32 with the same numbers, -1 for an owner without training samples; or None).

    >>> numbered_owners(np.array([7, 3, 7]), np.array([3, 5]))
    (array([1, 0, 1], dtype=int32), array([ 0, -1], dtype=int32))
    """
    known, owner = numbered(client)
    if client_test is None:
        return owner.astype(np.int32), None
    place = np.minimum(np.searchsorted(known, client_test), len(known) - 1)
    return owner.astype(np.int32), np.where(known[place] == client_test, place, -1).astype(np.int32)


def default_strata(y: np.ndarray, targets: Targets) -> np.ndarray | None:
    """Group samples by their targets, for partitions that divide by label.

    Args:
      y: the targets of n training samples.
      targets: their kind.

    Returns:
      [n] int32 from 0. Of a regression, it is the decile of the first target (equal targets are in the order of the
      samples). Of multi-label targets, it is the first label that applies, and K if none does. All sequences are in one
      group. None for labels, which are groups themselves.
    """
    if targets is Targets.LABELS:
        return None
    if targets is Targets.POSITIONS:
        return np.zeros(len(y), np.int32)
    if targets is Targets.NUMBERS:
        rank = np.empty(len(y), np.int64)
        rank[np.argsort(y[:, 0], kind="stable")] = np.arange(len(y))
        return (rank * min(DECILES, len(y)) // len(y)).astype(np.int32)
    return np.where(y.any(axis=1), y.argmax(axis=1), y.shape[1]).astype(np.int32)


def evenly_spaced(total: int, count: int) -> np.ndarray:
    """Return ``count`` positions among ``total`` at equal distances, in increasing order.

    >>> evenly_spaced(10, 4)
    array([0, 2, 5, 7])
    """
    return np.arange(count) * total // count


def for_testing(group: np.ndarray) -> np.ndarray:
    """Choose every fifth sample of each group for testing, in the order of the samples.

    Args:
      group: [n] whole numbers.

    Returns:
      [n] bool.
    """
    return rank_in_group(group) % EVERY == EVERY - 1


def rank_in_group(group: np.ndarray) -> np.ndarray:
    """Count the earlier samples of the same group, for each sample: [n] int."""
    order = np.argsort(group, kind="stable")
    ordered = group[order]
    rank = np.empty(len(group), int)
    rank[order] = np.arange(len(group)) - np.searchsorted(ordered, ordered, side="left")
    return rank


def hold_out(dataset: Dataset, count: int) -> Dataset:
    """Take validation samples from the training samples: each stratum gives its share, drawn at random.

    The draw has a key of its own, so the samples are the same for all seeds, and their order in the file does not
    matter. A stratum of m of the n samples gives m v / n of them, rounded up or down.

    Args:
      dataset: a data set without validation samples.
      count: v, the number of validation samples, below the number of training samples. 0 leaves the data set as it is.

    Returns:
      The data set with ``count`` fewer training samples and with validation samples.
    """
    if not count:
        return dataset
    held = np.zeros(len(dataset.y_train), bool)
    drawn = np.random.Philox(key=zlib.crc32(b"validation")).random_raw(len(held))  # the same in every version of NumPy
    held[np.lexsort((drawn, dataset.strata))[evenly_spaced(len(held), count)]] = True
    return subset(dataset, ~held)._replace(x_validation=dataset.x_train[held], y_validation=dataset.y_train[held])


def subset(dataset: Dataset, train: np.ndarray | slice) -> Dataset:
    """Return the data set with only some of its training samples.

    Args:
      dataset: the data set.
      train: the samples that are kept: indices, [n] bool, or a slice.
    """
    of = lambda array: None if array is None else array[train]  # noqa: E731
    return dataset._replace(
        x_train=dataset.x_train[train],
        y_train=dataset.y_train[train],
        client=of(dataset.client),
        stratum=of(dataset.stratum),
    )


def as_dataset(
    name: str, where: str, arrays: Mapping[str, np.ndarray], declared_classes: int = 0, layout: str = "auto"
) -> Dataset:
    """Check the arrays of a data source and convert them to the shapes and types of `Dataset`.

    Args:
      name: the name of the data set.
      where: the beginning of an error message, which names the source.
      arrays: x_train, y_train, x_test and y_test, and some of `OPTIONAL_KEYS`, as in an npz file (docs/data.md).
      declared_classes: the number of classes that the source declares; 0 if it declares none.
      layout: where images have their channels, one of `LAYOUTS`.

    Raises:
      UserError: if an array has another shape or type than those that are allowed.
    """
    if ("x_validation" in arrays) != ("y_validation" in arrays):
        raise UserError(f"{where}: one of x_validation and y_validation is missing; allowed: both or none")
    splits = [split for split in SPLITS if f"x_{split}" in arrays]
    x = {split: _samples(where, f"x_{split}", arrays[f"x_{split}"], layout) for split in splits}
    for split in splits[1:]:
        if _shown(x[split][0]) != _shown(x["train"][0]):
            raise UserError(
                f"{where}: samples of x_train are {_shown(x['train'][0])} and of x_{split} {_shown(x[split][0])};"
                " allowed: one shape and type for both"
            )
    about = []
    if x["train"].dtype.kind == "f":
        x, coarse = in_single(where, x, "x")
        about += [f"feature {k} minus its mean, since float32 is too coarse" for k in np.flatnonzero(coarse)[:_FEW]]
    given = _two_classes({split: arrays[f"y_{split}"] for split in splits})
    found = {split: _targets(where, split, given[split], x[split]) for split in splits}
    kind, y = found["train"][0], {split: targets for split, (_, targets) in found.items()}
    if kind is Targets.LABELS:
        y, said = _labels(where, y, declared_classes)
        about += said
    for split in splits[1:]:
        if found[split][0] is not kind or y[split].shape[1:] != y["train"].shape[1:]:
            raise UserError(
                f"{where}: y_train has {kind.value} of the shape {list(y['train'].shape[1:])} and y_{split} "
                f"{found[split][0].value} of the shape {list(y[split].shape[1:])}; allowed: one kind and shape for both"
            )
    if all((targets == y["train"][0]).all() for targets in y.values()):
        about.append("all samples have the same target, so there is nothing to learn")
    if kind is Targets.NUMBERS:
        y, coarse = in_single(where, y, "y")
        about += [f"target {k} minus its mean, since float32 is too coarse" for k in np.flatnonzero(coarse)[:_FEW]]
    is_tokens = x["train"].dtype == np.int32
    client, client_test = _owners(where, arrays, len(x["train"]), len(x["test"]))
    if client is not None and not _are_numbers(owners := np.unique(arrays["client"])):
        about.append(numbering("owners", owners))
    return Dataset(
        name,
        x["train"],
        y["train"],
        x["test"],
        y["test"],
        _num_classes(where, kind, y, declared_classes),
        x.get("validation"),
        y.get("validation"),
        client,
        client_test,
        _strata(where, arrays, y["train"], kind),
        kind,
        max(int(tokens.max()) for tokens in x.values()) + 1 if is_tokens else 0,
        about="; ".join(about),
    )


def _shown(sample: np.ndarray) -> str:
    return f"{list(sample.shape)} of {'float32' if sample.dtype.kind == 'f' else sample.dtype}"


def _samples(where: str, key: str, array: np.ndarray, layout: str) -> np.ndarray:
    """Check samples. Return images as uint8 [n, H, W, channels], tokens as int32 [n, T], others as floats [n, ...]."""
    found = f"{where}: {key} is {array.dtype} {list(array.shape)}"
    if array.dtype.kind not in "uif":
        raise UserError(f"{found}; allowed: {SAMPLES}")
    if array.ndim < 1 or 0 in array.shape:
        raise UserError(f"{found}; allowed: [n, ...], none of them 0")
    if layout == "channels_first":
        if array.ndim != 4:
            raise UserError(f"{found}; data.layout is {layout}, so it must be [n, channels, H, W]")
        height, width, channels = array.shape[1:]
        if height == width != channels <= _FEW:
            raise UserError(f"{found}, which has its channels last; data.layout is {layout}, and must be channels_last")
        array = np.moveaxis(array, 1, -1)
    elif layout == "auto" and array.ndim == 4 and _looks_channels_first(*array.shape[1:]):
        raise UserError(
            f"{found}, which looks like channels first; data.layout=channels_first reads it so, and "
            "data.layout=channels_last as [n, H, W, channels]"
        )
    if array.dtype == np.uint8:
        return np.ascontiguousarray(array[..., None] if array.ndim in (1, 3) else array)
    if array.dtype.kind == "f":
        return array[:, None] if array.ndim == 1 else array
    if array.ndim != 2:
        raise UserError(f"{found}; allowed: {SAMPLES}")
    low, high = int(array.min()), int(array.max())
    if low < 0 or high >= MAX_VOCABULARY:
        raise UserError(f"{where}: {key} has tokens from {low} to {high}; allowed: 0 to {MAX_VOCABULARY - 1}")
    return np.ascontiguousarray(array, np.int32)


def _looks_channels_first(a: int, b: int, c: int) -> bool:
    """Tell whether samples [a, b, c] are rather images [channels, H, W] than images [H, W, channels]."""
    return c not in (1, 3) and a != b and (b == c or a <= _FEW < c)


def in_single(where: str, splits: Mapping[str, np.ndarray], axis: str) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Convert the floats of all splits to single precision; columns that it is too coarse for become minus their mean.

    Times in seconds since 1970 differ by less than the spacing of float32. Minus their mean they are exact.

    Args:
      where: the beginning of an error message.
      splits: arrays [n, ..., F] by the names of their splits, the training samples first.
      axis: x or y, for an error message.

    Returns:
      The arrays in float32, and [F] bool, which columns are minus their mean over the training samples.

    Raises:
      UserError: for a number that is not finite or larger than `LARGEST`, or a column of numbers below `SMALLEST`.
    """
    rows = {split: array.reshape(-1, array.shape[-1]) for split, array in splits.items()}
    size = np.zeros(next(iter(rows.values())).shape[-1])
    for split, array in rows.items():
        with np.errstate(invalid="ignore"):
            ends = np.maximum(array.max(axis=0), -array.min(axis=0)).astype(np.float64)
        if not (ends <= LARGEST).all():
            flat = np.argmax(~(np.abs(splits[split]) <= LARGEST))
            place = [int(i) for i in np.unravel_index(flat, splits[split].shape)]
            value = splits[split].reshape(-1)[flat]
            raise UserError(f"{where}: {axis}_{split}{place} is {value:g}; allowed: finite numbers up to {LARGEST:g}")
        size = np.maximum(size, ends)
    if (tiny := (size > 0) & (size < SMALLEST)).any():
        k = int(np.argmax(tiny))
        raise UserError(f"{where}: {axis}_train[..., {k}] is at most {size[k]:g}; allowed: 0, or {SMALLEST:g} and more")
    mean, deviation = _moments(rows["train"]) if rows["train"].dtype.itemsize > 4 else (size, size)
    coarse = (deviation > 0) & (size * np.finfo(np.float32).eps > COARSE * deviation)
    away = np.where(coarse, mean, 0.0)
    single = {k: np.ascontiguousarray(of - away if coarse.any() else of, np.float32) for k, of in splits.items()}
    return single, coarse


def whole_as_floats(where: str, what: str, values: np.ndarray) -> tuple[np.ndarray, int]:
    """Convert whole numbers to floats that stay as many different ones in single precision.

    Where they would not, the number in their middle is subtracted while they are whole: times in nanoseconds and
    identifiers differ by less than the spacing of floats of their size.

    Args:
      where: the beginning of an error message.
      what: what the numbers are, for an error message.
      values: integers, or objects that are Python integers.

    Returns:
      float64 of the same shape, and what is subtracted; 0: nothing.

    Raises:
      UserError: for a number that is larger than `LARGEST`, or if single precision still cannot tell them apart.
    """
    low, high = int(values.min()), int(values.max())
    if (size := max(-low, high)) <= _EXACT:
        return values.astype(np.float64), 0
    if size > LARGEST:
        raise UserError(f"{where}: {what} has a number of {len(str(size))} digits; allowed: numbers up to {LARGEST:g}")
    fits = values.dtype == np.int64 and high - low < 2**63

    def minus(numbers: np.ndarray, away: int) -> np.ndarray:
        return (numbers - away if fits else numbers.astype(object) - away).astype(np.float64)

    known, apart = np.unique(values), 0
    for away in (0, (low + high) // 2):
        apart = len(np.unique(minus(known, away).astype(np.float32)))
        if apart == len(known):
            return minus(values, away), away
    raise UserError(
        f"{where}: {what} has {len(known):,} different whole numbers, of which single precision tells {apart:,} apart; "
        "allowed: numbers in a coarser unit"
    )


def _two_classes(y: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Write two classes that are bool [n] as 0 and 1. Other targets stay."""
    are_flags = all(array.ndim == 1 and array.dtype.kind == "b" for array in y.values())
    return {split: array.astype(np.int32) for split, array in y.items()} if are_flags else y


def _targets(where: str, split: str, array: np.ndarray, x: np.ndarray) -> tuple[Targets, np.ndarray]:
    """Check the targets of samples x, and return their kind and the targets in the form of `Targets`."""
    found = f"{where}: y_{split} is {array.dtype} {list(array.shape)}"
    if array.dtype.kind not in "iufb":
        raise UserError(f"{found}; allowed: whole numbers (labels), floats (regression) or bool [n, K] (multi-label)")
    if array.dtype.kind in "iu" and array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]  # the CIFAR files of Keras have this shape
    is_sequence = x.ndim == 2 if x.dtype == np.int32 else x.ndim == 3 and x.dtype == np.float32
    if array.dtype.kind == "b":
        kind, fits, allowed = Targets.FLAGS, array.ndim == 2, "[n, K], whether each of K labels applies"
    elif array.dtype.kind == "f":
        kind, fits, allowed = Targets.NUMBERS, array.ndim in (1, 2), "[n] or [n, K], the targets of a regression"
    elif is_sequence and array.ndim == 2 and array.shape[1] == x.shape[1]:
        kind, fits, allowed = Targets.POSITIONS, True, ""
    else:
        kind, fits = Targets.LABELS, array.ndim == 1
        allowed = "[n] or [n, 1], one label a sample, not one-hot; [n, T] for sequences of T; bool for several labels"
    if not fits or 0 in array.shape[1:]:
        raise UserError(f"{found}; allowed: {allowed}")
    if len(array) != len(x):
        raise UserError(f"{found} and x_{split} has {len(x)} samples; allowed: targets for each sample")
    if kind is Targets.FLAGS:
        return kind, np.ascontiguousarray(array)
    if kind is Targets.NUMBERS:
        return kind, array.reshape(len(array), -1)
    if kind is Targets.LABELS:
        return kind, array
    low, high = int(array.min()), int(array.max())
    if low < -1 or high >= MAX_CLASSES:
        allowed = f"-1 to {MAX_CLASSES - 1}, where -1 means none"
        raise UserError(f"{where}: y_{split} has labels from {low} to {high}; allowed: {allowed}")
    return kind, np.ascontiguousarray(array, np.int32)


def _labels(where: str, y: Mapping[str, np.ndarray], declared: int) -> tuple[dict[str, np.ndarray], list[str]]:
    """Return labels numbered from 0 in ascending order, unless they are so, or the source declares their classes.

    Returns:
      (the labels of each split, int32; what was done, in words).

    Raises:
      UserError: if there are more than `MAX_CLASSES` labels, or one beyond `LABEL`.
    """
    for split, labels in y.items():
        if int(labels.min()) <= -LABEL or int(labels.max()) >= LABEL:
            raise UserError(f"{where}: y_{split} has labels up to {labels.max()}; allowed: whole numbers below 2^53")
    of_splits = {split: np.unique(labels.astype(np.int64)) for split, labels in y.items()}
    known, said = np.unique(np.concatenate(list(of_splits.values()))), list[str]()
    if len(known) > MAX_CLASSES:
        raise UserError(f"{where}: it has {len(known):,} different labels; allowed: {MAX_CLASSES:,}")
    if unseen := sorted({*of_splits["test"].tolist()} - {*of_splits["train"].tolist()}):
        said.append(f"no training sample has the label {', '.join(map(str, unseen[:_FEW]))} of test samples")
    if not _are_numbers(known) and not (declared and known[0] >= 0 and known[-1] < declared):
        said.append(numbering("labels", known))
        return {split: np.searchsorted(known, labels).astype(np.int32) for split, labels in y.items()}, said
    return {split: np.ascontiguousarray(labels, np.int32) for split, labels in y.items()}, said


def _are_numbers(known: np.ndarray) -> bool:
    """Tell whether different values, in ascending order, are the numbers from 0 without gaps."""
    return bool(known[0] == 0 and known[-1] == len(known) - 1)


def _num_classes(where: str, kind: Targets, y: dict[str, np.ndarray], declared: int) -> int:
    """Return the number of classes; for floats and flags the number of columns."""
    if kind in (Targets.NUMBERS, Targets.FLAGS):
        return y["train"].shape[1]
    for split, labels in y.items():
        if int(labels.max()) < 0:
            raise UserError(f"{where}: y_{split} has no labels, only -1; allowed: a label at one position at least")
    return max(declared, *(int(labels.max()) + 1 for labels in y.values()))


def _whole(where: str, key: str, array: np.ndarray, count: int, meaning: str) -> np.ndarray:
    """Check an array of one whole number a sample, and return it."""
    if array.dtype.kind not in "iu" or array.shape != (count,):
        raise UserError(
            f"{where}: {key} is {array.dtype} {list(array.shape)}; allowed: whole numbers [{count}], {meaning}"
        )
    return array


def _owners(
    where: str, arrays: Mapping[str, np.ndarray], train: int, test: int
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Check the owners of the samples. Number those of the training samples from 0, in the order of their values."""
    if "client" not in arrays:
        if "client_test" in arrays:
            raise UserError(f"{where}: client_test is given and client is not; allowed: both, or client alone")
        return None, None
    client = _whole(where, "client", arrays["client"], train, "the owner of each training sample")
    of_test = arrays.get("client_test")
    if of_test is not None:
        _whole(where, "client_test", of_test, test, "the owner of each test sample")
    return numbered_owners(client, of_test)


def _strata(where: str, arrays: Mapping[str, np.ndarray], y: np.ndarray, kind: Targets) -> np.ndarray | None:
    """Check the strata of the training samples and number them from 0; without the array, return the default ones."""
    if "stratum" not in arrays:
        return default_strata(y, kind)
    if kind is Targets.LABELS:
        raise UserError(f"{where}: stratum is given and y_train has labels, by which partitions divide; drop stratum")
    given = _whole(where, "stratum", arrays["stratum"], len(y), "the group of each training sample")
    return np.unique(given, return_inverse=True)[1].astype(np.int32)


def sample_moments(dataset: Dataset) -> Moments | None:
    """Return the mean and standard deviation of each channel or feature of the training samples, float32 [F] each.

    The standard deviation of a constant feature is set to 1. None if samples are not normalised.
    """
    if dataset.normalize == "none" or dataset.vocabulary:
        return None
    if dataset.x_train.dtype != np.uint8:
        return _single(*_moments(dataset.x_train))
    # A histogram of the 256 levels needs no float copy of the images; `np.bincount` makes one of 64-bit integers.
    rows = dataset.x_train.reshape(-1, dataset.x_train.shape[-1])
    levels = np.zeros((rows.shape[1], 256), np.int64)
    for part in _parts(rows):
        levels += np.stack([np.bincount(channel, minlength=256) for channel in part.T])
    share = levels / levels.sum(axis=1, keepdims=True)
    mean = share @ np.arange(256)
    std = np.sqrt(share @ np.arange(256) ** 2 - mean**2)
    return _single(mean, std)


def target_moments(dataset: Dataset) -> Moments | None:
    """Return the mean and standard deviation of each target of a regression, float32 [K] each.

    The standard deviation of a constant target is set to 1. None if targets are not normalised.
    """
    if dataset.normalize == "none" or dataset.targets is not Targets.NUMBERS:
        return None
    return _single(*_moments(dataset.y_train))


def _moments(values: np.ndarray) -> Moments:
    """Compute the mean and the standard deviation [F] over all axes but the last one, in double precision."""
    rows = values.reshape(-1, values.shape[-1])
    mean = rows.mean(axis=0, dtype=np.float64)
    std = np.sqrt(sum(np.square(part - mean).sum(axis=0) for part in _parts(rows)) / len(rows))
    constant = np.ptp(rows, axis=0) == 0  # rounding makes the deviation of a constant feature positive
    return mean, np.where(constant, 0.0, std)


def _parts(rows: np.ndarray) -> Iterator[np.ndarray]:
    """Yield `ROWS` rows after rows, since a copy of all would take memory."""
    for start in range(0, len(rows), ROWS):
        yield rows[start : start + ROWS]


def _single(mean: np.ndarray, std: np.ndarray) -> Moments:
    return mean.astype(np.float32), np.where(std > 0, std, 1.0).astype(np.float32)
