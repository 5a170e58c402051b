"""Pretrained weights of ResNet-18 and -50: from torchvision's names and shapes, which timm's are too, to those here.

The networks here begin with a 3x3 convolution, ImageNet's with one of 7x7 and stride 2; `resized` says what becomes of
it. Nothing is downloaded.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.errors import UserError

TWINS = {"resnet18": "ResNet-18", "resnet50": "ResNet-50"}
"""The models that have a twin in torchvision: `MODELS` name -> what it is called."""

KNOWN: dict[tuple[tuple[int, ...], bool], str] = {  # (blocks of the stages, bottlenecks) -> architecture
    ((2, 2, 2, 2), False): "ResNet-18",
    ((3, 4, 6, 3), False): "ResNet-34",
    ((3, 4, 6, 3), True): "ResNet-50",
    ((3, 4, 23, 3), True): "ResNet-101",
    ((3, 8, 36, 3), True): "ResNet-152",
}

STEM, HEAD = "conv1.weight", ("fc.weight", "fc.bias")
LEAVES = {"kernel": "weight", "scale": "weight", "bias": "bias", "mean": "running_mean", "var": "running_var"}
RENAMED = (
    (r"^layer(\d+)_(\d+)\.", r"layer\1.\2."),
    (r"conv(\d)\.conv\.", r"conv\1."),
    (r"conv(\d)\.norm\.batch\.", r"bn\1."),
    (r"downsample\.conv\.", "downsample.0."),
    (r"downsample\.norm\.batch\.", "downsample.1."),
)


class Report(NamedTuple):
    """What became of a file's tensors.

    Attributes:
      taken: names of those that are taken as they are.
      resized: of those that are taken in another size.
      left_out: of those that are not, each with the reason; among them those of the head that the file does not have.
    """

    taken: tuple[str, ...]
    resized: tuple[str, ...]
    left_out: dict[str, str]

    def describe(self) -> str:
        """One line."""
        parts = [f"{len(self.taken)} tensors taken"]
        parts += [f"{name} taken, 7x7 summed to 3x3" for name in self.resized]
        for reason in dict.fromkeys(self.left_out.values()):
            names = [name for name, why in self.left_out.items() if why == reason]
            shown = ", ".join(names) if len(names) <= len(HEAD) else str(len(names))
            parts.append(f"{shown} left out ({reason})")
        return "; ".join(parts)


def match(tensors: Mapping[str, np.ndarray], shapes: Any) -> tuple[Any, Report]:
    """A model's variables from tensors in torchvision's names.

    Every tensor must have its place, by name and shape, and every place its tensor, but for: the first convolution,
    which may be 7x7 (`resized`); the head, which is left out where it is of another number of classes, or not there;
    and num_batches_tracked, of which there is no need.

    Args:
      tensors: as `mdfl_jax.models.weight_files.read_tensors` gives them.
      shapes: the variables of the model, as ``jax.eval_shape(model.init, ...)`` gives them.

    Returns:
      The tree of ``shapes`` with float32 NumPy arrays, None where the start is to be drawn; and the report.

    Raises:
      UserError: naming each tensor that is missing, without a place, or of another shape; for tensors of another
        architecture; for a model without batch normalisation.
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
    return given, Report(tuple(name for name in held if name not in to_resize), tuple(to_resize), left_out)


def torch_name(path: tuple[Any, ...]) -> str:
    """torchvision's name of a variable.

    >>> torch_name(tuple(map(jax.tree_util.DictKey, ("batch_stats", "layer2_0", "downsample", "norm", "batch", "var"))))
    'layer2.0.downsample.1.running_var'
    """
    _, *parts, leaf = (entry.key for entry in path)
    name = ".".join((*parts, LEAVES[leaf]))
    for pattern, replacement in RENAMED:
        name = re.sub(pattern, replacement, name)
    return name


def torch_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """PyTorch's shape of a variable: [out, in, H, W] of a kernel [H, W, in, out], [out, in] of a matrix [in, out]."""
    return (*shape[:1:-1], *shape[:2]) if len(shape) == 4 else shape[::-1]


def resized(kernels: np.ndarray) -> np.ndarray:
    """3x3 kernels of 7x7 ones: each tap is the sum of the 7/3 x 7/3 taps in its place, those at a border in part.

    So the 3x3 kernel sees an image as the 7x7 one sees it enlarged 7/3 times, each pixel a square, which is how small
    images are brought to the size that the network was trained for. Sums over a kernel stay, and with them the answer
    to an even area, for which the running statistics of the next layer stand. A central crop would keep neither.

    Args:
      kernels: [out, in, 7, 7].

    >>> resized(np.ones((1, 1, 7, 7)))[0, 0, 0, 0].round(4).item()  # (7 / 3)^2
    5.4444
    """
    start, tap = np.arange(3)[:, None] * 7 / 3, np.arange(7)
    share = np.clip(np.minimum(start + 7 / 3, tap + 1) - np.maximum(start, tap), 0, 1)  # [3, 7]: how much of a tap
    return np.einsum("ay,bx,oiyx->oiab", share, share, kernels).astype(kernels.dtype)


def architecture(names: Mapping[str, Any]) -> tuple[tuple[int, ...], bool]:
    """Blocks of each stage, and whether they are bottlenecks, by the names of the tensors."""
    found = {place.groups() for place in (re.match(r"layer(\d+)\.(\d+)\.", name) for name in names) if place}
    stages = sorted({int(stage) for stage, _ in found})
    blocks = tuple(sum(int(of) == stage for of, _ in found) for stage in stages)
    return blocks, any(re.match(r"layer\d+\.\d+\.conv3\.", name) for name in names)


def _check_architecture(tensors: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Tells a known architecture apart, and a file of other things, without the hundreds of names they differ in."""
    if not architecture(tensors)[0]:
        held = ", ".join(list(tensors)[:3]) or "nothing"
        raise UserError(f"no name in it is of a ResNet's blocks, as layer1.0.conv1.weight; it begins with {held}")
    held_is, wanted_is = KNOWN.get(architecture(tensors)), KNOWN.get(architecture(wanted))
    if held_is and held_is != wanted_is:
        raise UserError(f"it is of a {held_is}; the model is a {wanted_is or 'network of another form'}")


def _is_counter(name: str, wanted: Mapping[str, Any]) -> bool:
    norm, _, last = name.rpartition(".")
    return last == "num_batches_tracked" and f"{norm}.running_mean" in wanted


def _head(tensors: Mapping[str, np.ndarray], wanted: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    """The tensors of the head where it is to be left out, with the reason."""
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
    """Names every tensor that does not fit."""
    faults = [f"{name} is missing" for name in wanted if name not in held]
    faults += [f"{name} has no place" for name in held if name not in wanted]
    for name in (name for name in held if name in wanted):
        fault = _fault(name, held[name], wanted[name])
        faults += [f"{name} {fault}"] if fault else []
    if faults:
        raise UserError("; ".join(faults))


def _fault(name: str, tensor: np.ndarray, shape: tuple[int, ...]) -> str:
    """What is wrong with a tensor; '' where nothing is."""
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
