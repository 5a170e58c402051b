"""A reader of TensorFlow Datasets that does not need TensorFlow.

It reads a data set that was prepared as array_record before. Only `_fetch` downloads and prepares one, for which most
sets need TensorFlow.
"""

import importlib
import importlib.util
import json
import re
import shlex
import threading
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any

import numpy as np

from mdfl_jax.core import stages
from mdfl_jax.core.errors import UserError, unknown_name, warnings_off
from mdfl_jax.core.own_files import error_words
from mdfl_jax.data.files import while_reading
from mdfl_jax.data.sources import FETCHERS, PREPARED

# <name>[/<config>][:<version>]. A namespace (huggingface:mnist) is refused, since it would need access to the internet.
_NAME = re.compile(r"[A-Za-z]\w*(/[\w.-]+)?(:[\d.*]+)?", re.ASCII)
_PATIENCE = 5.0  # seconds in which the host of a data set must answer
_CHUNK = 1024  # examples decoded per call of the reader


@PREPARED.register("tfds:", doc="tfds:<name>")
def _read(name: str, directory: str) -> tuple[dict[str, np.ndarray], int]:
    """Read the splits train and test of a prepared TensorFlow data set.

    Reading takes 0.15 to 0.4 ms for each example.

    Args:
      name: the name of the set, if needed with its config and version: `mnist`, `mnist:3.0.1`, `emnist/letters`.
      directory: the `data_dir` of tensorflow-datasets; "" for its default.

    Returns:
      A dictionary with the arrays x_train [n, H, W, channels], y_train [n], x_test [m, H, W, channels] and y_test [m];
      and the number of classes that the set declares.

    Raises:
      UserError: if tensorflow-datasets or array_record is not installed, or if the set is unknown, not prepared,
        prepared in another format or damaged, has no image and label as its supervised keys, or lacks the split train
        or test.
    """
    where = f"data.name={'tfds:' + name!r}"
    place = f"directory {directory!r}" if directory else "tensorflow-datasets' default directory"
    if not _NAME.fullmatch(name):
        raise UserError(f"{where}: allowed: tfds:<name>[/<config>][:<version>], such as tfds:mnist")
    with while_reading(where, extra="tfds", place=place):
        importlib.import_module("array_record.python")  # without it, tensorflow-datasets prints a banner
        import tensorflow_datasets as tfds

        with warnings_off():  # of an absent info file, of OpenCV
            builder = _prepared_builder(tfds, name, directory, where, place)
            image, label = _supervised_keys(tfds, builder, where)
            arrays = {}
            for split in ("train", "test"):
                source = _random_access(builder, split, name, where)
                arrays[f"x_{split}"], arrays[f"y_{split}"] = _stack(source, image, label, f"{where}, split {split}")
            return arrays, builder.info.features[label].num_classes


@FETCHERS.register("tfds:", doc="TensorFlow Datasets.")
def _fetch(name: str, directory: str) -> None:
    """Download a set and prepare it as array_record, unless it is prepared.

    Args:
      name: the name of the set.
      directory: the `data_dir` of tensorflow-datasets; "" for its default.

    Raises:
      UserError: if tensorflow-datasets or TensorFlow is not installed, if the host of the set does not answer within a
        few seconds, or if the set cannot be prepared.
    """
    if not importlib.util.find_spec("tensorflow_datasets") or not importlib.util.find_spec("array_record"):
        raise UserError("with the extra it is fetched once: pip install 'mdfl_jax[tfds]' tensorflow-cpu")
    import tensorflow_datasets as tfds

    with warnings_off():
        builder = tfds.builder(name, data_dir=directory or None, file_format="array_record")
        if builder.is_prepared():
            return
        urls = list(builder.url_infos or {})
        if urls and not _answers(urls[0]):
            raise UserError(
                f"the host that has it does not answer, so it cannot be fetched; a folder {builder.name} that another "
                f"machine has prepared belongs into {builder.data_dir_root}"
            )
        if urls and not importlib.util.find_spec("tensorflow"):
            raise UserError("fetching it needs TensorFlow, this once: pip install tensorflow-cpu")
        try:
            with stages.stage(f"preparing {name}"):
                builder.download_and_prepare()
        except Exception as error:  # of the network, of the disk, of packages that are missing
            raise UserError(
                f"tensorflow-datasets cannot prepare it in {builder.data_dir_root} ({error_words(error)})"
            ) from error


def _answers(url: str) -> bool:
    """Tell whether a host answers in `_PATIENCE`, also where the look-up of its name hangs."""
    found: list[bool] = []

    def ask() -> None:
        try:
            urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=_PATIENCE).close()
        except urllib.error.HTTPError:
            found.append(True)
        except (OSError, ValueError):
            found.append(False)
        else:
            found.append(True)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(_PATIENCE)
    return found == [True]


def _prepared_builder(tfds: Any, name: str, directory: str, where: str, place: str) -> Any:
    """Return the builder of a set, after a check that it is prepared.

    Without the check, reading a set that is not prepared would retry a download for minutes.
    """
    try:
        builder = tfds.builder(name, data_dir=directory or None)
    except tfds.core.DatasetNotFoundError as error:
        # The text of this error lists every registered name. The nearest name helps the user more.
        registered = [f"tfds:{known}" for known in tfds.list_builders(with_community_datasets=False)]
        line = unknown_name("data.name", f"tfds:{name}", registered).split(";")[0]
        raise UserError(
            f"{line}; allowed: a set (and version) that tensorflow-datasets knows, or one that was prepared in {place}"
        ) from error
    if not builder.is_prepared():
        raise UserError(
            f"{where} is not prepared in {place}. Prepare it once, where tensorflow is installed"
            f" (pip install tensorflow-cpu; only preparing needs it): {_how_to_prepare(name, directory)}"
        )
    missing = {"train", "test"} - set(builder.info.splits)
    if missing:
        found = ", ".join(sorted(builder.info.splits)) or "none"
        raise UserError(f"{where}: splits found: {found}; needed: train and test")
    return builder


def _random_access(builder: Any, split: str, name: str, where: str) -> Sequence[Any]:
    """Return the examples of a split as a sequence. Only some of the formats of prepared sets allow access by index."""
    try:
        return builder.as_data_source(split=split)
    except NotImplementedError as error:
        found = getattr(builder.info.file_format, "value", "an unknown format")
        raise UserError(
            f"{where} is prepared as {found}; allowed: array_record."
            f" Choose an empty data.dir and prepare it there: {_how_to_prepare(name, '<data.dir>')}"
        ) from error


def _supervised_keys(tfds: Any, builder: Any, where: str) -> tuple[str, str]:
    """Return the names of the image and of the label among the set's features."""
    keys, features = builder.info.supervised_keys, builder.info.features
    if isinstance(keys, tuple) and len(keys) == 2 and all(isinstance(key, str) for key in keys):
        image, label = keys
        if isinstance(features[image], tfds.features.Image) and isinstance(features[label], tfds.features.ClassLabel):
            return image, label
    raise UserError(f"{where}: its supervised keys are {keys}; allowed: one image (Image) and one label (ClassLabel)")


def _stack(source: Sequence[Any], image: str, label: str, where: str) -> tuple[np.ndarray, np.ndarray]:
    """Read every example of a split: images [n, H, W, channels] and labels [n]."""
    images: list[np.ndarray] = []
    labels: list[int] = []
    for start in range(0, len(source), _CHUNK):
        # __getitems__ reads a batch of examples. One example at a time takes a quarter longer.
        for example in source.__getitems__(list(range(start, min(start + _CHUNK, len(source))))):  # type: ignore[attr-defined]
            images.append(example[image])
            labels.append(example[label])
            if images[-1].shape != images[0].shape:
                shapes = f"{list(images[0].shape)} and {list(images[-1].shape)}"
                raise UserError(f"{where}: has images of {shapes}; allowed: one shape for all")
    if not images:
        raise UserError(f"{where}: holds no examples; allowed: at least one")
    return np.stack(images), np.asarray(labels)


def _how_to_prepare(name: str, directory: str) -> str:
    place = f"data_dir={json.dumps(directory)}, " if directory else ""
    call = f'tfds.builder("{name}", {place}file_format="array_record").download_and_prepare()'
    return f"python -c {shlex.quote(f'import tensorflow_datasets as tfds; {call}')}"
