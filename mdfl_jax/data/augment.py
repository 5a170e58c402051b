"""Random crops and flips of training images. They are drawn and applied on the device, inside the local step."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.core.devices import backend
from mdfl_jax.core.errors import UserError
from mdfl_jax.data.dataset import Dataset


class Augmentation(NamedTuple):
    """The random changes of each image, drawn again in every step.

    Attributes:
      crop: the image is moved by at most this number of pixels in each direction, and pixels from outside are black.
        This is a random crop of the image padded by ``crop`` pixels on each side.
      flip: if true, the image is mirrored left to right with probability one half.
    """

    crop: int = 0
    flip: bool = False

    @property
    def num_views(self) -> int:
        """The number of views of an image, that is of combinations of shift and flip. All are equally likely."""
        return (2 * self.crop + 1) ** 2 * (2 if self.flip else 1)


def check_augmentation(augmentation: Augmentation, dataset: Dataset) -> None:
    """Check that a data set has images if they are to be changed.

    Raises:
      UserError: if it has none.
    """
    if augmentation.num_views > 1 and not dataset.are_images:
        field = f"data.crop is {augmentation.crop}" if augmentation.crop else "data.flip is true"
        shown = f"{list(dataset.x_train.shape[1:])} of {dataset.x_train.dtype}"
        raise UserError(f"{field}; {dataset.name} has samples {shown}, and images of uint8 only can be changed")


def draw_views(augmentation: Augmentation, key: jax.Array, client: jax.Array, place: jax.Array) -> jax.Array:
    """Draw the view of each sample in K blocks.

    The draw depends on the key, the client and ``place`` only. So it does not depend on the other clients, or on how
    the samples are cut into blocks.

    Args:
      augmentation: the changes that may be drawn.
      key: typed key of the local step.
      client: [K] int32, the owner of each block.
      place: [K, B] int32, a number of each sample. A client's samples in one step must have different numbers.

    Returns:
      [K, B] int32 in 0..num_views-1.
    """

    def of_sample(client: jax.Array, place: jax.Array) -> jax.Array:
        own = jax.random.fold_in(jax.random.fold_in(key, client), place)
        return jax.random.randint(own, (), 0, augmentation.num_views, jnp.int32)

    return jax.vmap(jax.vmap(of_sample, (None, 0)))(client, place)


def show_views(augmentation: Augmentation, images: jax.Array, sample: jax.Array, view: jax.Array) -> jax.Array:
    """Make the drawn views of samples.

    A CPU gathers single pixels. An accelerator is slow at this, so it gathers whole images and picks rows and columns
    by products with zeros and ones. These products are exact in bfloat16 for 256 grey levels.

    Args:
      augmentation: the same as in `draw_views`.
      images: [n, H, W, channels] uint8.
      sample: [B] int32, the indices of the images.
      view: [B] int32 from `draw_views`.

    Returns:
      [B, H, W, channels] uint8.
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
    """Pick rows [B, H] and columns [B, W] of uint8 images [B, H, W, channels]. Pixels from outside are black."""
    pick = lambda places, size: (places[..., None] == jnp.arange(size)).astype(jnp.bfloat16)  # noqa: E731
    product = partial(jnp.einsum, precision="default", preferred_element_type=jnp.float32)
    levels = images.astype(jnp.bfloat16)
    picked = product("bhp,bpwc->bhwc", pick(rows, images.shape[1]), levels).astype(jnp.bfloat16)
    return product("bwq,bhqc->bhwc", pick(columns, images.shape[2]), picked).astype(images.dtype)
