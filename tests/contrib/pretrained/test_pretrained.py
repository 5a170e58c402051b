"""Pretrained weights: logits against a ResNet written from torchvision's names, the adapted stem, and every refusal."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from oracles.resnet import logits, names_and_shapes, random_tensors
from safetensors.numpy import save_file
from small import told

from mdfl_jax.contrib.pretrained.pretrained import match, read_tensors, resized
from mdfl_jax.models import make_model

CLASSES, WIDTH = 10, 4
SMALL = {"width": WIDTH, "num_classes": CLASSES, "stem": 3}


def model_of(name="resnet18", width=WIDTH, num_classes=CLASSES, **settings):
    return make_model(name, num_classes, base_width=width, **settings)


@cache
def shapes_of(name="resnet18", width=WIDTH, num_classes=CLASSES, channels=3, norm="batch"):
    model = model_of(name, width, num_classes, norm=norm)
    return jax.eval_shape(model.init, jax.random.key(0), jnp.zeros((1, 8, 8, channels)))


@pytest.mark.long
@pytest.mark.parametrize(("name", "form"), [("resnet18", ""), ("resnet50", "library")])  # which compiles faster
def test_logits_are_those_of_the_reference(name, form, tmp_path):
    tensors = random_tensors(name, **SMALL)
    save_file(tensors, tmp_path / "w.safetensors")
    variables, report = match(read_tensors(tmp_path / "w.safetensors"), shapes_of(name))
    images = jax.random.normal(jax.random.key(0), (3, 16, 16, 3))
    ours = jax.jit(model_of(name, convolution=form).apply)(variables, images)
    theirs = jax.jit(partial(logits, name=name))(tensors, images)
    assert np.abs(theirs).max() > 0.1
    np.testing.assert_allclose(ours, theirs, atol=1e-4 * np.abs(theirs).max())
    counters = {leaf for leaf in tensors if leaf.endswith("num_batches_tracked")}
    assert set(report.taken) == set(tensors) - counters
    assert (set(report.left_out), report.resized) == (counters, ())


def test_every_tensor_of_torchvision_has_its_place_at_full_width():
    names = names_and_shapes("resnet50")
    assert len(names) == 320
    tensors = {leaf: np.broadcast_to(np.float32(0.5), shape) for leaf, shape in names.items()}
    shapes = shapes_of("resnet50", width=None, num_classes=1000)
    given, report = match(tensors, shapes)
    assert jax.tree.map(jnp.shape, given) == jax.tree.map(jnp.shape, shapes)
    assert report.resized == ("conv1.weight",)
    assert len(report.taken) + len(report.resized) + len(report.left_out) == len(names)


def test_the_adapted_kernel_sees_what_the_first_one_sees_enlarged():
    rng = np.random.default_rng(0)
    kernels, images = rng.normal(size=(5, 3, 7, 7)).astype(np.float32), rng.normal(size=(2, 3, 6, 6))
    # A pixel is 7 units wide, a tap of the 7x7 kernel 3.
    units = np.repeat(np.repeat(kernels, 3, axis=2), 3, axis=3) / 9
    enlarged = np.repeat(np.repeat(images.astype(np.float32), 7, axis=2), 7, axis=3)
    small = jax.lax.conv(images.astype(np.float32), resized(kernels), (1, 1), "VALID")
    np.testing.assert_allclose(small, jax.lax.conv(enlarged, units, (7, 7), "VALID"), atol=1e-4)
    np.testing.assert_allclose(resized(kernels).sum((2, 3)), kernels.sum((2, 3)), atol=1e-5)


def test_imagenet_weights_keep_all_but_the_head_and_have_their_stem_adapted(tmp_path):
    """Of a file whose names have a prefix, in half or double precision."""
    tensors = random_tensors("resnet18", width=WIDTH)
    for dtype, prefix in ((np.float64, "_orig_mod."), (ml_dtypes.bfloat16, "model.module.")):
        save_file({prefix + name: tensor.astype(dtype) for name, tensor in tensors.items()}, tmp_path / "w.safetensors")
        given, report = match(read_tensors(tmp_path / "w.safetensors"), shapes_of())
        assert given["params"]["fc"] == {"kernel": None, "bias": None}
        assert {leaf.dtype for leaf in jax.tree.leaves(given)} == {np.dtype(np.float32)}
        stem = resized(tensors["conv1.weight"].astype(dtype).astype(np.float32)).transpose(2, 3, 1, 0)
        np.testing.assert_array_equal(given["params"]["conv1"]["conv"]["kernel"], stem)
        assert report.describe() == (
            "99 tensors taken; conv1.weight taken, 7x7 summed to 3x3; fc.weight, fc.bias left out (of 1000 classes, "
            "here there are 10; drawn at random); 20 left out (counters that have no use here)"
        )


def changed(**changes):
    tensors = random_tensors("resnet18", **SMALL) | {name.replace("__", "."): a for name, a in changes.items()}
    return {name: tensor for name, tensor in tensors.items() if tensor is not None}


bad = np.full(WIDTH, np.nan, np.float32)
FAULTS = {
    "missing": (changed(bn1__weight=None, layer4__1__conv2__weight=None, fc__bias=None),
        "bn1.weight is missing; fc.bias is missing; layer4.1.conv2.weight is missing"),
    "misshapen": (changed(bn1__bias=np.zeros(5, np.float32), conv1__weight=np.zeros((4, 3, 5, 5), np.float32)),
        "conv1.weight is [4, 3, 5, 5], and must be [4, 3, 3, 3] or [4, 3, 7, 7]; bn1.bias is [5], and must be [4]"),
    "not finite": (changed(bn1__weight=bad, bn1__bias=np.full(WIDTH, 1e300)),
        "bn1.weight holds numbers that are not finite; bn1.bias holds numbers that are not finite"),
    "variance": (changed(bn1__running_var=-np.ones(WIDTH, np.float32)),
        "bn1.running_var holds a variance below zero"),
    "other network": ({"patch_embed.weight": bad, "norm.bias": bad},
        "no name in it is of a ResNet's blocks, as layer1.0.conv1.weight; it begins with patch_embed.weight, "
        "norm.bias"),
}  # fmt: skip


def test_each_tensor_that_does_not_fit_is_named_and_so_is_another_network():
    for tensors, line in FAULTS.values():
        assert told(match, tensors, shapes_of()) == line
    tensors = changed()
    assert "it is of a ResNet-18; the model is a ResNet-50" in told(match, tensors, shapes_of("resnet50"))
    of_grey = "conv1.weight is [4, 3, 3, 3], and must be [4, 1, 3, 3] or [4, 1, 7, 7"
    assert of_grey in told(match, tensors, shapes_of(channels=1))
    headless = changed(fc__weight=None, fc__bias=None)
    assert match(headless, shapes_of())[0]["params"]["fc"] == {"kernel": None, "bias": None}


def test_files_that_cannot_be_read_are_told_in_one_line(tmp_path):
    np.savez(tmp_path / "pickled.npz", a=np.array([{}], dtype=object))
    save_file({"a": np.zeros(3, ml_dtypes.float8_e4m3fn)}, tmp_path / "tiny.safetensors")
    np.savez(tmp_path / "cut.npz", a=np.arange(3.0))
    (tmp_path / "cut.npz").write_bytes((tmp_path / "cut.npz").read_bytes()[:-20])
    with open(tmp_path / "one.npz", "wb") as file:
        np.save(file, np.arange(3.0))
    for name in ("text.npz", "text.safetensors", "text.bin"):
        (tmp_path / name).write_text("these are no weights, but words")
    (tmp_path / "empty.safetensors").touch()
    for name, line in (
        ("absent.npz", "there is no such file"),
        ("text.bin", "it ends in '.bin'; a weights file ends in .safetensors, .npz, .pth, .pt"),
        ("text.npz", "it is not an .npz file"),
        ("pickled.npz", "it holds a pickle, which needs code to be read; only tensors are taken"),
        ("text.safetensors", "it is not a whole safetensors file"),
        ("empty.safetensors", "it is not a whole safetensors file"),
        ("cut.npz", "it is not a whole .npz file"),
        ("one.npz", "it holds one array without a name"),
        ("tiny.safetensors", "it holds tensors of a type that cannot be read"),
    ):
        assert told(read_tensors, tmp_path / name).startswith(f"{str(tmp_path / name)!r}: {line}")


def test_pytorch_files(tmp_path):
    torch = pytest.importorskip("torch")
    tensors = random_tensors("resnet18", **SMALL)
    held = {name: torch.as_tensor(tensor) for name, tensor in tensors.items()}
    forms = (held, {"state_dict": held, "epoch": 3}, {"model": {f"module.{name}": t for name, t in held.items()}})
    for form, zipped in zip(forms, (True, False, True)):
        torch.save(form, tmp_path / "w.pth", _use_new_zipfile_serialization=zipped)
        read = read_tensors(tmp_path / "w.pth")
        assert list(read) == list(tensors)
        assert all(np.array_equal(read[name], tensor) for name, tensor in tensors.items())
    torch.save(torch.nn.Linear(2, 2), tmp_path / "bad.pth")
    assert "it holds a pickle, which needs code to be read" in told(read_tensors, tmp_path / "bad.pth")
    (tmp_path / "bad.pth").write_bytes((tmp_path / "w.pth").read_bytes()[:-50])
    assert "it is not a whole PyTorch file" in told(read_tensors, tmp_path / "bad.pth")
