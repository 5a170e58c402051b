"""The registry of partitions, and what a partition is given besides the key and the labels."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax

from mdfl_jax.core.numbers import Numbers
from mdfl_jax.core.registry import Registry
from mdfl_jax.data.dataset import Dataset


class PartitionSettings(NamedTuple):
    """The settings of a partition.

    Attributes:
      num_clients: N.
      num_classes: C.
      numbers: the numbers of the partition, an instance of the class that it is registered with. Numbers that are not
        static are traced.
      natural_owner: [n] int32 in 0..K-1, the person or device that each sample comes from; None if the data set does
        not say it.
      num_natural_owners: K, which is static; 0 if the data set does not say it.
      places: [N, 2] float32, the places of the clients before the first round; None unless the class of the numbers
        sets ``needs_places``.
    """

    num_clients: int
    num_classes: int
    numbers: Any = Numbers()
    natural_owner: jax.Array | None = None
    num_natural_owners: int = 0
    places: jax.Array | None = None


class PartitionNumbers(Numbers):
    """The base class of a partition's numbers. It has no numbers itself.

    Attributes:
      needs_places: whether the partition reads ``settings.places``. The places are then drawn before the data.
    """

    needs_places: ClassVar[bool] = False

    def check_dataset(self, dataset: Dataset, num_clients: int) -> None:
        """Check that a data set can be divided with these numbers.

        Args:
          dataset: the data set. Its training samples are those that are divided, without the validation samples.
          num_clients: N.

        Raises:
          UserError: if it cannot.
        """


PARTITIONS: Registry[Callable[[jax.Array, jax.Array, PartitionSettings], jax.Array]] = Registry(
    "partition", PartitionNumbers
)
"""The partitions by name: (key, labels [n], settings) -> owner [n] int32, with -1 for a sample that nobody holds."""
