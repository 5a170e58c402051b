"""The evolution strategy of `benchmarks/policy.py`: OpenAI's, as evosax has it (Salimans et al., 2017)."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from evosax.algorithms import Open_ES

PAIRS = 8  # of policies in a generation
SIGMA, RATE = 0.3, 0.1  # the standard deviation of the changes, and Adam's learning rate


def search_of(weights: np.ndarray) -> tuple[Open_ES, Any]:
    """Return the evolution strategy, and its state with these weights as the present policy."""
    deviation = optax.constant_schedule(SIGMA)
    search = Open_ES(2 * PAIRS, jnp.asarray(weights), optimizer=optax.adam(RATE), std_schedule=deviation)
    return search, search.init(jax.random.key(0), jnp.asarray(weights), search.default_params)


def evolved(
    search: Open_ES, state: Any, generation: int, fitness: Callable[[np.ndarray], np.ndarray]
) -> tuple[Any, np.ndarray]:
    """Compute a generation; ``fitness`` takes weights [P, n] and returns what is to be large, [P].

    Returns:
      (the state after it, the fitness of its policies).
    """
    ask, tell = jax.random.split(jax.random.fold_in(jax.random.key(18), generation))
    population, state = search.ask(ask, state, search.default_params)
    found = fitness(np.asarray(population))
    return search.tell(tell, population, -jnp.asarray(found), state, search.default_params)[0], found  # it minimizes
