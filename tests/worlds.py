"""Networks that are played alone: what clients hold, and the states and links of the rounds."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.core.message_bits import count_bits
from mdfl_jax.core.types import Held, Observed, Report, RoundStats


def holding(num_samples, num_classes=2):
    """What a network sees of clients with these numbers of samples, [N]; every label is there once."""
    num_samples = jnp.asarray(num_samples, jnp.int32)
    return Held(num_samples, jnp.ones((len(num_samples), num_classes), jnp.int32))


@functools.lru_cache(maxsize=8)
def _program(network, rounds, several, bits=None):
    def one(params, key, clients):
        start = network.init(params, key, clients)

        def body(state, t):
            after, links = network.step(params, key, t, state, clients)
            if bits is not None:
                messages = jnp.sum(links.adjacency, axis=0, dtype=jnp.int32)
                stats = RoundStats(
                    jnp.zeros(len(messages)), messages, count_bits(messages, bits), report=Report(computed=links.active)
                )
                after = network.hooks.observe(params, after, Observed(links, stats, None))
            return after, (after, links)

        after, links = jax.lax.scan(body, start, jnp.arange(rounds))[1]
        return jax.tree.map(lambda first, rest: jnp.concatenate([jnp.asarray(first)[None], rest]), start, after), links

    return jax.jit(jax.vmap(one, in_axes=(None, 0, None)) if several else one)


def played(network, params, rounds, clients=None, seed=0, bits=None):
    """The states before each round and after the last one, [R + 1, ...], and the links of the rounds, [R, ...].

    With ``bits``, each active client computes, and sends a message of so many bits over each of its links.
    """
    clients = holding(np.ones(network.num_clients)) if clients is None else clients
    return jax.tree.map(np.asarray, _program(network, rounds, False, bits)(params, jax.random.key(seed), clients))


def matrices(senders, values):
    """An array over the places of neighbour lists, [..., N, K], as matrices, [..., N, N]; matrices stay as they are."""
    if senders.ids is None:
        return np.asarray(values)
    values, ids = np.asarray(values), np.asarray(senders.ids)
    used = (ids != np.arange(ids.shape[-2])[:, None]) | (np.arange(ids.shape[-1]) == 0)  # oneself, or an unused place
    whole = np.zeros((*ids.shape[:-1], ids.shape[-2]), values.dtype)
    whole[(*np.nonzero(used)[:-1], ids[used])] = values[used]
    return whole


def drawn(network, params, seeds, rounds=1):
    """The links of several seeds, [S, R, ...], of clients with one sample each; one program for all numbers."""
    keys = jax.vmap(jax.random.key)(jnp.arange(seeds))
    run = _program(network, rounds, True)
    return jax.tree.map(np.asarray, run(params, keys, holding(np.ones(network.num_clients))))[1]


def ends(study, rounds=6):
    """The states of each sweep point's network before the first round and after some rounds; nobody is trained."""
    (group,) = study.groups
    of, key = group.simulation, jax.random.key(0)
    clients = jax.jit(lambda hparams: Held.by(of.partition(of.data, hparams, key)))
    found = [played(of.network, hparams.network, rounds, clients(hparams))[0] for hparams in group.hparams]
    return [tuple(jax.tree.map(lambda leaf, t=t: leaf[t], states) for t in (0, -1)) for states in found]
