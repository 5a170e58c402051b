"""DP-SGD (Abadi et al. 2016): a task whose clients clip the gradient of each sample, and add noise to their sum.

A minibatch is a Poisson sample: a client of n samples draws each of them with chance min(B / n, 1), independently. It
is padded to a static size, and a draw that exceeds it is cut off (`mdfl_jax.contrib.privacy.account`).
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.contrib.privacy.noise import normal
from mdfl_jax.core.rng import number_of
from mdfl_jax.core.sharding import everywhere
from mdfl_jax.core.trees import rows_like
from mdfl_jax.core.types import ClientParams, Params, Task, TaskHooks
from mdfl_jax.data.batching import Batch, ClientIndex

NOISE, SAMPLING = number_of("privacy noise"), number_of("privacy sampling")  # folded into the key of a step


class PrivateNumbers(NamedTuple):
    """Traced numbers of a private task, `Hparams.task`.

    Attributes:
      inner: the numbers of the task.
      clip: C, the largest norm of a sample's gradient.
      noise: the standard deviation of the noise on a sum of gradients, in units of C.
      delta: the delta of the account, for metrics.
      least: the samples below which a client learns nothing from its own.
    """

    inner: Any
    clip: Any
    noise: Any
    delta: Any
    least: Any = 1


class PrivateClients(NamedTuple):
    """The clients' data in a private task: those of the inner task, with the numbers.

    Attributes:
      inner: the clients of the inner task.
      numbers: the numbers; those of the inner task are left out.
    """

    inner: Any
    numbers: PrivateNumbers

    @property
    def num_samples(self) -> jax.Array:
        """The number of samples of each client, [N] int32."""
        return self.inner.num_samples

    @property
    def label_counts(self) -> jax.Array:
        """The number of samples of each client and class (or stratum), [N, C] int32."""
        return self.inner.label_counts

    @property
    def learns(self) -> jax.Array:
        """[N] bool, the clients that hold enough samples to learn from them."""
        return learns(self.num_samples, self.numbers.least)


def learns(num_samples: jax.Array, least: jax.Array) -> jax.Array:
    """Return the clients that hold enough samples to learn from them, [N] bool."""
    return num_samples >= jnp.maximum(least, 1)


def clipped(gradient: Params, clip: jax.Array | float, by_leaf: bool = False) -> Params:
    """Return the gradient of one sample, made shorter where its norm is above a bound.

    A gradient that is not finite becomes zero, or the sum would tell of it whatever the noise.

    Args:
      gradient: a tree.
      clip: C, the bound of the norm over all leaves.
      by_leaf: whether each of the L leaves has a bound of its own, C / sqrt(L), and not all of them together.

    >>> clipped({"a": jnp.array([3.0]), "b": jnp.array([4.0])}, 1.0)["b"].tolist()
    [0.800000011920929]
    """

    def shortened(part: Params, most: jax.Array | float) -> Params:
        norm = jnp.sqrt(sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(part)))
        factor = jnp.minimum(1.0, most / jnp.maximum(norm, jnp.finfo(norm.dtype).tiny))
        return jax.tree.map(lambda leaf: jnp.where(jnp.isfinite(norm), leaf * factor, 0), part)

    if not by_leaf:
        return shortened(gradient, clip)
    bound = clip / jnp.sqrt(float(len(jax.tree.leaves(gradient))))
    return jax.tree.map(lambda leaf: shortened(leaf, bound), gradient)


def poisson_sample(key: jax.Array, held: ClientIndex, batch_size: int, largest: int) -> tuple[Batch, jax.Array]:
    """Draw each sample of each client with chance min(B / n, 1), n being the samples of the client.

    Args:
      key: typed key of the step.
      held: the samples of the clients.
      batch_size: B.
      largest: the size of the result; of more samples the first ones are kept.

    Returns:
      (the minibatches [N, largest], the number of samples that each client drew [N]).
    """

    def draw(sample: jax.Array, first: jax.Array, num_samples: jax.Array) -> tuple[Batch, jax.Array]:
        clients, places = first.shape[0], jnp.arange(sample.shape[0])
        owner = jnp.searchsorted(first + num_samples, places, side="right")
        of_owner = jnp.minimum(owner, clients - 1)
        drawn = jax.random.randint(key, sample.shape, 0, jnp.maximum(num_samples[of_owner], 1))
        chosen = (drawn < batch_size) & (owner < clients)
        count = jnp.zeros(clients, jnp.int32).at[owner].add(chosen.astype(jnp.int32), mode="drop")
        before = jnp.cumsum(chosen) - chosen
        rank = before - before[first[of_owner]]
        column = jnp.where(chosen, rank, largest)
        rows = jnp.zeros((clients, largest), jnp.int32).at[owner, column].set(sample, mode="drop")
        return Batch(rows, jnp.arange(largest) < count[:, None]), count

    return everywhere(draw, held.sample, held.first, held.num_samples)


def private(task: Task, batch_size: int, largest: int = 0, by_leaf: bool = False) -> Task:
    """Make a task whose gradients are those of DP-SGD. ``hparams.task`` becomes a `PrivateNumbers`.

    A gradient is the sum of clipped gradients and noise, divided by the mean size of the minibatch; clients without
    enough samples have a gradient of zero, and no noise. There are no gradients over all samples beside minibatches,
    and no epochs: the account does not cover them.

    Args:
      task: the task of a data set (`mdfl_jax.tasks.supervised`), of a model without batch statistics.
      batch_size: B, the mean size of a minibatch; 0: all samples.
      largest: the size to which minibatches are padded.
      by_leaf: as in `clipped`.
    """
    scoring, hooks, by_client = task.scoring, task.hooks, task.hooks.spread.by_client

    def partition(data: Any, numbers: PrivateNumbers, *rest: Any) -> PrivateClients:
        own = PrivateNumbers(None, *map(jnp.asarray, numbers[1:]))
        return PrivateClients(task.partition(data, numbers.inner, *rest), own)

    def hold(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda data, clients, *rest, **more: function(data, clients.inner, *rest, **more)

    def gradient(
        data: Any, clients: PrivateClients, client_params: ClientParams, key: jax.Array, only: jax.Array | None = None
    ) -> tuple[jax.Array, ClientParams]:
        numbers, samples = clients.numbers, clients.num_samples
        takes = clients.learns if only is None else clients.learns & only
        more: dict[str, Any] = {"only": takes}
        mean_size = samples.astype(jnp.float32)
        share = jnp.ones_like(mean_size)
        if batch_size:
            sampling = jax.random.fold_in(key, SAMPLING)
            more["batch"], count = poisson_sample(sampling, clients.inner.held, batch_size, largest)
            mean_size = jnp.minimum(mean_size, batch_size)
            share = jnp.minimum(count, largest) / jnp.maximum(mean_size, 1)
        clip = functools.partial(clipped, clip=numbers.clip, by_leaf=by_leaf)
        loss, means = task.gradient(data, clients.inner, client_params, key, per_sample=clip, **more)
        deviation = jnp.where(takes, numbers.noise * numbers.clip / jnp.maximum(mean_size, 1), 0)
        leaves, tree = jax.tree.flatten(means)
        of_noise = jax.random.fold_in(key, NOISE)
        found = [
            rows_like(share, leaf) * leaf
            + rows_like(deviation, leaf) * normal(jax.random.fold_in(of_noise, k), leaf.shape, leaf.dtype)
            for k, leaf in enumerate(leaves)
        ]
        return loss, jax.tree.unflatten(tree, found)

    def divided(clients: PrivateClients) -> PrivateClients:
        assert by_client is not None
        return PrivateClients(by_client(clients.inner), jax.tree.map(lambda _: False, clients.numbers))

    owner = hooks.owner
    return task._replace(
        partition=partition,
        gradient=gradient,
        evaluate=hold(task.evaluate),
        scoring=scoring._replace(
            over_test=scoring.over_test and hold(scoring.over_test),
            local_accuracy=scoring.local_accuracy and hold(scoring.local_accuracy),
            part=scoring.part and scoring.part._replace(evaluate=hold(scoring.part.evaluate)),
            validate=scoring.validate and hold(scoring.validate),
        ),
        hooks=TaskHooks(
            hooks.spread._replace(by_client=by_client and divided),
            by_place=hooks.by_place,
            owner=owner and (lambda data, numbers, *rest: owner(data, numbers.inner, *rest)),
            in_round=hooks.in_round and hold(hooks.in_round),
        ),
    )
