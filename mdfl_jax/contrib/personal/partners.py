"""Rules of aggregation by which a client averages with those whose models suit it, and not with everybody it meets."""

import jax
import jax.numpy as jnp

from mdfl_jax.core.numbers import Numbers, number
from mdfl_jax.core.sharding import take_steps
from mdfl_jax.core.trees import rows_like, where_rows
from mdfl_jax.core.types import Exchanged, Report
from mdfl_jax.exchange.aggregation import AGGREGATIONS, Heard, RuleTraits
from mdfl_jax.exchange.neighbourhood import Neighbourhood, for_one_client, loss_of, received_in, weighted_sum
from mdfl_jax.exchange.rules.by_own_model import OwnWeightNumbers
from mdfl_jax.exchange.screening import DETECTIONS, FELL_BACK, Screened


class SimilarityNumbers(OwnWeightNumbers):
    """The hyperparameters of attentive message passing."""

    attention: float = number(10.0, "how much more similar models count, sigma; 0: all alike", at_least=0)


@for_one_client(
    "fedamp",
    SimilarityNumbers,
    weighs=False,
    formula="x_i+ = alpha x_i + (1 - alpha) sum of a_j y_j;  a_j = exp(sigma cos(x_i, y_j)) / sum over the received "
    "k of exp(sigma cos(x_i, y_k))",
    cite="huang2021: HeurFedAMP",
)
def fedamp(near: Neighbourhood) -> jax.Array:
    """Average the received models by their cosine similarity to the client's own, so that clusters form (HeurFedAMP).

    In the paper a server makes these averages of all models, and clients train near them (`algorithm.proximal`). A
    client that receives no model keeps its own.
    """
    lengths = jnp.linalg.norm(near.models, axis=1) * jnp.linalg.norm(near.own)
    similar = jnp.sum(near.models * near.own, axis=1) / jnp.maximum(lengths, jnp.finfo(near.own.dtype).tiny)
    sigma = jnp.asarray(near.numbers.attention, near.own.dtype)
    shares = jax.nn.softmax(jnp.where(near.others, sigma * similar, -jnp.inf))
    alpha = jnp.asarray(near.numbers.own_weight, near.own.dtype)
    mixed = alpha * near.own + (1 - alpha) * weighted_sum(near.models, jnp.where(near.others, shares, 0))
    return jnp.where(jnp.any(near.others), mixed, near.own)


class BudgetNumbers(Numbers):
    """The hyperparameter of the greedy choice."""

    most_models: int = number(4, "most models that a client averages, its own included, B", static=True, at_least=1)


@AGGREGATIONS.register(
    "dpfl",
    BudgetNumbers,
    formula="S = {i};  up to B - 1 times: S <- S + {j} with the j received whose f_i(mean of S + {j}) is least, if it "
    "is not above f_i(mean of S);  x_i+ = mean of S",
    cite="kharrat2025",
    traits=RuleTraits(weighs=False, judges=True, metrics=(FELL_BACK, *DETECTIONS)),
)
def dpfl(heard: Heard) -> Exchanged:
    """Choose one model after the other whose average with those chosen is best on the client's own samples (DPFL).

    The choice is made anew in each round, among the models that the client receives. The paper chooses by validation
    samples; here f_i is the loss on the minibatch of the round's first step. This costs B - 1 losses for each model
    that a client receives. A client without samples keeps its own model.
    """
    links, mine = heard.links, heard.links.senders.own(heard.links.num_clients)
    loss, clients = loss_of(heard), jnp.arange(links.num_clients)

    def mean_with(total: jax.Array, count: jax.Array, more: jax.Array) -> jax.Array:
        return jax.tree.map(lambda s, y: (s + y) / rows_like(count + 1, s).astype(s.dtype), total, more)

    def choose(held: tuple, _: jax.Array) -> tuple[tuple, tuple[()]]:
        total, count, chosen, least = held

        def judge(found: jax.Array, slot: jax.Array) -> tuple[jax.Array, tuple[()]]:
            return found.at[:, slot].set(loss(mean_with(total, count, received_in(heard, slot)))), ()

        losses = take_steps(judge, jnp.zeros(mine.shape), mine.shape[1])[0]
        losses = jnp.where(links.adjacency & ~chosen & jnp.isfinite(losses), losses, jnp.inf)
        best = jnp.argmin(losses, axis=1)
        found = losses[clients, best]
        joins = (found <= least) & jnp.isfinite(found)  # False where the own loss is NaN, without samples
        more = jax.tree.map(jnp.add, total, received_in(heard, best))
        after = where_rows(joins, more, total), count + joins, chosen.at[clients, best].max(joins)
        return (*after, jnp.where(joins, found, least)), ()

    start = heard.own, jnp.ones(links.num_clients), mine & False, loss(heard.own)
    budget = heard.numbers.most_models
    total, count, chosen, _ = take_steps(choose, start, budget - 1)[0] if budget > 1 else start
    models = jax.tree.map(lambda s: s / rows_like(count, s).astype(s.dtype), total)
    nobody = jnp.zeros(links.num_clients, bool)
    return Exchanged(models, Report(Screened(nobody, links.adjacency, links.adjacency & ~chosen)))
