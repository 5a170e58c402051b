"""The losses of the task of data sets. A file of this folder registers a `Loss` in `LOSSES`."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.numbers import StaticNumbers
from mdfl_jax.core.registry import Registry
from mdfl_jax.data.dataset import Dataset, Targets


class LossNumbers(StaticNumbers):
    """The base class of a loss's numbers; it has none itself. All must be static: they are part of the program."""

    of: ClassVar[str] = "loss"


class Loss(NamedTuple):
    """A loss, and the accuracy that is reported with it.

    The outputs of a model are [..., B, C], or [..., B, T, C] with a label at each of T positions. The axes before B are
    those of the models. Targets are [B, ...] in a form of `mdfl_jax.data.dataset.Targets`, as they are after
    normalisation (docs/data.md).

    Attributes:
      losses: (numbers, outputs, targets) -> the loss of each sample, [..., B] float32.
      marks: (outputs, targets) -> values of each sample, a tree of [..., B, ...], from whose sums over samples the
        accuracy follows.
      accuracy: (sums of the marks over samples [..., ...], targets [n, ...] of all test samples, counted [n] bool) ->
        the accuracy of each model, [...] float32, in [0, 1]. ``counted`` tells the samples of the sums; None: all.
      takes: the kinds of targets that the loss can be used with.
      natural: the kinds of targets for which the loss is chosen if a study names none.
      num_outputs: (data set) -> the number of outputs of a model, C.
      accuracy_is: what the accuracy is, in words, for plan and tables; empty: the share of labels that are right.
    """

    losses: Callable[[Any, jax.Array, jax.Array], jax.Array]
    marks: Callable[[jax.Array, jax.Array], Any]
    accuracy: Callable[[Any, jax.Array, jax.Array | None], jax.Array]
    takes: tuple[Targets, ...]
    natural: tuple[Targets, ...] = ()
    num_outputs: Callable[[Dataset], int] = lambda dataset: dataset.num_classes
    accuracy_is: str = ""


LOSSES: Registry[Loss] = Registry("loss", LossNumbers, "mdfl_jax.tasks.losses")


def loss_named(name: str, targets: Targets) -> str:
    """Return the name of a loss; an empty name stands for the natural one of the targets."""
    return name or next(known for known in LOSSES.as_registered() if targets in LOSSES[known].natural)


def check_loss(name: str, dataset: Dataset) -> None:
    """Check that a loss can be used with the targets of a data set.

    Raises:
      UserError: if it cannot.
    """
    loss = LOSSES[name]
    if dataset.targets not in loss.takes:
        fitting = [known for known in LOSSES if dataset.targets in LOSSES[known].takes]
        raise UserError(
            f"model.loss is {name}; {dataset.name} has {dataset.targets.value}; allowed: {', '.join(fitting)}"
        )
