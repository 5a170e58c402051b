"""Mixing rules: they make the mixing matrix, the weights with which a client averages the models that it hears.

Matrices are arrays over links, [N, K], in the dense form (K = N) or as neighbour lists (`mdfl_jax.core.links`). The
formulas are the same for both: sums over the places of a row, and `Senders` for what belongs to a sender or to the
client itself.

``mix[i, j]`` is the weight that receiver i gives to sender j. Rows sum to one. A client without a neighbour keeps its
own model. A rule in `MIXINGS` takes a `MixingInputs`; the functions below take the parts of it that they need.

A link that fails in one direction makes ``adjacency`` asymmetric, but rows still sum to one. fedavg, uniform and the
speed-aware rules divide the weight among the senders from which a client receives. metropolis_hastings, max_degree and
lazy compute weights from the contacts, whose degrees both ends know. They add the weight of a model that does not
arrive to the receiver's own weight, so columns no longer sum to one. Hence these three rules are symmetric and doubly
stochastic only if no link fails. uniform is symmetric and doubly stochastic on regular undirected graphs. The other
rules are not, in general.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.links import ALL_PAIRS, Senders
from mdfl_jax.core.numbers import Numbers, checked, number
from mdfl_jax.core.registry import Registry
from mdfl_jax.networks.graphs import links_in


class MixingInputs(NamedTuple):
    """The values that a mixing rule may use.

    Attributes:
      adjacency: [N, K] bool; [i, j] is true where i hears the sender at place j. There are no self loops.
      contact: [N, K] bool, the links before any of them fails. It is symmetric unless the graph is directed.
      num_samples: [N] number of samples that each client holds.
      speed: [N] distance that each client moved in the last round.
      radius: communication radius in the unit of the speed, one for all clients or [N].
      numbers: the numbers of the rule, an instance of the class that the rule is registered with.
      senders: the clients for which the K places stand; `mdfl_jax.core.links.ALL_PAIRS` for matrices [N, N].
    """

    adjacency: jax.Array
    contact: jax.Array
    num_samples: jax.Array
    speed: jax.Array
    radius: jax.Array
    numbers: Any = None
    senders: Senders = ALL_PAIRS


MixingRule = Callable[[MixingInputs], jax.Array]
MIXINGS: Registry[MixingRule] = Registry("mixing", home="mdfl_jax.networks")
SYMMETRIC_MIXINGS = ("lazy", "max_degree", "metropolis_hastings")  # symmetric if links are undirected and none fails


def mixing_weights(
    rule: str, graph: Any, num_samples: Any = None, speed: Any = None, radius: Any = jnp.inf, **numbers: Any
) -> jax.Array:
    """Compute the mixing matrix of a graph by a rule of `MIXINGS`. It can be compiled; the name of the rule is static.

    Args:
      rule: the name of the rule, such as "metropolis_hastings".
      graph: [N, N], in which i hears j where the entry [i, j] is not zero; the diagonal does not count. Or a graph of
        networkx, or a list of edges (i, j), each of both directions.
      num_samples: [N] number of samples that each client holds; None: all hold equally many.
      speed: [N] distance that each client moved in the last round; None: nobody moved.
      radius: communication radius in the unit of the speed.
      **numbers: the hyperparameters of the rule, by name.

    Returns:
      mix: [N, N] float32, the weight that receiver i gives to sender j; rows sum to one.

    Raises:
      UserError: for an unknown rule or hyperparameter, or an array of another shape.

    >>> mixing_weights("uniform", jnp.array([[0, 1], [0, 0]])).tolist()
    [[0.5, 0.5], [0.0, 1.0]]
    """
    links = jnp.asarray(graph if isinstance(graph, jax.Array) else links_in(graph))
    size = links.shape[0]
    if links.shape != (size, size):
        raise UserError(f"graph is {list(links.shape)}; it must be [N, N]")
    held = jnp.ones(size) if num_samples is None else jnp.asarray(num_samples)
    moved = jnp.zeros(size) if speed is None else jnp.asarray(speed)
    for name, values in (("num_samples", held), ("speed", moved)):
        if values.shape != (size,):
            raise UserError(f"{name} is {list(values.shape)}; it must be [{size}], as the graph has {size} clients")
    hears = (links != 0) & ~jnp.eye(size, dtype=bool)
    made = checked(rule, MIXINGS.numbers(rule), numbers).typed()
    return MIXINGS[rule](MixingInputs(hears, hears, held, moved, radius, made))


def metropolis_hastings(adjacency: jax.Array, senders: Senders = ALL_PAIRS) -> jax.Array:
    """Compute Metropolis-Hastings weights (MADFL eq. 2).

    The weight of a neighbour is 1 / (1 + max(d_i, d_j)) with the degrees d. The rest of the weight is on the diagonal.

    Args:
      adjacency: [N, K] bool, symmetric, without self loops.
      senders: the clients for which the places stand.

    Returns:
      mix: [N, K] float32, symmetric and doubly stochastic.

    >>> metropolis_hastings(jnp.array([[False, True], [True, False]])).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    degree = jnp.sum(adjacency, axis=1)
    weight = jnp.where(adjacency, 1.0 / (1.0 + jnp.maximum(degree[:, None], senders.of(degree))), 0.0)
    return weight + senders.on_own(1.0 - jnp.sum(weight, axis=1))


def max_degree(adjacency: jax.Array, senders: Senders = ALL_PAIRS) -> jax.Array:
    """Compute max-degree weights W = I - L / (d_max + 1), where L is the Laplacian: 1 / (d_max + 1) for neighbours.

    Every client must know d_max, the largest degree of the whole graph.

    Args:
      adjacency: [N, K] bool, symmetric, without self loops.
      senders: the clients for which the places stand.

    Returns:
      mix: [N, K] float32, symmetric and doubly stochastic.

    >>> star = jnp.array([[0, 1, 1, 1], [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]], bool)
    >>> max_degree(star).tolist()[:2]
    [[0.25, 0.25, 0.25, 0.25], [0.25, 0.75, 0.0, 0.0]]
    """
    degree = jnp.sum(adjacency, axis=1)
    weight = jnp.where(adjacency, 1.0 / (1.0 + jnp.max(degree)), 0.0)
    return weight + senders.on_own(1.0 - jnp.sum(weight, axis=1))


def lazy(mix: jax.Array, senders: Senders = ALL_PAIRS) -> jax.Array:
    """Return the lazy mixing matrix (I + W) / 2 of a mixing matrix W, both [N, K].

    (I + W) / 2 has the same limit, moves half as far in each round, and has no negative eigenvalue if W is symmetric.

    >>> lazy(jnp.array([[0.0, 1.0], [1.0, 0.0]])).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    return (senders.own(mix.shape[0]).astype(mix.dtype) + mix) / 2


def fedavg(adjacency: jax.Array, num_samples: jax.Array, senders: Senders = ALL_PAIRS) -> jax.Array:
    """Compute FedAvg weights (DADFL eq. 2): a sender's share of the samples in the receiver's closed neighbourhood.

    Args:
      adjacency: [N, K] bool, without self loops.
      num_samples: [N] number of samples that each client holds, |D_j|.
      senders: the clients for which the places stand.

    Returns:
      mix: [N, K] float32, row-stochastic. A client whose closed neighbourhood holds no sample keeps its own model.

    >>> fedavg(jnp.array([[False, True], [True, False]]), jnp.array([1, 3])).tolist()
    [[0.25, 0.75], [0.25, 0.75]]
    """
    own = senders.own(adjacency.shape[0])
    held = jnp.where(adjacency | own, senders.of(num_samples.astype(jnp.float32)), 0.0)
    total = jnp.sum(held, axis=1, keepdims=True)
    return jnp.where(total > 0, held / jnp.where(total > 0, total, 1.0), own.astype(jnp.float32))


def uniform(adjacency: jax.Array, senders: Senders = ALL_PAIRS) -> jax.Array:
    """Compute uniform weights (thesis 5.3): W[i, j] = 1 / |M_i| over the closed neighbourhood M_i.

    Args:
      adjacency: [N, K] bool, without self loops.
      senders: the clients for which the places stand.

    Returns:
      mix: [N, K] float32, row-stochastic.

    >>> uniform(jnp.array([[False, True], [False, False]])).tolist()
    [[0.5, 0.5], [0.0, 1.0]]
    """
    closed = _closed(adjacency, senders)
    return closed / jnp.sum(closed, axis=1, keepdims=True)


def speed_aware(
    adjacency: jax.Array, speed: jax.Array, ratio: jax.Array | float, senders: Senders = ALL_PAIRS
) -> jax.Array:
    """Compute weights that grow with the sender's speed (thesis 5.4): W[i, j] = 1 / |M_i| + a (X_ij - 1 / |M_i|).

    X_ij is s_j divided by the sum of s over the closed neighbourhood M_i, or 1 / |M_i| if that sum is zero. The ratio
    a = 0 gives `uniform`, and a = 1 gives X.

    Args:
      adjacency: [N, K] bool, without self loops.
      speed: [N] speeds, at least 0, in any unit.
      ratio: a in [0, 1], one for all clients or [N], one for each receiver.
      senders: the clients for which the places stand.

    Returns:
      mix: [N, K] float32, row-stochastic.

    >>> speed_aware(jnp.array([[False, True], [True, False]]), jnp.array([1.0, 3.0]), 1.0).tolist()
    [[0.25, 0.75], [0.25, 0.75]]
    """
    even, held = uniform(adjacency, senders), _closed(adjacency, senders) * senders.of(speed)
    total = jnp.sum(held, axis=1, keepdims=True)
    by_speed = jnp.where(total > 0, held / jnp.where(total > 0, total, 1), even)
    ratio = jnp.broadcast_to(jnp.asarray(ratio, even.dtype), speed.shape)[:, None]
    return (1 - ratio) * even + ratio * by_speed


def automatic_ratio(
    adjacency: jax.Array, speed: jax.Array, radius: jax.Array | float, senders: Senders = ALL_PAIRS
) -> jax.Array:
    """Compute for each receiver the ratio of `speed_aware` that best weighs models by how many models they combine.

    Derivation. Assume that the model of client j is the mean of m_j independent models, those of the clients that it
    was in contact with in the last round. Then its variance around the consensus is proportional to 1 / m_j, and the
    unbiased average of least variance has W_j = m_j / sum m. In a crowd of density rho, a disc of radius R that moves
    at the relative speed v for a round sweeps the area pi R^2 + 2 R v. So m_j = 2 R rho (c + v_j) with c = pi R / 2. If
    directions are independent, v_j = sqrt(s_j^2 + q_i), where q_i is the mean square speed in M_i. The member of the
    family 1 / n + a (X_j - 1 / n) nearest to W in least squares has the coefficient of the regression of W on X,

        a_i = cov(v, s) / var(s) * mean(s) / (c + mean(v))      (moments over M_i).

    a_i lies in [0, 1], since v grows with s at a slope of at most 1, and c + mean(v) >= mean(s). A slow client among
    fast clients has v near q^(1/2), so it has nearly as many contacts as they have. For this reason the thesis's fixed
    ratios failed where most clients are fast. A long radius also makes a small. Equal speeds give a = 0; then every a
    gives the same weights.

    Args:
      adjacency: [N, K] bool, without self loops.
      speed: [N] distance that each client moves in a round.
      radius: R of the receiver in the unit of the speed, one for all clients or [N]. ``inf`` connects all and gives 0.
      senders: the clients for which the places stand.

    Returns:
      ratio: [N] in [0, 1].
    """
    weight = uniform(adjacency, senders)
    mean = lambda x: jnp.sum(weight * x, axis=1, keepdims=True)  # noqa: E731
    speed = senders.of(speed)
    relative = jnp.sqrt(jnp.square(speed) + mean(jnp.square(speed)))
    deviation = speed - mean(speed)
    variance, both = mean(jnp.square(deviation)), mean(deviation * relative)
    slope = jnp.where(variance > 0, both / jnp.where(variance > 0, variance, 1), 0)
    swept = jnp.asarray(radius, weight.dtype)[..., None] * (jnp.pi / 2) + mean(relative)
    ratio = slope * mean(speed) / jnp.maximum(swept, jnp.finfo(weight.dtype).tiny)
    return jnp.clip(ratio, 0, 1)[:, 0]


def _closed(adjacency: jax.Array, senders: Senders) -> jax.Array:
    """Return [N, K] float, which is 1 where the sender is in the closed neighbourhood of i, else 0."""
    return (adjacency | senders.own(adjacency.shape[0])).astype(float)


def _arriving(mix: jax.Array, inputs: MixingInputs) -> jax.Array:
    """Move the weights of links that fail to the receiver's own model."""
    lost = jnp.where(inputs.contact & ~inputs.adjacency, mix, 0.0)
    return mix - lost + inputs.senders.on_own(jnp.sum(lost, axis=1))


@MIXINGS.register(
    "metropolis_hastings",
    formula="W_ij = 1 / (1 + max(d_i, d_j)) for neighbours;  W_ii = 1 - sum_j W_ij",
    cite="madfl: eq. 2; xiao2004",
)
def _metropolis_hastings(inputs: MixingInputs) -> jax.Array:
    """Metropolis-Hastings weights, by the degrees of both ends: symmetric and doubly stochastic if no link fails."""
    return _arriving(metropolis_hastings(inputs.contact, inputs.senders), inputs)


@MIXINGS.register(
    "max_degree",
    formula="W_ij = 1 / (1 + max_k d_k) for neighbours;  W_ii = 1 - sum_j W_ij;  that is, W = I - L / (1 + max_k d_k)",
    cite="xiao2004",
)
def _max_degree(inputs: MixingInputs) -> jax.Array:
    """Max-degree weights, the same on every link: symmetric and doubly stochastic if no link fails."""
    return _arriving(max_degree(inputs.contact, inputs.senders), inputs)


@MIXINGS.register("lazy", formula="W = (I + M) / 2, where M has the weights of metropolis_hastings")
def _lazy(inputs: MixingInputs) -> jax.Array:
    """Lazy Metropolis-Hastings weights: half as far a round, and no negative eigenvalue."""
    return _arriving(lazy(metropolis_hastings(inputs.contact, inputs.senders), inputs.senders), inputs)


@MIXINGS.register(
    "fedavg", formula="W_ij = n_j / sum of n_k over k in M_i, for j in M_i", cite="dadfl: eq. 2; mcmahan2017"
)
def _fedavg(inputs: MixingInputs) -> jax.Array:
    """FedAvg weights: a sender's share of the samples of the closed neighbourhood; row-stochastic."""
    return fedavg(inputs.adjacency, inputs.num_samples, inputs.senders)


@MIXINGS.register("uniform", formula="W_ij = 1 / |M_i| for j in M_i", cite="thesis: 5.3")
def _uniform(inputs: MixingInputs) -> jax.Array:
    """Equal weights for all models that a client hears, with its own; row-stochastic."""
    return uniform(inputs.adjacency, inputs.senders)


class SpeedAwareNumbers(Numbers):
    """The numbers of the mixing rule ``speed_aware``."""

    ratio: float = number(0.5, "weight of the speeds, a", at_least=0, at_most=1, source="thesis 5.4")


@MIXINGS.register(
    "speed_aware",
    SpeedAwareNumbers,
    formula="W_ij = 1 / |M_i| + a (X_ij - 1 / |M_i|) for j in M_i;  X_ij = s_j / sum of s_k over k in M_i;  a = ratio",
    cite="thesis: 5.4",
)
def _speed_aware(inputs: MixingInputs) -> jax.Array:
    """Weights that grow with the speed of the sender; row-stochastic."""
    return speed_aware(inputs.adjacency, inputs.speed, inputs.numbers.ratio, inputs.senders)


@MIXINGS.register(
    "speed_aware_auto",
    formula="as speed_aware, with a_i = cov(v, s) / var(s) mean(s) / (pi R / 2 + mean(v)), moments over M_i\n"
    "v_j = sqrt(s_j^2 + mean(s^2))",
)
def _speed_aware_auto(inputs: MixingInputs) -> jax.Array:
    """`speed_aware` with the ratio that best weighs models by how many models they combine (`automatic_ratio`)."""
    ratio = automatic_ratio(inputs.adjacency, inputs.speed, inputs.radius, inputs.senders)
    return speed_aware(inputs.adjacency, inputs.speed, ratio, inputs.senders)
