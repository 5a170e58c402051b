"""What is measured at an evaluation: each metric is one declaration, from which all files, tables and figures derive.

A metric of one's own is a decorated function in any file that the config file imports:

    import jax.numpy as jnp

    from mdfl_jax.metrics import CURVE, HOLDS, TABLE, metric

    @metric("worst_loss", still=HOLDS, shape=(), label="largest loss", shown={TABLE, CURVE})
    def worst_loss(at):
        return jnp.max(at.score.loss)

It then is in metrics.jsonl, history.npz and summary.json, in the table and in the report. What ``at`` holds says
`mdfl_jax.metrics.evaluation.Evaluation`. An algorithm or a network brings metrics of its own in its field ``metrics``.
"""

from mdfl_jax.metrics.builtin import BUILT_IN
from mdfl_jax.metrics.declare import AXIS, CLIENTS, CURVE, HOLDS, NOTHING, ROUNDS, TABLE, UNKNOWN, Metric
from mdfl_jax.metrics.registry import METRICS, metric, metrics_of

__all__ = [
    "AXIS",
    "BUILT_IN",
    "CLIENTS",
    "CURVE",
    "HOLDS",
    "METRICS",
    "NOTHING",
    "ROUNDS",
    "TABLE",
    "UNKNOWN",
    "Metric",
    "metric",
    "metrics_of",
]
