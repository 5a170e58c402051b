"""Reputation: a client remembers how good the models of each other client were, also while they are apart."""

import jax
import jax.numpy as jnp

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.numbers import Numbers, Setting, number
from mdfl_jax.exchange.aggregation import Memory
from mdfl_jax.exchange.neighbourhood import Decision, Neighbourhood, for_one_client, weighted_sum

_MOST_CLIENTS = 4096  # a score of each pair then takes 64 MiB a run


class ReputationNumbers(Numbers):
    """The numbers of the reputation."""

    first_trust: float = number(0.5, "trust in a client that was never heard", at_least=0, at_most=1)
    trust_rate: float = number(0.3, "how far one model moves the trust in its sender", above=0, at_most=1)
    forgetting: float = number(0.01, "how far trust returns to the first one in a round", at_least=0, at_most=1)
    least_trust: float = number(0.3, "trust below which a model is not used", at_least=0, at_most=1)

    def check(self, setting: Setting) -> None:
        """Check that the scores of all pairs fit the memory."""
        if setting.num_clients > _MOST_CLIENTS:
            raise UserError(
                f"network.num_clients is {setting.num_clients}; {setting.member} keeps a score of each pair, so it "
                f"must be at most {_MOST_CLIENTS}"
            )


def nobody_heard(numbers: ReputationNumbers, num_clients: int) -> jax.Array:
    """Return the trust of each client in each other one before the first round, [N, N] float32."""
    return jnp.full((num_clients, num_clients), numbers.first_trust, jnp.float32)


def forget(numbers: ReputationNumbers, trust: jax.Array) -> jax.Array:
    """Return the trust, [N, N], that has returned some way to the first one."""
    return numbers.first_trust + (1 - numbers.forgetting) * (trust - numbers.first_trust)


@for_one_client(
    "reputation",
    ReputationNumbers,
    asks_losses=True,
    memory=Memory(nobody_heard, forget),
    rejects=True,
    formula="t_ij <- t_0 + (1 - forgetting) (t_ij - t_0);  t_ij <- (1 - r) t_ij + r min(1, f_i(x_i) / f_i(y_j)) where "
    "y_j is heard;  x_i+ = x_i + sum over t_ij >= t_min of W_ij t_ij (y_j - x_i)",
)
def reputation(near: Neighbourhood) -> Decision:
    """Mix with the weights of the mixing matrix, each times a trust that is earned over time.

    A client trusts another one as far as the models that it has heard from it were good on its own samples, compared
    with its own model at that time. It remembers this while the two are apart, and slowly forgets it: an attacker that
    moves on and comes back is known. The weight that is not given stays with its own model. A client without samples
    cannot judge, so its trust stays as it is. The rule is of this package, in the manner of the reputation of other
    simulators.
    """
    assert near.losses is not None
    assert near.memory is not None
    numbers = near.numbers
    own_loss = jnp.sum(jnp.where(near.mine, near.losses, 0))
    evidence = jnp.clip(own_loss / jnp.maximum(near.losses, jnp.finfo(jnp.float32).tiny), 0, 1)
    evidence = jnp.where(jnp.isnan(near.losses), 0, jnp.where(near.losses <= own_loss, 1, evidence))
    learns = near.others & ~jnp.isnan(own_loss)  # without samples there is no evidence
    trust = near.memory + jnp.where(learns, numbers.trust_rate * (evidence - near.memory), 0)
    used = near.others & (trust >= numbers.least_trust)
    shares = jnp.where(used, near.weights * trust, 0).astype(near.own.dtype)
    model = near.own + weighted_sum(near.models - near.own, shares)
    return Decision(model, used, memory=trust)
