"""ResNet-18 and -50 in torchvision's names, [B, C, H, W], with the library's convolution: written from torchvision."""

import jax
import jax.numpy as jnp
import numpy as np

BLOCKS = {"resnet18": (2, 2, 2, 2), "resnet34": (3, 4, 6, 3), "resnet50": (3, 4, 6, 3), "resnet101": (3, 4, 23, 3)}


def names_and_shapes(name, width=64, num_classes=1000, stem=7, counters=True):
    """Every tensor of a state dict, in its order."""
    expansion, found = 1 if name in ("resnet18", "resnet34") else 4, {}

    def conv(at, out, inside, size):
        found[f"{at}.weight"] = (out, inside, size, size)

    def bn(at, channels):
        for leaf in ("weight", "bias", "running_mean", "running_var"):
            found[f"{at}.{leaf}"] = (channels,)
        if counters:
            found[f"{at}.num_batches_tracked"] = ()

    conv("conv1", width, 3, stem)
    bn("bn1", width)
    inplanes = width
    for stage, blocks in enumerate(BLOCKS[name]):
        planes = width * 2**stage
        for i in range(blocks):
            at, out = f"layer{stage + 1}.{i}", planes * expansion
            sizes = [(planes, 3), (planes, 3)] if expansion == 1 else [(planes, 1), (planes, 3), (out, 1)]
            inside = inplanes
            for k, (channels, size) in enumerate(sizes, 1):
                conv(f"{at}.conv{k}", channels, inside, size)
                bn(f"{at}.bn{k}", channels)
                inside = channels
            if i == 0 and (stage > 0 or inplanes != out):
                conv(f"{at}.downsample.0", out, inplanes, 1)
                bn(f"{at}.downsample.1", out)
            inplanes = out
    found["fc.weight"], found["fc.bias"] = (num_classes, inplanes), (num_classes,)
    return found


def random_tensors(name, seed=0, **settings):
    """Random weights and running statistics, of such sizes that the logits stay of some size."""
    rng = np.random.default_rng(seed)

    def draw(leaf, shape):
        if leaf.endswith("num_batches_tracked"):
            return np.int64(1000)
        if len(shape) > 1:
            return rng.normal(size=shape) / np.sqrt(np.prod(shape[1:]))
        return rng.uniform(0.5, 1.5, shape) if leaf.endswith(("var", "weight")) else 0.3 * rng.normal(size=shape)

    shapes = names_and_shapes(name, **settings)
    return {leaf: np.asarray(draw(leaf, s), None if s == () else np.float32) for leaf, s in shapes.items()}


def logits(tensors, images, name):
    """Evaluation on images [B, H, W, C]; the stem has stride one and no maximum pool follows it."""

    def conv(x, at, stride=1):
        kernel = tensors[f"{at}.weight"]
        pad = kernel.shape[-1] // 2
        layout = ("NCHW", "OIHW", "NCHW")
        return jax.lax.conv_general_dilated(x, kernel, (stride, stride), [(pad, pad)] * 2, dimension_numbers=layout)

    def bn(x, at):
        weight, bias, mean, var = (
            tensors[f"{at}.{leaf}"][:, None, None] for leaf in ("weight", "bias", "running_mean", "running_var")
        )
        return (x - mean) / jnp.sqrt(var + 1e-5) * weight + bias

    x = jax.nn.relu(bn(conv(jnp.transpose(images, (0, 3, 1, 2)), "conv1"), "bn1"))
    for stage, blocks in enumerate(BLOCKS[name]):
        for i in range(blocks):
            at, stride = f"layer{stage + 1}.{i}", 2 if stage > 0 and i == 0 else 1
            short = x
            if f"{at}.downsample.0.weight" in tensors:
                short = bn(conv(x, f"{at}.downsample.0", stride), f"{at}.downsample.1")
            if name in ("resnet18", "resnet34"):
                y = jax.nn.relu(bn(conv(x, f"{at}.conv1", stride), f"{at}.bn1"))
                y = bn(conv(y, f"{at}.conv2"), f"{at}.bn2")
            else:
                y = jax.nn.relu(bn(conv(x, f"{at}.conv1"), f"{at}.bn1"))
                y = jax.nn.relu(bn(conv(y, f"{at}.conv2", stride), f"{at}.bn2"))
                y = bn(conv(y, f"{at}.conv3"), f"{at}.bn3")
            x = jax.nn.relu(y + short)
    return x.mean(axis=(2, 3)) @ tensors["fc.weight"].T + tensors["fc.bias"]
