"""Further forms of the convolution (`mdfl_jax.models.conv.FORMS`)."""
