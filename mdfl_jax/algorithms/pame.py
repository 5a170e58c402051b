"""PaME: clients average some coordinates of some neighbours, then take a gradient step from the average.

Each client does so in its own period.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from mdfl_jax.algorithms.local import LocalNumbers, Settings, init_optimizer, optimizer_updates
from mdfl_jax.algorithms.registry import register
from mdfl_jax.core.message_bits import count_bits, double_sparse_bits, float_bits, messages_sent, sparse_bits
from mdfl_jax.core.numbers import Setting, number
from mdfl_jax.core.rng import own_draws
from mdfl_jax.core.sharding import choose, everywhere
from mdfl_jax.core.trees import ravel, rows_like, trained, with_trained
from mdfl_jax.core.types import Algorithm, ClientParams, Links, RoundContext, RoundStats, Traits
from mdfl_jax.exchange.active import Finishing
from mdfl_jax.exchange.compressors import num_kept
from mdfl_jax.exchange.partial import partial_average, random_coordinates, random_neighbours
from mdfl_jax.metrics.values import HEARD


class PaMEState(NamedTuple):
    """The state that one round hands to the next.

    Attributes:
      params: [N, ...] the models w_i.
      opt_state: [N, ...] the optimiser states, never exchanged.
      round: [] int32 k.
      period: [N] int32 kappa_i, the period of communication in rounds, drawn in a client's first round; 0 before it.
      heard: [N] int32 m_i, the number of neighbours picked at the latest communication, at least 1.
      works: [N] int32, the rounds in which each client has taken part.
    """

    params: ClientParams
    opt_state: Any
    round: jax.Array
    period: jax.Array
    heard: jax.Array
    works: jax.Array


class PaMENumbers(LocalNumbers):
    """The numbers of PaME, by default of the paper's regressions (table II), with kappa_i uniform in {3, ..., 7}."""

    lr: float = number(1.0, "step of the first round, 1 / sigma^0", above=0, source="PaME table II")
    participation: float = number(
        0.2, "share of the neighbours that a communication takes, nu", at_least=0, at_most=1, source="PaME V-D"
    )
    period_min: int = number(
        3, "smallest period of communication that a client draws, kappa_i", at_least=1, at_most=10**9, source="PaME V-D"
    )
    period_max: int = number(7, "largest period that a client draws", at_least=1, at_most=10**9, source="PaME V-D")
    transmission: float = number(0.2, "share of the coordinates in a message, s / n", at_least=0, at_most=1)
    penalty_growth: float = number(1.005, "factor a round of the penalty sigma, gamma", at_least=0, source="PaME (3)")

    def notes(self, setting: Setting) -> list[str]:
        """Note a penalty that does not grow."""
        if self.penalty_growth > 1:
            return []
        growth = f"algorithm.penalty_growth is {self.penalty_growth:g}"
        return [f"{growth}; PaME asks for more than 1, or its steps do not shrink"]


def _num_sent(hparams: PaMENumbers, num_params: int) -> jax.Array:
    return num_kept(hparams.transmission, num_params)


@register(
    "pame",
    PaMENumbers,
    ignores=("aggregation", "compressor", "local_steps"),
    formula="v_i = PME(w_i, {w_j}) in rounds k that kappa_i divides, else w_i\n"
    "w_i+ = v_i - lr penalty_growth^-k / m_i grad f_i(v_i);  m_i: neighbours in its last exchange;  lr = 1 / sigma^0",
    cite="pame: algorithms 1 and 2",
)
def pame(settings: Settings = Settings()) -> Algorithm:
    """PaME: clients average some coordinates of some neighbours, each in its own period, then take a gradient step.

    PME replaces each coordinate that is received by the mean over those who sent it. The gradient stands for the
    direction of the optimiser; the paper's is plain SGD. A sender draws its coordinates once a round and sends the same
    ones to all receivers (algorithm 2, line 2). A client that has no neighbour in a round of its period steps alone,
    with m_i = 1. With clocks of their own, clients count the period in their works.

    The defaults are those of the paper's regressions (table II), with kappa_i uniform in {3, ..., 7}.
    """

    def init(hparams: PaMENumbers, client_params: ClientParams) -> PaMEState:
        ones = jnp.ones(jax.tree.leaves(client_params)[0].shape[0], jnp.int32)
        opt_state = init_optimizer(settings.optimizer(hparams), client_params)
        return PaMEState(client_params, opt_state, jnp.int32(0), jnp.zeros_like(ones), ones, jnp.zeros_like(ones))

    def do_round(
        hparams: PaMENumbers, state: PaMEState, links: Links, context: RoundContext
    ) -> tuple[PaMEState, RoundStats]:
        key_period, key_neighbours, key_coordinates = jax.random.split(own_draws(context.key), 3)
        own, unravel = ravel(settings.part(state.params))
        num_clients, size = own.shape
        low, high = jnp.asarray(hparams.period_min, jnp.int32), jnp.asarray(hparams.period_max, jnp.int32)
        drawn = jax.random.randint(key_period, (num_clients,), low, high + 1, jnp.int32)
        # A client that is absent from round 0 draws its period when it comes, and so does one that begins anew.
        period = jnp.where(state.works == 0, drawn, state.period)
        # Works of several slots might never end in a slot that the period divides, so clients with clocks count works.
        turn = (state.round if links.get(Finishing) is None else state.works) % period == 0
        pick = lambda near, senders: random_neighbours(key_neighbours, near, hparams.participation, senders)  # noqa: E731
        picked = everywhere(pick, links.adjacency, links.senders) & turn[:, None]
        messages = messages_sent(picked, links.senders)
        heard = jnp.where(turn, jnp.maximum(jnp.sum(picked, axis=1, dtype=jnp.int32), 1), state.heard)
        count, told = _num_sent(hparams, size), settings.sent(hparams, context.key, links, own)
        changed = None if told is own else told  # else the exchange below would have the models as two arguments

        def exchange(own: jax.Array) -> jax.Array:
            chosen = random_coordinates(key_coordinates, num_clients, size, count, messages > 0)
            return partial_average(own, chosen, picked, links.senders, changed)

        # Where periods are long or equal, no client communicates in many rounds, and the exchange is skipped. On a mesh
        # it is not skipped, but then no row is computed either.
        part = unravel(choose(jnp.any(picked), exchange, lambda own: own, own))
        averaged = settings.with_part(state.params, part)

        loss, gradients = context.gradient(averaged, jax.random.fold_in(context.key, 0))
        updates, opt_state = optimizer_updates(settings.optimizer(hparams), gradients, state.opt_state, averaged)
        growth = jnp.asarray(hparams.penalty_growth, own.dtype)
        shrink = jnp.power(growth, -state.round.astype(own.dtype)) / heard.astype(own.dtype)
        shorter = lambda u: u * rows_like(shrink, u).astype(u.dtype)  # noqa: E731
        updates = with_trained(updates, jax.tree.map(shorter, trained(updates)))
        params = optax.apply_updates(averaged, updates)
        bits = count_bits(messages, sparse_bits(size, count, float_bits(params)))
        stats = RoundStats(loss, messages, bits, heard=links._replace(adjacency=picked))
        return PaMEState(params, opt_state, state.round + 1, period, heard, state.works + 1), stats

    def double_bits(hparams: PaMENumbers, num_params: int) -> float:
        return double_sparse_bits(float(_num_sent(hparams, num_params)), num_params)

    return Algorithm(
        needs=frozenset({"adjacency"}),
        init=init,
        round=do_round,
        params=lambda state: state.params,
        metrics=(HEARD,),
        traits=Traits(None if settings.shared else double_bits, settings.local_statistics, participates=True),
    )
