"""Makes the lines of metrics.jsonl from an event of a running study."""

from typing import Any

import jax

from mdfl_jax.results.lines import metric_lines
from mdfl_jax.study.events import Evaluated
from mdfl_jax.study.study import Study


def lines_of(study: Study, event: Evaluated) -> list[list[dict[str, Any]]]:
    """Return the lines of the event's evaluations, as dictionaries, for each run of its batch in their order.

    Args:
      study: The study.
      event: The event, whose metrics may have several evaluations.
    """
    return [
        list(
            metric_lines(
                study.points[run.point].id,
                run.seed,
                jax.tree.map(lambda leaf, i=i: leaf[i], event.metrics),
                event.facts.is_mobile[i],
                event.batch.group.double_bits(run.point),
            )
        )
        for i, run in enumerate(event.batch.runs)
    ]
