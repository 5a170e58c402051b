"""The partition ``by_place``: clients that are near one another before the first round hold like labels."""

from typing import ClassVar

import jax
import jax.numpy as jnp

from mdfl_jax.core.numbers import number
from mdfl_jax.data.partition import PARTITIONS, PartitionNumbers, PartitionSettings, cuts_of_shares, deal_by_cuts


class PlaceNumbers(PartitionNumbers):
    """The numbers of the partition ``by_place``."""

    needs_places: ClassVar[bool] = True

    place_spread: float = number(
        0.2, "distance over which a label fades, as a share of the longer side of the area of the clients", above=0
    )


@PARTITIONS.register(
    "by_place",
    PlaceNumbers,
    formula="client i's share of a label ~ exp(-d_i^2 / (2 s^2));  d_i: distance of i from the label's random centre\n"
    "s = place_spread times the longer side of the smallest rectangle around all clients",
    cite="hsieh2020: the skew that the rule, which is ours, imitates",
)
def by_place(key: jax.Array, labels: jax.Array, settings: PartitionSettings) -> jax.Array:
    """Give each label a centre, and divide its samples among the clients by their distances from this centre.

    The centres are uniform in the smallest rectangle that contains all clients. So clients near one another hold like
    labels, as cameras and phones of one region do. The samples of a label are shuffled and cut at the shares, as in
    `dirichlet`.

    With small values of ``place_spread`` the samples of a label go to the nearest client, with large values all clients
    hold the same labels.

    Returns:
      owner: [n] int32 in 0..N-1.
    """
    places, num_classes = settings.places, settings.num_classes
    assert places is not None
    key_centres, key_rank = jax.random.split(key)
    low, high = jnp.min(places, axis=0), jnp.max(places, axis=0)
    side = jnp.max(high - low)
    scale = settings.numbers.place_spread * jnp.where(side > 0, side, 1)  # all clients may be at one place
    centres = low + jax.random.uniform(key_centres, (num_classes, 2)) * (high - low)
    distance = jnp.linalg.norm(centres[:, None] - places[None], axis=-1) / scale
    shares = jax.nn.softmax(-0.5 * jnp.square(distance), axis=1)  # [C, N]
    return deal_by_cuts(key_rank, labels, cuts_of_shares(shares, jnp.bincount(labels, length=num_classes)))
