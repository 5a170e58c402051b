"""Files of named tensors: safetensors, .npz, and PyTorch's where PyTorch is installed. No code of a file is run."""

import importlib.util
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  tells NumPy of bfloat16
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from mdfl_jax.errors import UserError

STATE_DICTS = ("state_dict", "model_state_dict", "model")
"""Keys under which a PyTorch checkpoint may hold its tensors, among other things."""

PREFIXES = ("module.", "_orig_mod.", "model.")
"""What data parallelism, torch.compile and Lightning put in front of all names."""


def read_tensors(path: str | Path) -> dict[str, np.ndarray]:
    """The tensors of a weights file by name.

    A prefix of `PREFIXES` that all names have is left off. A PyTorch file may hold the tensors themselves or a
    dictionary with them under one of `STATE_DICTS`.

    Args:
      path: a file that ends in .safetensors, .npz, .pth or .pt.

    Returns:
      Arrays in the types and shapes of the file; bfloat16 is that of `ml_dtypes`, from PyTorch float32.

    Raises:
      UserError: naming the file: there is none, another ending, one that is damaged or holds other things than tensors,
        or a pickle that would need code; PyTorch is not installed.
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
    """Leaves off the `PREFIXES` that all names have.

    >>> list(without_prefix({"module.model.fc.bias": 0, "module.model.fc.weight": 0}))
    ['fc.bias', 'fc.weight']
    """
    for prefix in PREFIXES * len(PREFIXES):  # in any order
        if tensors and all(name.startswith(prefix) for name in tensors):
            tensors = {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
    return tensors


def _short(error: BaseException) -> str:
    """An error's message as a piece of one line."""
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
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            raise UserError("it holds one array without a name; an .npz holds arrays by name")
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    except UserError:
        raise
    except (EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise UserError(f"it is not a whole .npz file ({_short(error)})") from None
    except ValueError as error:
        if "pickle" in str(error):
            raise UserError("it holds a pickle, which needs code to be read; only tensors are taken") from None
        raise UserError(f"it is not a whole .npz file ({_short(error)})") from None


def _pytorch(path: str | Path) -> dict[str, np.ndarray]:
    if importlib.util.find_spec("torch") is None:
        raise UserError("PyTorch is needed to read it, and is not installed; save it as .safetensors or .npz")
    import torch

    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever the bytes of a damaged pickle make of themselves
        if "Weights only load failed" in str(error) and "nsupported" in str(error):
            reason = "it holds a pickle that needs code to be read; only tensors are taken"
            raise UserError(f"{reason} ({_refused(str(error))})") from None
        raise UserError(f"it is not a whole PyTorch file ({_short(error)})") from None
    for key in STATE_DICTS:
        if isinstance(loaded, Mapping) and isinstance(loaded.get(key), Mapping):
            loaded = loaded[key]
    if not isinstance(loaded, Mapping):
        raise UserError(f"it holds a {type(loaded).__name__}, not tensors by name")
    return {str(name): _from_torch(str(name), tensor) for name, tensor in loaded.items()}


def _refused(message: str) -> str:
    """What PyTorch says of the object that it did not make."""
    return next((_short(ValueError(line)) for line in message.splitlines() if "nsupported" in line), "")


def _from_torch(name: str, tensor: Any) -> np.ndarray:
    import torch

    if not isinstance(tensor, torch.Tensor):
        raise UserError(
            f"{name} is a {type(tensor).__name__}, not a tensor; known keys of checkpoints: {', '.join(STATE_DICTS)}"
        )
    dense = tensor.detach()
    return (dense.float() if dense.dtype == torch.bfloat16 else dense).numpy()


READERS: dict[str, Callable[[str | Path], dict[str, np.ndarray]]] = {
    ".safetensors": _safetensors,
    ".npz": _npz,
    ".pth": _pytorch,
    ".pt": _pytorch,
}
