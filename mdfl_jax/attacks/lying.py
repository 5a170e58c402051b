"""What attackers send in an exchange, by the attack in use, which a traced number chooses."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from mdfl_jax.attacks.registry import ATTACKS, Attackers, Target, names
from mdfl_jax.core.sharding import choose_of
from mdfl_jax.core.trees import where_rows
from mdfl_jax.core.types import ClientParams, Links
from mdfl_jax.exchange.active import takes_part
from mdfl_jax.exchange.aggregation import Heard
from mdfl_jax.exchange.neighbourhood import Neighbourhood, of_clients


def lie_to_all(hparams: Any, key: jax.Array, links: Links, vectors: ClientParams) -> ClientParams:
    """Return what clients send, in which the attackers' vectors are those of the attack. It is a map of `sent`."""
    attackers = links.get(Attackers)
    if attackers is None:
        return vectors
    honest = takes_part(links) & ~attackers.are

    def branch(name: str, numbers: Any) -> Callable[[ClientParams], ClientParams]:
        lie = ATTACKS[name].to_all
        return (lambda x: lie(numbers, key, x, honest)) if lie else (lambda x: x)

    branches = [branch(*each) for each in zip(names(), attackers.numbers)]
    return where_rows(attackers.are, choose_of(attackers.which, branches, vectors), vectors)


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
