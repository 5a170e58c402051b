"""Digests of all that a study reads from files, so that a study does not go on after one of them has changed."""

import dataclasses
import hashlib
import os
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from mdfl_jax.config.families import schema
from mdfl_jax.config.sections import Experiment
from mdfl_jax.core.own_files import digest_of, joined
from mdfl_jax.data.dataset import Dataset
from mdfl_jax.study.prepare.start import Start


def files_in(experiment: Experiment) -> dict[str, str]:
    """Return the existing files that the fields of a configuration name, as 'trace.file=sumo.xml' -> path.

    A field is declared with ``file=True``, a number of a member with a function ``read``.
    """
    found = {}
    for section in dataclasses.fields(schema()):
        part = getattr(experiment, section.name)
        for field in dataclasses.fields(part) if dataclasses.is_dataclass(part) else ():
            value = getattr(part, field.name)
            reads = field.metadata.get("file") or field.metadata.get("read")
            if reads and isinstance(value, str) and os.path.isfile(value):
                found[f"{section.name}.{field.name}={Path(value).name}"] = value
    return found


def of_dataset(dataset: Dataset) -> str:
    """Return a digest of the samples of a data set, whatever they were read from.

    This covers archives, prepared TensorFlow data sets and functions of the user alike. SHA-256 reads about 1 GB/s.
    """
    digest = hashlib.sha256()
    for name, value in dataset._asdict().items():
        if isinstance(value, np.ndarray):
            digest.update(f"{name} {value.dtype} {value.shape}".encode())
            digest.update(np.ascontiguousarray(value).data if value.size else b"")
        elif isinstance(value, str | int | float | tuple | Enum):
            digest.update(f"{name} {value!r}".encode())
    return digest.hexdigest()[:16]


def digests(
    experiments: Iterable[Experiment], datasets: Mapping[Any, Dataset | None], starts: Iterable[Start | None]
) -> dict[str, str]:
    """Return the digests of the inputs of a study, by the field and the name of the file without its folder.

    Inputs of equal names have one digest together. Each file is read once.

    Args:
      experiments: The configurations of the sweep points.
      datasets: The data sets, as they were loaded, by the section of the configuration that names them.
      starts: The kept models from which the sweep points start, if they do.
    """
    found: dict[str, set[str]] = {}
    for source, dataset in datasets.items():
        if dataset is not None:
            found.setdefault(f"data.name={source.name}", set()).add(of_dataset(dataset))
    for experiment in experiments:
        for name, path in files_in(experiment).items():
            found.setdefault(name, set()).add(digest_of(path))
    for start in starts:
        for file in dict.fromkeys(start.files.values()) if start else ():
            found.setdefault(f"model.pretrained={file.parent.name}/{file.name}", set()).add(digest_of(file))
    return {name: joined(values) for name, values in sorted(found.items())}
