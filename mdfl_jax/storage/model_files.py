"""The files of the models that a study keeps: their names, their content and how they are read. No JAX is needed.

A file is in the format safetensors, and any reader of it can read these files (`safetensors.numpy.load_file`). It holds
the models of one run (a sweep point under a seed) after one round. The name of a tensor is its path in the tree of a
model, as in ``clients/params/Dense_0/kernel``:

- ``clients/...``: the models of the N clients, stacked, [N, ...];
- ``global/...``: the global model of an algorithm that has one (the server's), without the axis of the clients.

Each path begins with the collection of flax, ``params`` or ``batch_stats``. In a key of the tree, "~" is written as
"~0" and "/" as "~1" (RFC 6901). The metadata of the file has one key, "mdfl_jax", a JSON text with "format", "checksum"
and the fields of `Header`: several keys would be written in a random order, and equal models must give equal files.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save

from mdfl_jax.core.errors import UserError
from mdfl_jax.storage import disk
from mdfl_jax.storage.checksums import check_manifest, checksum_of, checksum_of_json

KEY, FORMAT = "mdfl_jax", "models 1"
_CHECKSUM = "checksum"
FOLDER = "models"  # in the workdir of a study
CLIENTS, GLOBAL = "clients/", "global/"


class Header(NamedTuple):
    """The metadata of a file.

    Attributes:
      study: the first 16 hexadecimal digits of the SHA-256 of the study's resolved configuration.
      name: the name of the study.
      point: the id of the sweep point.
      point_index: the index of the sweep point, as in history.npz.
      seed: the seed.
      round: the rounds that the models have been trained for.
      accuracy: the accuracy at this round, of which ``save=best`` takes the largest: the mean of the clients' test
        accuracies, or with ``judged=global`` that of the judged model.
    """

    study: str
    name: str
    point: str
    point_index: int
    seed: int
    round: int
    accuracy: float


def path_of(workdir: Path, point: int, seed: int, at_round: int | None = None) -> Path:
    """Return the file of a run: ``models/POINT/SEED.safetensors``, or ``SEED-ROUND.safetensors`` with a round.

    Args:
      workdir: the folder of the study.
      point: the index of the sweep point.
      seed: the seed.
      at_round: the round of the models if a run keeps those of several rounds, else None.
    """
    name = f"{seed}" if at_round is None else f"{seed}-{at_round}"
    return workdir / FOLDER / str(point) / f"{name}.safetensors"


def files_of(folder: Path, seed: int) -> dict[int | None, Path]:
    """Return the files of a seed in the folder of a sweep point, by their round; None: the name has no round."""
    found: dict[int | None, Path] = {}
    for path in sorted(folder.glob(f"{seed}*.safetensors")):
        own, _, at_round = path.stem.partition("-")
        if own == str(seed) and (at_round.isdigit() or path.stem == own):
            found[int(at_round) if at_round else None] = path
    return found


def key_in_name(key: Any) -> str:
    """Return a key of a tree as a part of a tensor's name.

    >>> key_in_name("block/conv~1")
    'block~1conv~01'
    """
    return str(key).replace("~", "~0").replace("/", "~1")


def nested(tensors: Mapping[str, np.ndarray], prefix: str) -> dict[str, Any]:
    """Return the tensors whose names begin with a prefix as nested dictionaries, as flax takes them.

    >>> nested({"clients/params/Dense_0/bias": 1, "global/params/w": 2}, "clients/")
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


def mean_of(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the mean over the clients of each of their tensors, under the same names."""
    return {
        name: np.mean(tensor, axis=0, dtype=np.promote_types(tensor.dtype, np.float32)).astype(tensor.dtype)
        for name, tensor in tensors.items()
        if name.startswith(CLIENTS)
    }


def _checksum(header: Header, tensors: Mapping[str, np.ndarray]) -> str:
    """Return a checksum of the header, and of the names and the contents of the tensors."""
    about = {name: checksum_of(tensor) for name, tensor in tensors.items()}
    return checksum_of_json([header, about])


def write(path: Path, header: Header, tensors: Mapping[str, np.ndarray]) -> None:
    """Write a file as `mdfl_jax.storage.disk.write` does.

    Args:
      path: the file; its folder is made if it is absent.
      header: the metadata.
      tensors: the arrays by name.

    Raises:
      DiskError: if it cannot be written.
    """
    about = {"format": FORMAT, _CHECKSUM: _checksum(header, tensors)} | header._asdict()
    text = json.dumps(about)  # NaN is written as Python reads it
    content = save({name: np.require(x, requirements="C") for name, x in tensors.items()}, {KEY: text})
    disk.write_bytes(path, content)


def _metadata(file: Any) -> dict[str, Any]:
    """Return the metadata of an open file; {} if `write` has not written it."""
    try:
        found = json.loads((file.metadata() or {}).get(KEY, "{}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) and found.pop("format", None) == FORMAT else {}


def is_saved(path: str | Path) -> bool:
    """Tell whether a file was written by `write`, from its metadata alone."""
    try:
        with safe_open(path, framework="numpy") as file:
            return bool(_metadata(file))
    except (OSError, SafetensorError):
        return False


def read_header(path: Path) -> tuple[Header, dict[str, tuple[int, ...]]]:
    """Read the metadata of a file, and the shape of each tensor by name, without the tensors themselves.

    Raises:
      UserError: if the file is absent, damaged or not written by `write`.
    """
    header, shapes, _ = _about(path)
    return header, shapes


def _about(path: Path) -> tuple[Header, dict[str, tuple[int, ...]], str | None]:
    """Return the metadata, the shape of each tensor, and the checksum."""
    try:
        with safe_open(path, framework="numpy") as file:
            found = _metadata(file)
            shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise UserError(f"{str(path)!r}: there is no such file") from None
    except (OSError, SafetensorError) as error:
        raise UserError(f"{str(path)!r}: it is not a whole safetensors file ({' '.join(str(error).split())})") from None
    checksum = found.pop(_CHECKSUM, None)
    if found.keys() != set(Header._fields):
        raise UserError(f"{str(path)!r}: it holds no models of a study")
    return Header(**found), shapes, checksum


def read(path: Path) -> dict[str, np.ndarray]:
    """Read all tensors of a file, by name.

    Raises:
      UserError: as `read_header`, or if the checksum is wrong.
    """
    header, _, checksum = _about(path)
    try:
        tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise UserError(f"{str(path)!r}: it cannot be read ({' '.join(str(error).split())})") from None
    if checksum != _checksum(header, tensors):
        raise UserError(f"{str(path)!r}: it is damaged: the checksum of its models is wrong")
    return tensors


def points_of(workdir: Path) -> list[dict[str, Any]]:
    """Read the sweep points of a finished study, each with 'id' and 'overrides', from its config.json.

    Raises:
      UserError: if the folder holds no finished study.
    """
    try:
        manifest = json.loads((workdir / "config.json").read_text())
        points, status = manifest["points"], manifest["status"]
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(f"{str(workdir)!r}: it holds no study that can be read") from None
    if status != "finished":
        raise UserError(f"{str(workdir)!r}: the study there is not finished")
    check_manifest(manifest, workdir)
    return points
