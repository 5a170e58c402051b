"""Aggregation: how a client combines the models that it receives with its own.

Every algorithm that mixes whole models uses a rule of `AGGREGATIONS`; the field `algorithm.aggregation` names the rule.
A file in this folder, or one of your own, that registers a rule adds it to all these algorithms.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.core import contract
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.metric import Metric
from mdfl_jax.core.numbers import fields_of
from mdfl_jax.core.registry import Registry
from mdfl_jax.core.trees import rows_like
from mdfl_jax.core.types import ClientParams, Exchanged, Links, RoundContext
from mdfl_jax.exchange import largest
from mdfl_jax.exchange.gossip import mix


class Heard(NamedTuple):
    """What a rule of aggregation combines.

    Attributes:
      links: the links over which the models were sent. Receiver i receives from the senders where ``links.adjacency``
        [N, K] is True; ``links.mix`` has the weights, and ``links.senders.of(leaf)`` the senders' rows of a leaf.
      own: [N, ...] the models that the clients have.
      sent: [N, ...] the models that the clients have sent: the object ``own`` itself, unless a map of
        `mdfl_jax.exchange.sending` has changed the models.
      numbers: the numbers of the rule.
      mixing_bound: the setting of `mdfl_jax.exchange.gossip.mix`; it changes only the speed.
      context: the round, for rules that read losses, the progress of the run, or their memory; None outside of a run.
      lies: [N, ...] what attackers who know everything send to each client in place of their models; None: nothing.
      liars: [N, K] bool, over the neighbour slots: the senders of ``lies``; None if ``lies`` is None.
    """

    links: Links
    own: ClientParams
    sent: ClientParams
    numbers: Any = None
    mixing_bound: int = 0
    context: RoundContext | None = None
    lies: ClientParams | None = None
    liars: jax.Array | None = None


class Memory(NamedTuple):
    """A number that each client keeps about each other client, [N, N] float32, also about clients out of range.

    Attributes:
      begins: (numbers, N) -> the numbers before the first round.
      fades: (numbers, [N, N]) -> what is left of the numbers at the next exchange.
    """

    begins: Callable[[Any, int], jax.Array]
    fades: Callable[[Any, jax.Array], jax.Array]


class RuleTraits(NamedTuple):
    """What a rule declares about itself.

    Attributes:
      weighs: whether it uses the mixing matrix; otherwise a study reports that ``network.mixing`` is ignored.
      judges: whether it reads the losses of the models.
      keeps_mean: whether symmetric weights keep the mean over clients; algorithms that track a sum need this.
      memory: what it keeps from round to round.
      metrics: its metrics.
    """

    weighs: bool = True
    judges: bool = False
    keeps_mean: bool = False
    memory: Memory | None = None
    metrics: tuple[Metric, ...] = ()


Aggregation = Callable[[Heard], ClientParams | Exchanged]
HOMES = ("mdfl_jax.exchange", "mdfl_jax.exchange.rules")
AGGREGATIONS: Registry[Aggregation] = Registry(
    "aggregation", home=HOMES, traits=RuleTraits(), contrib=("robust.rules", "personal")
)


@AGGREGATIONS.register(
    "mean", formula="x_i+ = W_ii x_i + sum over the others of W_ij y_j", traits=RuleTraits(keeps_mean=True)
)
def mean(heard: Heard) -> ClientParams | Exchanged:
    """Compute the mean with the weights of the mixing matrix (network.mixing), where a client trusts its own model."""
    if heard.links.get(largest.Parts) is None:
        return weighted_mean(heard)
    memory = heard.context and heard.context.memory
    return largest.mean(heard.links, heard.own, heard.sent, memory, heard.mixing_bound)


def weighted_mean(heard: Heard) -> ClientParams:
    """Compute the mean of whole models with the weights of the mixing matrix."""
    links, senders = heard.links, heard.links.senders
    if heard.sent is heard.own and heard.liars is None:
        return mix(links.mix, heard.own, heard.mixing_bound, senders)
    mine = senders.own(links.mix.shape[0])
    apart = mine if heard.liars is None else mine | heard.liars
    found = mix(jnp.where(apart, 0, links.mix), heard.sent, heard.mixing_bound, senders)

    def add(found: ClientParams, which: jax.Array, models: ClientParams) -> ClientParams:
        weight = jnp.sum(jnp.where(which, links.mix, 0), axis=1)
        return jax.tree.map(lambda o, x: o + rows_like(weight, x).astype(x.dtype) * x, found, models)

    found = add(found, mine, heard.own)
    return found if heard.liars is None else add(found, heard.liars, heard.lies)


def as_exchanged(found: ClientParams | Exchanged) -> Exchanged:
    """Return the result of an exchange as an `Exchanged`; a rule without a report returns only the models."""
    return found if isinstance(found, Exchanged) else Exchanged(found)


def aggregate(rule: str, heard: Heard) -> Exchanged:
    """Combine the models that each client receives with its own, by a rule of `AGGREGATIONS`.

    Raises:
      UserError: for an unknown rule, for hyperparameters of another rule, or if the rule returns other shapes.
    """
    combine, needed = AGGREGATIONS[rule], AGGREGATIONS.numbers(rule)
    if fields_of(needed) and not isinstance(heard.numbers, needed):
        raise UserError(
            f"aggregation {rule} needs numbers of {needed.__name__}, and the algorithm's are of "
            f"{type(heard.numbers).__name__}; numbers_of(ALGORITHM, aggregation={rule!r}) makes them"
        )
    found = as_exchanged(combine(heard))
    contract.like(combine, found.models, heard.own)
    return found
