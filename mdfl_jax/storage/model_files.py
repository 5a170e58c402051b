"""The files of the models that a study keeps: what they hold, and how they are read, for which no JAX is needed.

A file is one of `mdfl_jax.storage.array_files`, and any reader of safetensors can read it
(`safetensors.numpy.load_file`). It holds the models of one run (a sweep point under a seed) after one round. The name
of a tensor is its path in the tree of a model, as in ``clients/params/Dense_0/kernel``:

- ``clients/...``: the models of the N clients, stacked, [N, ...];
- ``global/...``: the global model of an algorithm that has one (the server's), without the axis of the clients.

Each path begins with the collection of flax, ``params`` or ``batch_stats``. In a key of the tree, "~" is written as
"~0" and "/" as "~1" (RFC 6901).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.storage import array_files
from mdfl_jax.storage.array_files import SUFFIX, Arrays
from mdfl_jax.storage.study_files import MODEL_FOLDER

MODEL_FORMAT = "models 2"
CLIENTS, GLOBAL = "clients/", "global/"


class Header(NamedTuple):
    """What a file says of its models.

    Attributes:
      run: the name of the run, as in the folder ``runs``.
      name: the name of the study that kept the models.
      point: the id that the sweep point had there.
      seed: the seed.
      round: the rounds that the models have been trained for.
      accuracy: the accuracy at this round, the mean of the clients' test
        accuracies, or with ``judged=global`` that of the judged model.
    """

    run: str
    name: str
    point: str
    seed: int
    round: int
    accuracy: float


def files_of(workdir: Path, run: str) -> dict[int, Path]:
    """Return the files of a run's models in a workdir, by their round."""
    found = {}
    for path in sorted((workdir / MODEL_FOLDER).glob(f"{run}@*{SUFFIX}")):
        at_round = path.name.removesuffix(SUFFIX).rpartition("@")[2]
        if at_round.isdecimal():
            found[int(at_round)] = path
    return found


def key_in_name(key: Any) -> str:
    """Return a key of a tree as a part of a tensor's name.

    >>> key_in_name("block/conv~1")
    'block~1conv~01'
    """
    return str(key).replace("~", "~0").replace("/", "~1")


def named(tree: Any, prefix: str) -> Arrays:
    """Return the arrays of a model by name: the prefix, the collection of flax, and the path in the tree."""
    import jax

    from mdfl_jax.core.trees import has_statistics

    whole = tree if has_statistics(tree) else {"params": tree}
    return {
        prefix + "/".join(key_in_name(_key(entry)) for entry in path): leaf
        for path, leaf in jax.tree_util.tree_leaves_with_path(whole)
    }


def _key(entry: Any) -> Any:
    """Return the key, the index or the field's name of one step of a path in a tree."""
    return next(getattr(entry, name) for name in ("key", "idx", "name") if hasattr(entry, name))


def nested_tensors(tensors: Mapping[str, np.ndarray], prefix: str) -> dict[str, Any]:
    """Return the tensors whose names begin with a prefix as nested dictionaries, as flax takes them.

    >>> nested_tensors({"clients/params/Dense_0/bias": 1, "global/params/w": 2}, "clients/")
    {'params': {'Dense_0': {'bias': 1}}}
    """
    tree: dict[str, Any] = {}
    for name, tensor in tensors.items():
        if name.startswith(prefix):
            *parents, last = (key.replace("~1", "/").replace("~0", "~") for key in name[len(prefix) :].split("/"))
            at = tree
            for key in parents:
                at = at.setdefault(key, {})
            at[last] = tensor
    return tree


def client_mean(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the mean over the clients of each of their tensors, under the same names."""
    return {
        name: np.mean(tensor, axis=0, dtype=np.promote_types(tensor.dtype, np.float32)).astype(tensor.dtype)
        for name, tensor in tensors.items()
        if name.startswith(CLIENTS)
    }


def write(path: Path, header: Header, tensors: Mapping[str, np.ndarray]) -> None:
    """Write a file as `mdfl_jax.storage.disk.write` does.

    Args:
      path: the file; its folder is made if it is absent.
      header: what it says of its models.
      tensors: the arrays by name.

    Raises:
      DiskError: if it cannot be written.
    """
    array_files.write(path, MODEL_FORMAT, header._asdict(), tensors, compress=False)


def is_saved(path: str | Path) -> bool:
    """Tell whether a file was written by `write`, from its metadata alone."""
    return array_files.is_of_kind(path, MODEL_FORMAT)


def read_header(path: Path) -> tuple[Header, dict[str, tuple[int, ...]]]:
    """Read what a file says of its models, and the shape of each tensor by name, without the tensors themselves.

    Raises:
      UserError: if the file is absent, damaged or not written by `write`.
    """
    header, _ = array_files.read(path, MODEL_FORMAT, only=())
    if not set(Header._fields) <= set(header):
        raise UserError(f"{path}: it holds no models of a study")
    return Header(**{name: header[name] for name in Header._fields}), array_files.shapes_in(header)


def read(path: Path) -> Arrays:
    """Read all tensors of a file, by name.

    Raises:
      UserError: as `read_header`.
    """
    return array_files.read(path, MODEL_FORMAT)[1]
