"""Metrics: the values that are measured at an evaluation.

Each metric is one declaration. All files, tables and figures are made from these declarations. To add a metric, write
a decorated function in any file that the config file imports:

    import jax.numpy as jnp

    from mdfl_jax.metrics import CURVE, HOLDS, TABLE, metric

    @metric("worst_loss", still=HOLDS, shape=(), label="largest loss", shown={TABLE, CURVE})
    def worst_loss(at):
        return jnp.max(at.score.loss)

The metric is then in metrics.jsonl, history.npz and summary.json, in the table and in the report. ``at`` is a
`mdfl_jax.metrics.evaluation.Evaluation`. An algorithm or a network declares its own metrics in its field ``metrics``.

A metric that takes time is declared with ``on_request=True``. Only studies that name it in their field ``metrics``
measure it.
"""

from mdfl_jax.core.metric import (
    AXIS,
    CLASSES,
    CLIENTS,
    CURVE,
    HOLDS,
    NOTHING,
    ROUNDS,
    TABLE,
    TARGET,
    UNKNOWN,
    Metric,
)
from mdfl_jax.metrics.built_in.every_study import BUILT_IN
from mdfl_jax.metrics.declare import METRICS, asked_for, list_metrics, metric
