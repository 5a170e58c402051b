"""Who can talk, when: contact, mixing and the networks made of them."""

from mdfl_jax.networks import contact, mixing, neighbours, radio, spatial, worlds

__all__ = ["contact", "mixing", "neighbours", "radio", "spatial", "worlds"]
