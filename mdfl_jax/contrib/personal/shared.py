"""What algorithms with personal models have in common: the exchange of what is shared, and the judged shared model."""

from collections.abc import Callable
from typing import Any

from mdfl_jax.algorithms.local import AlgorithmNumbers, Settings
from mdfl_jax.core.message_bits import count_bits, dense_bits, double_dense_bits, messages_sent
from mdfl_jax.core.metric import CURVE, HOLDS, TABLE, Metric
from mdfl_jax.core.types import ClientParams, Links, RoundContext, RoundStats, Traits
from mdfl_jax.exchange.largest import PartState
from mdfl_jax.metrics.values import mean_model

READ = frozenset({"adjacency", "mix"})
"""The fields of Links that `exchange` reads."""


def exchange(
    settings: Settings,
    hparams: AlgorithmNumbers,
    links: Links,
    context: RoundContext,
    models: ClientParams,
    loss: Any,
) -> tuple[ClientParams, RoundStats]:
    """Exchange the shared part of models, one message a link, and combine it by the rule of aggregation.

    Args:
      settings, hparams, links, context: as of a round.
      models: [N, ...] the models after the local steps.
      loss: [N] their training losses.

    Returns:
      (the models after the exchange, the statistics of the round).
    """
    mine = settings.part(models)
    found = settings.aggregate(hparams, links, mine, settings.judging(context, models))
    sent = messages_sent(links.adjacency, links.senders)
    stats = RoundStats(loss, sent, count_bits(sent, dense_bits(mine)), report=found.report)
    return settings.with_part(models, found.models), stats


def traits(settings: Settings) -> Traits:
    """Return the traits of an algorithm that exchanges the shared part of its models."""
    return Traits(None if settings.shared else double_dense_bits, settings.local_statistics)


def shared_model_accuracy(shared: Callable[[Any], ClientParams]) -> Metric:
    """Make the metric of an algorithm that has a shared model of each client beside the personal one.

    Args:
      shared: (the algorithm's state) -> the shared models [N, ...].
    """

    def measure(at: Any) -> Any:
        """[] float32, the test accuracy of the mean of the clients' shared models; with attackers, the honest ones."""
        state = at.algorithm_state
        own = state.inner if isinstance(state, PartState) else state
        score = at.task.evaluate(at.data, at.clients, mean_model(shared(own), at.honest))
        return at.divergence.result(score.accuracy[0])

    return Metric(
        "shared_model_accuracy",
        measure,
        HOLDS,
        shape=(),
        label="test accuracy of the mean shared model (%)",
        shown={TABLE, CURVE},
        scale=0.01,
    )
