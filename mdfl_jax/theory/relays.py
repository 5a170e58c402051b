"""What FedMobile's theory says of a study, before it is run: the numbers of each sweep point that relays."""

from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.fedmobile import FedMobileNumbers
from mdfl_jax.config.families import in_use, numbers_in
from mdfl_jax.config.points import Point
from mdfl_jax.networks.meetings import PATTERNS
from mdfl_jax.theory import fedmobile

HEADER = ("point", "Delta", "mean gap", "C", "D", "Q_u", "Q_d")


def row(point: Point) -> tuple[str, ...] | None:
    """Compute the row of `HEADER` for a sweep point; None where no client searches for relays in set intervals.

    Delta is the longest gap between two meetings with the server, C and D are the largest ages of updates and models,
    in slots (FedMobile, lemmas 1 and 2), Q_u and Q_d are the chances that an interval holds a semi-qualified relay
    (proposition 2).
    """
    experiment = point.experiment
    numbers = numbers_in(experiment, ALGORITHMS, experiment.algorithm.name)
    laws = [getattr(n, "gap_law", None) for family, _, n in in_use(experiment) if family.registry is PATTERNS]
    if not isinstance(numbers, FedMobileNumbers) or not laws or laws[0] is None:
        return None
    law = laws[0]()
    delta, mean = len(law) - 1, float(law @ range(len(law)))
    upload = numbers.upload_from, numbers.upload_until
    download = numbers.download_from, numbers.download_until
    chances = (
        fedmobile.upload_probability(*upload, experiment.server.pairs, law),
        fedmobile.download_probability(*download, experiment.server.pairs, law),
    )
    lags = (fedmobile.upload_lag(*upload, delta), fedmobile.download_lag(*download, delta))
    in_slots, in_probability = (f"{lag:g}" for lag in lags), (f"{chance:.4f}" for chance in chances)
    return (point.id, f"{delta}", f"{mean:.4g}", *in_slots, *in_probability)


def table(points: list[Point]) -> str:
    """Describe the sweep points of a study that relay, as a table with a line for each; '' if there is none."""
    rows = [found for found in map(row, points) if found]
    if not rows:
        return ""
    widths = [max(map(len, column)) for column in zip(HEADER, *rows)]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths)) for line in (HEADER, *rows)]
    return "\n".join(line.rstrip() for line in lines)
