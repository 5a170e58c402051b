"""The models by name. A model maps samples [B, ...] to outputs [B, C], or [B, T, C] with one for each position.

It is a Flax module or anything else that `mdfl_jax.models.adapt` takes. Float samples are normalised before.

A model with batch statistics keeps them in Flax's collection "batch_stats" and takes a second argument, mask [B]. In
training, the mask is given: the model normalises by the samples of the mask and updates its running statistics. In
evaluation, the mask is None.
"""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.numbers import StaticNumbers, checked, number
from mdfl_jax.core.registry import Registry


class SampleSpec(NamedTuple):
    """What one sample of a data set is, as a model receives it.

    Attributes:
      shape: the shape of one sample, without the batch axis.
      vocabulary: V > 0: a sample is of whole numbers 0 .. V - 1; 0: of floats.
    """

    shape: tuple[int, ...] = ()
    vocabulary: int = 0

    @property
    def dtype(self) -> Any:
        """The type of a sample's numbers: float32, or int32 for tokens."""
        return jnp.int32 if self.vocabulary else jnp.float32

    @property
    def words(self) -> str:
        """The samples in words, for a message."""
        numbers = f"tokens 0 .. {self.vocabulary - 1}" if self.vocabulary else "floats"
        return f"samples [{', '.join(map(str, self.shape))}] of {numbers}"


class ModelNumbers(StaticNumbers):
    """Base class of the numbers of models; it has none itself. All numbers must be static: they shape the program."""

    of: ClassVar[str] = "model"

    def fault(self, sample: SampleSpec) -> str:
        """Say why the model cannot process samples of a kind; "" if it can. The base class takes all samples."""
        return ""

    def check_sample(self, sample: SampleSpec, model: str, dataset: str) -> None:
        """Check that the model can process the samples of a data set.

        Args:
          sample: the shape and kind of a sample.
          model: the name of the model.
          dataset: the name of the data set.

        Raises:
          UserError: if the model cannot process these samples.
        """
        if fault := self.fault(sample):
            others = "lstm and transformer take tokens" if sample.vocabulary else "linear and mlp take all floats"
            raise UserError(f"model.name is {model}; {fault}, and {dataset} has {sample.words}; {others}")


class FloatModelNumbers(ModelNumbers):
    """The numbers of models that process any float samples, and no tokens."""

    def fault(self, sample: SampleSpec) -> str:
        """Refuse tokens."""
        return "it has no embedding of tokens" if sample.vocabulary else ""


class ImageModelNumbers(ModelNumbers):
    """The numbers of models that process images [H, W, channels] only, of at least ``smallest`` pixels a side."""

    smallest: ClassVar[int] = 1

    def fault(self, sample: SampleSpec) -> str:
        """Refuse what is no image, and images from which the pools of the model would leave nothing."""
        if not sample.vocabulary and len(sample.shape) == 3 and min(sample.shape[:2]) >= self.smallest:
            return ""
        size = f" of {self.smallest} x {self.smallest} at least" if self.smallest > 1 else ""
        return f"it needs images [height, width, channels]{size}"


class StageNumbers(ImageModelNumbers):
    """The numbers of models with stages that each halve the image."""

    widths: tuple[int, ...] = number((16, 32), "channels of the convolutions", static=True, at_least=1)
    kernel: int = number(3, "size of the convolutions' kernels", static=True, at_least=1, odd=True)

    def check_sample(self, sample: SampleSpec, model: str, dataset: str) -> None:
        """Check that there is at least one stage, and at least one pixel after the last stage."""
        super().check_sample(sample, model, dataset)
        shape = sample.shape[:2]
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
      num_classes: the number of outputs, C: of classes, or of the targets of a regression.
      numbers: the numbers of the model, an instance of the class with which it is registered.
      convolution: the form of the convolutions, of `FORMS` or `TOGETHER` of `models/conv.py`; empty: the fastest.
      remat: whether stages are computed again for the gradient instead of being kept.
      sample: what a sample is. Without it, models that need to know it cannot be made.
      per_position: whether the outputs are [B, T, C], one for each position of a sequence, instead of [B, C].
    """

    num_classes: int
    numbers: Any = ModelNumbers()
    convolution: str = ""
    remat: bool = False
    sample: SampleSpec = SampleSpec()
    per_position: bool = False


MODELS: Registry[Callable[[ModelSettings], Any]] = Registry(
    "model", ModelNumbers, "mdfl_jax.models.zoo", contrib="sequences"
)


def make_model(
    name: str,
    num_classes: int,
    convolution: str = "",
    remat: bool = False,
    *,
    sample: SampleSpec | None = None,
    per_position: bool = False,
    **numbers: Any,
) -> Any:
    """Make a model by its name.

    Args:
      name: the model's name in `MODELS`.
      num_classes: the number of outputs, C.
      convolution: the form of the convolutions, of `FORMS` or `TOGETHER` of `models/conv.py`; empty: the fastest.
      remat: whether stages are computed again for the gradient instead of being kept.
      sample: what a sample is; only some models need it.
      per_position: whether the outputs are [B, T, C], one for each position of a sequence, instead of [B, C].
      **numbers: the model's numbers by name. Numbers that are missing or None have the model's defaults.

    Raises:
      UserError: for an unknown model, or for numbers that are unknown or out of bounds.
    """
    own = checked(name, MODELS.numbers(name), numbers, "model.")
    return MODELS[name](ModelSettings(num_classes, own, convolution, remat, sample or SampleSpec(), per_position))
