"""Who can talk, when: contact, mixing and the networks made of them."""

from mdfl_jax.networks import contact, meetings, mixing, neighbours, radio, roadside, spatial, worlds

__all__ = ["contact", "meetings", "mixing", "neighbours", "radio", "roadside", "spatial", "worlds"]
