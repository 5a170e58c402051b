"""The server of a configuration: its network and numbers, and the table of meetings read from a file."""

import csv
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from mdfl_jax.errors import UserError
from mdfl_jax.experiments.sections import Experiment
from mdfl_jax.experiments.server_checks import parse_units
from mdfl_jax.networks.meetings import MeetingsParams, meeting_table, meetings
from mdfl_jax.networks.roadside import RoadsideParams, roadside
from mdfl_jax.networks.spatial import SpatialParams
from mdfl_jax.types import Network


@lru_cache(maxsize=8)
def read_meetings(path: str, num_clients: int) -> np.ndarray:
    """The table of a file of lines client,slot, with or without that line at its head (`meeting_table`).

    Raises:
      UserError: for a file that cannot be read, a line of another form, or a client or slot out of range.
    """
    pairs = []
    try:
        with Path(path).open(newline="") as file:
            for number, row in enumerate(csv.reader(file), 1):
                if not row or (number == 1 and [cell.strip() for cell in row] == ["client", "slot"]):
                    continue
                try:
                    client, slot = (int(cell) for cell in row)
                except ValueError:
                    shown = ",".join(row)
                    raise UserError(f"server.file {path!r}, line {number}: {shown!r} is not client,slot") from None
                pairs.append((client, slot))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"server.file {path!r} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not pairs:
        raise UserError(f"server.file {path!r} holds no meeting")
    try:
        return meeting_table([client for client, _ in pairs], [slot for _, slot in pairs], num_clients)
    except UserError as error:
        raise UserError(f"server.file {path!r}: {error}") from None


def server_network(experiment: Experiment, world: Network) -> Network:
    """The network with a server.

    Args:
      experiment: with a server.pattern.
      world: the clients' network without it, which only road-side units look at.
    """
    config = experiment.server
    if config.pattern == "roadside":
        return roadside(world, experiment.rounds, config.known_next, config.one_at_a_time)
    return meetings(experiment.network.num_clients, config.pattern)


def server_params(experiment: Experiment, world: SpatialParams) -> MeetingsParams | RoadsideParams:
    """The traced numbers of `server_network`.

    Args:
      experiment: the point's.
      world: the numbers of the clients' network.

    Raises:
      UserError: as `read_meetings`.
    """
    config, number = experiment.server, np.float32
    if config.pattern == "roadside":
        units: Any = np.array(parse_units(config.units), np.float32)
        return RoadsideParams(world, units, number(config.unit_range))
    given = config.pattern == "table"
    return MeetingsParams(
        pairs=number(config.pairs),
        known_next=np.bool_(config.known_next),
        interval=np.int32(config.interval),
        gap_min=np.int32(config.gap_min),
        gap_max=np.int32(config.gap_max),
        mean_gap=number(config.mean_gap),
        gap_limit=np.int32(config.gap_limit),
        table=read_meetings(config.file, experiment.network.num_clients) if given else None,
    )
