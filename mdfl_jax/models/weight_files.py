"""Reads files of named tensors: .safetensors, .npz, and PyTorch's files if it is installed. No code in them is run."""

import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import ml_dtypes  # noqa: F401  registers bfloat16 with NumPy
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from mdfl_jax.core.errors import UserError
from mdfl_jax.models.pytorch_files import read_pytorch
from mdfl_jax.storage.limits import check_npz

PREFIXES = ("module.", "_orig_mod.", "model.")
"""Prefixes that data parallelism, torch.compile and Lightning add to all names."""


def read_tensors(path: str | Path) -> dict[str, np.ndarray]:
    """Read the tensors of a weights file.

    A prefix of `PREFIXES` is removed if all names have it. A PyTorch file may hold the tensors themselves, or a
    dictionary that has them under one of the keys `mdfl_jax.models.pytorch_files.STATE_DICTS`.

    Args:
      path: a file that ends in .safetensors, .npz, .pth or .pt.

    Returns:
      Arrays by name, with the types and shapes of the file. The type bfloat16 is that of `ml_dtypes`; from a PyTorch
      file, bfloat16 is converted to float32.

    Raises:
      UserError: if the file is missing, has another ending, is damaged, holds anything else than tensors, or holds a
        pickle that would need code; or if PyTorch is needed and not installed. The message names the file.
    """
    suffix = Path(path).suffix
    try:
        if suffix not in READERS:
            raise UserError(f"it ends in {suffix!r}; a weights file ends in {', '.join(READERS)}")
        if not Path(path).is_file():
            raise UserError("there is no such file")
        return without_prefix(READERS[suffix](path))
    except UserError as error:
        raise UserError(f"{str(path)!r}: {error}") from None
    except OSError as error:
        raise UserError(f"{str(path)!r}: it cannot be read ({_short(error)})") from None


def without_prefix(tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Remove every prefix of `PREFIXES` that all names have.

    >>> list(without_prefix({"module.model.fc.bias": 0, "module.model.fc.weight": 0}))
    ['fc.bias', 'fc.weight']
    """
    for prefix in PREFIXES * len(PREFIXES):  # nested prefixes may come in any order
        if tensors and all(name.startswith(prefix) for name in tensors):
            tensors = {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
    return tensors


def _short(error: BaseException) -> str:
    """Return an error's message in one line of at most 120 characters."""
    return " ".join(str(error).split())[:120]


def _safetensors(path: str | Path) -> dict[str, np.ndarray]:
    try:
        return load_file(str(path))
    except SafetensorError as error:
        raise UserError(f"it is not a whole safetensors file ({_short(error)})") from None
    except (AttributeError, KeyError, TypeError) as error:  # types that NumPy does not know
        raise UserError(f"it holds tensors of a type that cannot be read ({_short(error)})") from None


def _npz(path: str | Path) -> dict[str, np.ndarray]:
    with open(path, "rb") as file:
        if file.read(4) not in (b"PK\x03\x04", b"\x93NUM", b""):
            raise UserError("it is not an .npz file")
    try:
        if zipfile.is_zipfile(path):
            check_npz(path)
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            raise UserError("it holds one array without a name; an .npz holds arrays by name")
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    except UserError:
        raise
    except (
        EOFError,
        NotImplementedError,
        RuntimeError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:  # of damaged headers too
        raise UserError(f"it is not a whole .npz file ({_short(error)})") from None
    except ValueError as error:
        if "pickle" in str(error):
            raise UserError("it holds a pickle, which needs code to be read; only tensors are taken") from None
        raise UserError(f"it is not a whole .npz file ({_short(error)})") from None


READERS: dict[str, Callable[[str | Path], dict[str, np.ndarray]]] = {
    ".safetensors": _safetensors,
    ".npz": _npz,
    ".pth": read_pytorch,
    ".pt": read_pytorch,
}
