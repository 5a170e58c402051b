"""Radios: which signals arrive, and how many bits a second a link carries.

A radio has up to five parts, which go together in any way: how the signal gets weaker with the distance (`RADIOS`, with
shadowing), how it fades (`FADINGS`), how many bits a second its strength allows (`RATES`), how senders share the
channel (`SHARINGS`), and bursts of outage. `mdfl_jax.contrib.radios.radio` makes a link filter of them.
"""
