"""The models by name. A model is a flax module from images [B, H, W, channels] (normalised) to logits [B, C].

One with batch statistics keeps them in flax's collection "batch_stats" and takes a second argument, mask [B]: given in
training, when it normalises by the samples of the mask and moves its running statistics; None in evaluation.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn

from mdfl_jax.errors import UserError, unknown_name
from mdfl_jax.numbers import Numbers, fields_of, from_values, number
from mdfl_jax.registry import Registry


class ModelNumbers(Numbers):
    """What is asked of a model's numbers; the base class has none. They decide the program, so all are static."""

    def __init_subclass__(cls, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        for name, field in fields_of(cls).items():
            if field.metadata["traced"]:
                raise UserError(f"{cls.__name__}.{name} is a number of a model; it must be declared with static=True")

    def check_image(self, shape: tuple[int, int], model: str, dataset: str) -> None:
        """Checks that the model can take images of a size.

        Args:
          shape: height and width.
          model: its name.
          dataset: the name of the data set.

        Raises:
          UserError: where it cannot.
        """


class StageNumbers(ModelNumbers):
    """Of models with stages that each halve the image."""

    widths: tuple[int, ...] = number((16, 32), "channels of the convolutions", static=True, at_least=1)
    kernel: int = number(3, "size of the convolutions' kernels", static=True, at_least=1, odd=True)

    def check_image(self, shape: tuple[int, int], model: str, dataset: str) -> None:
        """Something is left of the image behind the last stage."""
        if not self.widths:
            raise UserError(f"model.widths is (); model.name {model} needs one width or more")
        most = min(shape).bit_length() - 1
        if len(self.widths) > most:
            raise UserError(
                f"model.widths is {self.widths}; each stage of {model} halves the image, so with the {shape[0]} x "
                f"{shape[1]} images of {dataset} there must be at most {most}"
            )


class ModelSettings(NamedTuple):
    """What a model's factory may use.

    Attributes:
      num_classes: number of logits, C.
      numbers: of the model, of the class that it is registered with.
      convolution: form of the convolutions, see `mdfl_jax.models.conv.FORMS`; empty takes the fastest.
      remat: stages are computed again for the gradient instead of kept.
    """

    num_classes: int
    numbers: Any = ModelNumbers()
    convolution: str = ""
    remat: bool = False


MODELS: Registry[Callable[[ModelSettings], nn.Module]] = Registry("model", ModelNumbers)


def make_model(name: str, num_classes: int, convolution: str = "", remat: bool = False, **numbers: Any) -> nn.Module:
    """A model by its name.

    Args:
      name: of `MODELS`.
      num_classes: number of logits, C.
      convolution: form of the convolutions, see `mdfl_jax.models.conv.FORMS`; empty takes the fastest.
      remat: stages are computed again for the gradient instead of kept.
      **numbers: of the model by name; the others are its own, and so are those that are None.

    Raises:
      UserError: for an unknown name, or numbers that fit no such model.
    """
    kind = MODELS.numbers(name)
    if unknown := [number for number in numbers if number not in fields_of(kind)]:
        raise UserError(unknown_name(f"number of {name}", unknown[0], fields_of(kind)))
    own = from_values(kind, numbers)
    own.validate("model.")
    return MODELS[name](ModelSettings(num_classes, own, convolution, remat))
