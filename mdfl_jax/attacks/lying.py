"""What attackers who know everything send to each client, by the attack in use, which a traced number chooses."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from mdfl_jax.attacks.registry import ATTACKS, Attackers, Target, names
from mdfl_jax.exchange.aggregation import Heard
from mdfl_jax.exchange.neighbourhood import Neighbourhood, of_clients


def lie_to_each(heard: Heard, weighs: bool = True) -> Heard:
    """Return what is combined, with what attackers who know everything send to each client (`Heard.lies`).

    Args:
      heard: what is combined.
      weighs: whether the rule uses the mixing matrix. If it does not, attackers count all models alike, as He,
        Karimireddy and Jaggi do.
    """
    links, attackers = heard.links, heard.links.get(Attackers)
    if attackers is None or all(ATTACKS[name].to_each is None for name in names()):
        return heard
    tells = attackers.are & attackers.has(lambda attack: attack.to_each is not None)
    liars = links.adjacency & links.senders.of(tells)

    def to_one(near: Neighbourhood, rest: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        lied, is_liar = rest
        honest = near.counts & ~lied & ~(near.mine & is_liar)

        def branch(name: str, numbers: Any) -> Callable[[], jax.Array]:
            lie = ATTACKS[name].to_each
            weights = near.weights if weighs else jnp.broadcast_to(1 / near.size, near.weights.shape)
            target = Target(near.own, near.models, honest, near.counts & lied, weights, numbers)
            return (lambda: lie(target)) if lie else (lambda: near.own)

        branches = [branch(*each) for each in zip(names(), near.numbers[1])]
        return jax.lax.switch(near.numbers[0], branches), None

    numbers = (attackers.which, attackers.numbers)
    lies, _ = of_clients(to_one, heard._replace(numbers=numbers), (liars, tells))
    return heard._replace(lies=lies, liars=liars)
