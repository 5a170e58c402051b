"""Builds the network with a server around the network of the clients, and its traced numbers."""

import csv
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from mdfl_jax.config.checks import parse_units
from mdfl_jax.config.families import traced_numbers
from mdfl_jax.config.sections import Experiment
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.types import Network
from mdfl_jax.networks.meetings import PATTERNS, MeetingsParams, meeting_table, meetings
from mdfl_jax.networks.spatial import SpatialParams
from mdfl_jax.networks.wrappers.roadside import RoadsideParams, roadside


@lru_cache(maxsize=8)
def read_meetings(path: str, num_clients: int) -> np.ndarray:
    """Read the meetings from a file of lines client,slot, whose first line may be this header.

    Returns:
      [N, K] int32, the slots of each client's meetings, as `mdfl_jax.networks.meetings.meeting_table` returns them.

    Raises:
      UserError: If the file cannot be read, a line has another form, or a client or slot is out of range.
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
    """Return the network with a server.

    Args:
      experiment: A configuration with a server.pattern.
      world: The network of the clients without the server. Only the pattern roadside uses it.
    """
    config = experiment.server
    if config.pattern == "roadside":
        return roadside(world, experiment.rounds, config.known_next, config.one_at_a_time)
    return meetings(experiment.network.num_clients, config.pattern, lists=world.lists is not None)


def server_params(experiment: Experiment, world: SpatialParams) -> MeetingsParams | RoadsideParams:
    """Return the traced numbers of `server_network`.

    Args:
      experiment: The configuration of the point.
      world: The traced numbers of the clients' network without the server.

    Raises:
      UserError: As `read_meetings`.
    """
    config, number = experiment.server, np.float32
    if config.pattern == "roadside":
        units: Any = np.array(parse_units(config.units), np.float32)
        return RoadsideParams(world, units, number(config.unit_range))
    given = config.pattern == "table"
    return MeetingsParams(
        pairs=number(config.pairs),
        known_next=np.bool_(config.known_next),
        numbers=traced_numbers(experiment, PATTERNS, config.pattern),
        table=read_meetings(config.file, experiment.network.num_clients) if given else None,
    )
