"""SGP: stochastic gradient push, which averages without error over links of one direction."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from mdfl_jax.algorithms.local import LocalNumbers, Settings, init_optimizer, local_work, optimizer_updates
from mdfl_jax.algorithms.registry import register
from mdfl_jax.core import trees
from mdfl_jax.core.links import ALL_PAIRS, Senders
from mdfl_jax.core.message_bits import count_bits, dense_bits, float_bits, messages_sent
from mdfl_jax.core.trees import rows_like
from mdfl_jax.core.types import Algorithm, ClientParams, Gradient, Links, RoundContext, RoundStats, Traits
from mdfl_jax.exchange.aggregation import Heard, weighted_mean
from mdfl_jax.networks.mixing import uniform


class SGPState(NamedTuple):
    """The state that one round hands to the next.

    Attributes:
      params: [N, ...] the de-biased models z = x / w.
      weight: [N] the push-sum weights w, which begin at one; their sum stays N.
      opt_state: [N, ...] the optimiser states, never exchanged.
    """

    params: ClientParams
    weight: jax.Array
    opt_state: Any


def push_weights(adjacency: jax.Array, senders: Senders = ALL_PAIRS) -> jax.Array:
    """Compute the weights with which clients push: P[i, j] = 1 / (1 + out-degree of j) for all that hear j and j.

    Args:
      adjacency: [N, K] bool, [i, j] is true where i hears the sender at place j.
      senders: the clients for which the places stand.

    Returns:
      [N, K] float32, column-stochastic. A sender needs to know only how many clients hear it.

    >>> push_weights(jnp.array([[False, False], [True, False]])).tolist()
    [[0.5, 0.0], [0.5, 1.0]]
    """
    return senders.opposite(uniform(senders.opposite(adjacency), senders))


def begun(settings: Settings, hparams: LocalNumbers, client_params: ClientParams) -> SGPState:
    """Return the state before the first round, for the first models [N, ...]."""
    leaf = jax.tree.leaves(client_params)[0]
    ones = jnp.ones(leaf.shape[0], jnp.promote_types(leaf.dtype, jnp.float32))
    return SGPState(client_params, ones, init_optimizer(settings.optimizer(hparams), client_params))


def biased_steps(
    settings: Settings, hparams: LocalNumbers, state: SGPState, context: RoundContext
) -> tuple[ClientParams, Any, jax.Array]:
    """Take the local steps in x = w z, so that z moves 1 / w times as far: (z [N, ...], optimiser states, loss [N])."""
    longer = lambda u: u / rows_like(state.weight, u).astype(u.dtype)  # noqa: E731

    def step(carry: tuple[ClientParams, Any], index: jax.Array, gradient: Gradient) -> tuple[Any, jax.Array]:
        z, opt_state = carry
        loss, found = gradient(z, jax.random.fold_in(context.key, index))
        updates, opt_state = optimizer_updates(settings.optimizer(hparams), found, opt_state, z)
        updates = trees.each(longer, lambda u: u, updates)  # a batch statistic moves by its whole step in z
        return (optax.apply_updates(z, updates), opt_state), loss

    work = local_work(settings, hparams, state.params, context)
    (z, opt_state), loss = work.take(step, (state.params, state.opt_state))
    return z, opt_state, loss


@register(
    "sgp",
    ignores=("aggregation", "compressor"),
    keeps_sum=True,
    formula="x <- x - eta grad f(z);  x+ = P x;  w+ = P w;  z+ = x+ / w+;  P is column-stochastic, w^0 = 1",
    cite="assran2019: algorithm 1",
)
def sgp(settings: Settings = Settings()) -> Algorithm:
    """SGP, stochastic gradient push: local steps and push-sum, which averages exactly over links of one direction.

    The links may have one direction and change, and the network's mixing matrix is not used. Over some rounds there
    must be a path from every client to every other client. Otherwise the weight w of a client that receives nothing
    falls to zero, and its steps eta / w grow without bound. The local steps are those of the optimiser; the paper takes
    one, by SGD. Every message holds the model and one more number, w.

    The state keeps z instead of x = w z, so that batch statistics and weight decay act on the models themselves:
    z+ = A (z - eta grad f(z) / w) with A = diag(1 / w+) P diag(w), whose rows sum to one. The recursion is the same.
    """

    def do_round(
        hparams: LocalNumbers, state: SGPState, links: Links, context: RoundContext
    ) -> tuple[SGPState, RoundStats]:
        z, opt_state, loss = biased_steps(settings, hparams, state, context)
        mine = settings.part(z)
        pushed = push_weights(links.adjacency, links.senders).astype(state.weight.dtype)
        pushed = pushed * links.senders.of(state.weight)
        weight = jnp.sum(pushed, axis=1)
        weighed = links._replace(mix=pushed / weight[:, None])
        told = settings.sent(hparams, context.key, links, mine)
        heard = weighted_mean(Heard(weighed, mine, told, mixing_bound=settings.mixing_bound))
        sent = messages_sent(links.adjacency, links.senders)
        stats = RoundStats(loss, sent, count_bits(sent, dense_bits(mine) + float_bits(mine)))
        return SGPState(settings.with_part(z, heard), weight, opt_state), stats

    double_bits = None if settings.shared else lambda hparams, num_params: 64.0 * (num_params + 1)
    return Algorithm(
        frozenset({"adjacency"}),
        partial(begun, settings),
        do_round,
        lambda state: state.params,
        traits=Traits(double_bits, settings.local_statistics),
    )
