"""Pretrained weights: files of named tensors, and their conversion to the variables of ResNet-18 and -50.

Files are .safetensors, .npz, and PyTorch's .pth and .pt if PyTorch is installed. No code in them is run, and what is
unpacked has a bound. The names and shapes are torchvision's, which timm uses too. The networks of this package begin
with a 3x3 convolution. Those for ImageNet begin with a 7x7 convolution of stride 2, which `resized` converts. Nothing
is downloaded.
"""

import contextlib
import importlib.util
import pickletools
import re
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_dtypes  # noqa: F401  registers bfloat16 with NumPy
import numpy as np
from safetensors.numpy import load_file

from mdfl_jax.core.errors import UserError
from mdfl_jax.models.weights import WEIGHTS, WeightFormat
from mdfl_jax.storage.disk import check_npz, check_size
from mdfl_jax.storage.given import LARGE, check_file

NEEDS_CODE = "it holds a pickle, which needs code to be read; only tensors are taken"
STATE_DICTS = ("state_dict", "model_state_dict", "model")
"""Keys under which a PyTorch checkpoint may hold its tensors, beside other content."""

PLAIN = (
    "_codecs.encode",
    *(f"{of}.{name}" for of in ("builtins", "__builtin__") for name in ("set", "bytearray", "complex")),
)
"""The names beside tensors that PyTorch's own reading of weights alone takes: bytes, sets and complex numbers."""

MOST_PICKLED = 2**26  # bytes of the pickle, which has the names and shapes; that of ResNet-50 has 30 thousand
PICKLES = 5  # that a file of before PyTorch 1.6 begins with: a number, a version, the system, the tensors, their keys
PREFIXES = ("module.", "_orig_mod.", "model.")
"""Prefixes that data parallelism, torch.compile and Lightning add to all names."""
TWINS = {"resnet18": "ResNet-18", "resnet50": "ResNet-50"}
"""The models with a counterpart in torchvision: name in `MODELS` -> name of the architecture."""
_KNOWN: dict[tuple[tuple[int, ...], bool], str] = {  # (blocks of the stages, bottlenecks) -> architecture
    ((2, 2, 2, 2), False): "ResNet-18",
    ((3, 4, 6, 3), False): "ResNet-34",
    ((3, 4, 6, 3), True): "ResNet-50",
    ((3, 4, 23, 3), True): "ResNet-101",
    ((3, 8, 36, 3), True): "ResNet-152",
}
STEM, HEAD = "conv1.weight", ("fc.weight", "fc.bias")
LEAVES = {"kernel": "weight", "scale": "weight", "bias": "bias", "mean": "running_mean", "var": "running_var"}
_RENAMED = (
    (r"^layer(\d+)_(\d+)\.", r"layer\1.\2."),
    (r"conv(\d)\.conv\.", r"conv\1."),
    (r"conv(\d)\.norm\.batch\.", r"bn\1."),
    (r"downsample\.conv\.", "downsample.0."),
    (r"downsample\.norm\.batch\.", "downsample.1."),
)


def read_pytorch(path: str | Path) -> dict[str, np.ndarray]:
    """Read the tensors of a file that `torch.save` has written.

    The file may hold the tensors themselves, or a dictionary that has them under one of the keys `STATE_DICTS`.

    Returns:
      Arrays by name. The type bfloat16 is converted to float32.

    Raises:
      UserError: if the file holds anything else than dense tensors, is damaged, would run code or would unpack to more
        than the memory; if PyTorch is not installed.
    """
    _check_pytorch(path)
    if importlib.util.find_spec("torch") is None:
        raise UserError("PyTorch is needed to read it, and is not installed; save it as .safetensors or .npz")
    import torch

    with _whole("PyTorch"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            loaded = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # PyTorch names what it refuses to load
            refused = next((line for line in str(error).splitlines() if "nsupported" in line), "")
            raise (UserError(f"{NEEDS_CODE} ({_short(refused)})") if refused else error) from None
    for key in STATE_DICTS:
        if isinstance(loaded, Mapping) and isinstance(loaded.get(key), Mapping):
            loaded = loaded[key]
    if not isinstance(loaded, Mapping):
        raise UserError(f"it holds a {type(loaded).__name__}, not tensors by name")
    return {str(name): _from_torch(str(name), tensor) for name, tensor in loaded.items()}


def _check_pytorch(path: str | Path) -> None:
    """Check what a file would do and how much it would unpack, without PyTorch and without running anything."""
    if not zipfile.is_zipfile(path):
        with _whole("PyTorch"), open(path, "rb") as file:  # of before PyTorch 1.6
            for _ in range(PICKLES):
                if file.peek(1):
                    _check_names(file)
        return
    with _whole("PyTorch"), zipfile.ZipFile(path) as archive:
        entries = {entry.filename: entry for entry in archive.infolist()}
        if any("/code/" in name or name.endswith("/constants.pkl") for name in entries):
            raise UserError("it is a TorchScript archive, which is a program; save the model's state_dict()")
        check_size(sum(entry.file_size for entry in entries.values()))
        named = [name for name in entries if name.endswith("data.pkl")]
        if len(named) != 1:
            raise ValueError(f"it holds {len(named)} data.pkl")
        if (size := entries[named[0]].file_size) > MOST_PICKLED:
            raise UserError(f"its {named[0]} has {size:,} bytes; at most {MOST_PICKLED:,} are allowed")
        with archive.open(named[0]) as file:
            _check_names(file)


def _check_names(file: IO[bytes]) -> None:
    """Check the functions and classes that a pickle names. The pickle is read to its end and not carried out."""
    for name in _names(file):
        module, _, last = name.rpartition(".")
        if last.startswith("_rebuild_") and "sparse" in last:
            raise UserError("it holds a sparse tensor; only dense ones are taken")
        if module.partition(".")[0] not in ("torch", "collections") and name not in PLAIN:
            raise UserError(f"{NEEDS_CODE} ({name})")


def _names(file: IO[bytes]) -> Iterator[str]:
    for opcode, argument, _ in pickletools.genops(file):
        if opcode.name in ("GLOBAL", "INST"):
            yield str(argument).replace(" ", ".")
        elif opcode.name == "STACK_GLOBAL" or opcode.name.startswith("EXT"):  # these names stand elsewhere
            yield opcode.name


@contextlib.contextmanager
def _whole(kind: str) -> Iterator[None]:
    """Turn an error of a reader into the line that the file is not whole. Damaged files raise many types of errors."""
    try:
        yield
    except (UserError, OSError):
        raise
    except Exception as error:
        raise UserError(f"it is not a whole {kind} file ({_short(error)})") from None


def _short(text: object) -> str:
    """Return a message in one line of at most 120 characters."""
    return " ".join(str(text).split())[:120]


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


def read_tensors(path: str | Path) -> dict[str, np.ndarray]:
    """Read the tensors of a weights file.

    A prefix of `PREFIXES` is removed if all names have it. A PyTorch file may hold the tensors themselves, or a
    dictionary that has them under one of the keys `mdfl_jax.contrib.pretrained.pretrained.STATE_DICTS`.

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
        check_file(path, LARGE)
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


def _safetensors(path: str | Path) -> dict[str, np.ndarray]:
    with _whole("safetensors"):
        try:
            return load_file(str(path))
        except (AttributeError, KeyError, TypeError) as error:  # types that NumPy does not know
            raise UserError(f"it holds tensors of a type that cannot be read ({_short(error)})") from None


def _npz(path: str | Path) -> dict[str, np.ndarray]:
    with open(path, "rb") as file:
        if file.read(4) not in (b"PK\x03\x04", b"\x93NUM", b""):
            raise UserError("it is not an .npz file")
    with _whole(".npz"):
        if zipfile.is_zipfile(path):
            check_npz(path)
        try:
            loaded = np.load(path, allow_pickle=False)
            arrays = {name: loaded[name] for name in getattr(loaded, "files", ())}
        except ValueError as error:  # of damaged headers too
            raise (UserError(NEEDS_CODE) if "pickle" in str(error) else error) from None
    if isinstance(loaded, np.ndarray):
        raise UserError("it holds one array without a name; an .npz holds arrays by name")
    loaded.close()
    return arrays


READERS: dict[str, Callable[[str | Path], dict[str, np.ndarray]]] = {
    ".safetensors": _safetensors,
    ".npz": _npz,
    ".pth": read_pytorch,
    ".pt": read_pytorch,
}


class _Report(NamedTuple):
    """A report on the tensors of a file.

    Attributes:
      taken: the names of the tensors that are used unchanged.
      resized: the names of the tensors that are used in another size.
      left_out: the names of the tensors that are not used, each with the reason. It includes tensors of the head that
        are missing in the file.
    """

    taken: tuple[str, ...]
    resized: tuple[str, ...]
    left_out: dict[str, str]

    def describe(self) -> str:
        """Return the report in one line."""
        parts = [f"{len(self.taken)} tensors taken"]
        parts += [f"{name} taken, 7x7 summed to 3x3" for name in self.resized]
        for reason in dict.fromkeys(self.left_out.values()):
            names = [name for name, why in self.left_out.items() if why == reason]
            shown = ", ".join(names) if len(names) <= len(HEAD) else str(len(names))
            parts.append(f"{shown} left out ({reason})")
        return "; ".join(parts)


def match(tensors: Mapping[str, np.ndarray], shapes: Any) -> tuple[Any, _Report]:
    """Convert tensors with torchvision's names to a model's variables.

    The tensors and the variables must match one to one, by name and shape, with three exceptions. The first convolution
    may be 7x7 (`resized`). The head is left out if it has another number of classes or is missing. Tensors called
    num_batches_tracked are ignored, because they are not needed.

    Args:
      tensors: the tensors by name, from `mdfl_jax.contrib.pretrained.pretrained.read_tensors`.
      shapes: the shapes of the model's variables, from ``jax.eval_shape(model.init, ...)``.

    Returns:
      The tree of ``shapes`` with float32 NumPy arrays, or None for variables that must be initialised at random; and
      the report.

    Raises:
      UserError: if a tensor is missing, unknown, of another shape or type, or not finite (the message names each such
        tensor); for tensors of another architecture; for a model without batch normalisation.
    """
    if "batch_stats" not in shapes:
        raise UserError("pretrained weights are of networks with batch normalisation; model.norm must be batch")
    leaves, tree = jax.tree_util.tree_flatten_with_path(shapes)
    wanted = {torch_name(path): torch_shape(leaf.shape) for path, leaf in leaves}
    _check_architecture(tensors, wanted)
    left_out = _head(tensors, wanted)
    left_out |= {name: "counters that have no use here" for name in tensors if _is_counter(name, wanted)}
    wanted_here = {name: shape for name, shape in wanted.items() if name not in left_out}
    held = {name: tensor for name, tensor in tensors.items() if name not in left_out}
    _check(held, wanted_here)
    to_resize = {STEM} if held[STEM].shape != wanted[STEM] else set()
    arrays: dict[str, np.ndarray] = {}
    for name, tensor in held.items():
        wide = resized(np.asarray(tensor, np.float32)) if name in to_resize else np.asarray(tensor, np.float32)
        arrays[name] = wide.transpose(2, 3, 1, 0) if wide.ndim == 4 else wide.T
    given = jax.tree.unflatten(tree, [arrays.get(name) for name in wanted])
    return given, _Report(tuple(name for name in held if name not in to_resize), tuple(to_resize), left_out)


def torch_name(path: tuple[Any, ...]) -> str:
    """Return torchvision's name of a variable, from its path in the tree.

    >>> torch_name(tuple(map(jax.tree_util.DictKey, ("batch_stats", "layer2_0", "downsample", "norm", "batch", "var"))))
    'layer2.0.downsample.1.running_var'
    """
    _, *parts, leaf = (entry.key for entry in path)
    name = ".".join((*parts, LEAVES[leaf]))
    for pattern, replacement in _RENAMED:
        name = re.sub(pattern, replacement, name)
    return name


def torch_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return PyTorch's shape of a variable.

    It is [out, in, H, W] for a kernel [H, W, in, out], and [out, in] for a matrix [in, out].
    """
    return (*shape[:1:-1], *shape[:2]) if len(shape) == 4 else shape[::-1]


def resized(kernels: np.ndarray) -> np.ndarray:
    """Convert 7x7 kernels to 3x3 kernels by sums of taps.

    Each new tap is the sum of the 7/3 x 7/3 old taps that it covers; taps on a border count in part. The 3x3 kernel
    then gives the same result as the 7x7 kernel on an image that is enlarged 7/3 times with square pixels, which is how
    small images are brought to the size that the network was trained for. The sum of a kernel does not change.
    Therefore its output on a uniform area does not change either, and the running statistics of the next layer remain
    valid. A central crop of the kernel would keep neither.

    Args:
      kernels: [out, in, 7, 7].

    Returns:
      [out, in, 3, 3].

    >>> resized(np.ones((1, 1, 7, 7)))[0, 0, 0, 0].round(4).item()  # (7 / 3)^2
    5.4444
    """
    start, tap = np.arange(3)[:, None] * 7 / 3, np.arange(7)
    share = np.clip(np.minimum(start + 7 / 3, tap + 1) - np.maximum(start, tap), 0, 1)  # [3, 7] share of each tap
    return np.einsum("ay,bx,oiyx->oiab", share, share, kernels).astype(kernels.dtype)


def architecture(names: Mapping[str, Any]) -> tuple[tuple[int, ...], bool]:
    """Return the number of blocks of each stage, and whether they are bottlenecks, from the names of the tensors."""
    found = {place.groups() for place in (re.match(r"layer(\d+)\.(\d+)\.", name) for name in names) if place}
    stages = sorted({int(stage) for stage, _ in found})
    blocks = tuple(sum(int(of) == stage for of, _ in found) for stage in stages)
    return blocks, any(re.match(r"layer\d+\.\d+\.conv3\.", name) for name in names)


def _check_architecture(tensors: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Reject a file of another known architecture, or of no ResNet, with one line instead of hundreds of names."""
    if not architecture(tensors)[0]:
        held = ", ".join(list(tensors)[:3]) or "nothing"
        raise UserError(f"no name in it is of a ResNet's blocks, as layer1.0.conv1.weight; it begins with {held}")
    held_is, wanted_is = _KNOWN.get(architecture(tensors)), _KNOWN.get(architecture(wanted))
    if held_is and held_is != wanted_is:
        raise UserError(f"it is of a {held_is}; the model is a {wanted_is or 'network of another form'}")


def _is_counter(name: str, wanted: Mapping[str, Any]) -> bool:
    norm, _, last = name.rpartition(".")
    return last == "num_batches_tracked" and f"{norm}.running_mean" in wanted


def _head(tensors: Mapping[str, np.ndarray], wanted: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    """Return the tensors of the head with the reason if the head is to be left out, else an empty dictionary."""
    classes, features = wanted[HEAD[0]]
    if not set(HEAD) & set(tensors):
        return dict.fromkeys(HEAD, "not in the file; drawn at random")
    if not set(HEAD) <= set(tensors):
        return {}
    weight, bias = (tensors[name].shape for name in HEAD)
    if len(bias) == 1 and bias[0] > 0 and weight == (*bias, features) and bias != (classes,):
        return dict.fromkeys(HEAD, f"of {bias[0]} classes, here there are {classes}; drawn at random")
    return {}


def _check(held: Mapping[str, np.ndarray], wanted: Mapping[str, tuple[int, ...]]) -> None:
    """Raise a `UserError` that names every tensor that does not fit."""
    faults = [f"{name} is missing" for name in wanted if name not in held]
    faults += [f"{name} has no place" for name in held if name not in wanted]
    for name in (name for name in held if name in wanted):
        fault = _fault(name, held[name], wanted[name])
        faults += [f"{name} {fault}"] if fault else []
    if faults:
        raise UserError("; ".join(faults))


def _fault(name: str, tensor: np.ndarray, shape: tuple[int, ...]) -> str:
    """Return the fault of a tensor in words, or '' if there is none."""
    shapes = [shape]
    if name == STEM and shape[2:] == (3, 3):
        shapes.append((*shape[:2], 7, 7))
    if tensor.shape not in shapes:
        return f"is {list(tensor.shape)}, and must be {' or '.join(str(list(s)) for s in shapes)}"
    if not jnp.issubdtype(tensor.dtype, jnp.floating):
        return f"is of type {tensor.dtype}, and must be of floating-point numbers"
    with np.errstate(over="ignore"):
        single = np.asarray(tensor, np.float32)
    if not np.isfinite(single).all():
        return "holds numbers that are not finite"
    if name.endswith("running_var") and single.min() < 0:
        return "holds a variance below zero"
    return ""


for _ending in READERS:
    WEIGHTS.register(_ending, doc="Tensors with torchvision's names.")(WeightFormat(tuple(TWINS), read_tensors, match))
