"""Clients that come and go: what the slow simulator does not see in its few clients and rounds."""

import jax
import jax.numpy as jnp
import numpy as np
from worlds import played

from mdfl_jax.contrib.presence.presence import (
    OWN_STREAM,
    PRESENCES,
    CyclicNumbers,
    MarkovNumbers,
    Moment,
    PoissonNumbers,
    PresenceParams,
    coming_and_going,
)
from mdfl_jax.core.rng import stream
from mdfl_jax.networks.fixed import fixed_graph
from mdfl_jax.networks.graphs import GraphParams


def test_who_stays_for_good_and_who_is_there_all_day_is_never_away():
    """A draw may be 0, as one of these million is, and infinity times 0 is no number; an hour may be rounded to 24."""
    key = jax.random.fold_in(stream(jax.random.key(0), "placement"), OWN_STREAM)
    many, moment = jnp.ones(1_000_000, bool), Moment(jnp.int32(5), jnp.float32(5.0))
    endless = PoissonNumbers(at_start=many.size, arrivals=0.1, stay=np.inf)
    assert PRESENCES["poisson"](endless, jax.random.key(40), moment, many).all()
    all_day = CyclicNumbers(hours=24.0, spread=1e-6, begin=0.0)
    assert PRESENCES["cyclic"](all_day, key, Moment(jnp.int32(0), jnp.float32(0)), many[:8]).all()


def test_markov_chains_are_stationary_from_the_first_round_on():
    network = coming_and_going(fixed_graph(2000, "ring", lists=True), "markov")
    _, links = played(network, PresenceParams(GraphParams(), MarkovNumbers(leave=0.1, come=0.3)), 30)
    share = links.active.mean(axis=1)
    np.testing.assert_allclose(share, 0.75, atol=5 * np.sqrt(0.75 * 0.25 / 2000))
