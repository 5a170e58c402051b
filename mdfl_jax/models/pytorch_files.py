"""Reads tensors from PyTorch's files, .pth and .pt, if PyTorch is installed.

What a file asks for is looked at before PyTorch opens it: nothing but dense tensors is taken, no code is run, and what
is unpacked has a bound.
"""

import importlib.util
import pickletools
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.storage.limits import check_size

STATE_DICTS = ("state_dict", "model_state_dict", "model")
"""Keys under which a PyTorch checkpoint may hold its tensors, beside other content."""

PLAIN = (
    "_codecs.encode",
    *(f"{of}.{name}" for of in ("builtins", "__builtin__") for name in ("set", "bytearray", "complex")),
)
"""The names beside tensors that PyTorch's own reading of weights alone takes: bytes, sets and complex numbers."""

MOST_PICKLED = 2**26  # bytes of the pickle, which has the names and shapes; that of ResNet-50 has 30 thousand
PICKLES = 5  # that a file of before PyTorch 1.6 begins with: a number, a version, the system, the tensors, their keys


def read_pytorch(path: str | Path) -> dict[str, np.ndarray]:
    """Read the tensors of a file that `torch.save` has written.

    The file may hold the tensors themselves, or a dictionary that has them under one of the keys `STATE_DICTS`.

    Returns:
      Arrays by name. The type bfloat16 is converted to float32.

    Raises:
      UserError: if the file holds anything else than dense tensors, is damaged, would run code or would unpack to more
        than the memory; if PyTorch is not installed.
    """
    _check(path)
    if importlib.util.find_spec("torch") is None:
        raise UserError("PyTorch is needed to read it, and is not installed; save it as .safetensors or .npz")
    import torch

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loaded = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged pickle may raise any type
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


def _check(path: str | Path) -> None:
    """Check what a file would do and how much it would unpack, without PyTorch and without running anything."""
    try:
        if not zipfile.is_zipfile(path):
            with open(path, "rb") as file:  # of before PyTorch 1.6
                for _ in range(PICKLES):
                    if file.peek(1):
                        _check_names(file)
            return
        with zipfile.ZipFile(path) as archive:
            entries = {entry.filename: entry for entry in archive.infolist()}
            if any("/code/" in name or name.endswith("/constants.pkl") for name in entries):
                raise UserError("it is a TorchScript archive, which is a program; save the model's state_dict()")
            check_size(sum(entry.file_size for entry in entries.values()))
            named = [name for name in entries if name.endswith("data.pkl")]
            if len(named) != 1:
                raise UserError(f"it is not a whole PyTorch file (it holds {len(named)} data.pkl)")
            if entries[named[0]].file_size > MOST_PICKLED:
                size = entries[named[0]].file_size
                raise UserError(f"its {named[0]} has {size:,} bytes; at most {MOST_PICKLED:,} are allowed")
            with archive.open(named[0]) as file:
                _check_names(file)
    except (UserError, OSError):
        raise
    except Exception as error:  # damaged archives and pickles raise many types
        raise UserError(f"it is not a whole PyTorch file ({_short(error)})") from None


def _check_names(file: IO[bytes]) -> None:
    """Check the functions and classes that a pickle names. The pickle is read to its end and not carried out."""
    for name in _names(file):
        module, _, last = name.rpartition(".")
        if last.startswith("_rebuild_") and "sparse" in last:
            raise UserError("it holds a sparse tensor; only dense ones are taken")
        if module.partition(".")[0] not in ("torch", "collections") and name not in PLAIN:
            raise UserError(f"it holds a pickle that needs code to be read; only tensors are taken ({name})")


def _names(file: IO[bytes]) -> Iterator[str]:
    for opcode, argument, _ in pickletools.genops(file):
        if opcode.name in ("GLOBAL", "INST"):
            yield str(argument).replace(" ", ".")
        elif opcode.name == "STACK_GLOBAL" or opcode.name.startswith("EXT"):  # these names stand elsewhere
            yield opcode.name


def _short(error: BaseException) -> str:
    """Return an error's message in one line of at most 120 characters."""
    return " ".join(str(error).split())[:120]


def _refused(message: str) -> str:
    """Return PyTorch's line about the object that it refused to load."""
    return next((_short(ValueError(line)) for line in message.splitlines() if "nsupported" in line), "")


def _from_torch(name: str, tensor: Any) -> np.ndarray:
    import torch

    if not isinstance(tensor, torch.Tensor):
        raise UserError(
            f"{name} is a {type(tensor).__name__}, not a tensor; known keys of checkpoints: {', '.join(STATE_DICTS)}"
        )
    dense = tensor.detach()
    try:
        return (dense.float() if dense.dtype == torch.bfloat16 else dense).numpy()
    except (TypeError, RuntimeError) as error:  # sparse, quantized, or without numbers
        raise UserError(f"{name} is no dense tensor ({_short(error)})") from None
