"""Evaluation of a sample of the clients on a part of the test samples: who is drawn, and the error that this adds.

With `Schedule.eval_clients` or `Schedule.eval_samples`, only a sample is evaluated between the first and the last
evaluation of a run. A run has one sample of clients and one part of the test samples. Both depend only on the seed and
on who is mobile, so sweep points under one seed are compared on the same clients and test samples.
"""

import functools
import math
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.metric import CURVE, HOLDS, Metric
from mdfl_jax.core.outcomes import t_quantile
from mdfl_jax.core.rng import stream
from mdfl_jax.core.types import ClientParams, Schedule, Score, Task
from mdfl_jax.metrics.evaluation import Sample
from mdfl_jax.tasks.scoring import SAMPLE_GROUPS

if TYPE_CHECKING:
    from mdfl_jax.metrics.evaluation import Evaluation

FEWEST_CLIENTS = 4  # two of each kind, mobile and static: fewer have no variance
FEWEST_SAMPLES = SAMPLE_GROUPS


def is_sampled(schedule: Schedule) -> bool:
    """Tell whether only a sample is evaluated between the first and the last evaluation."""
    return schedule.eval_clients > 0 or schedule.eval_samples > 0


def check_sampling(schedule: Schedule, task: Task) -> None:
    """Check that a sample can be drawn, if the schedule asks for one.

    Raises:
      UserError: if there are not so many clients or test samples, or if they are too few to estimate an error.
    """
    clients, samples = schedule.eval_clients, schedule.eval_samples
    if schedule.global_only and is_sampled(schedule):
        name, value = ("eval_clients", clients) if clients else ("eval_samples", samples)
        raise UserError(f"{name} is {value}; it must be 0 with judged=global, which evaluates one model")
    if clients and not FEWEST_CLIENTS <= clients <= task.num_clients:
        raise UserError(f"eval_clients is {clients}; it must be 0 (all) or {FEWEST_CLIENTS} to {task.num_clients}")
    if samples and task.scoring.part is None:
        raise UserError(f"eval_samples is {samples}; this task is always tested on all its test samples, so it is 0")
    if samples and not FEWEST_SAMPLES <= samples <= task.scoring.part.num_samples:
        most = task.scoring.part.num_samples
        raise UserError(f"eval_samples is {samples}; it must be 0 (all) or {FEWEST_SAMPLES} to {most}")


def draw_clients(key: jax.Array, is_mobile: jax.Array, count: int) -> tuple[jax.Array, jax.Array]:
    """Draw some of the clients: the mobile and the others in proportion, at least two of each kind (or all of it).

    Within a kind, all clients have the same probability. So the mean over the drawn clients of a kind is an estimate
    without bias, also where a client's accuracy depends on its number of samples.

    Args:
      key: the key of the draw.
      is_mobile: [N] bool.
      count: the clients to draw, K, at least 4 and at most N.

    Returns:
      ([K] int32 the drawn clients in increasing order, [N] float32 the number of clients of its kind for which each
      drawn one stands; 0 for the others).
    """
    num_clients = is_mobile.shape[0]
    mobile = jnp.sum(is_mobile, dtype=jnp.int32)
    static = num_clients - mobile
    least = jnp.maximum(jnp.minimum(2, mobile), count - static)
    most = jnp.minimum(mobile, count - jnp.minimum(2, static))
    share = jnp.clip(jnp.round(mobile * (count / num_clients)).astype(jnp.int32), least, most)
    order = jax.random.permutation(key, num_clients)
    of_order = is_mobile[order]
    place = jnp.where(of_order, jnp.cumsum(of_order), jnp.cumsum(~of_order)) - 1  # among those of its kind
    drawn = jnp.zeros(num_clients, bool).at[order].set(place < jnp.where(of_order, share, count - share))
    each = jnp.where(is_mobile, mobile / jnp.maximum(share, 1), static / jnp.maximum(count - share, 1))
    return jnp.nonzero(drawn, size=count)[0].astype(jnp.int32), jnp.where(drawn, each, 0).astype(jnp.float32)


def error_of_clients(accuracy: jax.Array, stands_for: jax.Array, is_mobile: jax.Array) -> jax.Array:
    """Estimate the standard error of the mean accuracy that the sample of clients adds: [] float32.

    The error is that of a stratified sample without replacement: sqrt(sum_h (N_h / N)^2 (1 - K_h / N_h) s_h^2 / K_h).
    Kind h has N_h clients; K_h of them are drawn, and s_h^2 is the variance of the drawn clients (Cochran, "Sampling
    techniques", 3rd edition, 5.13).

    Args:
      accuracy: [N], of the drawn clients; the other values have no effect.
      stands_for: [N], 0 for the clients that are not drawn.
      is_mobile: [N] bool.
    """
    variance = jnp.float32(0)
    for kind in (is_mobile, ~is_mobile):
        here = kind & (stands_for > 0)
        size, drawn = jnp.sum(kind), jnp.sum(here)
        mean = jnp.sum(jnp.where(here, accuracy, 0)) / jnp.maximum(drawn, 1)
        spread = jnp.sum(jnp.where(here, jnp.square(accuracy - mean), 0)) / jnp.maximum(drawn - 1, 1)
        left_out = 1 - drawn / jnp.maximum(size, 1)
        variance += jnp.square(size / len(is_mobile)) * left_out * spread / jnp.maximum(drawn, 1)
    return jnp.sqrt(variance)


def error_of_samples(without: jax.Array, weight: jax.Array, share: float) -> jax.Array:
    """Estimate the standard error of the mean accuracy that the part of the test samples adds: [] float32.

    The error is that of the jackknife over G groups of the part (Wolter, "Introduction to variance estimation", 4.2),
    with the finite population correction: sqrt((1 - m / T) (G - 1) / G sum_g (a_g - mean a)^2).

    Args:
      without: [G, M] the accuracies of the evaluated models without each group.
      weight: [M] the weights of the models in the mean.
      share: m / T, the part of the test samples that is evaluated.
    """
    means = without @ (weight / jnp.sum(weight))
    groups = len(means)
    return jnp.sqrt((1 - share) * (groups - 1) / groups * jnp.sum(jnp.square(means - jnp.mean(means))))


def everyone(num_clients: int) -> Sample:
    """Return the sample of an evaluation of all clients on all test samples."""
    return Sample(jnp.ones(num_clients, jnp.float32), jnp.zeros(2, jnp.float32))


def sampled_scores(
    task: Task,
    schedule: Schedule,
    data: Any,
    clients: Any,
    params: ClientParams,
    is_mobile: jax.Array,
    key: jax.Array,
) -> tuple[Score, Sample]:
    """Evaluate the sample of a run.

    Args:
      task: the learning problem.
      schedule: says how many clients and test samples are drawn.
      data: the task's data.
      clients: the data that each client holds.
      params: [N, ...] the models of all clients.
      is_mobile: [N] bool.
      key: the seed's key.

    Returns:
      (the scores [N], which are NaN for clients that are not drawn; who was drawn, and the errors that this adds).
    """
    count, samples = schedule.eval_clients, schedule.eval_samples
    key_clients, key_samples = jax.random.split(stream(key, "evaluation"))
    drawn, stands_for = jnp.arange(task.num_clients), jnp.ones(task.num_clients, jnp.float32)
    if count:
        drawn, stands_for = draw_clients(key_clients, is_mobile, count)
        params = jax.tree.map(lambda x: x[drawn], params)
    if task.scoring.part is None:
        score, of_samples = task.evaluate(data, clients, params), jnp.float32(0)
    else:  # also for all test samples: few models at a time are faster
        samples = samples or task.scoring.part.num_samples
        score, without = task.scoring.part.evaluate(data, clients, params, key_samples, samples)
        of_samples = error_of_samples(without, stands_for[drawn], samples / task.scoring.part.num_samples)
    of_all = Score(*(jnp.full(task.num_clients, jnp.nan, value.dtype).at[drawn].set(value) for value in score))
    of_clients = error_of_clients(of_all.accuracy, stands_for, is_mobile)
    return of_all, Sample(stands_for, jnp.stack([of_clients, of_samples]).astype(jnp.float32))


def half_width(clients: int, samples: int, errors: np.ndarray) -> float:
    """Return the half-width of the 95 % interval that sampling adds to a mean accuracy.

    It is Student's t times the root of the sum of both variances, with the degrees of freedom of Satterthwaite.

    Args:
      clients: the clients of a sample, K; 0: all.
      samples: the test samples of a part; 0: all.
      errors: [2] the standard errors by the sample of clients and by the part of the test samples.
    """
    variances = np.square(np.asarray(errors, np.float64))
    freedom = np.array([max(clients - 2, 1), max(SAMPLE_GROUPS - 1, 1)])
    total = float(variances.sum())
    if not total > 0:
        return total  # 0, or NaN of models that are not finite
    return t_quantile(total**2 / float((variances**2 / freedom).sum())) * math.sqrt(total)


@functools.cache
def metrics_of_sample(clients: int, samples: int, attacked: bool = False) -> tuple[Metric, ...]:
    """Return the metrics of a study that evaluates a sample, or in which some clients attack.

    Args:
      clients: the clients of a sample, K; 0: all.
      samples: the test samples of a part; 0: all.
      attacked: whether some clients attack, and so do not count.

    Returns:
      None of them where all clients count and are evaluated on all test samples.
    """

    def evaluated(at: "Evaluation") -> Any:
        """[N] float32, the number of clients for which each evaluated client stands; 0 if it is not evaluated."""
        assert at.sample is not None
        return at.sample.stands_for

    def sampling_error(at: "Evaluation") -> Any:
        """[2] float32, the standard errors of the mean accuracy by the samples of clients and of test samples."""
        assert at.sample is not None
        return at.sample.error

    if not clients and not samples and not attacked:
        return ()
    width = functools.partial(half_width, clients, samples)
    who = Metric(
        "evaluated",
        evaluated,
        HOLDS,
        label="clients evaluated",
        over_clients=lambda values: int((values > 0).sum()),
        summary=False,
    )
    if not clients and not samples:
        return (who,)
    return (
        who,
        Metric(
            "sampling_error",
            sampling_error,
            HOLDS,
            shape=(2,),
            label="standard error by sampling (%)",
            over_clients=lambda values: float(np.hypot(*np.asarray(values, np.float64))),
            more={"clients": lambda values: values[0], "samples": lambda values: values[1], "ci95": width},
            summary=False,
            shown={CURVE},
            scale=0.01,
        ),
    )
