"""The models that clients train. Importing the package registers every model."""

from mdfl_jax.models import cnn, dense, lenet, resnet
from mdfl_jax.models.adapters import SamplesLast, adapt
from mdfl_jax.models.registry import MODELS, ModelSettings, make_model

__all__ = ["MODELS", "ModelSettings", "SamplesLast", "adapt", "cnn", "dense", "lenet", "make_model", "resnet"]
