"""UBAR and BALANCE: a client judges the models that it receives by its own model and its own samples."""

import jax
import jax.numpy as jnp

from mdfl_jax.core.numbers import Numbers, number
from mdfl_jax.exchange.neighbourhood import Decision, Neighbourhood, for_one_client, mean_of, smallest
from mdfl_jax.exchange.partial import floor_of


class OwnWeightNumbers(Numbers):
    """The hyperparameter of rules that weigh the own model against the mean of the accepted models."""

    own_weight: float = number(0.5, "weight of the client's own model, alpha", at_least=0, at_most=1)


def mixed_with(near: Neighbourhood, accepted: jax.Array) -> jax.Array:
    """Return alpha x_i + (1 - alpha) mean of the accepted models; the own model if none is accepted."""
    weight = jnp.asarray(near.numbers.own_weight, near.own.dtype)
    mixed = weight * near.own + (1 - weight) * mean_of(near.models, accepted)
    return jnp.where(jnp.any(accepted), mixed, near.own)


class UbarNumbers(OwnWeightNumbers):
    """The numbers of UBAR."""

    benign_share: float = number(0.4, "share of the others that are taken for benign, rho", above=0, at_most=1)


@for_one_client(
    "ubar",
    UbarNumbers,
    asks_losses=True,
    weighs=False,
    rejects=True,
    formula="x_i+ = alpha x_i + (1 - alpha) mean of the y_j in B;  B = of the rho m nearest of the m others, those "
    "with f_i(y_j) <= f_i(x_i), or the one with the least f_i",
    cite="guo2022",
)
def ubar(near: Neighbourhood) -> Decision:
    """Average the near models that are as good as the own one on the client's own samples (UBAR).

    A client first takes the share rho of the others whose models are nearest to its own, at least one. Of these models
    it keeps those whose loss on its minibatch is not above the loss of its own model, or else the best one. The
    minibatch is that of the round's first step. A client without samples accepts all near models. If the clients'
    labels differ, honest models have high losses on each other's samples.
    """
    assert near.losses is not None
    share = floor_of(near.numbers.benign_share, near.size - 1)
    close = smallest(jnp.where(near.others, near.distances, jnp.inf), jnp.maximum(share, 1)) & near.others
    losses = jnp.where(close, near.losses, jnp.inf)
    own_loss = jnp.sum(jnp.where(near.mine, near.losses, 0))
    good = close & ((losses <= own_loss) | jnp.isnan(own_loss))
    accepted = jnp.where(jnp.any(good), good, close & smallest(losses, 1))
    return Decision(mixed_with(near, accepted), accepted)


class BalanceNumbers(OwnWeightNumbers):
    """The numbers of BALANCE."""

    closeness: float = number(0.3, "distance up to which models are accepted at first, gamma", above=0)
    tightening: float = number(1.0, "how fast this distance shrinks over the run, kappa", at_least=0)


@for_one_client(
    "balance",
    BalanceNumbers,
    weighs=False,
    rejects=True,
    formula="x_i+ = alpha x_i + (1 - alpha) mean of the y_j with ||y_j - x_i|| <= gamma exp(-kappa t / T) ||x_i||",
    cite="fang2024",
)
def balance(near: Neighbourhood) -> Decision:
    """Average the models within a distance of the client's own one, which shrinks during the run (BALANCE).

    t / T is the share of the rounds that are over. A client that accepts no model keeps its own. If honest models
    differ by more than the distance, as with skewed labels, no model is accepted.
    """
    shrinks = jnp.exp(-near.numbers.tightening * near.progress)
    accepted = near.others & (near.distances <= near.numbers.closeness * shrinks * jnp.linalg.norm(near.own))
    return Decision(mixed_with(near, accepted), accepted)
