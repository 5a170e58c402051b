"""The models that clients train. Those that come with the package are in `mdfl_jax.models.zoo`."""

from mdfl_jax.models.adapters import SamplesLast, adapt, client_model
from mdfl_jax.models.model import MODELS, ModelSettings, SampleSpec, make_model
