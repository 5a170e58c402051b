"""The family of attacks, and what a round knows of its attackers.

An attack changes what attackers send (`to_all`), what each client hears from them (`to_each`), the samples from which
they learn (`poison`), or what they do with their own models. A program holds all attacks, and a number says which one
is meant, so that a sweep over attacks compiles once.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.core.metric import Metric
from mdfl_jax.core.registry import Registry
from mdfl_jax.core.sharding import choose_of
from mdfl_jax.core.trees import where_rows
from mdfl_jax.core.types import Algorithm, ClientParams, Links, RoundContext, RoundStats
from mdfl_jax.exchange.active import computed_by, gradient_without, takes_part, where_moving
from mdfl_jax.exchange.screening import Untrusted


class Target(NamedTuple):
    """What attackers who know everything see of one client, and of what it hears in an exchange.

    Attributes:
      own: [d] the client's model.
      models: [K, d] the models at the places of its links, before the attackers change theirs.
      honest: [K] bool, the places of honest clients that it hears, and its own if it is honest.
      attackers: [K] bool, the places of the attackers that it hears.
      weights: [K] its row of the mixing matrix.
      numbers: the numbers of the attack.
    """

    own: jax.Array
    models: jax.Array
    honest: jax.Array
    attackers: jax.Array
    weights: jax.Array
    numbers: Any


class Samples(NamedTuple):
    """Samples that attackers may change.

    Attributes:
      x: [B, ...] the samples, as the data set has them.
      y: [B] int32 their labels.
      draws: [B] float32 in [0, 1), a number of each sample that stays the same.
      num_classes: C.
      brightest: [] the largest value of the training images; None if the samples are no images.
    """

    x: jax.Array
    y: jax.Array
    draws: jax.Array
    num_classes: int
    brightest: jax.Array | None = None


class Attack(NamedTuple):
    """An attack. A part that is None changes nothing.

    Attributes:
      to_all: (numbers, key, vectors [N, ...], honest [N]) -> [N, ...], what clients would send if all were attackers;
        only the attackers' rows are used. ``honest`` are the honest clients that take part in the round. It works with
        every algorithm.
      to_each: (target) -> [d], what all attackers send to one client. It works with algorithms that mix whole models by
        `algorithm.aggregation`.
      poison: (numbers, samples) -> (x, y), what the samples would be if all clients were attackers.
      trains: whether attackers compute gradients; else theirs are zero.
      moves_on: whether attackers take over the result of a round; else they keep the state that they have.
      of_images: whether ``poison`` needs images.
      metrics: metrics of the attack. At an evaluation, ``network_state.attackers`` are its attackers.
    """

    to_all: Callable[[Any, jax.Array, ClientParams, jax.Array], ClientParams] | None = None
    to_each: Callable[[Target], jax.Array] | None = None
    poison: Callable[[Any, Samples], tuple[jax.Array, jax.Array]] | None = None
    trains: bool = True
    moves_on: bool = True
    of_images: bool = False
    metrics: tuple[Metric, ...] = ()


ATTACKS: Registry[Attack] = Registry("attack", home="mdfl_jax.attacks.members", contrib="robust.attacks")


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Attackers(Untrusted):
    """The attackers of a round (`mdfl_jax.core.types.Links.get`).

    Attributes:
      are: [N] bool, who attacks.
      untrained, still: [N] bool, the attackers that do not train, and those that keep the state which they have.
      which: [] int32, the attack, an index of `names`.
      numbers: the numbers of all attacks, in the order of `names`.
    """

    untrained: jax.Array
    still: jax.Array
    which: jax.Array
    numbers: tuple[Any, ...]

    def around(self, algorithm: Algorithm) -> Algorithm:
        """Return the algorithm whose attackers may compute nothing, or keep the state that they have."""

        def do_round(hparams: Any, state: Any, links: Links, context: RoundContext) -> tuple[Any, RoundStats]:
            context = context._replace(gradient=gradient_without(self.untrained, context.gradient))
            following, stats = algorithm.round(hparams, state, links, context)
            return where_moving(~self.still, following, state), computed_by(~self.untrained, stats)

        return algorithm._replace(round=do_round)

    def sends(self, hparams: Any, key: jax.Array, links: Links, vectors: ClientParams) -> ClientParams:
        """Return what clients send, in which the attackers' vectors are those of the attack."""
        honest = takes_part(links) & ~self.are

        def branch(name: str, numbers: Any) -> Callable[[ClientParams], ClientParams]:
            lie = ATTACKS[name].to_all
            return (lambda x: lie(numbers, key, x, honest)) if lie else (lambda x: x)

        branches = [branch(*each) for each in zip(names(), self.numbers)]
        return where_rows(self.are, choose_of(self.which, branches, vectors), vectors)

    def has(self, of: Callable[[Attack], bool]) -> jax.Array:
        """Return whether the attack in use has a property, [] bool."""
        return jnp.array([of(ATTACKS[name]) for name in names()])[self.which]


def attackers_of(are: jax.Array, which: jax.Array, numbers: tuple[Any, ...]) -> Attackers:
    """Return the attackers of a round; the arguments are the fields of `Attackers`."""
    one = Attackers(are, are, are, which, numbers)
    untrained, still = one.has(lambda attack: not attack.trains), one.has(lambda attack: not attack.moves_on)
    return replace(one, untrained=are & untrained, still=are & still)


def names() -> tuple[str, ...]:
    """Return the attacks in the order of a program."""
    return ATTACKS.as_registered()
