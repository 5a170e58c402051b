"""The models that clients train. Importing the package registers every model."""

from mdfl_jax.models import cnn, dense, lenet, lstm, resnet, transformer
from mdfl_jax.models.adapters import adapt, client_model
from mdfl_jax.models.linen_models import SamplesLast
from mdfl_jax.models.registry import MODELS, ModelSettings, SampleSpec, make_model

__all__ = [
    "MODELS",
    "ModelSettings",
    "SampleSpec",
    "SamplesLast",
    "adapt",
    "client_model",
    "cnn",
    "dense",
    "lenet",
    "lstm",
    "make_model",
    "resnet",
    "transformer",
]
