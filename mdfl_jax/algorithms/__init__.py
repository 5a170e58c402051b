"""The algorithms: what clients compute and send in a round. Each one is a factory that takes `Settings`.

Every module of this package that registers an algorithm is found by itself, and this package exports the algorithm
under its name: ``from mdfl_jax.algorithms import dpsgd``.
"""

from mdfl_jax.algorithms.local import LocalNumbers, Settings
from mdfl_jax.algorithms.registry import ALGORITHMS, numbers_of

__all__ = ["ALGORITHMS", "LocalNumbers", "Settings", "numbers_of"]
__all__.extend(ALGORITHMS)

# After the look-up above, so that the factory dpsgd takes the place of the module dpsgd.
globals().update({name: ALGORITHMS[name] for name in ALGORITHMS})
