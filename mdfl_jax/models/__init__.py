"""The models that clients train. Those that come with the package are in `mdfl_jax.models.zoo`."""

from mdfl_jax.models.adapters import adapt, client_model
from mdfl_jax.models.client_models import SamplesLast
from mdfl_jax.models.model import MODELS, ModelSettings, SampleSpec, make_model
