"""Who can talk, when: contact, mixing and the networks made of them."""

from mdfl_jax.networks import contact, mixing, spatial

__all__ = ["contact", "mixing", "spatial"]
