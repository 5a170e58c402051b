"""Random crops and flips of training images, drawn and made on the device, inside the step."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.target import backend


class Augmentation(NamedTuple):
    """How each image is shown, anew in every step.

    Attributes:
      crop: it is moved by up to so many pixels in each direction, black outside (a crop of the image padded by them).
      flip: it is mirrored left to right with probability one half.
    """

    crop: int = 0
    flip: bool = False

    @property
    def num_views(self) -> int:
        """Ways to show an image; all are equally likely."""
        return (2 * self.crop + 1) ** 2 * (2 if self.flip else 1)


def draw_views(augmentation: Augmentation, key: jax.Array, client: jax.Array, place: jax.Array) -> jax.Array:
    """Which view of each sample of K blocks is taken: [K, B] int32, whatever blocks they are cut into.

    Args:
      augmentation: what may be drawn.
      key: of the step.
      client: [K] int32 whose block it is; what a client draws does not depend on the others.
      place: [K, B] int32 of each sample, different for all that a client looks at in the step.
    """

    def of_sample(client: jax.Array, place: jax.Array) -> jax.Array:
        own = jax.random.fold_in(jax.random.fold_in(key, client), place)
        return jax.random.randint(own, (), 0, augmentation.num_views, jnp.int32)

    return jax.vmap(jax.vmap(of_sample, (None, 0)))(client, place)


def show(augmentation: Augmentation, images: jax.Array, sample: jax.Array, view: jax.Array) -> jax.Array:
    """The views of samples: [B, H, W, channels].

    On a CPU one gather of pixels. An accelerator gathers single pixels badly: there whole images are gathered, and rows
    and columns picked by products with zeros and ones, which are exact in bfloat16 for 256 levels.

    Args:
      augmentation: as drawn from.
      images: [n, H, W, channels].
      sample: [B] int32 which images.
      view: [B] int32 from `draw_views`.
    """
    height, width = images.shape[1:3]
    crop, span = augmentation.crop, 2 * augmentation.crop + 1
    down, right, mirrored = view % span, view // span % span, view // span**2 == 1
    rows = jnp.arange(height) + down[:, None] - crop
    columns = jnp.where(mirrored[:, None], jnp.arange(width)[::-1], jnp.arange(width)) + right[:, None] - crop
    if backend() != "cpu":
        return _picked(images[sample], rows, columns)
    inside = ((rows >= 0) & (rows < height))[:, :, None] & ((columns >= 0) & (columns < width))[:, None]
    rows, columns = jnp.clip(rows, 0, height - 1), jnp.clip(columns, 0, width - 1)
    shown = images[sample[:, None, None], rows[:, :, None], columns[:, None, :]]
    return jnp.where(inside[..., None], shown, jnp.zeros((), images.dtype))


def _picked(images: jax.Array, rows: jax.Array, columns: jax.Array) -> jax.Array:
    """Rows [B, H] and columns [B, W] of images [B, H, W, channels], uint8; what lies outside is black."""
    pick = lambda places, size: (places[..., None] == jnp.arange(size)).astype(jnp.bfloat16)  # noqa: E731
    product = partial(jnp.einsum, precision="default", preferred_element_type=jnp.float32)
    levels = images.astype(jnp.bfloat16)
    picked = product("bhp,bpwc->bhwc", pick(rows, images.shape[1]), levels).astype(jnp.bfloat16)
    return product("bwq,bhqc->bhwc", pick(columns, images.shape[2]), picked).astype(images.dtype)
