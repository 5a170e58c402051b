"""Rules of movement, a file each. A new file here registers a new rule (`mdfl_jax.mobility.MOBILITIES`)."""
