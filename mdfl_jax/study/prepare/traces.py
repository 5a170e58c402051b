"""Reads the trace files of a study, each once, and makes from them the movement or contacts of each point."""

import math
import os
from typing import NoReturn

import numpy as np

from mdfl_jax.config.checks import needs_file
from mdfl_jax.config.families import movement_of, world_in
from mdfl_jax.config.sections import Experiment
from mdfl_jax.core import stages
from mdfl_jax.core.errors import UserError, errors_about
from mdfl_jax.mobility import MOBILITIES, Movement
from mdfl_jax.mobility.rule import FILES, WorldKind
from mdfl_jax.mobility.trace import Tracks, no_tracks, tracks
from mdfl_jax.networks.contact_list import ContactList, contact_list
from mdfl_jax.traces import Contacts, Trace, contact_table, load, resample
from mdfl_jax.traces.formats.sumo import street_pieces


class TraceFiles:
    """The trace files of a study. Each file is read once."""

    def __init__(self) -> None:
        self.read: dict[tuple[str, str], Trace | Contacts] = {}
        self.streets: np.ndarray | None = None  # those of the first point that names some

    def params(self, experiment: Experiment, rules: list[Movement]) -> Tracks | ContactList | None:
        """Return the value of `SpatialParams.trace` for a point, or None if no file gives a world.

        Args:
          experiment: The configuration of the point.
          rules: The movements that the points of the program use.

        Raises:
          UserError: If the file cannot be used, or does not fit the point's other fields.
        """
        if experiment.network.graph or not any(MOBILITIES.form(rule).world in FILES for rule in rules):
            return None
        if not needs_file(experiment):
            return no_tracks(experiment.network.num_clients, experiment.trace.substeps, experiment.rounds)
        config = experiment.trace
        try:
            loaded = self.read.get((config.file, config.format))
            if loaded is None:
                with stages.stage(f"reading the trace {config.file}"):
                    loaded = self.read[config.file, config.format] = load(config.file, config.format)
            if isinstance(loaded, Contacts):
                return _of_contacts(experiment, loaded)
            table = _of_places(experiment, loaded)
        except UserError as error:
            makes = f"; {config.made_by} makes it" if config.made_by and not os.path.exists(config.file) else ""
            raise UserError(f"trace.file: {error}{makes}") from None
        if config.streets and self.streets is None:
            with errors_about("trace.streets"):
                self.streets = street_pieces(config.streets, loaded)
        return table


def _rounds(experiment: Experiment, seconds: float, unit: str) -> int:
    """Return the number of rounds that a trace of some length covers, at most those of the study.

    Raises:
      UserError: If it covers no round, or fewer than the study has while trace.at_end is "refuse".
    """
    config, dt = experiment.trace, experiment.motion.dt
    left = seconds - config.start
    fit = math.floor(left / dt + 1e-6)
    if fit >= experiment.rounds:
        return experiment.rounds
    span = f"{config.file!r} lasts {seconds:g} {unit}"
    span += f", {max(left, 0):g} from trace.start {config.start:g} on" if config.start else ""
    if fit < 1:
        raise UserError(f"{span}: that is no round of motion.dt {dt:g}")
    if config.at_end == "refuse":
        raise UserError(
            f"{span}: {fit} rounds of motion.dt {dt:g}, and rounds is {experiment.rounds}; trace.at_end=hold or "
            "trace.at_end=repeat goes on after its end"
        )
    return fit


def _of_places(experiment: Experiment, trace: Trace) -> Tracks:
    config, network = experiment.trace, experiment.network
    if world_in(experiment) != "trace":
        _refuse(experiment, "trace")
    if network.num_clients > len(trace.ids):
        raise UserError(
            f"network.num_clients is {network.num_clients}; {config.file!r} has {len(trace.ids)} vehicles, which is "
            "the most"
        )
    first, last = float(trace.times[0]), float(trace.times[-1])
    rounds = _rounds(experiment, last - first, "s")
    table = resample(
        trace,
        experiment.motion.dt / config.substeps,
        rounds * config.substeps,
        network.num_clients,
        start=first + config.start,
        gaps=config.gaps,
        max_gap=config.max_gap or None,
        vehicles=config.vehicles,
    )
    at_end = "repeat" if config.at_end == "repeat" else "hold"
    return tracks(table, at_end, config.substeps, experiment.rounds)


def _of_contacts(experiment: Experiment, contacts: Contacts) -> ContactList:
    config = experiment.trace
    if world_in(experiment) != "contacts":
        _refuse(experiment, "contacts")
    first, last = 0.0 if contacts.in_rounds else float(contacts.start.min()), float(contacts.end.max())
    unit = "rounds" if contacts.in_rounds else "s"
    rounds = _rounds(experiment, last - first, unit)
    table = contact_table(
        contacts,
        experiment.network.num_clients,
        rounds,
        experiment.motion.dt,
        start=first + config.start,
        directed=config.directed,
    )
    return contact_list(table, "repeat" if config.at_end == "repeat" else "hold")


def _refuse(experiment: Experiment, world: WorldKind) -> NoReturn:
    """Refuse a file that holds the data of another world than that in which clients move."""
    held = f"{experiment.trace.file!r} holds {FILES[world]}"
    raise UserError(f"{held}; network.mobility is {movement_of(experiment)}, and network.world must be {world}")
