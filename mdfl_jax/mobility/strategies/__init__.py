"""Strategies, a file each: where mobile clients go so that knowledge spreads (`mdfl_jax.mobility.choosing`).

A new file here registers a new strategy (`mdfl_jax.mobility.strategy`).
"""
