"""The numbers of the costs of a round, and the computing speeds of the clients."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.core.rng import stream
from mdfl_jax.networks.costs.work import Work

MARGIN = 1e-5  # relative; sums of seconds in single precision may be this much too small


class CostParams(NamedTuple):
    """Traced numbers of the costs. With the defaults computing, sending and moving are free and take no time.

    Attributes:
      seconds_per_sample: seconds for the gradient of one sample, for a client of speed 1.
      speed_spread: sigma of the lognormal distribution from which the clients' speeds are drawn; 0: all speeds are 1.
      speeds: [N] given speeds of the clients; None: they are drawn.
      deadline: seconds after which a round does not wait for computing clients any longer; ``inf``: no deadline. These
        clients still finish their local steps, and that time is not counted.
      bandwidth: bits per second of a client's radio; ``inf``: sending takes no time.
      latency: seconds that each message takes besides its bits.
      round_seconds: seconds of movement in a round; 0 where clients have no places.
      link_messages: messages that one link carries in a round in one direction (`mdfl_jax.networks.costs.work.probe`).
      link_bits: the bits of these messages.
      joules_per_bit: energy of the sender for each bit.
      joules_per_bit_received: energy of the receiver for each bit.
      joules_per_sample: energy for the gradient of one sample.
      joules_per_metre: energy of movement for each metre, or grid unit.
    """

    seconds_per_sample: Any = 0.0
    speed_spread: Any = 0.0
    speeds: Any = None
    deadline: Any = jnp.inf
    bandwidth: Any = jnp.inf
    latency: Any = 0.0
    round_seconds: Any = 0.0
    link_messages: Any = 1.0
    link_bits: Any = 0.0
    joules_per_bit: Any = 0.0
    joules_per_bit_received: Any = 0.0
    joules_per_sample: Any = 0.0
    joules_per_metre: Any = 0.0


def client_speeds(params: CostParams, key: jax.Array, num_clients: int) -> jax.Array:
    """Return the relative computing speeds of the clients, drawn once for a seed unless they are given.

    A speed is exp(sigma z - sigma^2 / 2) with a standard normal z. So speeds are lognormal with mean one.

    Args:
      params: the numbers of the costs.
      key: the key of the seed. Its stream "cost" is used for nothing else.
      num_clients: N.

    Returns:
      [N] float32 speeds, above 0.
    """
    if params.speeds is not None:
        return jnp.asarray(params.speeds, jnp.float32)
    sigma = jnp.asarray(params.speed_spread, jnp.float32)
    normal = jax.random.normal(stream(key, "cost"), (num_clients,), jnp.float32)
    return jnp.exp(sigma * normal - jnp.square(sigma) / 2)


def computing_seconds(params: CostParams, work: Work, key: jax.Array, num_samples: jax.Array) -> jax.Array:
    """Return the seconds that each client computes in a round, C_i = seconds_per_sample * samples_i / speed_i.

    Args:
      params: the numbers of the costs.
      work: what a client computes in a round.
      key: the key of the seed.
      num_samples: [N] int32, the training samples that each client holds.

    Returns:
      [N] float32 seconds.
    """
    samples = work.samples(num_samples)
    seconds = jnp.asarray(params.seconds_per_sample, jnp.float32) * samples
    return seconds / client_speeds(params, key, num_samples.shape[0])


def sending_seconds(params: CostParams, messages: jax.Array, bits: jax.Array) -> jax.Array:
    """Return the seconds that messages take one after another on one radio: latency * messages + bits / bandwidth.

    Args:
      params: the numbers of the costs.
      messages: the number of messages, an array of any shape.
      bits: the bits of all these messages, of the same shape.

    Returns:
      float32 seconds, of the same shape.

    >>> float(sending_seconds(CostParams(bandwidth=1000.0, latency=0.5), jnp.array(2), jnp.array(3000)))
    4.0
    """
    latency, bandwidth = (jnp.asarray(value, jnp.float32) for value in (params.latency, params.bandwidth))
    return latency * jnp.asarray(messages, jnp.float32) + jnp.asarray(bits, jnp.float32) / bandwidth
