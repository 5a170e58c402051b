"""What a run draws at random, from the streams of keys that mdfl_jax names: this module alone knows them.

Everything else of the slow simulator asks for draws by their meaning. The laws of the draws have tests of their own.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.contrib.algorithms import peers
from mdfl_jax.contrib.privacy import noise
from mdfl_jax.core.rng import number_of, per_client, stream, stream_at

BEFORE_ALL_ROUNDS = 2**31 - 1


def folded(key, *numbers):
    for number in numbers:
        key = jax.random.fold_in(key, number)
    return key


def numpy(x):
    x = np.asarray(x)
    return x.astype(np.float64) if x.dtype == np.float32 else x


def symmetric(square):
    """[N, N], the draw of each pair in both directions: that of the later client's row."""
    lower = np.tril(square, -1)
    return lower + lower.T


class Draws:
    """The draws of the run of one key, with N clients."""

    def __init__(self, key, num_clients):
        self.key, self.n = key, num_clients

    def uniform(self, key, shape=None):
        return numpy(jax.random.uniform(key, (self.n,) if shape is None else shape))

    # The world.

    def radius_factors(self):
        key = stream_at(self.key, "link", BEFORE_ALL_ROUNDS)
        return numpy(jax.random.uniform(key, (self.n,), minval=-1.0, maxval=1.0))

    def link_failures(self, t):
        return self.uniform(stream_at(self.key, "link", t), (self.n, self.n))

    def bursts(self, t):
        key = jax.random.split(folded(stream_at(self.key, "link", t), 1))[0]
        return symmetric(self.uniform(key, (self.n, self.n)))

    def fading(self, t, k):
        key = jax.random.split(folded(stream_at(self.key, "link", t), 1))[1]
        return symmetric(self.uniform(folded(key, k), (self.n, self.n)))

    def waves(self, count):
        """The sinusoids of the shadowing: frequencies [count, 2] of both places in 1 / distance, and phases [count]."""
        keys = jax.random.split(folded(stream(self.key, "link"), number_of("shadowing")), 5)
        normal = [numpy(jax.random.normal(k, (count, size))) for k, size in zip(keys[:4], (2, 1, 2, 1))]
        phases = numpy(jax.random.uniform(keys[4], (count,), maxval=2 * jnp.pi))
        return normal[0] / normal[1], normal[2] / normal[3], phases

    # Wrappers.

    def first_gaps(self):
        return stream(self.key, "placement")

    def gaps(self, t):
        return jax.random.split(stream_at(self.key, "link", t))[0]

    def gap_of(self, key, low, high):
        return np.asarray(jax.random.randint(key, (self.n,), low, high + 1))

    def gap_uniform(self, key):
        return self.uniform(key)

    def pair_order(self, t):
        return np.asarray(jax.random.permutation(jax.random.split(stream_at(self.key, "link", t))[1], self.n))

    def matching_ranks(self, t):
        return symmetric(self.uniform(folded(stream_at(self.key, "link", t), 1), (self.n, self.n)))

    def presence(self):
        return folded(stream(self.key, "placement"), number_of("presence"))

    def presence_uniform(self, *folds):
        return self.uniform(folded(self.presence(), *folds))

    def arrivals(self):
        """(place of each client in the order, gaps, stays), the last two exponential with mean one."""
        order, gaps, stays = (folded(self.presence(), k) for k in range(3))
        exponential = lambda key: numpy(jax.random.exponential(key, (self.n,)))  # noqa: E731
        return np.asarray(jax.random.permutation(order, self.n)), exponential(gaps), exponential(stays)

    def battery_spread(self):
        key = folded(stream(self.key, "cost"), number_of("battery"))
        return numpy(jax.random.uniform(key, (self.n,), minval=-1))

    def speeds(self):
        """(standard normal numbers, the thirds) by which the clients' speeds are drawn."""
        own = stream(self.key, "cost")
        thirds = np.asarray(jax.random.permutation(folded(own, 1), self.n)) % 3
        return numpy(jax.random.normal(own, (self.n,))), thirds

    def words_of_pairs(self, key):
        return np.asarray(jax.random.bits(key, (self.n, self.n), jnp.uint32))

    def picks(self, t):
        return self.words_of_pairs(folded(stream_at(self.key, "link", t), number_of("participation")))

    def picks_that_stay(self, attempt):
        return self.words_of_pairs(folded(stream(self.key, "placement"), number_of("participation"), attempt))

    def attackers(self):
        return self.uniform(folded(stream(self.key, "placement"), number_of("attackers")))

    # Samples.

    def batch_key(self, t):
        """The key of the minibatches of a round t, of its personal steps, ("personal", t), or of "evaluation"."""
        if t == "evaluation":
            return folded(stream(self.key, t), number_of("personal steps"))
        if isinstance(t, tuple):
            return folded(stream_at(self.key, "batch", t[1]), number_of("personal steps"))
        return stream_at(self.key, "batch", t)

    def minibatch(self, t, step, client, held, size):
        key = folded(self.batch_key(t), step, client)
        return np.asarray(jax.random.randint(key, (size,), 0, max(held, 1)))

    def synthetic_minibatch(self, t, step, held, size):
        return np.asarray(jax.random.randint(folded(self.batch_key(t), step), (self.n, size), 0, held))

    def epoch_words(self, t, epochs, samples):
        return np.asarray(jax.random.bits(stream(self.batch_key(t), "epochs"), (epochs, samples), jnp.uint32))

    @functools.lru_cache(2)  # noqa: B019 -- few are held
    def poisson_sample(self, t, step, sizes):
        """An integer below the size for each of these: those below B are drawn with chance B / size."""
        key = folded(self.batch_key(t), step, number_of("privacy sampling"))
        return np.asarray(jax.random.randint(key, (len(sizes),), 0, jnp.asarray(sizes)))

    @functools.lru_cache(2)  # noqa: B019 -- few are held
    def noise_of_gradients(self, t, step, shapes):
        return self.normal_leaves(folded(self.batch_key(t), step, number_of("privacy noise")), shapes, noise.normal)

    def collected(self, t, rate, sizes):
        key = folded(stream_at(self.key, "partition", t), number_of("collecting"))
        return np.asarray(jax.random.randint(key, (self.n, rate), 0, jnp.maximum(jnp.asarray(sizes)[:, None], 1)))

    # Algorithms.

    def own(self, t):
        return stream(self.batch_key(t), "algorithm")

    def split(self, key, count=2):
        return jax.random.split(key, count)

    def coins(self, t):
        return self.uniform(self.own(t))

    def common_coin(self, t):
        return float(self.uniform(self.own(t), ()))

    def moments(self, t):
        """[N, N], the moment at which two clients could exchange, the same for both; the largest is the first."""
        drawn = self.uniform(self.own(t), (self.n, self.n))
        return np.triu(drawn, 1) + np.triu(drawn, 1).T

    def receivers(self, t):
        return self.words_of_pairs(self.own(t))

    def regular_part(self, t, hears, degree):
        return np.asarray(peers.random_regular_part(self.own(t), jnp.asarray(hears), degree))

    def periods(self, key, low, high):
        return np.asarray(jax.random.randint(key, (self.n,), low, high + 1, jnp.int32))

    def coordinate_words(self, key, size):
        """[N, size], the word of each coordinate of each client's message."""
        return np.stack([np.asarray(jax.random.bits(k, (size,), jnp.uint32)) for k in per_client(key, self.n)])

    def rounding(self, key, shape):
        return self.uniform(key, shape)

    def normal(self, key, shape):
        return numpy(jax.random.normal(key, shape))

    def normal_leaves(self, key, shapes, normal=jax.random.normal):
        """[N, d], standard normal numbers in the place of vectors whose leaves have these shapes."""
        parts = [numpy(normal(folded(key, leaf), (self.n, *shape))) for leaf, shape in enumerate(shapes)]
        return np.concatenate([part.reshape(self.n, -1) for part in parts], axis=1)

    def noise_of_attackers(self, t, which, shapes, key=None):
        key = self.batch_key(t) if key is None else key
        return self.normal_leaves(folded(stream(key, "algorithm"), number_of("sending"), which, 0), shapes)
