"""Clients with unlike least-squares problems, a small graph, and algorithms run on them alone, round by round."""

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.core.types import Links, RoundContext

RING = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 2)]  # five clients; degrees 3, 2, 3, 2, 2


def graph(edges=RING, num_clients=5):
    """(adjacency, Metropolis-Hastings weights), float64."""
    adjacency = np.zeros((num_clients, num_clients), bool)
    for i, j in edges:
        adjacency[i, j] = adjacency[j, i] = True
    degree = adjacency.sum(axis=1)
    mix = np.where(adjacency, 1 / (1 + np.maximum(degree[:, None], degree[None, :])), 0.0)
    return adjacency, mix + np.diag(1 - mix.sum(axis=1))


NO_LINKS = np.zeros((5, 5), bool), np.eye(5)


class Problem:
    """f_i(w) = |A_i w - b_i|^2 / (2 rows), unlike minimisers; models are trees of two leaves.

    A gradient is that of all rows, or of ``batch`` rows that are drawn with replacement.
    """

    def __init__(self, num_clients=5, size=6, rows=8, spread=1.0, seed=0, batch=0):
        rng = np.random.default_rng(seed)
        self.size, self.num_clients, self.batch = size, num_clients, batch
        self.a = rng.normal(size=(num_clients, rows, size))
        self.b = self.a @ rng.normal(size=size) + rng.normal(size=(num_clients, rows))
        self.b += np.einsum("irl,il->ir", self.a, spread * rng.normal(size=(num_clients, size)))
        self.start = rng.normal(size=(num_clients, size))

    def drawn(self, key):
        """[N, batch] the rows of a minibatch."""
        return jax.random.randint(key, (self.num_clients, self.batch), 0, self.a.shape[1])

    @property
    def solution(self):
        """The minimiser of the mean of all f_i."""
        return np.linalg.lstsq(self.a.reshape(-1, self.size), self.b.reshape(-1), rcond=None)[0]

    @staticmethod
    def tree(x):
        return {"u": x[:, :2].reshape(-1, 2, 1), "v": x[:, 2:]}

    @staticmethod
    def flat(tree):
        return np.concatenate([np.asarray(tree["u"])[:, :, 0], np.asarray(tree["v"])], axis=1)

    def gradient(self, params, key, whole=False):
        x = jnp.concatenate([params["u"][:, :, 0], params["v"]], axis=1)
        a, b = jnp.asarray(self.a), jnp.asarray(self.b)
        if self.batch and not whole:
            a, b = jax.vmap(lambda a, b, rows: (a[rows], b[rows]))(a, b, self.drawn(key))
        residual = jnp.einsum("irl,il->ir", a, x) - b
        found = jnp.einsum("irl,ir->il", a, residual) / a.shape[1]
        return jnp.mean(residual**2, axis=1) / 2, self.tree(found.astype(x.dtype))


def run(algorithm, hparams, problem, links):
    """Rounds over given links (adjacency, mix); (models [R + 1, N, n], the last state)."""
    state = jax.jit(algorithm.init)(hparams, problem.tree(jnp.asarray(problem.start)))
    step = jax.jit(lambda key, s, links: algorithm.round(hparams, s, links, RoundContext(key, problem.gradient))[0])
    models = [problem.flat(algorithm.params(state))]
    for t, given in enumerate(links):
        state = step(jax.random.key(t), state, Links(*map(jnp.asarray, given)))
        models.append(problem.flat(algorithm.params(state)))
    return np.stack(models), state


def run_long(algorithm, hparams, problem, links, rounds):
    """The models after many rounds over the same links, in one program."""
    links = Links(jnp.asarray(links[0]), jnp.asarray(links[1]))

    @jax.jit
    def whole():
        of = lambda key: RoundContext(key, problem.gradient)  # noqa: E731
        step = lambda s, k: (algorithm.round(hparams, s, links, of(k))[0], None)  # noqa: E731
        state = algorithm.init(hparams, problem.tree(jnp.asarray(problem.start)))
        return algorithm.params(jax.lax.scan(step, state, jax.random.split(jax.random.key(0), rounds))[0])

    return problem.flat(whole())


def types_of_states(algorithm, hparams):
    """Shapes and types of the state of single-precision models, before and after a round with and one without links."""
    problem = Problem()
    single = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), problem.tree(jnp.asarray(problem.start)))
    states = [algorithm.init(hparams, single)]
    for t, (adjacency, mix) in enumerate((graph(), NO_LINKS)):
        links = Links(jnp.asarray(adjacency), jnp.asarray(mix))
        step = lambda key, *of: algorithm.round(hparams, *of, RoundContext(key, problem.gradient))  # noqa: E731
        states.append(jax.eval_shape(step, jax.random.key(t), states[-1], links)[0])
    return [jax.tree.map(lambda x: (x.shape, x.dtype), state) for state in (states[0], states[-1])]
