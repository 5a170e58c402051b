"""Compressors: what is made of a message before it is sent, and the bits that it then takes."""

from typing import Any

from mdfl_jax.registry import Registry

COMPRESSORS: Registry[Any] = Registry("compressor")
