"""The metrics that every study has. metrics.jsonl holds them in the order of their declaration.

JAX is imported inside the functions that need it, since the report reads these declarations without JAX.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mdfl_jax.core.metric import AXIS, CLIENT_BYTES, CLIENTS, HOLDS, NOTHING, ROUNDS, TABLE, UNKNOWN
from mdfl_jax.core.outcomes import parsed_number
from mdfl_jax.metrics import over_clients
from mdfl_jax.metrics.declare import METRICS, metric

if TYPE_CHECKING:
    from mdfl_jax.metrics.evaluation import Evaluation, RoundView


def _total_bits(words: np.ndarray) -> np.ndarray:
    from mdfl_jax.core.message_bits import total_bits

    return total_bits(words)


_SPREAD = {
    "min": over_clients.smallest,
    "max": over_clients.largest,
    "std": over_clients.deviation,
    "variance": over_clients.variance,
    "worst_decile": over_clients.worst_decile,
    "jain": over_clients.jain,
}


@metric(
    "accuracy",
    still=HOLDS,
    label="test accuracy",
    over_clients=over_clients.mean,
    more=_SPREAD,
    by_group=True,
    summary=False,
    sampled=True,
)
def _accuracy(at: "Evaluation") -> Any:
    """[N] float32, the test accuracy of each client's model, in [0, 1]; NaN if the model is not evaluated."""
    return at.score.accuracy


@metric("loss", still=HOLDS, label="test loss", summary=False, sampled=True)
def _loss(at: "Evaluation") -> Any:
    """[N] float32, the test loss of each client's model; NaN if the model is not evaluated."""
    return at.score.loss


@metric(
    "train_loss",
    still=UNKNOWN,
    label="training loss",
    each_round=lambda view: view.of_finished(view.loss),
    over_clients=over_clients.mean_of_known,
    summary=False,
)
def train_loss(at: "Evaluation") -> Any:
    """[N] float, the mean of each client's training loss over the rounds, or its works, since the last evaluation.

    The mean is NaN before the first round, for an attacker, and for a client without samples or a finished work.
    """
    return at.mean_over_works("train_loss")


@metric("mean_model_accuracy", still=HOLDS, shape=(), label="test accuracy of the mean model")
def mean_model_accuracy(at: "Evaluation") -> Any:
    """[] float32, the test accuracy of the mean of all models, or of the global model if the algorithm has one."""
    return at.model_score.accuracy[0]


@metric("mean_model_loss", still=HOLDS, shape=(), label="test loss of the mean model")
def mean_model_loss(at: "Evaluation") -> Any:
    """[] float32, the test loss of the same model as in ``mean_model_accuracy``."""
    return at.model_score.loss[0]


@metric("validation_loss", still=HOLDS, shape=(), optional=True, shown={TABLE})
def validation_loss(at: "Evaluation") -> Any:
    """[] float32, the loss of the same model on the validation samples; NaN if there are none."""
    validate = at.task.scoring.validate
    return at.divergence.result(validate(at.data, at.clients, at.model)) if validate else np.float32(np.nan)


@metric("objective", still=HOLDS, shape=(), optional=True, shown={TABLE})
def objective(at: "Evaluation") -> Any:
    """[] float, the objective of the same model (`Scoring.objective`); NaN if the task has none."""
    minimised = at.task.scoring.objective
    return at.divergence.result(minimised(at.data, at.clients, at.model)) if minimised else np.float32(np.nan)


@metric("rounds_done", still=HOLDS, shape=(), unit="rounds")
def _rounds_done(at: "Evaluation") -> Any:
    """[] int32, the number of rounds that were run: fewer than ``round`` if the stop rule has ended the run."""
    return at.rounds_done


@metric("divergence_round", still=HOLDS, shape=(), optional=True, summary=False)
def divergence_round(at: "Evaluation") -> Any:
    """[] float32, the round in which the run has diverged (`mdfl_jax.core.stopping`); NaN if it has not."""
    import jax.numpy as jnp

    return jnp.where(at.divergence.is_there, at.divergence.round.astype(jnp.float32), jnp.nan)


@metric("divergence_norm", still=HOLDS, shape=(), optional=True, summary=False)
def divergence_norm(at: "Evaluation") -> Any:
    """[] float32, the largest norm of a client's parameters after this round, or infinity; NaN without divergence."""
    import jax.numpy as jnp

    return jnp.where(at.divergence.is_there, at.divergence.norm, jnp.nan)


@metric("consensus_distance", still=HOLDS, shape=(), summary=False)
def _consensus_distance(at: "Evaluation") -> Any:
    """[] float, the root mean square distance of the models from their mean; with attackers, of the honest models."""
    from mdfl_jax.metrics.values import consensus_distance

    return consensus_distance(at.algorithm.params(at.algorithm_state), at.honest)


@metric("messages", still=HOLDS, unit="messages", label="messages sent by a client", summary=False, shown={AXIS})
def messages(at: "Evaluation") -> Any:
    """[N] int32, the number of messages that each client has sent since the start, one for each directed link."""
    return at.messages


@metric(
    "bits",
    still=HOLDS,
    shape=(CLIENTS, 2),
    unit="bits",
    label="megabits sent by a client",
    key="bits_sent",
    on_host=_total_bits,
    summary=False,
    shown={AXIS},
    scale=1e6,
)
def bits(at: "Evaluation") -> Any:
    """[N, 2] uint32, the bits that each client has sent since the start, in two words (`exchange.message_bits`)."""
    return at.bits


@metric("distance_moved", still=HOLDS, label="distance moved", summary=False)
def distance_moved(at: "Evaluation") -> Any:
    """[N] float32, the distance that each client has moved since the start, in the unit of length of the world."""
    return at.places.distance_moved


@metric(
    "num_neighbours",
    still=UNKNOWN,
    label="neighbours",
    each_round=lambda view: view.num_neighbours,
    by_group=True,
    summary=False,
)
def _num_neighbours(at: "Evaluation") -> Any:
    """[N] float, the mean number of senders in range of a client in a round since the last evaluation.

    A client can receive from these senders. The mean is NaN before the first round.
    """
    return at.mean_over_rounds("num_neighbours")


@metric(
    "num_heard",
    still=UNKNOWN,
    label="neighbours heard",
    each_round=lambda view: view.num_heard,
    by_group=True,
    summary=False,
)
def num_heard(at: "Evaluation") -> Any:
    """[N] float, the mean number of senders whose messages reached a client in a round since the last evaluation.

    The mean is NaN before the first round.
    """
    return at.mean_over_rounds("num_heard")


@metric("lambda_2", still=UNKNOWN, shape=(), summary=False)
def _lambda_2(at: "Evaluation") -> Any:
    """[] float32, the second largest eigenvalue of W^T W in the last round (MADFL: p = 1 - lambda_2).

    W is the network's matrix, also where an algorithm weighs received models in another way. The eigenvalue is NaN
    before the first round, and if N is above `mdfl_jax.metrics.values.LAMBDA_2_LIMIT`.
    """
    import jax.numpy as jnp

    from mdfl_jax.metrics.values import lambda_2

    return jnp.where(at.sums.rounds > 0, lambda_2(at.sums.mix, at.sums.senders), jnp.nan)


@metric(
    "position",
    still=HOLDS,
    shape=(ROUNDS, CLIENTS, 2),
    each_round=lambda view: view.places.position,
    record=True,
    summary=False,
)
def position(at: "Evaluation") -> Any:
    """Return the places after each round since the last evaluation, [rounds, N, 2]; [0, N, 2] if not recorded."""
    return at.by_round("position")


def _packed_links(view: "RoundView") -> Any:
    from mdfl_jax.metrics.values import pack_links

    return pack_links(view.links)


@metric(
    "links",
    still=NOTHING,
    shape=(ROUNDS, CLIENTS, CLIENT_BYTES),
    each_round=_packed_links,
    dtype="uint8",
    record=True,
    summary=False,
)
def links(at: "Evaluation") -> Any:
    """Return the links of each round since the last evaluation, [rounds, N, ceil(N / 8)] uint8, a bit a sender.

    Row i of a round tells whom client i can hear. ``numpy.unpackbits(links, axis=-1, count=N)`` gives [..., N, N].
    """
    return at.by_round("links")


DIVERGENCE = (divergence_round.name, divergence_norm.name)
"""The names of the metrics about divergence."""

BUILT_IN = tuple(METRICS[name] for name in METRICS.as_registered() if METRICS[name].measure.__module__ == __name__)


def diverged(by_seed: Mapping[int, Sequence[Mapping[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Return the entries of a sweep point in summary.json about its runs that have diverged.

    Args:
      by_seed: the lines of each seed, in the order of the evaluations.

    Returns:
      'diverged': the evaluated round that saw it, by seed; 'divergence': the 'round' in which the run diverged and its
      'norm' then.
    """
    in_round, norm = DIVERGENCE
    told = lambda line: not math.isnan(parsed_number(line.get(in_round)))  # noqa: E731
    lost = {str(seed): line for seed, lines in by_seed.items() if (line := next(filter(told, lines), None))}
    return {
        "diverged": {seed: line["round"] for seed, line in lost.items()},
        "divergence": {
            seed: {"round": int(line[in_round]), "norm": parsed_number(line[norm])} for seed, line in lost.items()
        },
    }
