"""What an algorithm computes and sends in a round, found out by tracing its round between two clients in contact.

So no algorithm declares its work: the gradients that it computes are counted in its traced round, and the length of its
messages is the one that it counts itself.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr

from mdfl_jax.core.flops import sub_programs
from mdfl_jax.core.message_bits import total_bits, words
from mdfl_jax.core.types import BEFORE, NEVER, Algorithm, ClientParams, Links, RoundStats

_NAME = "gradient_of_a_probe"


class Work(NamedTuple):
    """What one client computes in a round.

    Attributes:
      gradients: the number of gradients of a minibatch, or of all samples, that the algorithm computes in a round.
      batch_size: samples of a minibatch; 0: a gradient takes all samples of the client.
      uses_links: whether the algorithm sends over the links of the network. All-reduce and local training do not.
    """

    gradients: int = 1
    batch_size: int = 0
    uses_links: bool = True

    def samples(self, num_samples: jax.Array) -> jax.Array:
        """Return [N] float32, the samples that each client processes in a round. A client without samples has none.

        >>> Work(gradients=2, batch_size=8).samples(jnp.array([3, 0])).tolist()
        [16.0, 0.0]
        """
        each = jnp.where(num_samples > 0, self.batch_size, 0) if self.batch_size else num_samples
        return self.gradients * each.astype(jnp.float32)


class LinkLoad(NamedTuple):
    """The messages that one link carries in a round in one direction, and the bits of these messages."""

    messages: float
    bits: float


def work_of(algorithm: Algorithm, numbers: Any, model: Any, batch_size: int) -> Work:
    """Return what a client computes in a round of an algorithm.

    Args:
      algorithm: the algorithm.
      numbers: its traced numbers, `Hparams.algorithm`.
      model: the shapes of one model, a tree of `jax.ShapeDtypeStruct`.
      batch_size: samples of a minibatch; 0: all samples of the client.
    """
    uses_links = bool({"adjacency", "mix", "partner", "at_server"} & algorithm.needs)
    return Work(gradient_calls(algorithm, numbers, model), batch_size, uses_links)


def gradient_calls(algorithm: Algorithm, numbers: Any, model: Any) -> int:
    """Count the gradients that each client computes in a round of an algorithm, in the traced program of the round.

    The body of a ``scan`` counts once for each iteration, and a ``cond`` counts as its most expensive branch.

    Args:
      algorithm, numbers, model: as in `work_of`.
    """
    traced = jax.make_jaxpr(lambda own: _rounds(algorithm, own, model, 1)[0].loss)(numbers)
    return _calls(traced.jaxpr)


def probe(algorithm: Algorithm, model: Any) -> Callable[[Any], LinkLoad]:
    """Make a function that finds out what a link carries in a round.

    It computes two rounds of the algorithm between two clients in contact, with random models and gradients in place of
    real ones, and takes the round with more bits. An algorithm that sends nothing there is taken to send whole models.
    Where the messages of a run differ in length, as those of an adaptive code, this is the length of one of them.

    Args:
      algorithm, model: as in `work_of`.

    Returns:
      (the algorithm's traced numbers) -> LinkLoad. It compiles and computes a small program.
    """

    @jax.jit
    def sent(numbers: Any) -> tuple[jax.Array, jax.Array]:
        stats = _rounds(algorithm, numbers, model, 2)
        return jnp.stack([one.messages for one in stats]), jnp.stack([words(one.bits) for one in stats])

    def load(numbers: Any) -> LinkLoad:
        messages, counted = map(np.asarray, sent(numbers))
        bits = total_bits(counted)
        where = np.unravel_index(np.argmax(bits), bits.shape)
        if not bits[where]:
            return LinkLoad(1.0, float(sum(8 * leaf.dtype.itemsize * leaf.size for leaf in jax.tree.leaves(model))))
        return LinkLoad(float(messages[where]), float(bits[where]))

    return load


def _stacked(model: Any) -> Any:
    """Return the shapes of the models of two clients."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((2, *leaf.shape), leaf.dtype), model)


def _drawn(model: Any, seed: int) -> ClientParams:
    """Draw the models, or the gradients, of two clients."""
    leaves, structure = jax.tree.flatten(_stacked(model))
    keys = jax.random.split(jax.random.key(seed), len(leaves))
    draws = [jax.random.normal(own, leaf.shape).astype(leaf.dtype) for own, leaf in zip(keys, leaves)]
    return jax.tree.unflatten(structure, draws)


def _rounds(algorithm: Algorithm, numbers: Any, model: Any, count: int) -> list[RoundStats]:
    """Compute rounds of two clients that hear each other and meet a server, and return their statistics."""
    everybody, own = jnp.ones(2, bool), jnp.eye(2, dtype=bool)
    slots = jnp.zeros(2, jnp.int32)
    links = Links(~own, jnp.full((2, 2), 0.5), everybody, slots + BEFORE, slots + NEVER, jnp.array([1, 0], jnp.int32))

    def gradient_of_a_probe(params: ClientParams, key: jax.Array) -> tuple[jax.Array, ClientParams]:
        return jnp.zeros(2, jax.tree.leaves(params)[0].dtype), _drawn(model, 1)

    named = jax.jit(gradient_of_a_probe)  # a call with a name, which can be counted
    gradient = lambda params, key, per_sample=None: named(params, key)  # noqa: E731
    state, found = algorithm.init(numbers, _drawn(model, 0)), []
    for index in range(count):
        state, stats = algorithm.round(numbers, jax.random.key(2 + index), state, links, gradient)
        found.append(stats)
    return found


def _calls(jaxpr: Jaxpr | ClosedJaxpr) -> int:
    """Count the calls of the probe's gradient in a traced program."""
    total = 0
    for equation in jaxpr.eqns:
        if equation.params.get("name") == _NAME:
            total += 1
            continue
        inside = [_calls(sub) for sub in sub_programs(equation.params)]
        if inside:
            several = max(inside) if equation.primitive.name == "cond" else sum(inside)
            total += several * (equation.params["length"] if equation.primitive.name == "scan" else 1)
    return total
