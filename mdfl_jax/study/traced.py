"""Traces the programs of a study that uses members of the user's own, so that their mistakes are found at once.

Tracing takes about a second. It is left out where all members are the package's, since the tests trace these.
"""

import contextlib
from collections.abc import Iterable, Iterator, Sequence

import jax

from mdfl_jax.config.families import in_use
from mdfl_jax.config.sections import Experiment
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.own_files import is_own, place, shown, words
from mdfl_jax.core.types import Hparams
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.metrics import METRICS


def own_origins(experiments: Iterable[Experiment]) -> list[str]:
    """Return the files of the user that have registered a member in use or a metric; "__main__" for a notebook."""
    origins = {METRICS.origin(name) for name in METRICS}
    for experiment in experiments:
        origins |= {family.registry.origin(name) for family, name, _ in in_use(experiment)}
    return sorted(origin for origin in origins if origin == "__main__" or is_own(origin))


@contextlib.contextmanager
def told(origins: list[str]) -> Iterator[None]:
    """Name the user's files in an error that is probably theirs, though no line of theirs raised it.

    An example is a function of a member that takes another number of arguments than it is called with.

    Raises:
      UserError: in place of such an error, which is its cause.
    """
    try:
        yield
    except (TypeError, ValueError, AttributeError, LookupError) as error:
        if isinstance(error, UserError) or not origins or place(error):
            raise
        raise UserError(f"{', '.join(map(shown, origins))}: {words(error)}") from error


def check_traced(simulation: Simulation, hparams: Sequence[Hparams]) -> None:
    """Trace the steps of a simulation, without compiling or computing anything.

    Args:
      simulation: the simulation of a group of sweep points.
      hparams: the traced numbers of the points; those of the first are used, since all have the same shapes.

    Raises:
      UserError: if a member returns another structure or other shapes than it must (`mdfl_jax.core.contract`).
    """
    key = jax.eval_shape(lambda: jax.random.key(0))
    carry, _ = jax.eval_shape(simulation.init, simulation.data, hparams[0], key)
    jax.eval_shape(simulation.advance, simulation.data, hparams[0], key, carry)
