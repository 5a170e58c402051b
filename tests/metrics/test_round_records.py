"""The records of the rounds: which are kept, by their size."""

import pytest

from mdfl_jax.core.metric import record
from mdfl_jax.metrics import list_metrics
from mdfl_jax.metrics.evaluation import choose_records


@pytest.mark.parametrize(
    ("clients", "mib", "kept", "why"),
    [
        (8, 8, True, ""),
        (8, 0, False, ""),
        (256, 4, True, ""),
        (256, 3, False, "would take 3.1 MiB of a run, and engine.record_mib is 3"),
        (257, 4000, False, "are recorded of at most 256 clients, and there are 257"),
    ],
)
def test_the_size_of_the_records_is_bounded(clients, mib, kept, why):
    """Links of 400 rounds take 400 N ceil(N / 8) bytes, 3.1 MiB of 256 clients."""
    measured, records = choose_records(list_metrics(), clients, 400, True, mib)
    assert records == (("links",), 400 * clients * -(-clients // 8), kept, why)
    assert ("links" in {metric.name for metric in measured}) == kept


def test_of_many_clients_the_records_of_one_byte_are_kept():
    """Who is present takes N bytes a round; links take more."""
    present = record("present", lambda view: view, 1.0, dtype="bool")
    for clients, names in ((256, ("links", "present")), (257, ("present",))):
        measured, records = choose_records(list_metrics((present,)), clients, 400, True, 8)
        assert (records.names, records.kept, records.why) == (names, True, "")
        assert {metric.name for metric in measured if metric.rows.record} == {"position", *names}
    assert records.size == 400 * 257
