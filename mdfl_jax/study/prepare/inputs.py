"""Digests of all that a study reads from files, so that a study does not go on after one of them has changed."""

import dataclasses
import hashlib
import os
from collections.abc import Iterable
from enum import Enum
from pathlib import Path

import numpy as np

from mdfl_jax.config.families import schema
from mdfl_jax.config.sections import Experiment
from mdfl_jax.core.own_files import digest_of
from mdfl_jax.data.dataset import Dataset


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


def digests(experiment: Experiment, data: str, starts: Iterable[Path]) -> dict[str, str]:
    """Return the digests of the inputs of a sweep point, by the field and the name of the file without its folder.

    Args:
      experiment: The configuration of the point.
      data: The digest of its data set (`of_dataset`); '' if the task draws its data.
      starts: The files of the kept models from which its runs start.
    """
    found = {f"data.name={experiment.data.name}": data} if data else {}
    found |= {name: digest_of(path) for name, path in files_in(experiment).items()}
    files = {f"model.pretrained={file.parent.name}/{file.name}": file for file in starts}
    return found | {name: digest_of(file) for name, file in files.items()}
