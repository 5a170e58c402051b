"""Models that users wrote with flax nnx."""
