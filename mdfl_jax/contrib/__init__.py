"""What the core can do without, a folder each.

A folder imports the core, and the core never imports a folder. The registries of the core find what a folder registers
(`mdfl_jax.core.registry.CONTRIB`). So the core works without any folder of this package.
"""
