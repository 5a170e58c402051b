"""The models by name. A model is a Flax module from normalised images [B, H, W, channels] to logits [B, C].

A model with batch statistics keeps them in Flax's collection "batch_stats" and takes a second argument, mask [B]. In
training, the mask is given: the model normalises by the samples of the mask and updates its running statistics. In
evaluation, the mask is None.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn

from mdfl_jax.errors import UserError, unknown_name
from mdfl_jax.numbers import Numbers, fields_of, from_values, number
from mdfl_jax.registry import Registry


class ModelNumbers(Numbers):
    """Base class of the numbers of models; it has none itself. All numbers must be static: they shape the program."""

    def __init_subclass__(cls, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        for name, field in fields_of(cls).items():
            if field.metadata["traced"]:
                raise UserError(f"{cls.__name__}.{name} is a number of a model; it must be declared with static=True")

    def check_image(self, shape: tuple[int, int], model: str, dataset: str) -> None:
        """Checks that the model can process images of a size. The base class allows all sizes.

        Args:
          shape: the height and width of the images.
          model: the name of the model.
          dataset: the name of the data set.

        Raises:
          UserError: if the model cannot process these images.
        """


class StageNumbers(ModelNumbers):
    """The numbers of models with stages that each halve the image."""

    widths: tuple[int, ...] = number((16, 32), "channels of the convolutions", static=True, at_least=1)
    kernel: int = number(3, "size of the convolutions' kernels", static=True, at_least=1, odd=True)

    def check_image(self, shape: tuple[int, int], model: str, dataset: str) -> None:
        """Checks that there is at least one stage, and at least one pixel after the last stage."""
        if not self.widths:
            raise UserError(f"model.widths is (); model.name {model} needs one width or more")
        most = min(shape).bit_length() - 1
        if len(self.widths) > most:
            raise UserError(
                f"model.widths is {self.widths}; each stage of {model} halves the image, so with the {shape[0]} x "
                f"{shape[1]} images of {dataset} there must be at most {most}"
            )


class ModelSettings(NamedTuple):
    """The settings that a model's factory receives.

    Attributes:
      num_classes: the number of logits, C.
      numbers: the numbers of the model, an instance of the class with which it is registered.
      convolution: the form of the convolutions, one of `mdfl_jax.models.conv.FORMS`; empty: the fastest.
      remat: whether stages are computed again for the gradient instead of being kept.
    """

    num_classes: int
    numbers: Any = ModelNumbers()
    convolution: str = ""
    remat: bool = False


MODELS: Registry[Callable[[ModelSettings], nn.Module]] = Registry("model", ModelNumbers)


def make_model(name: str, num_classes: int, convolution: str = "", remat: bool = False, **numbers: Any) -> nn.Module:
    """Makes a model by its name.

    Args:
      name: the model's name in `MODELS`.
      num_classes: the number of logits, C.
      convolution: the form of the convolutions, one of `mdfl_jax.models.conv.FORMS`; empty: the fastest.
      remat: whether stages are computed again for the gradient instead of being kept.
      **numbers: the model's numbers by name. Numbers that are missing or None have the model's defaults.

    Raises:
      UserError: for an unknown model, or for numbers that are unknown or out of bounds.
    """
    kind = MODELS.numbers(name)
    if unknown := [number for number in numbers if number not in fields_of(kind)]:
        raise UserError(unknown_name(f"number of {name}", unknown[0], fields_of(kind)))
    own = from_values(kind, numbers)
    own.validate("model.")
    return MODELS[name](ModelSettings(num_classes, own, convolution, remat))
