"""Metrics of the predictions for the test samples, which are measured on request.

Each passes all test samples through the models once more, so that a study that does not ask for them pays nothing. JAX
is imported inside the functions that need it, since the report reads these declarations without JAX.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from mdfl_jax.core.metric import CLASSES, CURVE, HOLDS, TABLE
from mdfl_jax.metrics.declare import metric
from mdfl_jax.metrics.over_clients import mean_of_known, worst_decile

if TYPE_CHECKING:
    from mdfl_jax.core.types import ClientParams
    from mdfl_jax.metrics.evaluation import Evaluation

BINS = 15  # of the confidence, as Guo et al. use
_NEEDS = ("over_test", "num_labels")


def _least_known(values: np.ndarray) -> float:
    known = values[~np.isnan(values)]
    return float(known.min()) if len(known) else float("nan")


def _worst_known_decile(values: np.ndarray) -> float:
    known = values[~np.isnan(values)]
    return float(worst_decile(known)) if len(known) else float("nan")


# What metrics have in common that are shares in [0, 1], one for each label or client, and unknown for some.
_SHARES: dict[str, Any] = {
    "over_clients": mean_of_known,
    "more": {"min": _least_known},
    "shown": {TABLE, CURVE},
    "scale": 0.01,
    "on_request": True,
}
_OF_CLIENTS = _SHARES | {"more": {"min": _least_known, "worst_decile": _worst_known_decile}, "of_all": True}


def accuracy_by_class(at: "Evaluation", models: "ClientParams") -> tuple[Any, Any]:
    """Measure the accuracy of models on the test samples of each label.

    Args:
      at: the evaluation.
      models: [M, ...] the models.

    Returns:
      ([M, C] float32 the accuracy, 0 where the test samples do not have the label; [C] bool whether they have it).
    """
    import jax
    import jax.numpy as jnp

    def tally(logits: Any, labels: Any, mask: Any) -> Any:
        of_label = jax.nn.one_hot(labels, at.num_classes, dtype=jnp.int32) * mask[:, None]
        right = (jnp.argmax(logits, axis=-1) == labels).astype(jnp.int32)
        return right @ of_label, jnp.sum(of_label, axis=0)

    assert at.task.scoring.over_test is not None
    right, there = at.task.scoring.over_test(at.data, at.clients, models, tally)
    return right / jnp.maximum(there, 1), there > 0


@metric(
    "class_accuracy",
    still=HOLDS,
    shape=(CLASSES,),
    label="accuracy, mean over the labels (%)",
    **_SHARES,
    needs=_NEEDS,
)
def class_accuracy(at: "Evaluation") -> Any:
    """[C] float32, the accuracy of the judged model on the test samples of each label; NaN for a label without any."""
    import jax.numpy as jnp

    accuracy, there = accuracy_by_class(at, at.model)
    return at.divergence.result(jnp.where(there, accuracy[0], jnp.nan))


@metric(
    "personal_accuracy",
    still=HOLDS,
    label="personal accuracy (%)",
    **_OF_CLIENTS,
    needs=_NEEDS,
)
def personal_accuracy(at: "Evaluation") -> Any:
    """[N] float32, the accuracy of each client's model on test samples with the client's own distribution of labels.

    With a_i(c), the accuracy of client i's model on the test samples of label c, and n_i(c), its number of training
    samples of label c, it is sum_c n_i(c) a_i(c) / sum_c n_i(c). Labels that no test sample has are left out of both
    sums. It is NaN for a client that holds no sample of the other labels.
    """
    return _weighed(at, at.label_counts)


@metric(
    "accuracy_here",
    still=HOLDS,
    label="accuracy where clients are (%)",
    **_OF_CLIENTS,
    needs=(*_NEEDS, "labels_here"),
)
def accuracy_here(at: "Evaluation") -> Any:
    """[N] float32, the accuracy of each client's model on test samples with the labels that are where it stands.

    It is that of `personal_accuracy`, with the samples of the region in which the client was in the last round, as
    they were then, in place of the client's own.
    """
    assert at.task.scoring.labels_here is not None
    return _weighed(at, at.task.scoring.labels_here(at.clients)[: at.num_clients])


def _weighed(at: "Evaluation", counts: Any) -> Any:
    """Return [N], the accuracy of each client's model on the test samples of each label, weighed by counts [N, C]."""
    import jax.numpy as jnp

    accuracy, there = accuracy_by_class(at, at.models)
    weight = jnp.where(there, counts, 0).astype(jnp.float32)
    total = jnp.sum(weight, axis=1)
    known = jnp.where(total > 0, jnp.sum(weight * accuracy, axis=1) / jnp.maximum(total, 1), jnp.nan)
    return _of_honest(at, known)


def _of_honest(at: "Evaluation", values: Any) -> Any:
    """Return the values [N] of the clients' models; NaN for attackers, and once a run has diverged."""
    import jax.numpy as jnp

    return at.divergence.result(values if at.honest is None else jnp.where(at.honest, values, jnp.nan))


@metric(
    "local_accuracy",
    still=HOLDS,
    label="accuracy on own test samples (%)",
    **_OF_CLIENTS,
    needs=("local_accuracy",),
)
def local_accuracy(at: "Evaluation") -> Any:
    """[N] float32, the accuracy of each client's model on the test samples of its own natural owners.

    A natural owner (the data set's array ``client``) belongs to the client that holds most of its training samples; of
    several such clients, to the first. Its test samples (the array ``client_test``) are those of this client. It is NaN
    for a client without such test samples.
    """
    assert at.task.scoring.local_accuracy is not None
    return _of_honest(at, at.task.scoring.local_accuracy(at.data, at.clients, at.models))


@metric(
    "calibration_error",
    still=HOLDS,
    shape=(),
    label="expected calibration error (%)",
    shown={TABLE, CURVE},
    scale=0.01,
    on_request=True,
    needs=_NEEDS,
)
def calibration_error(at: "Evaluation") -> Any:
    """[] float32, the expected calibration error (ECE) of the judged model.

    The confidence of a prediction is the largest softmax probability. The test samples are divided into 15 bins
    ((b - 1) / 15, b / 15] of their confidence, and ECE = sum_b (n_b / n) |accuracy_b - mean confidence_b| (Guo, Pleiss,
    Sun and Weinberger, "On calibration of modern neural networks", ICML 2017).
    """
    import jax
    import jax.numpy as jnp

    def tally(logits: Any, labels: Any, mask: Any) -> Any:
        confidence = jnp.max(jax.nn.softmax(logits[0]), axis=-1)
        bin_of = jnp.clip(jnp.ceil(confidence * BINS).astype(jnp.int32) - 1, 0, BINS - 1)
        right = jnp.argmax(logits[0], axis=-1) == labels
        gap = jnp.where(mask, right.astype(jnp.float32) - confidence, 0.0)
        return jnp.zeros(BINS).at[bin_of].add(gap), jnp.sum(mask)

    assert at.task.scoring.over_test is not None
    gap, count = at.task.scoring.over_test(at.data, at.clients, at.model, tally)
    return at.divergence.result(jnp.sum(jnp.abs(gap)) / count)
