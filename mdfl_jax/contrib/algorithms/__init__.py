"""Further algorithms. `mdfl_jax.algorithms` exports these too under their names."""
